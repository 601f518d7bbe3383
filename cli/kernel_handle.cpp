// From a request to an outcome: sizes, the backend, inputs, the run, the oracle, the closed form.
#include "cli/kernel_handle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "cli/command_line.hpp"
#include "cli/cta_messages.hpp"
#include "cli/cuda_instances.hpp"
#include "cli/registry.hpp"
#include "cli/signals.hpp"
#include "memory_model/host_memory.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::cli {

namespace {

/// A kernel with its sizes, tiles and prepared arrays.
struct Prepared {
  std::unique_ptr<KernelInstance> kernel;
  Tiles tiles;
  Setting setting;
  std::unique_ptr<Host> host;

  const char* name() const { return kernel->facts().info.name; }
};

/// Takes name=value assignments over the values of a case, whether or not they can run; throws
/// InputError.
Prepared assign(std::unique_ptr<KernelInstance> kernel, const Request& request) {
  const KernelFacts& facts = kernel->facts();
  const std::string kernel_name = facts.info.name;
  const auto cases = static_cast<int>(facts.cases.size());
  if (request.case_index < 0 || request.case_index >= cases) {
    throw InputError("bad-input", kernel_name + " has cases 0 to " + std::to_string(cases - 1) +
                                      ", not " + std::to_string(request.case_index));
  }
  const Case& base = facts.cases[static_cast<std::size_t>(request.case_index)];
  std::vector<std::string> known;
  std::vector<std::string> given;
  for (const auto& s : facts.sizes) known.emplace_back(s.name);
  for (const auto& t : facts.tiles) known.emplace_back(t.name);
  for (const auto& [name, text] : request.assignments) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InputError("unknown-parameter",
                       kernel_name + " has no parameter '" + name + "'" + suggest(name, known),
                       "tessera show " + kernel_name);
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
  Prepared p;
  for (std::size_t i = 0; i < facts.sizes.size(); ++i) {
    const auto& s = facts.sizes[i];
    double value = base.sizes[i];
    const bool zero = std::any_of(facts.cases.begin(), facts.cases.end(),
                                  [i](const Case& c) { return c.sizes[i] < 1; });
    const bool devices = std::string_view(s.name) == "devices";
    if (devices && request.devices > 0) value = request.devices;
    if (const auto* text = assigned(s.name)) value = number(s.name, *text, s.real, zero ? 0 : 1);
    kernel->set(i, value);
    p.setting.sizes.push_back({s.name, s.what, value});
  }
  for (std::size_t i = 0; i < facts.tiles.size(); ++i) {
    const TileParam& t = facts.tiles[i];
    double value = base.tiles[i];
    const bool follows =
        t.follows != nullptr && std::find(given.begin(), given.end(), t.follows) != given.end();
    for (const auto& s : p.setting.sizes) {
      if (follows && s.name == t.follows) value = s.value;
    }
    const bool zero = std::any_of(facts.cases.begin(), facts.cases.end(),
                                  [i](const Case& c) { return c.tiles[i] < 1; });
    if (const auto* text = assigned(t.name)) value = number(t.name, *text, false, zero ? 0 : 1);
    p.tiles.size[i] = static_cast<int>(value);
    p.setting.tiles.emplace_back(t.name, static_cast<int>(value));
  }
  if (given.empty()) {
    p.setting.case_name = "case " + std::to_string(request.case_index) + " (" + base.what + ")";
  }
  p.kernel = std::move(kernel);
  return p;
}
/// An instance of the request's element type, with its sizes.
Prepared assign(const KernelHandle& handle, const Request& request) {
  const DType dtype = parse_dtype(name(request.dtype), handle);
  const auto at = std::find(handle.dtypes.begin(), handle.dtypes.end(), dtype);
  return assign(handle.make[static_cast<std::size_t>(at - handle.dtypes.begin())](), request);
}
/// The same, of sizes and tiles that can run.
Prepared resolve(const KernelHandle& handle, const Request& request) {
  Prepared p = assign(handle, request);
  if (const char* fault = p.kernel->valid(p.tiles)) throw InputError("bad-input", fault);
  return p;
}

/// Devices of the run: a size of a kernel on a mesh; of any other, as many as are asked for, each
/// with inputs of its own.
int devices_of(const Prepared& p, const Request& request) {
  return p.kernel->devices().value_or(std::max(1, request.devices));
}

/// An option of the request that no GPU has, "" if there is none. `mesh`: for a kernel on one.
std::string what_only_the_interpreter_does(const Request& request, bool mesh) {
  if (request.options.dry) return "--dry";
  if (request.options.schedule) return "--schedule";
  if (!request.options.at.empty()) return "--at";
  if (request.options.trap_nan) return "--trap";
  if (request.options.profile != Profile::exact)
    return std::string("--profile ") + name(request.options.profile);
  if (request.options.cores > 1) return "--cores";
  if (!mesh && request.devices > 0) return "--devices";
  if (mesh && request.options.mesh.size() > 1) return "a mesh of more than one axis";
  if (request.options.transport != nullptr) return "mpirun";
  return "";
}

/// Why a GPU cannot run a kernel on so many devices, or "".
std::string why_not_on(const cuda::Device& device, const char* kernel, int devices,
                       bool oversubscribe) {
  if (!device.there) return device.why;
  if (devices <= device.gpus || oversubscribe) return "";
  return fmt::format(
      "{} runs on {} devices, and {}: --oversubscribe puts several devices on a GPU", kernel,
      devices,
      device.gpus == 1 ? "there is one GPU" : fmt::format("{} GPUs reach each other", device.gpus));
}

/// The CUDA instance for a request, or why there is none. One that was asked for by name is
/// compiled if it has to be.
CudaFit fit_of(const KernelHandle& kernel, const Request& request, const Prepared& p) {
  std::vector<int> asked;
  bool exact = false;
  for (const auto& [name, extent] : p.setting.tiles) {
    asked.push_back(extent);
    for (const auto& [given, text] : request.assignments) exact = exact || given == name;
  }
  const auto valid = [&](const std::vector<int>& sizes) {
    Tiles tiles;
    std::copy(sizes.begin(), sizes.end(), tiles.size.begin());
    return p.kernel->valid(tiles) == nullptr;
  };
  const bool mesh = p.kernel->devices().has_value();
  if (const std::string option = what_only_the_interpreter_does(request, mesh); !option.empty())
    return {.why = option + " is the interpreter's"};
  CudaFit fit = fit_cuda(p.name(), request.dtype, asked, exact, valid);
  // Another GPU than the module is built for has an instance of its own.
  cuda::Device device;
  if (fit.backend != nullptr && request.backend && has_cuda_device())
    device = fit.backend->device();
  const bool other = !device.there && device.capability > 0;
  if ((fit.instance == nullptr || other) && request.backend && makes_cuda()) {
    if (!has_cuda_device()) throw InputError("no-backend", "--backend cuda: no CUDA device");
    Plan plan = kernel.describe(request).plan;
    lay_out(plan);
    const auto make_for = [&](const cta::Sm& target) {
      check_fits_cta(p.name(), plan, target);
      fit = made_cuda(p.name(), request.dtype, asked, target);
    };
    make_for(other ? cuda_target(device.capability, device.name) : cuda_target());
    // Without a module the instance is what tells of the GPU.
    if (!other && fit.backend != nullptr) device = fit.backend->device();
    if (!other && !device.there && device.capability > 0)
      make_for(cuda_target(device.capability, device.name));
  }
  return fit;
}

/// The backend for a request whose sizes and tiles are resolved; the tiles become those of its
/// instance.
CudaFit choose_backend(const KernelHandle& kernel, const Request& request, Prepared& p,
                       Receipt& receipt) {
  receipt.requested = request.backend ? name(*request.backend) : "auto";
  receipt.ran = request.backend.value_or(BackendKind::interpret);
  if (request.backend && request.backend != BackendKind::cuda) return {};
  CudaFit fit = fit_of(kernel, request, p);
  if (fit.instance != nullptr) {
    const cuda::Device device = fit.backend->device();
    const int devices = devices_of(p, request);
    receipt.gpus = std::min(devices, device.gpus);
    receipt.device = (receipt.gpus > 1 ? std::to_string(receipt.gpus) + " x " : "") + device.name;
    const std::string why = why_not_on(device, p.name(), devices, request.oversubscribe);
    if (!why.empty()) fit = {.why = why};
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
void run_cuda(const cuda::Instance& instance, const Prepared& p, const std::vector<Array>& arrays,
              const std::vector<std::string>& names, const Request& request, Outcome& outcome) {
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
  unlimit_time();  // the launch has this limit
  outcome.receipt.launch = instance.run(launch);
}

/// What a kernel makes on the host for its sizes and tiles.
void make_host(const Request& request, Prepared& p) {
  p.host = std::make_unique<Host>(p.name(), request.seed, request.files, request.input_kind);
  p.kernel->prepare(*p.host, p.tiles);
}

/// The kernel's own count of its bytes, if it has one. Several cores of a device begin with empty
/// blocks each: no closed form tells how their cells fall.
std::optional<Bytes> closed_form_of(const Prepared& p, const Request& request,
                                    bool on_gpu = false) {
  if (request.options.cores > 1) return std::nullopt;
  const bool keeps = !on_gpu && request.device.keeps_blocks_across_cells();
  std::optional<Bytes> bytes = p.kernel->closed_form(p.tiles, Target{keeps});
  if (bytes && !p.kernel->devices()) {
    const int n = devices_of(p, request);
    bytes = {bytes->read * n, bytes->write * n, bytes->remote * n};
  }
  return bytes;
}

/// "1,000 derived, 1,200 moved: x 800, w 400"
std::string beside(std::int64_t derived, std::int64_t moved, const Ledger& ledger,
                   std::int64_t RefTotals::*part) {
  std::string text = with_commas(derived) + " derived, " + with_commas(moved) + " moved";
  const char* before = ": ";
  for (const RefTotals& ref : ledger.refs()) {
    if (ref.*part == 0) continue;
    text += before + ref.name + " " + with_commas(ref.*part);
    before = ", ";
  }
  return text;
}

void check_closed_form(const Bytes& closed_form, const char* kernel, const RunOptions& options,
                       RunResult& result) {
  const Ledger& ledger = result.ledger();
  const Bytes moved{ledger.hbm_read_bytes(), ledger.hbm_write_bytes(), ledger.remote_bytes()};
  if (closed_form == moved) return;
  Diagnostic d{.slug = "closed-form",
               .headline = std::string(kernel) + "'s hbm_bytes() is not what moved",
               .fields = {{"kernel", options.who}}};
  if (closed_form.read != moved.read)
    d.fields.emplace_back("read",
                          beside(closed_form.read, moved.read, ledger, &RefTotals::read_bytes));
  if (closed_form.write != moved.write)
    d.fields.emplace_back("write",
                          beside(closed_form.write, moved.write, ledger, &RefTotals::write_bytes));
  if (closed_form.remote != moved.remote)
    d.fields.emplace_back("remote", with_commas(closed_form.remote) + " derived, " +
                                        with_commas(moved.remote) + " moved");
  d.fields.emplace_back("help",
                        "the ledger counts what ran; the derivation or the index maps are wrong");
  if (!options.command.empty()) d.fields.emplace_back("replay", options.command);
  result.diagnostics.push_back(std::move(d));
}

/// Device d's part of an array.
reference::Tensor shard(const reference::Tensor& whole, int d, int devices) {
  reference::Tensor part = whole;
  part.shape[0] /= static_cast<std::size_t>(devices);
  const auto n = static_cast<std::ptrdiff_t>(whole.values.size()) / devices;
  part.values.assign(whole.values.begin() + d * n, whole.values.begin() + (d + 1) * n);
  return part;
}

/// The array with one more part.
void append_shard(reference::Expected& whole, const reference::Expected& part) {
  for (const auto member : {&reference::Expected::value, &reference::Expected::error}) {
    reference::Tensor& to = whole.*member;
    const reference::Tensor& from = part.*member;
    to.shape[0] += from.shape[0];
    to.values.insert(to.values.end(), from.values.begin(), from.values.end());
  }
}

/// What the oracle says. That of a kernel on a mesh sees the arrays of all devices; any other
/// kernel runs on each device alone, and so does its oracle.
std::vector<reference::Expected> expected_of(const KernelInstance& kernel,
                                             const std::vector<Array>& arrays,
                                             const std::vector<std::string>& names, int devices) {
  const bool mesh = kernel.devices().has_value();
  std::vector<reference::Expected> results;
  for (int d = 0; d < (mesh ? 1 : devices); ++d) {
    OracleInputs inputs;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      reference::Tensor whole = golden::to_tensor(arrays[i]);
      inputs.add(names[i], mesh || devices == 1 ? std::move(whole) : shard(whole, d, devices));
    }
    std::vector<reference::Expected> each = kernel.oracle(inputs);
    for (std::size_t o = 0; o < each.size(); ++o) {
      if (o == results.size())
        results.push_back(std::move(each[o]));
      else
        append_shard(results[o], each[o]);
    }
  }
  return results;
}

/// What the oracle says of an output, in its element type.
Array rounded(const reference::Expected& expected, const Plan& plan, std::size_t output,
              int devices) {
  for (const auto& op : plan.operands) {
    if (!op.is_output() || !op.present) continue;
    if (output-- > 0) continue;
    Shape all = op.array;
    if (devices > 1) all[0] *= devices;
    Array array(op.dtype, all);
    for (std::int64_t i = 0; i < array.elems(); ++i)
      array.set(i, expected.value.values[static_cast<std::size_t>(i)]);
    return array;
  }
  throw std::logic_error("the oracle has more outputs than the kernel");
}

/// Throws InputError if the arrays are larger than this machine's memory.
void check_memory(const Plan& plan, int devices) {
  double bytes = 0;
  for (const auto& op : plan.operands) {
    if (!op.present || !(op.pipelined() || in_hbm(op.role))) continue;
    double array = bit_width(op.dtype) / 8.;
    for (int d = 0; d < op.array.rank; ++d) array *= static_cast<double>(op.array[d]);
    bytes += array * devices;
  }
  if (bytes <= host_memory_bytes()) return;
  throw InputError("bad-input",
                   fmt::format("the arrays of {} take {:.3g} GiB, more than this machine's memory",
                               plan.kernel, bytes / (1 << 30)));
}

/// The arrays of a run by name, and what prepare() asked for besides.
std::vector<std::pair<std::string, Array>> inputs_of(const Host& host,
                                                     const std::vector<std::string>& names,
                                                     std::vector<Array> arrays) {
  std::vector<std::pair<std::string, Array>> inputs;
  inputs.reserve(arrays.size() + host.asked().size());
  for (std::size_t i = 0; i < arrays.size(); ++i)
    inputs.emplace_back(names[i], std::move(arrays[i]));
  for (const Host::Asked& asked : host.asked()) {
    const bool known = std::any_of(inputs.begin(), inputs.end(),
                                   [&](const auto& in) { return in.first == asked.name; });
    if (known) continue;
    Array array(asked.dtype, asked.shape);
    std::memcpy(array.bytes(), asked.data, asked.bytes);
    inputs.emplace_back(asked.name, std::move(array));
  }
  return inputs;
}

std::string who_of(const char* kernel, const Request& request, const Setting& setting) {
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

/// How far a kernel that takes f32 operands of dots as they are may be from one on an MXU, in any
/// other respect computed alike.
ErrorModel of_unrounded_operands() {
  ErrorModel m = ErrorModel::order_alone();
  m.operands = unit_roundoff("f32");
  return m;
}

/// A run's arrays, in the order of the spec.
struct Operands {
  std::vector<std::string> names;  ///< of inputs and of scalar-prefetched arrays
  std::vector<Array> inputs;
  std::vector<std::string> outputs;  ///< names

  Inputs pointers() const {
    Inputs all;
    for (const Array& a : inputs) all.push_back(&a);
    return all;
  }
};

/// The array of the input that an operand says it is the same as.
Array the_same(const OperandPlan& op, const Shape& shape, const Operands& before) {
  for (std::size_t i = 0; i < before.names.size(); ++i) {
    const Array& array = before.inputs[i];
    if (before.names[i] != op.same) continue;
    if (array.dtype() == op.dtype && array.shape() == shape) return array;
    throw InputError("bad-input", op.name + " is " + describe(op.dtype, shape) + ", the same as " +
                                      op.same + ", which is " +
                                      describe(array.dtype(), array.shape()));
  }
  throw InputError("bad-input", op.name + " is the same as '" + op.same +
                                    "', which is no input that stands before it");
}

/// Whether a count needs an input's values: of indices and lengths, and what somebody gave or made.
bool counts_by(const OperandPlan& op, const Host& host, const Request& request) {
  return (!is_float(op.dtype) && bit_width(op.dtype) >= 32) || request.files.contains(op.name) ||
         std::ranges::count(host.asked(), op.name, &Host::Asked::name) > 0;
}

/// `counted`: the request, of a kernel that is counted alone: values that no count needs are not
/// made.
Operands operands_of(const Plan& plan, int devices, Host& host, const Request* counted = nullptr) {
  Operands found;
  for (const auto& op : plan.operands) {
    if (op.is_output() && op.present) found.outputs.push_back(op.name);
    if (!op.is_input() || !op.present) continue;
    Shape all = op.array;
    if (devices > 1) all[0] *= devices;
    if (op.same != nullptr)
      found.inputs.push_back(the_same(op, all, found));
    else if (counted != nullptr && !counts_by(op, host, *counted))
      found.inputs.push_back(Array::undefined(op.dtype, all));
    else
      found.inputs.push_back(host.operand(op.name, op.dtype, all, op.spread));
    found.names.push_back(op.name);
  }
  std::vector<std::string> files;
  for (const auto& op : plan.operands) {
    if (op.is_input() && op.present && op.same == nullptr) files.push_back(op.name);
  }
  for (const auto& s : plan.scalars) {
    found.names.push_back(s.name);
    files.push_back(s.name);
  }
  host.check_files_used(files);
  return found;
}

/// Runs in the interpreter. What products that an MXU rounds may be off by goes to `bounds`: the
/// reference has operands as they are.
RunResult interpreted(const Prepared& p, const Inputs& inputs, const RunOptions& options,
                      const Request& request, std::vector<Array>& bounds) {
  RunOptions own = options;
  if (mxu_passes(options.profile) > 0 && request.dtype == DType::f32 && request.check) {
    if (options.transport != nullptr)
      throw InputError("bad-usage",
                       std::string("products as --profile ") + name(options.profile) +
                           " has them are compared with the reference in one process alone",
                       "add --no-check");
    own.error_model = of_unrounded_operands();
    if (options.error_model) {  // asks for other bounds
      bounds = p.kernel->run(p.tiles, inputs, own).bounds;
      own.error_model = options.error_model;
    }
  }
  RunResult result = p.kernel->run(p.tiles, inputs, own);
  if (result.ok() && !options.error_model) bounds = std::move(result.bounds);
  return result;
}

}  // namespace

KernelHandle::KernelHandle(std::vector<DType> built, std::vector<Make> makers)
    : dtypes(std::move(built)), make(std::move(makers)) {
  const auto instance = make.front()();
  info = instance->facts().info;
  for (const Case& c : instance->facts().cases) cases.emplace_back(c.what);
}

namespace {

std::string why_not_cuda(const KernelHandle& kernel, const Request& request, Prepared& p) {
  Receipt receipt;
  Request asked = request;
  asked.backend.reset();
  if (choose_backend(kernel, asked, p, receipt).instance != nullptr) return "";
  const bool compiles = makes_cuda() && has_cuda_device();
  return receipt.why + (compiles ? "; --backend cuda compiles it" : "");
}

std::string why_not_interpreted(const Request& request, const Prepared& p) {
  try {
    Plan plan = p.kernel->plan(p.tiles, request.device);
    finish_plan(plan);
    return "";
  } catch (const KernelError& error) {
    return error.diagnostic.slug + ": " + error.diagnostic.headline;
  }
}

std::string why_not_tpu(const Request& request, const Prepared& p) {
  if (request.device.kind != DeviceSpec::Kind::tpu) return request.device.name + " is no TPU";
  if (beside_program(std::string("libtessera_mosaic_") + p.name() + ".so").empty())
    return fmt::format("not compiled: ./tessera build {} --target tpu --out FOLDER does", p.name());
  return "";
}

}  // namespace

std::vector<Implementation> implementations_of(const KernelHandle& kernel, const Request& request) {
  Prepared p = resolve(kernel, request);
  make_host(request, p);
  const std::string interpreted = why_not_interpreted(request, p);
  const std::string tpu = why_not_tpu(request, p);
  return {
      {"cuda", 2, "a Hopper GPU, and an instance of these tiles", why_not_cuda(kernel, request, p)},
      {"interpret", 1, "blocks that the device can hold", interpreted},
      {"reference", 0, "asked for by name: the oracle, in f64", ""},
      {"tpu", 0, "built as a module, which a TPU or `tessera run` runs", tpu}};
}

Setting setting_of(const KernelHandle& kernel, const Request& request) {
  return assign(kernel, request).setting;
}

Outcome KernelHandle::run(const Request& request) const {
  Prepared p = resolve(*this, request);
  Outcome outcome;
  const CudaFit cuda = choose_backend(*this, request, p, outcome.receipt);
  make_host(request, p);
  outcome.setting = p.setting;
  Plan plan = p.kernel->plan(p.tiles, request.device);
  const int devices = devices_of(p, request);
  RunOptions options = request.options;
  options.device = request.device;
  if (request.devices == 0) options.mesh = {devices};
  outcome.mesh = options.mesh;
  options.who = who_of(info.name, request, p.setting);
  options.command = command_of("run", arguments_of(info.name, request));
  if (options.dry) {
    outcome.result = p.kernel->run(p.tiles, {}, options);
    outcome.closed_form = closed_form_of(p, request);
    if (outcome.result.ok() && outcome.closed_form)
      check_closed_form(*outcome.closed_form, info.name, options, outcome.result);
    return outcome;
  }
  check_memory(plan, devices);
  const Operands operands = operands_of(plan, devices, *p.host);
  outcome.output_names = operands.outputs;
  if (request.keep_inputs) outcome.inputs = inputs_of(*p.host, operands.names, operands.inputs);

  const BackendKind ran = outcome.receipt.ran;
  std::vector<Array> profile_bounds;
  if (ran == BackendKind::interpret) {
    outcome.result = interpreted(p, operands.pointers(), options, request, profile_bounds);
    if (!outcome.result.ok()) return outcome;
    if (options.transport != nullptr && options.transport->rank() > 0) return outcome;
    outcome.closed_form = closed_form_of(p, request);
    if (outcome.closed_form)
      check_closed_form(*outcome.closed_form, info.name, options, outcome.result);
  } else {
    lay_out(plan);
    outcome.result.plan = std::move(plan);
    if (ran == BackendKind::cuda) {
      outcome.closed_form = closed_form_of(p, request, true);
      run_cuda(*cuda.instance, p, operands.inputs, operands.names, request, outcome);
    }
  }
  if (ran != BackendKind::reference && !request.check) return outcome;

  if (request.phase) request.phase("comparing with the reference");
  const auto results = expected_of(*p.kernel, operands.inputs, operands.names, devices);
  if (ran == BackendKind::reference) {
    for (const auto& r : results)
      outcome.result.outputs.push_back(
          rounded(r, outcome.result.plan, outcome.result.outputs.size(), devices));
    return outcome;
  }
  const StepContext context{
      .plan = &outcome.result.plan, .who = options.who, .command = options.command};
  step_context = &context;
  outcome.validation = golden::validate(outcome.result.plan, outcome.result.outputs, results,
                                        info.name, profile_bounds);
  step_context = nullptr;
  if (outcome.validation->mismatch)
    outcome.result.diagnostics.push_back(*outcome.validation->mismatch);
  return outcome;
}

Description KernelHandle::describe(const Request& request) const {
  Prepared p = resolve(*this, request);
  make_host(request, p);
  Description d;
  d.plan = p.kernel->plan(p.tiles, request.device);
  d.closed_form = closed_form_of(p, request);
  d.setting = std::move(p.setting);
  return d;
}

BuildInputs KernelHandle::build_inputs(const Request& request) const {
  Prepared p = resolve(*this, request);
  make_host(request, p);
  BuildInputs inputs;
  inputs.devices = devices_of(p, request);
  inputs.mesh = p.kernel->devices().has_value();
  const Plan plan = p.kernel->plan(p.tiles, request.device);
  check_memory(plan, inputs.devices);
  Operands operands =
      operands_of(plan, inputs.devices, *p.host, request.options.dry ? &request : nullptr);
  inputs.arrays = inputs_of(*p.host, operands.names, std::move(operands.inputs));
  inputs.setting = std::move(p.setting);
  return inputs;
}

GpuCall KernelHandle::gpu_call(const Request& request) const {
  Prepared p = resolve(*this, request);
  GpuCall call{.fit = fit_of(*this, request, p), .launch = {}, .host = {}};
  if (call.fit.instance == nullptr)
    throw InputError("no-backend", "--backend cuda: " + call.fit.why);
  make_host(request, p);
  for (const auto& s : p.setting.sizes) call.launch.sizes.push_back(s.value);
  for (const auto& a : p.host->asked()) call.launch.inputs.push_back({a.name, a.data, a.bytes});
  call.host = std::move(p.host);
  return call;
}

}  // namespace tessera::cli
