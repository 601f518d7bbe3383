#include "cli/recorded.hpp"

#include <algorithm>

#include "cli/command_line.hpp"
#include "cli/tuned.hpp"

namespace tessera::cli {

namespace {

/// The command line again, with the tiles that ran and paths in the folder.
std::vector<std::string> words_again(const Recording& recording, const KernelHandle& kernel,
                                     const Request& request, const Outcome& outcome,
                                     const record::Record& record) {
  RunArguments again = arguments_of(kernel.info.name, request);
  const auto assigned = [&](const std::string& tile) {
    return std::ranges::any_of(
        again.assignments, [&](const std::string& word) { return word.starts_with(tile + "="); });
  };
  for (const auto& [tile, extent] : outcome.setting.tiles)
    if (!assigned(tile)) again.assignments.push_back(tile + "=" + std::to_string(extent));
  again.backend = RunArguments().backend;
  if (again.device.ends_with(".json"))
    again.device = recording.folder.keep(request.device.json, ".json");
  again.inputs.clear();
  for (const record::Noted& input : record.inputs)
    if (!input.file.empty()) again.inputs.push_back(input.name + "=" + input.file);
  std::vector<std::string> words = words_of("run", again);
  if (!recording.arguments.schedule.empty()) {
    words.emplace_back("--schedule");
    words.push_back(recording.arguments.schedule);
  }
  return words;
}

}  // namespace

std::optional<Recording> recording_of(const RunArguments& a) {
  if (a.record.empty()) return std::nullopt;
  if (a.timing != "model" && a.timing != "best")
    throw InputError("bad-usage", "--record keeps the model's predicted time: not with --timing");
  return Recording{record::Folder(a.record), a};
}

record::Record record_of(const record::Folder& folder, const KernelHandle& kernel,
                         const Request& request, const Outcome& outcome,
                         const report::RunReport& report, bool keep) {
  record::Record r = record::record_of(report::json_of(report));
  const TunedKernel tuned(kernel, request);
  r.key = tuned.key();
  for (const auto& [tile, extent] : outcome.setting.tiles)
    r.configuration.emplace_back(tile, std::to_string(extent));
  if (r.tier.empty() && !r.configuration.empty())
    r.tier = name(tuned.given().empty() ? tuning::Tier::heuristic : tuning::Tier::given);
  for (const auto& [input, array] : outcome.inputs)
    r.inputs.push_back(folder.note(input, array, keep && request.files.contains(input)));
  const bool there = outcome.result.ok() || outcome.validation;
  for (std::size_t i = 0; there && i < outcome.result.outputs.size(); ++i)
    r.outputs.push_back(folder.note(outcome.output_names[i], outcome.result.outputs[i], keep));
  return r;
}

void record_run(const Recording& recording, const KernelHandle& kernel, const Request& request,
                const Outcome& outcome, const report::RunReport& report) {
  record::Record r = record_of(recording.folder, kernel, request, outcome, report, true);
  r.arguments = words_again(recording, kernel, request, outcome, r);
  recording.folder.append(r);
}

}  // namespace tessera::cli
