#include "cli/cta_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/diagnostics/diagnostic.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/pipeline/cta_operands.hpp"

namespace tessera::cli {

void lay_out(Plan& plan) {
  plan.device.vmem_bytes = std::numeric_limits<std::int64_t>::max();
  plan.device.smem_bytes = std::numeric_limits<std::int64_t>::max();
  plan.device.kind = DeviceSpec::Kind::gpu;  // no rule for the shapes of blocks
  finish_plan(plan);
}

void check_fits_cta(const std::string& kernel, const Plan& plan, const cta::Sm& target) {
  const std::vector<cta::Operand> operands = cta_operands(plan);
  const cta::Operands all = cta_view(plan, operands);
  const cta::Launch launch = cta::launch_of(all, target);
  if (launch.shared_bytes <= target.shared_bytes) return;
  struct Part {
    std::int64_t bytes;
    std::string text;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::int64_t bytes = all.bytes(operands[i], launch.stages);
    if (bytes > 0)
      parts.push_back({bytes, fmt::format("{} {}", plan.operands[i].name, human_bytes(bytes))});
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.bytes > b.bytes; });
  std::string listed;
  for (const Part& p : parts) listed += (listed.empty() ? "" : ", ") + p.text;
  throw InputError(
      "no-backend",
      fmt::format("blocks of {} take {} of the {} of shared memory that a CTA has{}: {}", kernel,
                  human_bytes(launch.shared_bytes), human_bytes(target.shared_bytes),
                  target.hopper ? "" : fmt::format(" on sm_{}", target.capability), listed),
      "smaller tiles for the first of them");
}

}  // namespace tessera::cli
