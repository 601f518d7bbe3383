// From an entry (a kernel template and its oracle) to a handle: parses sizes, makes inputs, runs,
// compares.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>

#include "cli/host.hpp"
#include "cli/registry.hpp"
#include "kernels/entry.hpp"

namespace tessera::cli {

namespace detail {

/// A kernel with its sizes, tiles and prepared arrays.
template <class K>
struct Prepared {
  K kernel;
  Tiles tiles;
  Setting setting;
  std::unique_ptr<Host> host;
};

template <class K>
double smallest_in_cases(std::size_t size) {
  double least = K::cases[0].sizes[size];
  for (const Case& c : K::cases) least = std::min(least, c.sizes[size]);
  return least;
}

/// Takes name=value assignments over the values of a case; throws InputError.
template <class K>
void resolve(const Request& request, Prepared<K>& p) {
  const auto cases = static_cast<int>(K::cases.size());
  if (request.case_index < 0 || request.case_index >= cases) {
    throw InputError("bad-input", std::string(K::info.name) + " has cases 0 to " +
                                      std::to_string(cases - 1) + ", not " +
                                      std::to_string(request.case_index));
  }
  const Case& base = K::cases[static_cast<std::size_t>(request.case_index)];
  std::vector<std::string> known;
  std::vector<std::string> given;
  for (const auto& s : K::sizes) known.emplace_back(s.name);
  for (const auto& t : K::tiles) known.emplace_back(t.name);
  for (const auto& [name, text] : request.assignments) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InputError(
          "unknown-parameter",
          std::string(K::info.name) + " has no parameter '" + name + "'" + suggest(name, known),
          std::string("tessera show ") + K::info.name);
    }
    given.push_back(name);
  }
  const auto assigned = [&](const char* name) -> const std::string* {
    const std::string* text = nullptr;
    for (const auto& [n, value] : request.assignments) {
      if (n == name) text = &value;
    }
    return text;
  };
  constexpr double kLargest = 1 << 30;
  const auto number = [&](const char* name, const std::string& text, bool real, double least) {
    const double value = parse_number(name, text, real);
    if (value < least || value > kLargest) {
      throw InputError("bad-input", std::string(name) + " is at least " +
                                        std::to_string(static_cast<int>(least)) +
                                        " and at most 2^30, not " + text);
    }
    return value;
  };
  for (std::size_t i = 0; i < K::sizes.size(); ++i) {
    const auto& s = K::sizes[i];
    double value = base.sizes[i];
    const double least = smallest_in_cases<K>(i) >= 1 ? 1 : 0;
    const bool devices = std::string_view(s.name) == "devices";
    if (devices && request.devices > 0) value = request.devices;
    if (const auto* text = assigned(s.name))
      value = number(s.name, *text, s.real != nullptr, least);
    if (s.integer != nullptr)
      p.kernel.*s.integer = static_cast<int>(value);
    else
      p.kernel.*s.real = static_cast<float>(value);
    p.setting.sizes.push_back({s.name, s.what, value});
  }
  for (std::size_t i = 0; i < K::tiles.size(); ++i) {
    const TileParam& t = K::tiles[i];
    double value = base.tiles[i];
    const bool follows =
        t.follows != nullptr && std::find(given.begin(), given.end(), t.follows) != given.end();
    for (const auto& s : p.setting.sizes) {
      if (follows && s.name == t.follows) value = s.value;
    }
    if (const auto* text = assigned(t.name)) value = number(t.name, *text, false, 1);
    p.tiles.size[i] = static_cast<int>(value);
    p.setting.tiles.emplace_back(t.name, static_cast<int>(value));
  }
  if (given.empty()) {
    p.setting.case_name = "case " + std::to_string(request.case_index) + " (" + base.what + ")";
  }
  if constexpr (requires { p.kernel.valid(p.tiles); }) {
    if (const char* fault = p.kernel.valid(p.tiles)) throw InputError("bad-input", fault);
  }
}

/// Devices of the run: a size of a kernel on a mesh; of any other, as many as are asked for, each
/// with inputs of its own.
template <class K>
int devices_of(const Prepared<K>& p, const Request& request) {
  if constexpr (requires { p.kernel.devices; })
    return p.kernel.devices;
  else
    return std::max(1, request.devices);
}

/// An option of the request that no GPU has, "" if there is none. `mesh`: for a kernel on one.
std::string what_only_the_interpreter_does(const Request& request, bool mesh);
/// Why a GPU cannot run a kernel on so many devices, or "".
std::string why_not_on(const cuda::Device& device, const char* kernel, int devices,
                       bool oversubscribe);
