#include "program/unit_overlap.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "program/unit_phases.hpp"

namespace tessera::program {

WaitingGroups::WaitingGroups(const Program& program, const std::vector<const UnitOp*>& ops,
                             const std::vector<std::size_t>& parts, std::size_t phases) {
  struct Made {
    std::size_t group = 0;
    Ends behind;  ///< what reads it waits for
  };
  std::unordered_map<int, Made> made;
  std::map<std::pair<std::size_t, Ends>, std::size_t> groups;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Ends ends;
    std::set<std::size_t> before;
    for (const int v : ops[i]->reads) {
      const auto it = made.find(v);
      if (it == made.end()) continue;
      const Ends& behind = it->second.behind;
      if (behind.size() > ends.size()) ends.resize(behind.size());
      for (std::size_t k = 0; k < behind.size(); ++k) ends[k] |= behind[k];
      before.insert(it->second.group);
    }
    const auto [it, is_new] = groups.emplace(std::make_pair(parts[i], ends), parts_.size());
    const std::size_t group = it->second;
    if (is_new) {
      parts_.push_back(parts[i]);
      before_.emplace_back();
      waits_for_.push_back(ends);
    }
    of_.push_back(group);
    for (const std::size_t b : before) {
      if (b == group || parts_[b] / phases != parts[i] / phases) continue;
      if (parts_[b] < parts[i]) before_[group].insert(b);
      // What flows to it from its own phase had to wait, too.
      if (parts_[b] == parts[i]) before_[group].insert(before_[b].begin(), before_[b].end());
    }
    if (ends_phase(program, *ops[i])) {
      const std::size_t end = ends_.size();
      ends_.push_back(i);
      if (ends.size() <= end / 64) ends.resize(end / 64 + 1);
      ends[end / 64] |= std::uint64_t{1} << (end % 64);
    }
    for (const int v : ops[i]->makes) made[v] = {group, ends};
  }
}

std::size_t WaitingGroups::beside(std::size_t op, std::size_t part) const {
  const Ends& ends = waits_for_[of_[op]];
  for (std::size_t k = std::min(ends_.size(), 64 * ends.size()); k-- > 0;) {
    const bool waits = ((ends[k / 64] >> (k % 64)) & 1) != 0;
    if (waits && parts_[of_[ends_[k]]] == part) return of_[ends_[k]];
  }
  return of_[op];
}

double overlapped(const std::vector<GroupWork>& groups) {
  constexpr double kNone = 1e-6;  // cycles
  const std::size_t count = groups.size();
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t g) { return groups[g].part; });
  // Of each the longest chain that begins with it, and what waits for it.
  std::vector<double> chain(count);
  std::vector<std::vector<std::size_t>> behind(count);
  std::vector<std::size_t> waits_for(count);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    chain[*it] += groups[*it].cycles;
    waits_for[*it] = groups[*it].before.size();
    for (const std::size_t b : groups[*it].before) {
      chain[b] = std::max(chain[b], chain[*it]);
      behind[b].push_back(*it);
    }
  }
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t g) { return chain[g]; });
  std::vector<std::size_t> rank(count);
  for (std::size_t i = 0; i < count; ++i) rank[order[i]] = i;

  std::set<std::size_t> ready;  // by rank
  std::vector<double> left(count);
  std::vector<double> rate(count);
  const auto begin = [&](std::vector<std::size_t> todo) {
    while (!todo.empty()) {
      const std::size_t g = todo.back();
      todo.pop_back();
      left[g] = groups[g].cycles;
      if (left[g] > kNone) {
        ready.insert(rank[g]);
        continue;
      }
      for (const std::size_t next : behind[g])
        if (--waits_for[next] == 0) todo.push_back(next);
    }
  };
  std::vector<std::size_t> first;
  for (std::size_t g = 0; g < count; ++g)
    if (waits_for[g] == 0) first.push_back(g);
  begin(first);
  double now = 0;
  while (!ready.empty()) {
    std::array<double, kCoreUnits> free;
    free.fill(1);
    double until = std::numeric_limits<double>::max();
    for (const std::size_t r : ready) {
      const std::size_t g = order[r];
      const auto needs = [&](std::size_t u) { return groups[g].units[u] / groups[g].cycles; };
      rate[g] = 1;
      for (std::size_t u = 0; u < kCoreUnits; ++u)
        if (needs(u) > 0) rate[g] = std::min(rate[g], free[u] / needs(u));
      constexpr double kTooLittle = 1e-3;
      if (rate[g] < kTooLittle) {
        rate[g] = 0;
        continue;
      }
      for (std::size_t u = 0; u < kCoreUnits; ++u)
        free[u] = std::max(0., free[u] - rate[g] * needs(u));
      until = std::min(until, left[g] / rate[g]);
    }
    now += until;
    std::vector<std::size_t> done;
    for (const std::size_t r : ready) {
      const std::size_t g = order[r];
      left[g] -= rate[g] * until;
      if (left[g] <= kNone) done.push_back(g);
    }
    for (const std::size_t g : done) ready.erase(rank[g]);
    for (const std::size_t g : done)
      for (const std::size_t next : behind[g])
        if (--waits_for[next] == 0) begin({next});
  }
  return now;
}

}  // namespace tessera::program
