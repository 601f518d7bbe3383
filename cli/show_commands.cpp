// list, show, devices and ops: what there is.
#include <fmt/format.h>

#include <cstdio>
#include <tuple>

#include "cli/commands.hpp"
#include "cli/device_profile.hpp"
#include "cli/module_commands.hpp"
#include "memory_model/device_functions.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/ops/all.hpp"

namespace tessera::cli {

int list_command(const Kernels& kernels, bool markdown) {
  if (markdown) {
    fmt::print(
        "| kernel | what it does | equation | interpreter | source |\n|---|---|---|---|---|\n");
    for (const KernelHandle& k : kernels.all()) {
      std::string types;
      for (const DType d : k.dtypes)
        types += fmt::format("{}{}", types.empty() ? "" : ", ", name(d));
      fmt::print("| `{}` | {} | `{}` | {} | {} |\n", k.info.name, k.info.summary, k.info.math,
                 types, k.info.cites);
    }
    return 0;
  }
  for (const KernelHandle& k : kernels.all())
    fmt::print("{:<22} {}\n", k.info.name, k.info.summary);
  fmt::print("\ntessera show KERNEL for its parameters, tessera run KERNEL to run it\n");
  return 0;
}

int show_command(const Kernels& kernels, const RunArguments& a) {
  const KernelHandle& kernel = kernels.find(a.kernel);
  if (a.steps) throw InputError("bad-input", "--steps is of Mosaic modules");
  if (a.units) throw InputError("bad-input", "--units is of Mosaic modules");
  Request request = request_of(kernel, a);
  const Description d = kernel.describe(request);
  fmt::print("{}: {}\n\n  {}\n", kernel.info.name, kernel.info.summary, kernel.info.math);
  if (*kernel.info.cites != '\0') fmt::print("  {}\n", kernel.info.cites);
  fmt::print("\nparameters, with their defaults\n");
  for (const auto& s : d.setting.sizes) fmt::print("  {:<10} {:<8g} {}\n", s.name, s.value, s.what);
  for (const auto& [name, value] : d.setting.tiles)
    fmt::print("  {:<10} {:<8} block extent\n", name, value);
  std::string grid;
  for (int i = 0; i < d.plan.grid_rank; ++i) {
    grid += fmt::format("{}{}", i > 0 ? ", " : "", d.plan.labels[static_cast<std::size_t>(i)]);
  }
  fmt::print("\nsignature in {}, grid ({})\n", name(request.dtype), grid);
  for (const auto& op : d.plan.operands) {
    constexpr const char* kRoles[] = {
        "in",         "out",         "accumulator", "VMEM scratch",   "SMEM scratch",
        "in, in HBM", "out, in HBM", "HBM scratch", "DMA semaphores", "semaphores"};
    const char* const role = kRoles[static_cast<int>(op.role)];
    if (op.role == Role::in || op.role == Role::out) {
      fmt::print("  {:<10} {:<14} {:<24} in blocks {}{}\n", op.name, role,
                 describe(op.dtype, op.array), to_string(op.block),
                 op.present ? "" : ", absent here");
    } else if (is_semaphore(op.role)) {
      fmt::print("  {:<10} {:<14} {}\n", op.name, role, op.array[0]);
    } else {
      fmt::print("  {:<10} {:<14} {}\n", op.name, role, describe(op.dtype, op.array));
    }
  }
  for (const auto& s : d.plan.scalars) {
    fmt::print("  {:<10} {:<14} {}\n", s.name, "prefetched", describe(s.dtype, Shape{s.elems}));
  }
  fmt::print("\ncases on {}, with the HBM bytes of their closed form\n", request.device.name);
  request.assignments.clear();
  for (std::size_t i = 0; i < kernel.cases.size(); ++i) {
    request.case_index = static_cast<int>(i);
    const Description c = kernel.describe(request);
    std::string sizes;
    for (const auto& s : c.setting.sizes) sizes += fmt::format(" {}={:g}", s.name, s.value);
    for (const auto& [name, value] : c.setting.tiles) sizes += fmt::format(" {}={}", name, value);
    fmt::print("  {} {:<34}{}\n", i, kernel.cases[i], sizes);
    if (c.closed_form) {
      const std::int64_t remote = c.closed_form->remote;
      fmt::print("    read {}, write {}{}\n", with_commas(c.closed_form->read),
                 with_commas(c.closed_form->write),
                 remote > 0 ? ", remote " + with_commas(remote) : "");
    }
  }
  const std::string functions = functions_line(request.device);
  if (!functions.empty()) fmt::print("\n{}", functions);
  return 0;
}

int devices_command(const std::string& name) {
  if (name.empty()) {
    fmt::print("{:<10} {:>12} {:>12} {:>10} {:>11}   {}\n", "device", "HBM", "VMEM", "SMEM",
               "bandwidth", "");
    for (const auto& device : device_names()) {
      const DeviceSpec d = load_device(device);
      fmt::print("{:<10} {:>12} {:>12} {:>10} {:>6.0f} GB/s   {}\n", d.name,
                 human_bytes(d.hbm_bytes), human_bytes(d.vmem_bytes), human_bytes(d.smem_bytes),
                 d.hbm_bytes_per_s * 1e-9, d.title);
    }
    fmt::print("\ntessera devices NAME for every figure with its source\n");
    return 0;
  }
  const DeviceSpec d = find_device(name);
  fmt::print("{}: {}\n\n", d.name, d.title);
  if (!d.jax.device_kind.empty())
    fmt::print("  {:<22} {:>16} {:<7} {}\n", "jax_device_kind", d.jax.device_kind, "",
               d.jax.source);
  for (const auto& f : d.figures) {
    fmt::print("  {:<22} {:>16.6g} {:<7} {}\n", f.name, f.value, f.unit == "1" ? "" : f.unit,
               f.source);
  }
  if (const auto functions = functions_of(d)) {
    fmt::print("  {:<22} {:>16} {:<7} {}\n", "functions", functions->profile, "",
               functions->source);
  }
  return 0;
}

int ops_command(bool markdown) {
  const auto print = [&](const OpInfo& op) {
    if (markdown) {
      fmt::print("| `{}` | `{}` | {} | {} |\n", op.name, op.math,
                 *op.mosaic == '\0' ? "" : fmt::format("`{}`", op.mosaic), op.max_ulp);
    } else {
      fmt::print("{:<14} {:<46} {:<24} {}\n", op.name, op.math, op.mosaic, op.max_ulp);
    }
  };
  if (markdown)
    fmt::print("| op | meaning | Mosaic | max ulp (f32) |\n|---|---|---|---|\n");
  else
    fmt::print("{:<14} {:<46} {:<24} {}\n", "op", "meaning", "Mosaic", "max ulp (f32)");
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (print(std::tuple_element_t<I, ops::All>::info), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<ops::All>>{});
  for (const ModuleCommands::Ops& ops : module_commands().ops()) {
    if (markdown)
      fmt::print("\n| op of {} | meaning |\n|---|---|\n", ops.of);
    else
      fmt::print("\n{:<30} {}\n", "op of " + ops.of, "meaning");
    for (const auto& [name, meaning] : ops.meanings)
      fmt::print(fmt::runtime(markdown ? "| `{}` | {} |\n" : "{:<30} {}\n"), name, meaning);
  }
  return 0;
}

}  // namespace tessera::cli
