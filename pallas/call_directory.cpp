#include "pallas/call_directory.hpp"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "memory_model/file.hpp"
#include "memory_model/host_memory.hpp"
#include "memory_model/npy.hpp"
#include "pallas/load.hpp"
#include "pallas/plan_module.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::pallas {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytesOfJson = std::size_t{1} << 24;

/// A file that may be missing.
Json read_json(const std::string& path) {
  if (std::error_code error; !std::filesystem::exists(path, error)) return Json::object();
  try {
    Json json = Json::parse(read_file(path, kMostBytesOfJson));
    if (!json.is_object()) throw InputError("bad-input", path + " is not a JSON object");
    return json;
  } catch (const FileError& e) {
    throw InputError("bad-input", e.what());
  } catch (const Json::exception& e) {
    throw InputError("bad-input", path + ": " + e.what());
  }
}

/// A count of devices, or of cores of one.
int count_of(const Json& meta, const char* what) {
  constexpr std::int64_t kMost = 4096;
  const Json given = meta.value(what, Json(1));
  if (!given.is_number_integer())
    throw InputError("bad-input", std::string("meta.json: \"") + what + "\" is a whole number");
  const auto count = given.get<std::int64_t>();
  if (count < 1 || count > kMost)
    throw InputError("bad-input", std::string("meta.json: \"") + what + "\" is 1 to 4096, not " +
                                      std::to_string(count));
  return static_cast<int>(count);
}

Shape shape_of(const Json& extents) {
  constexpr std::int64_t kMostElems = std::int64_t{1} << 44;  // past any machine
  Shape shape;
  for (const auto& each : extents) {
    const auto extent = each.get<std::int64_t>();
    if (shape.rank == kMaxRank || extent < 0 || extent > kMostElems ||
        (extent > 0 && shape.elems() > kMostElems / extent))
      throw InputError("bad-input", "meta.json: an impossible shape " + extents.dump());
    shape.push_back(extent);
  }
  return shape;
}

/// An array of which meta.json tells the shape alone. Throws InputError if no machine like this one
/// holds it.
Array undefined_array(DType dtype, Shape shape, int devices) {
  if (devices > 1 && shape.rank > 0) shape[0] *= devices;
  const double bytes = bit_width(dtype) / 8. * static_cast<double>(shape.elems());
  if (bytes > host_memory_bytes())
    throw InputError("bad-input",
                     fmt::format("meta.json: {} takes {:.3g} GiB, more than this machine's memory",
                                 describe(dtype, shape), bytes / (1 << 30)));
  return Array::undefined(dtype, shape);
}

/// An array of all devices: their parts one after the other along dim 0.
Array read_parts(const std::string& folder, const std::string& name, DType dtype, int devices) {
  if (devices == 1) return read_npy_bits(folder + "/" + name, dtype);
  std::vector<Array> parts;
  for (int d = 0; d < devices; ++d) {
    std::string path = folder;
    path += "/dev";
    path += std::to_string(d) + "_" + name;
    parts.push_back(read_npy_bits(path, dtype));
  }
  return join_parts(std::move(parts));
}

bool has(const std::string& folder, const std::string& name, int devices) {
  std::error_code error;
  return std::filesystem::exists(folder + "/" + (devices > 1 ? "dev0_" : "") + name, error);
}

