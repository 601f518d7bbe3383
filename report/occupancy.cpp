#include "report/occupancy.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tessera::report {

std::vector<std::pair<double, std::int64_t>> occupancy_of(const predict::Timeline& line,
                                                          const Plan& plan) {
  std::int64_t fixed = 0;
  for (const Allocation& a : plan.allocations) {
    const bool piped = std::any_of(plan.operands.begin(), plan.operands.end(), [&](const auto& op) {
      return op.name == a.name && op.pipelined();
    });
    if (a.space == Space::vmem && !piped) fixed += a.total_bytes();
  }
  std::int64_t step_bytes = 0;
  for (const OperandPlan& op : plan.operands)
    if (op.role == Role::in && op.present) step_bytes += plan.vmem_bytes(op);
  std::vector<std::pair<double, std::int64_t>> changes;
  std::map<std::int64_t, double> ends;
  for (const predict::Span& s : line.spans)
    if (s.device == 0 && s.core == 0 && s.unit == predict::Span::Unit::compute)
      ends[s.step] = s.end;
  std::set<std::int64_t> seen;
  for (const predict::Span& s : line.spans) {
    if (s.device != 0 || s.core != 0 || s.unit != predict::Span::Unit::fetch ||
        !seen.insert(s.step).second)
      continue;
    const auto end = ends.find(s.step);
    if (end == ends.end()) continue;
    changes.emplace_back(s.begin, step_bytes);
    changes.emplace_back(end->second, -step_bytes);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<std::pair<double, std::int64_t>> points;
  std::int64_t now = fixed;
  for (const auto& [time, change] : changes) {
    now += change;
    points.emplace_back(time, now);
  }
  return points;
}

}  // namespace tessera::report