/// The backend for a request whose sizes and tiles are resolved; the tiles become those of its
/// instance.
template <class K, class T>
CudaFit choose_backend(const Request& request, Prepared<K>& p, Receipt& receipt) {
  receipt.requested = request.backend ? name(*request.backend) : "auto";
  receipt.ran = request.backend.value_or(BackendKind::interpret);
  if (request.backend && request.backend != BackendKind::cuda) return {};
  std::vector<int> asked;
  bool exact = false;
  for (const auto& [name, extent] : p.setting.tiles) {
    asked.push_back(extent);
    for (const auto& [given, text] : request.assignments) exact = exact || given == name;
  }
  const auto valid = [&](const std::vector<int>& sizes) {
    Tiles tiles;
    std::copy(sizes.begin(), sizes.end(), tiles.size.begin());
    if constexpr (requires { p.kernel.valid(tiles); }) return p.kernel.valid(tiles) == nullptr;
    return true;
  };
  CudaFit fit;
  constexpr bool kMesh = requires { p.kernel.devices; };
  const std::string interpreted = what_only_the_interpreter_does(request, kMesh);
  if (!interpreted.empty())
    fit.why = interpreted + " is the interpreter's";
  else
    fit = fit_cuda(K::info.name, kDTypeOf<T>, asked, exact, valid);
  if (fit.instance != nullptr) {
    const cuda::Device device = cuda_backend()->device();
    const int devices = devices_of(p, request);
    receipt.gpus = std::min(devices, device.gpus);
    receipt.device = (receipt.gpus > 1 ? std::to_string(receipt.gpus) + " x " : "") + device.name;
    const std::string why = why_not_on(device, K::info.name, devices, request.oversubscribe);
    if (!why.empty()) fit = {nullptr, why};
  }
  receipt.why = fit.why;
  if (fit.instance == nullptr) {
    if (request.backend) throw InputError("no-backend", "--backend cuda: " + fit.why);
    return fit;
  }
  receipt.ran = BackendKind::cuda;
  receipt.why = receipt.device;
  for (std::size_t i = 0; i < fit.instance->tiles.size(); ++i) {
    p.tiles.size[i] = fit.instance->tiles[i];
    p.setting.tiles[i].second = fit.instance->tiles[i];
  }
  return fit;
}

/// Runs the CUDA build of a kernel on the arrays of a request.
template <class K>
void run_cuda(const cuda::Instance& instance, const Prepared<K>& p,
              const std::vector<Array>& arrays, const std::vector<std::string>& names,
              const Request& request, Outcome& outcome) {
  cuda::Launch launch;
  launch.gpus = outcome.receipt.gpus;
  for (const auto& s : p.setting.sizes) launch.sizes.push_back(s.value);
  for (std::size_t i = 0; i < arrays.size(); ++i)
    launch.inputs.push_back(
        {names[i], arrays[i].bytes(), static_cast<std::size_t>(arrays[i].size_bytes())});
  for (const auto& a : p.host->asked()) launch.inputs.push_back({a.name, a.data, a.bytes});
  launch.rounds = request.rounds;
  launch.steps_per_cell = request.steps_per_cell;
  launch.time_limit_s = request.time_limit;
  for (const auto& op : outcome.result.plan.operands) {
    if (!op.is_output() || !op.present) continue;
    Shape all = op.array;
    all[0] *= devices_of(p, request);
    outcome.result.outputs.push_back(Array::undefined(op.dtype, all));
  }
  for (Array& a : outcome.result.outputs) {
    launch.outputs.push_back(a.bytes());
    launch.output_bytes.push_back(static_cast<std::size_t>(a.size_bytes()));
  }
  outcome.receipt.launch = instance.run(launch);
}

/// What a kernel makes on the host for its sizes and tiles.
template <class K>
void make_host(const Request& request, Prepared<K>& p) {
  p.host = std::make_unique<Host>(K::info.name, request.seed, request.files, request.input_kind);
  if constexpr (requires { p.kernel.prepare(*p.host, p.tiles); })
    p.kernel.prepare(*p.host, p.tiles);
}
template <class K>
Prepared<K> prepare(const Request& request) {
  Prepared<K> p;
  resolve(request, p);
  make_host(request, p);
  return p;
}

/// The kernel's own count of its bytes, if it has one. Several cores of a device begin with empty
/// blocks each: no closed form tells how their cells fall.
template <class K>
std::optional<Bytes> closed_form_of(const Prepared<K>& p, const Request& request,
                                    bool on_gpu = false) {
  if constexpr (requires { p.kernel.hbm_bytes(p.tiles, Target{}); }) {
    if (request.options.cores > 1) return std::nullopt;
    const bool keeps = !on_gpu && request.device.keeps_blocks_across_cells();
    Bytes bytes = p.kernel.hbm_bytes(p.tiles, Target{keeps});
    if constexpr (!requires { p.kernel.devices; }) {
      const int n = devices_of(p, request);
      bytes = {bytes.read * n, bytes.write * n, bytes.remote * n};
    }
    return bytes;
  } else {
    return std::nullopt;
  }
}
/// Device d's part of an array, and the array with one more part.
reference::Tensor shard(const reference::Tensor& whole, int d, int devices);
void append_shard(reference::Expected& whole, const reference::Expected& part);
/// Strides and blocks of the operands, without a device's limits: what runs them has its own.
void lay_out(Plan& plan);
/// What the oracle says of an output, in its element type.
Array rounded(const reference::Expected& expected, const Plan& plan, std::size_t output,
              int devices);
