// From words to requests, and back.
#include <algorithm>

#include "cli/command_line.hpp"
#include "cli/device_profile.hpp"
#include "cli/module_commands.hpp"
#include "cli/signals.hpp"
#include "predict/gpu_model.hpp"

namespace tessera::cli {

DeviceSpec find_device(const std::string& name) {
  const auto known = device_names();
  if (!name.ends_with(".json") && std::find(known.begin(), known.end(), name) == known.end()) {
    throw InputError("unknown-device", "no device '" + name + "'" + suggest(name, known),
                     "tessera devices");
  }
  try {
    DeviceSpec device = load_device(name);
    predict::check_models(device);
    static_cast<void>(functions_profile(device));
    return device;
  } catch (const SpecError& error) {
    throw InputError("bad-input", error.what());
  }
}

std::vector<std::pair<std::string, std::string>> split_assignments(
    const std::vector<std::string>& words, const char* what) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
      throw InputError("bad-input",
                       std::string(what) + " is written name=value, not '" + word + "'");
    }
    pairs.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return pairs;
}

namespace {
/// "8" or "2x4": devices along each axis.
std::vector<int> parse_mesh(const std::string& text) {
  constexpr int kMostDevices = 4096;
  std::vector<int> mesh;
  double devices = 1;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t x = std::min(text.find('x', start), text.size());
    const double extent = parse_number("--devices", text.substr(start, x - start), false);
    devices *= extent;
    if (extent < 1 || devices > kMostDevices) {
      throw InputError("bad-input", "--devices takes 1 to " + std::to_string(kMostDevices) +
                                        ", or a mesh as in 2x4, not '" + text + "'");
    }
    mesh.push_back(static_cast<int>(extent));
    start = x + 1;
  }
  return mesh;
}
}  // namespace

RunOptions run_options(const RunArguments& a) {
  RunOptions options;
  if (a.threads < 0 || a.threads > 1024)
    throw InputError("bad-input", "--threads takes 1 to 1024, or 0 for all");
  options.threads = a.threads;
  options.mesh.clear();
  if (!a.mesh.empty()) options.mesh = parse_mesh(a.mesh);
  constexpr int kMostCores = 64;
  if (a.cores < 1 || a.cores > kMostCores)
    throw InputError("bad-input", "--cores takes 1 to " + std::to_string(kMostCores));
  options.cores = a.cores;
  if (!a.schedule.empty()) options.schedule = parse_schedule(a.schedule);
  options.find_races = !a.no_races;
  options.keep_going = a.keep_going;
  options.dry = a.dry;
  options.stop = &stop_flag();
  constexpr std::int64_t kAlways = std::int64_t{1} << 17;  // milliseconds
  options.trace_steps =
      a.timeline || !a.report.empty() || !a.trace.empty() ? StepTrace::kMostSteps : kAlways;
  if (a.dry) {
    const std::pair<bool, const char*> useless[] = {{!a.output.empty(), "--output"},
                                                    {!a.schedule.empty(), "--schedule"},
                                                    {!a.at.empty(), "--at"},
                                                    {!a.trap.empty(), "--trap"},
                                                    {!a.inputs.empty(), "--input"}};
    for (const auto& [given, option] : useless) {
      if (given && !(std::string_view(option) == "--input" && is_module(a.kernel)))
        throw InputError("bad-usage", std::string("--dry computes nothing: not with ") + option);
    }
  }
  options.profile =
      profile_of(a.profile, a.profile == "device" ? find_device(a.device) : default_device());
  return options;
}

Request request_of(const KernelHandle& kernel, const RunArguments& a) {
  Request request;
  request.case_index = a.case_index;
  request.assignments = split_assignments(a.assignments, "a parameter");
  request.device = find_device(a.device);
  request.dtype = parse_dtype(a.dtype, kernel);
  for (auto& [name, file] : split_assignments(a.inputs, "--input")) request.files[name] = file;
  request.seed = a.seed;
  request.input_kind = named(kInputKinds, a.input_kind, "kind of inputs");
  request.check = !a.no_check;
  request.backend = parse_backend(a.backend);
  if (a.rounds < 0 || a.rounds > 100'000)
    throw InputError("bad-input", "--rounds takes 0 to 100000");
  request.rounds = a.rounds;
  if (a.time_limit > 0) request.time_limit = a.time_limit;
  request.oversubscribe = a.oversubscribe;
  request.options = run_options(a);
  if (!a.mesh.empty()) {
    request.devices = 1;
    for (const int extent : request.options.mesh) request.devices *= extent;
  }
  return request;
}

RunArguments arguments_of(const std::string& kernel, const Request& request) {
  RunArguments a;
  a.kernel = kernel;
  a.case_index = request.case_index;
  for (auto it = request.assignments.begin(); it != request.assignments.end(); ++it) {
    const bool last = std::none_of(it + 1, request.assignments.end(),
                                   [&](const auto& other) { return other.first == it->first; });
    if (last) a.assignments.push_back(it->first + "=" + it->second);
  }
  if (!request.device.origin.empty()) a.device = request.device.origin;
  a.dtype = name(request.dtype);
  for (const auto& [name, file] : request.files) a.inputs.push_back(name + "=" + file);
  a.seed = request.seed;
  a.input_kind = name(request.input_kind);
  if (request.backend) a.backend = name(*request.backend);
  a.oversubscribe = request.oversubscribe;
  const RunOptions& options = request.options;
  a.profile = name(options.profile);
  a.cores = options.cores;
  a.no_races = !options.find_races;
  a.keep_going = options.keep_going;
  a.dry = options.dry;
  if (options.trap_nan) a.trap = "nan";
  if (request.devices > 0) {
    for (const int extent : options.mesh)
      a.mesh += (a.mesh.empty() ? "" : "x") + std::to_string(extent);
  }
  return a;
}

}  // namespace tessera::cli
