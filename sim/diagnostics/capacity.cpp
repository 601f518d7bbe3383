// vmem-capacity and smem-capacity.
#include <fmt/format.h>

#include <algorithm>

#include "sim/diagnostics/slugs.hpp"

namespace tessera {

namespace {

/// "f32[8,128]", as the TPU compiler writes shapes.
std::string type_text(DType dtype, const Shape& s) {
  std::string text = name(dtype) + std::string("[");
  for (int d = 0; d < s.rank; ++d) text += (d > 0 ? "," : "") + std::to_string(s[d]);
  return text + "]";
}

/// Of a window of a kernel for TPUs: which operand's, in the words of its compiler.
std::string window_text(const Plan& plan, const Allocation& a) {
  auto inputs = static_cast<int>(plan.scalars.size());
  int outputs = 0;
  for (const OperandPlan& op : plan.operands) {
    const bool input = op.is_input();
    if (!input && !op.is_output()) break;
    const int number = input ? inputs++ : outputs++;
    if (op.name != a.name || !op.pipelined()) continue;
    const char* const kind = input ? "input" : "output";
    return fmt::format(
        ", {} window allocation for operator {} {}. The window shape is {}, while the full shape "
        "is {}. This allocation {}.",
        kind, kind, number, type_text(op.dtype, op.block), type_text(op.dtype, op.array),
        op.buffers == 1 ? "is single buffered"
                        : fmt::format("has {} buffering levels", op.buffers));
  }
  return "";
}

/// Whose bytes of VMEM they are.
std::string limit_text(const Plan& plan) {
  if (plan.vmem_capacity() == plan.device.vmem_bytes) return plan.device.name;
  if (plan.author_limits) return "the kernel's vmem_limit_bytes";
  return "the compiler's default limit for a kernel on " + plan.device.name;
}

bool in_doubt(const Plan& plan, const Allocation& a) {
  return std::ranges::any_of(plan.operands, [&](const OperandPlan& op) {
    return op.name == a.name && plan.may_be_in_vmem(op);
  });
}

std::string vmem_help(const Plan& plan) {
  if (!plan.compact) return "smaller blocks, or fewer buffers for the largest: .buffered(1)";
  std::string help = "smaller blocks, or pipeline_mode=pl.Buffered(1) for the largest";
  if (plan.vmem_capacity() < plan.device.vmem_bytes)
    help += fmt::format("; pltpu.CompilerParams(vmem_limit_bytes=...) allows up to {}",
                        with_commas(plan.device.vmem_bytes));
  return help;
}

Diagnostic over_capacity(const Plan& plan, Space space, const char* slug, std::int64_t capacity) {
  const bool vmem = space == Space::vmem;
  const std::int64_t used =
      bytes_in(plan.allocations, space) - (vmem ? plan.vmem_bytes_in_doubt() : 0);
  Diagnostic d{.slug = slug,
               .headline = fmt::format("{} bytes of {} do not fit in the {} of {}",
                                       with_commas(used), name(space), with_commas(capacity),
                                       vmem ? limit_text(plan) : plan.device.name)};
  add_kernel_field(d);
  std::vector<Allocation> largest;
  for (const auto& a : plan.allocations) {
    if (a.space == space && !in_doubt(plan, a)) largest.push_back(a);
  }
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.total_bytes() > b.total_bytes(); });
  for (const auto& a : largest) {
    d.fields.emplace_back(
        a.name,
        fmt::format("{} x {} = {} bytes{}", a.copies, describe(a.dtype, a.shape),
                    with_commas(a.total_bytes()), plan.compact ? window_text(plan, a) : ""));
  }
  d.fields.emplace_back("help",
                        vmem ? vmem_help(plan) : "keep the larger arrays in HBM as blocked inputs");
  add_replay_field(d);
  return d;
}

}  // namespace

Diagnostic vmem_capacity(const Plan& plan) {
  return over_capacity(plan, Space::vmem, "vmem-capacity", plan.vmem_capacity());
}
std::string vmem_in_doubt(const Plan& plan) {
  if (plan.vmem_bytes() <= plan.vmem_capacity()) return "";
  return fmt::format(
      "{} bytes of VMEM do not fit in the {} of {}: it compiles only where XLA keeps operands of "
      "it "
      "in VMEM",
      with_commas(plan.vmem_bytes()), with_commas(plan.vmem_capacity()), limit_text(plan));
}
Diagnostic smem_capacity(const Plan& plan) {
  return over_capacity(plan, Space::smem, "smem-capacity", plan.device.smem_bytes);
}

}  // namespace tessera