/// Throws InputError if the arrays are larger than this machine's memory.
void check_memory(const Plan& plan, int devices);
/// The arrays of a run by name, and what prepare() asked for besides.
std::vector<std::pair<std::string, Array>> inputs_of(const Host& host,
                                                     const std::vector<std::string>& names,
                                                     const std::vector<Array>& arrays);
void check_closed_form(const Bytes& closed_form, const char* kernel, RunResult& result);

inline std::string command_of(const char* kernel, const Request& request, const Setting& setting) {
  std::string command = std::string("tessera run ") + kernel;
  if (setting.case_name.empty() || request.case_index != 0) {
    command += " --case " + std::to_string(request.case_index);
  }
  for (const auto& [name, value] : request.assignments) command += " " + name + "=" + value;
  if (request.dtype != DType::f32) command += std::string(" --dtype ") + name(request.dtype);
  if (request.device.name != "tpu-v5e") command += " --device " + request.device.name;
  if (request.seed != 0) command += " --seed " + std::to_string(request.seed);
  if (request.input_kind != InputKind::uniform)
    command += std::string(" --inputs ") + name(request.input_kind);
  if (request.options.profile != Profile::exact)
    command += std::string(" --profile ") + name(request.options.profile);
  if (request.options.dry) command += " --dry";
  if (request.devices > 0) command += " --devices " + std::to_string(request.devices);
  if (request.options.cores > 1) command += " --cores " + std::to_string(request.options.cores);
  for (const auto& [name, file] : request.files) command += " --input " + name + "=" + file;
  return command;
}

inline std::string who_of(const char* kernel, const Request& request, const Setting& setting) {
  std::string who = kernel;
  if (!setting.case_name.empty()) who += ", case " + std::to_string(request.case_index);
  who += " (";
  for (std::size_t i = 0; i < setting.sizes.size(); ++i) {
    std::string value = std::to_string(setting.sizes[i].value);
    value.erase(value.find_last_not_of('0') + 1);
    if (value.ends_with('.')) value.pop_back();
    who += (i > 0 ? ", " : "") + setting.sizes[i].name + "=" + value;
  }
  return who + ")";
}

/// What the oracle says. That of a kernel on a mesh sees the arrays of all devices; any other
/// kernel runs on each device alone, and so does its oracle.
template <class E, class K>
std::vector<reference::Expected> expected_of(const E& entry, const K& kernel,
                                             const std::vector<Array>& arrays,
                                             const std::vector<std::string>& names, int devices) {
  constexpr bool kMesh = requires { kernel.devices; };
  std::vector<reference::Expected> results;
  for (int d = 0; d < (kMesh ? 1 : devices); ++d) {
    OracleInputs inputs;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      reference::Tensor whole = golden::to_tensor(arrays[i]);
      inputs.add(names[i], kMesh || devices == 1 ? std::move(whole) : shard(whole, d, devices));
    }
    auto expected = entry.oracle(kernel, inputs);
    std::vector<reference::Expected> each;
    if constexpr (std::is_same_v<decltype(expected), reference::Expected>)
      each.push_back(std::move(expected));
    else
      each = std::move(expected);
    for (std::size_t o = 0; o < each.size(); ++o) {
      if (o == results.size())
        results.push_back(std::move(each[o]));
      else
        append_shard(results[o], each[o]);
    }
  }
  return results;
}

/// How far a kernel that takes f32 operands of dots as they are may be from one on an MXU, in any
/// other respect computed alike.
inline ErrorModel of_unrounded_operands() {
  ErrorModel m = ErrorModel::order_alone();
  m.operands = unit_roundoff("f32");
  return m;
}