void read_expected(const std::string& folder, const Json& meta, RecordedCall& r) {
  const std::size_t inputs = r.call.inputs.size();
  for (std::size_t j = 0; j < r.call.results.size(); ++j) {
    ExpectedResult e;
    const DType dtype = r.program->operands[inputs + j].type.dtype;
    const std::string number = std::to_string(j);
    if (has(folder, "out" + number + ".npy", r.devices))
      e.interpreted = read_parts(folder, "out" + number + ".npy", dtype, r.devices);
    if (has(folder, "ref" + number + ".npy", r.devices))
      e.reference = read_parts(folder, "ref" + number + ".npy", dtype, r.devices);
    if (has(folder, "out" + number + ".undef.npy", r.devices))
      e.undefined = read_parts(folder, "out" + number + ".undef.npy", DType::i8, r.devices);
    if (e.undefined && e.interpreted && !(e.undefined->shape() == e.interpreted->shape()))
      throw InputError("bad-input",
                       folder + "/out" + number + ".undef.npy has another shape than the result");
    const Json tolerance = meta.value("tolerance", Json::object());
    const Json of_reference = tolerance.value("vs_reference", Json::object());
    e.reference_rtol = of_reference.value("rtol", 0.0);
    e.reference_atol = of_reference.value("atol", 0.0);
    const Json of_interpreter = tolerance.value("vs_interpret", Json::array());
    if (j < of_interpreter.size()) {
      e.interpreted_rtol = of_interpreter[j].value("rtol", 0.0);
      e.interpreted_atol = of_interpreter[j].value("atol", 0.0);
    }
    r.expected.push_back(std::move(e));
  }
}

std::string module_file(const std::string& folder) {
  const bool bytecode = std::filesystem::exists(folder + "/kernel.mlirbc");
  return folder + (bytecode ? "/kernel.mlirbc" : "/kernel.mlir");
}

RecordedCall read_checked(const std::string& folder, bool values) {
  RecordedCall r;
  r.program = plan_module(load_module_file(module_file(folder)));
  const Json meta = read_json(folder + "/meta.json");
  const Json config = read_json(folder + "/config.json");
  r.devices = count_of(meta, "num_devices");
  r.cores = count_of(meta, "cores");
  r.device = device_of_call(folder);
  r.eager = meta.value("interpret_mode", std::string()).find("eager") != std::string::npos;
  const std::size_t inputs = meta.value("num_inputs", 0);
  const std::size_t operands = meta.value("operands", Json::array()).size();
  if (operands_before_inputs(*r.program) + inputs != operands ||
      inputs > r.program->operands.size())
    throw InputError("bad-input", folder + "/meta.json does not fit the module");
  std::vector<Array> arrays;
  const std::size_t bounds = operands_before_inputs(*r.program) - r.program->prefetched.size();
  for (std::size_t i = 0; i < operands; ++i) {
    if (!values && i >= bounds) {
      arrays.push_back(undefined_array(operand_dtype(*r.program, i),
                                       shape_of(meta.at("operands")[i].at("shape")), r.devices));
      continue;
    }
    arrays.push_back(read_parts(folder, "in" + std::to_string(i) + ".npy",
                                operand_dtype(*r.program, i), r.devices));
  }
  std::vector<std::pair<std::size_t, int>> aliases;
  for (const auto& alias :
       meta.value("custom_call", Json::object()).value("aliases", Json::array()))
    aliases.emplace_back(alias.at("operand").get<std::size_t>(), alias.at("result").get<int>());
  r.call = make_call(*r.program, std::move(arrays), aliases);
  apply_config(config.dump(), r.call);
  r.call.alone = meta.value("alone", true);
  r.call.jax_0_11 = meta.value("jax_0_11", false);
  const Json results = meta.value("results", Json::array());
  for (std::size_t j = 0; j < results.size(); ++j) {
    if (inputs + j >= r.program->operands.size())
      throw InputError("bad-input", folder + "/meta.json does not fit the module");
    r.call.results.push_back(undefined_array(r.program->operands[inputs + j].type.dtype,
                                             shape_of(results[j].at("shape")), r.devices));
  }
  if (values) read_expected(folder, meta, r);
  return r;
}

/// Types and shapes, for readers.
Json described(const std::vector<Array>& arrays) {
  Json list = Json::array();
  for (const Array& a : arrays) {
    Json shape = Json::array();
    for (int d = 0; d < a.shape().rank; ++d) shape.push_back(a.shape()[d]);
    list.push_back({{"dtype", name(a.dtype())}, {"shape", shape}});
  }
  return list;
}

}  // namespace

