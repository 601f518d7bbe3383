#include "cli/registry.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "cli/handle.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::cli {

const KernelHandle& find_kernel(const std::vector<KernelHandle>& kernels, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& kernel : kernels) {
    if (name == kernel.info.name) return kernel;
    known.emplace_back(kernel.info.name);
  }
  throw InputError("unknown-kernel", "no kernel '" + name + "'" + suggest(name, known),
                   "tessera list");
}

DType parse_dtype(const std::string& text, const KernelHandle& kernel) {
  std::vector<std::string> known;
  for (const DType d : kernel.dtypes) {
    if (text == name(d)) return d;
    known.emplace_back(name(d));
  }
  throw InputError("unknown-dtype", std::string(kernel.info.name) + " is not built for '" + text +
                                        "'" + suggest(text, known));
}

reference::Tensor detail::shard(const reference::Tensor& whole, int d, int devices) {
  reference::Tensor part = whole;
  part.shape[0] /= static_cast<std::size_t>(devices);
  const auto n = static_cast<std::ptrdiff_t>(whole.values.size()) / devices;
  part.values.assign(whole.values.begin() + d * n, whole.values.begin() + (d + 1) * n);
  return part;
}

void detail::append_shard(reference::Expected& whole, const reference::Expected& part) {
  for (const auto member : {&reference::Expected::value, &reference::Expected::error}) {
    reference::Tensor& to = whole.*member;
    const reference::Tensor& from = part.*member;
    to.shape[0] += from.shape[0];
    to.values.insert(to.values.end(), from.values.begin(), from.values.end());
  }
}

std::string detail::what_only_the_interpreter_does(const Request& request, bool mesh) {
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

std::string detail::why_not_on(const cuda::Device& device, const char* kernel, int devices,
                               bool oversubscribe) {
  if (!device.there) return device.why;
  if (devices <= device.gpus || oversubscribe) return "";
  return fmt::format(
      "{} runs on {} devices, and {}: --oversubscribe puts several devices on a GPU", kernel,
      devices,
      device.gpus == 1 ? "there is one GPU" : fmt::format("{} GPUs reach each other", device.gpus));
}

void detail::lay_out(Plan& plan) {
  plan.device.vmem_bytes = std::numeric_limits<std::int64_t>::max();
  plan.device.smem_bytes = std::numeric_limits<std::int64_t>::max();
  plan.device.kind = DeviceSpec::Kind::gpu;  // no rule for the shapes of blocks
  finish_plan(plan);
}

Array detail::rounded(const reference::Expected& expected, const Plan& plan, std::size_t output,
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

void detail::check_memory(const Plan& plan, int devices) {
  double bytes = 0;
  for (const auto& op : plan.operands) {
    if (!op.present || !(op.pipelined() || in_hbm(op.role))) continue;
    double array = bit_width(op.dtype) / 8.;
    for (int d = 0; d < op.array.rank; ++d) array *= static_cast<double>(op.array[d]);
    bytes += array * devices;
  }
  const double have =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (bytes <= have) return;
  throw InputError("bad-input",
                   fmt::format("the arrays of {} take {:.3g} GiB, more than this machine's memory",
                               plan.kernel, bytes / (1 << 30)));
}

std::vector<std::pair<std::string, Array>> detail::inputs_of(const Host& host,
                                                             const std::vector<std::string>& names,
                                                             const std::vector<Array>& arrays) {
  std::vector<std::pair<std::string, Array>> inputs;
  for (std::size_t i = 0; i < arrays.size(); ++i) inputs.emplace_back(names[i], arrays[i]);
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

void detail::check_closed_form(const Bytes& closed_form, const char* kernel, RunResult& result) {
  const Ledger& ledger = result.ledger();
  const Bytes moved{ledger.hbm_read_bytes(), ledger.hbm_write_bytes(), ledger.remote_bytes()};
  if (closed_form == moved) return;
  Diagnostic d{.slug = "closed-form",
               .headline = std::string(kernel) + "'s hbm_bytes() is not what moved"};
  d.fields.emplace_back(
      "read", with_commas(closed_form.read) + " derived, " + with_commas(moved.read) + " moved");
  d.fields.emplace_back(
      "write", with_commas(closed_form.write) + " derived, " + with_commas(moved.write) + " moved");
  if (closed_form.remote != moved.remote) {
    d.fields.emplace_back("remote", with_commas(closed_form.remote) + " derived, " +
                                        with_commas(moved.remote) + " moved");
  }
  d.fields.emplace_back("help",
                        "the ledger counts what ran; the derivation or the index maps are wrong");
  result.diagnostics.push_back(std::move(d));
}

double parse_number(const std::string& name, const std::string& text, bool real) {
  const char* end = text.data() + text.size();
  double value = 0;
  bool ok = false;
  if (real) {
    const auto result = std::from_chars(text.data(), end, value);
    ok = result.ec == std::errc() && result.ptr == end && std::isfinite(value);
  } else {
    int whole = 0;
    const auto result = std::from_chars(text.data(), end, whole);
    ok = result.ec == std::errc() && result.ptr == end;
    value = whole;
  }
  if (ok) return value;
  throw InputError("bad-input", name + " takes a " + (real ? "number" : "whole number") +
                                    ", not '" + text + "'");
}

}  // namespace tessera::cli