template <class E, class T>
Outcome run_entry(const E& entry, const Request& request) {
  using K = typename E::template Kernel<T>;
  Prepared<K> p;
  resolve(request, p);
  Outcome outcome;
  const CudaFit cuda = choose_backend<K, T>(request, p, outcome.receipt);
  make_host(request, p);
  outcome.setting = p.setting;
  Plan operands = plan_of(K::info.name, spec_of(p.kernel, p.tiles), request.device);
  const int devices = devices_of(p, request);
  RunOptions options = request.options;
  options.device = request.device;
  if (request.devices == 0) options.mesh = {devices};
  outcome.mesh = options.mesh;
  options.who = who_of(K::info.name, request, p.setting);
  options.command = command_of(K::info.name, request, p.setting);
  if (options.dry) {
    outcome.result = tessera::run(p.kernel, p.tiles, {}, options);
    outcome.closed_form = closed_form_of(p, request);
    if (outcome.result.ok() && outcome.closed_form)
      check_closed_form(*outcome.closed_form, K::info.name, outcome.result);
    return outcome;
  }
  check_memory(operands, devices);
  std::vector<Array> arrays;
  std::vector<std::string> names;
  for (const auto& op : operands.operands) {
    if (op.is_output() && op.present) outcome.output_names.push_back(op.name);
    if (!op.is_input() || !op.present) continue;
    names.push_back(op.name);
    Shape all = op.array;
    if (devices > 1) all[0] *= devices;
    arrays.push_back(p.host->operand(op.name, op.dtype, all));
  }
  for (const auto& s : operands.scalars) names.push_back(s.name);
  p.host->check_files_used(names);
  Inputs inputs;
  for (const auto& a : arrays) inputs.push_back(&a);
  if (request.keep_inputs) outcome.inputs = inputs_of(*p.host, names, arrays);

  const BackendKind ran = outcome.receipt.ran;
  const bool rounds = mxu_passes(options.profile) > 0 && std::is_same_v<T, float>;
  std::vector<Array> profile_bounds;
  if (ran == BackendKind::interpret) {
    RunOptions own = options;
    if (rounds && request.check) {
      if (options.transport != nullptr)
        throw InputError("bad-usage",
                         std::string("products as --profile ") + name(options.profile) +
                             " has them are compared with the reference in one process alone",
                         "add --no-check");
      own.error_model = of_unrounded_operands();
      if (options.error_model) {  // asks for other bounds
        const RunResult unrounded = tessera::run(p.kernel, p.tiles, inputs, own);
        profile_bounds = unrounded.bounds;
        own.error_model = options.error_model;
      }
    }
    outcome.result = tessera::run(p.kernel, p.tiles, inputs, own);
    if (!outcome.result.ok()) return outcome;
    if (!options.error_model) profile_bounds = std::move(outcome.result.bounds);
    if (options.transport != nullptr && options.transport->rank() > 0) return outcome;
    outcome.closed_form = closed_form_of(p, request);
    if (outcome.closed_form) check_closed_form(*outcome.closed_form, K::info.name, outcome.result);
  } else {
    lay_out(operands);
    outcome.result.plan = std::move(operands);
    if (ran == BackendKind::cuda) {
      outcome.closed_form = closed_form_of(p, request, true);
      run_cuda(*cuda.instance, p, arrays, names, request, outcome);
    }
  }
  if (ran != BackendKind::reference && !request.check) return outcome;

  if (request.phase) request.phase("comparing with the reference");
  const auto results = expected_of(entry, p.kernel, arrays, names, devices);
  if (ran == BackendKind::reference) {
    for (const auto& r : results)
      outcome.result.outputs.push_back(
          rounded(r, outcome.result.plan, outcome.result.outputs.size(), devices));
    return outcome;
  }
  const StepContext context{&outcome.result.plan, nullptr, options.who, options.command};
  step_context = &context;
  outcome.validation = golden::validate(outcome.result.plan, outcome.result.outputs, results,
                                        K::info.name, profile_bounds);
  step_context = nullptr;
  if (outcome.validation->mismatch)
    outcome.result.diagnostics.push_back(*outcome.validation->mismatch);
  return outcome;
}

template <class E, class T>
Description describe_entry(const Request& request) {
  using K = typename E::template Kernel<T>;
  Prepared<K> p = prepare<K>(request);
  Description d;
  d.plan = plan_of(K::info.name, spec_of(p.kernel, p.tiles), request.device);
  d.closed_form = closed_form_of(p, request);
  d.setting = std::move(p.setting);
  return d;
}

}  // namespace detail

/// The kernel in f32 and bf16.
template <class E>
KernelHandle handle(const E& entry) {
  using F32 = typename E::template Kernel<float>;
  KernelHandle h;
  h.info = F32::info;
  h.dtypes = {DType::f32, DType::bf16};
  for (const Case& c : F32::cases) h.cases.emplace_back(c.what);
  h.run = [entry](const Request& request) {
    return request.dtype == DType::bf16 ? detail::run_entry<E, bf16>(entry, request)
                                        : detail::run_entry<E, float>(entry, request);
  };
  h.describe = [](const Request& request) {
    return request.dtype == DType::bf16 ? detail::describe_entry<E, bf16>(request)
                                        : detail::describe_entry<E, float>(request);
  };
  return h;
}

}  // namespace tessera::cli
