// From words to requests.
#include "cli/commands.hpp"

namespace tessera::cli {

DeviceSpec find_device(const std::string& name) {
  const auto known = device_names();
  if (!name.ends_with(".json") && std::find(known.begin(), known.end(), name) == known.end()) {
    throw InputError("unknown-device", "no device '" + name + "'" + suggest(name, known),
                     "tessera devices");
  }
  try {
    return load_device(name);
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

Request request_of(const KernelHandle& kernel, const RunArguments& a) {
  Request request;
  request.case_index = a.case_index;
  request.assignments = split_assignments(a.assignments, "a parameter");
  request.device = find_device(a.device);
  request.dtype = parse_dtype(a.dtype, kernel);
  for (auto& [name, file] : split_assignments(a.inputs, "--input")) request.files[name] = file;
  request.seed = a.seed;
  request.check = !a.no_check;
  if (a.threads < 0 || a.threads > 1024)
    throw InputError("bad-input", "--threads takes 1 to 1024, or 0 for all");
  request.options.threads = a.threads;
  return request;
}

}  // namespace tessera::cli
