#include "cli/module_call.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "memory_model/npy.hpp"
#include "pallas/load.hpp"
#include "pallas/plan_module.hpp"

namespace tessera::cli {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::size_t inputs_of(const program::Program& p) {
  std::size_t n = p.operands.size();
  while (n > 0 && p.operands[n - 1].written) --n;
  return n;
}

namespace {

/// A module without a recorded call: arrays come from --input, by the number of the operand.
pallas::RecordedCall call_of_file(const RunArguments& a) {
  pallas::RecordedCall r;
  r.program = pallas::plan_module(pallas::load_module_file(a.kernel));
  const program::Program& p = *r.program;
  std::map<std::size_t, std::string> files;
  for (const auto& [number, file] : split_assignments(a.inputs, "--input")) {
    const double n = parse_number("--input", number, false);
    if (n < 0 || n > 1e6) throw InputError("bad-input", "--input counts operands from 0");
    files[static_cast<std::size_t>(n)] = file;
  }
  const std::size_t first = program::operands_before_inputs(p);
  const std::size_t wanted = first + inputs_of(p);
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!files.contains(i)) {
      throw InputError("bad-input", fmt::format("--input {} is missing", i),
                       "tessera show " + a.kernel + " lists the operands");
    }
    if (i >= first + p.operands.size())
      throw InputError("bad-input", fmt::format("{} has {} operands", p.name, wanted));
    arrays.push_back(read_npy_bits(files[i], program::operand_dtype(p, i)));
  }
  if (files.size() < wanted) {
    throw InputError(
        "bad-input",
        fmt::format("{} takes {} operands, and {} are given", p.name, wanted, files.size()),
        fmt::format("--input {}=file.npy; tessera show {} lists the operands", files.size(),
                    a.kernel));
  }
  r.call = program::make_call(p, std::move(arrays));
  return r;
}

}  // namespace

std::vector<Array> operands_of(const program::Call& call) {
  std::vector<Array> operands;
  for (const std::int64_t bound : call.bounds) {
    operands.emplace_back(DType::i32, Shape{});
    operands.back().set(0, static_cast<double>(bound));
  }
  operands.insert(operands.end(), call.prefetched.begin(), call.prefetched.end());
  operands.insert(operands.end(), call.inputs.begin(), call.inputs.end());
  return operands;
}

std::vector<pallas::CallFile> files_of(const RunArguments& a, const pallas::RecordedCall& r,
                                       const RunOptions& options, const RunResult& result) {
  if (is_folder(a.kernel)) return pallas::call_files(a.kernel, options.device);
  std::ifstream stream(a.kernel, std::ios::binary);
  pallas::CallToRecord call;
  call.module.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  call.operands.push_back(operands_of(r.call));
  call.inputs = r.call.inputs.size();
  call.dynamic_bounds = r.call.bounds.size();
  for (const Array& out : result.outputs)
    call.results.push_back(Array::undefined(out.dtype(), out.shape()));
  call.device = options.device;
  call.cores = options.cores;
  return pallas::call_files(call);
}

DeviceSpec device_of(const RunArguments& a, const std::optional<DeviceSpec>& recorded) {
  return a.device_given || !recorded ? find_device(a.device) : *recorded;
}

pallas::RecordedCall call_of(const RunArguments& a) {
  return is_folder(a.kernel) ? pallas::read_call(a.kernel) : call_of_file(a);
}

RunOptions call_options(const RunArguments& a, const pallas::RecordedCall& r) {
  RunOptions options = run_options(a);
  options.device = device_of(a, r.device);
  if (options.mesh.empty()) options.mesh = {r.devices};
  int devices = 1;
  for (const int extent : options.mesh) devices *= extent;
  if (is_folder(a.kernel) && devices != r.devices) {
    throw InputError("bad-input", fmt::format("the call was recorded on {} devices, not {}",
                                              r.devices, devices));
  }
  if (a.cores == 1) options.cores = r.cores;
  if (r.eager && !options.schedule) options.schedule = Schedule{};
  options.who = r.program->name;
  return options;
}

}  // namespace tessera::cli
