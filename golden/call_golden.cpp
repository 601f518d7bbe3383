#include "golden/call_golden.hpp"

namespace tessera::golden {

Golden golden_of_call(const std::string& kernel, std::vector<Array> operands,
                      const std::vector<pallas::CallFile>& files, RunResult result,
                      const RunOptions& options, const std::string& command) {
  Golden g;
  g.kernel = kernel;
  g.frontend = "mosaic";
  g.device = options.device.name;
  g.inputs_kind = "given";
  g.profile = name(options.profile);
  g.command = command;
  g.error_model = *options.error_model;
  for (Array& a : operands)
    g.inputs.push_back({"in" + std::to_string(g.inputs.size()), std::move(a)});
  for (const pallas::CallFile& file : files) g.files.push_back({"inputs/" + file.name, file.bytes});
  std::vector<std::string> names;
  for (const Array& a : result.outputs) {
    if (names.empty()) g.dtype = tessera::name(a.dtype());
    names.push_back("out" + std::to_string(names.size()));
  }
  take_result(g, std::move(result), names);
  return g;
}

}  // namespace tessera::golden
