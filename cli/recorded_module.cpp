#include "cli/recorded_module.hpp"

#include <algorithm>

#include "cli/command_line.hpp"
#include "cli/module_call.hpp"
#include "memory_model/npy.hpp"
#include "record/call_record.hpp"

namespace tessera::cli {

namespace {

/// Of each device.
std::vector<std::vector<Array>> operands_by_device(const RunArguments& a,
                                                   const pallas::RecordedCall& call) {
  const std::vector<Array> all = operands_of(call.call);
  if (call.devices == 1) return {all};
  const auto devices = static_cast<std::size_t>(call.devices);
  std::vector<std::vector<Array>> operands(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    for (std::size_t i = 0; i < all.size(); ++i)
      operands[d].push_back(
          read_npy_bits(a.kernel + "/" + pallas::operand_file(i, d, devices), all[i].dtype()));
  }
  return operands;
}

std::string module_of(const std::vector<pallas::CallFile>& files) {
  const auto module = std::ranges::find_if(
      files, [](const pallas::CallFile& f) { return f.name.starts_with("kernel."); });
  return module == files.end() ? "" : module->bytes;
}

}  // namespace

void record_module(const Recording& recording, const pallas::RecordedCall& call,
                   const RunOptions& options, const RunResult& result,
                   const report::RunReport& report) {
  const RunArguments& a = recording.arguments;
  if (!is_folder(a.kernel) && options.mesh != std::vector<int>{1})
    throw InputError("unsupported", "--record of a module's file on several devices",
                     "the folder of a call says which part is whose");
  const auto files = files_of(a, call, options, result);
  record::Record r = record::record_of(report::json_of(report));
  RunArguments again = a;
  again.kernel = record::keep_call(recording.folder, files, operands_by_device(a, call), r.inputs);
  again.device = RunArguments().device;
  again.device_given = false;
  again.inputs.clear();
  again.backend = RunArguments().backend;
  r.arguments = words_of("run", again);
  if (!a.schedule.empty()) {
    r.arguments.emplace_back("--schedule");
    r.arguments.push_back(a.schedule);
  }
  r.key = record::key_of(r.operation, options.device, module_of(files), r.inputs, options.mesh,
                         options.cores);
  for (std::size_t j = 0; result.ok() && j < result.outputs.size(); ++j)
    r.outputs.push_back(recording.folder.note("out" + std::to_string(j), result.outputs[j], true));
  recording.folder.append(r);
}

}  // namespace tessera::cli
