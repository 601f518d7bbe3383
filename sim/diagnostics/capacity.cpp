// vmem-capacity and smem-capacity.
#include <fmt/format.h>

#include <algorithm>

#include "sim/diagnostics/slugs.hpp"

namespace tessera {

namespace {

Diagnostic over_capacity(const Plan& plan, Space space, const char* slug, std::int64_t capacity) {
  const std::int64_t used = bytes_in(plan.allocations, space);
  Diagnostic d{
      .slug = slug,
      .headline = fmt::format("{} bytes of {} do not fit in the {} of {}", with_commas(used),
                              name(space), with_commas(capacity), plan.device.name)};
  add_kernel_field(d);
  std::vector<Allocation> largest;
  for (const auto& a : plan.allocations) {
    if (a.space == space) largest.push_back(a);
  }
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.total_bytes() > b.total_bytes(); });
  for (const auto& a : largest) {
    d.fields.emplace_back(a.name,
                          fmt::format("{} x {} = {} bytes", a.copies, describe(a.dtype, a.shape),
                                      with_commas(a.total_bytes())));
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
  return over_capacity(plan, Space::vmem, "vmem-capacity", plan.device.vmem_bytes);
}
Diagnostic smem_capacity(const Plan& plan) {
  return over_capacity(plan, Space::smem, "smem-capacity", plan.device.smem_bytes);
}

}  // namespace tessera
