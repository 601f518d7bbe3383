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

Diagnostic over_capacity(const Plan& plan, Space space, const char* slug, std::int64_t capacity) {
  const std::int64_t used = bytes_in(plan.allocations, space);
  Diagnostic d{.slug = slug,
               .headline = fmt::format("{} bytes of {} do not fit in the {} of {}",
                                       with_commas(used), name(space), with_commas(capacity),
                                       space == Space::vmem && capacity != plan.device.vmem_bytes
                                           ? "the kernel's vmem_limit_bytes"
                                           : plan.device.name)};
  add_kernel_field(d);
  std::vector<Allocation> largest;
  for (const auto& a : plan.allocations) {
    if (a.space == space) largest.push_back(a);
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
                        space == Space::vmem
                            ? "smaller blocks, or fewer buffers for the largest: .buffered(1)"
                            : "keep the larger arrays in HBM as blocked inputs");
  add_replay_field(d);
  return d;
}

}  // namespace

Diagnostic vmem_capacity(const Plan& plan) {
  return over_capacity(plan, Space::vmem, "vmem-capacity", plan.vmem_capacity());
}
Diagnostic smem_capacity(const Plan& plan) {
  return over_capacity(plan, Space::smem, "smem-capacity", plan.device.smem_bytes);
}

}  // namespace tessera