void apply_config(const std::string& config, Call& call) {
  const Json parsed = Json::parse(config, nullptr, false);
  if (!parsed.is_object()) return;
  const Json settings = parsed.value("custom_call_config", Json::object());
  call.collective_id = settings.value("collective_id", 0);
  call.unchecked_bounds = settings.value("disable_bounds_checks", false);
  call.skip_device_barrier = settings.value("skip_device_barrier", false);
  constexpr int kVmem = 1;
  for (const Json& scoped : parsed.value("scoped_memory_configs", Json::array())) {
    if (scoped.value("memory_space", 0) == kVmem)
      call.vmem_limit = scoped.value("size", std::int64_t{0});
  }
}

std::vector<CallFile> call_files(const CallToRecord& call) {
  Json aliases = Json::array();
  for (const auto& [operand, result] : call.aliases)
    aliases.push_back({{"operand", operand}, {"result", result}});
  const Json meta{{"num_devices", call.operands.size()},
                  {"cores", call.cores},
                  {"alone", call.alone},
                  {"jax_0_11", call.jax_0_11},
                  {"chip", call.device.jax.chip},
                  {"num_dynamic_grid_bounds", call.dynamic_bounds},
                  {"num_inputs", call.inputs},
                  {"operands", described(call.operands.front())},
                  {"results", described(call.results)},
                  {"custom_call", {{"aliases", aliases}}}};
  const bool bytecode = call.module.starts_with("ML\xefR");
  return {{bytecode ? "kernel.mlirbc" : "kernel.mlir", call.module},
          {"config.json", call.config.empty() ? "{}\n" : call.config},
          {"meta.json", meta.dump(1) + "\n"},
          {"device.json", call.device.json}};
}

std::vector<CallFile> call_files(const std::string& folder, const DeviceSpec& device) {
  std::vector<CallFile> files;
  for (const char* name : {"kernel.mlirbc", "kernel.mlir", "config.json", "meta.json"}) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    if (!file) continue;
    std::ostringstream bytes;
    bytes << file.rdbuf();
    files.push_back({name, std::move(bytes).str()});
  }
  files.push_back({"device.json", device.json});
  return files;
}

std::string operand_file(std::size_t operand, std::size_t device, std::size_t devices) {
  std::string name = devices > 1 ? "dev" + std::to_string(device) + "_in" : "in";
  name += std::to_string(operand) + ".npy";
  return name;
}

void write_call(const std::string& folder, const CallToRecord& call) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError("bad-input", folder + ": " + error.message());
  for (const CallFile& file : call_files(call))
    write_file_atomically(folder + "/" + file.name, file.bytes);
  for (std::size_t d = 0; d < call.operands.size(); ++d) {
    for (std::size_t i = 0; i < call.operands[d].size(); ++i) {
      stop_if_asked();  // gigabytes take seconds
      write_npy(folder + "/" + operand_file(i, d, call.operands.size()), call.operands[d][i]);
    }
  }
}

std::optional<DeviceSpec> device_of_call(const std::string& folder) {
  try {
    const std::string own = folder + "/device.json";
    if (std::error_code error; std::filesystem::exists(own, error)) return load_device(own);
    return device_of_chip(read_json(folder + "/meta.json").value("chip", std::string()));
  } catch (const SpecError& e) {
    throw InputError("bad-input", e.what());
  } catch (const Json::exception& e) {
    throw InputError("bad-input", folder + "/meta.json: " + e.what());
  }
}

namespace {

RecordedCall read_caught(const std::string& folder, bool values) {
  try {
    return read_checked(folder, values);
  } catch (const Json::exception& e) {
    throw InputError("bad-input", folder + "/meta.json: " + e.what());
  } catch (const NpyError& e) {
    throw InputError("bad-input", e.what());
  }
}

}  // namespace

RecordedCall read_call(const std::string& folder) { return read_caught(folder, true); }
RecordedCall read_call_shapes(const std::string& folder) { return read_caught(folder, false); }

CallText read_call_text(const std::string& folder) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  try {
    CallText text{.module = read_file(module_file(folder), kMostBytes), .config = ""};
    const std::string config = folder + "/config.json";
    if (std::error_code error; std::filesystem::exists(config, error))
      text.config = read_file(config, kMostBytesOfJson);
    return text;
  } catch (const FileError& e) {
    throw InputError("bad-input", e.what());
  }
}

}  // namespace tessera::pallas
