// Rows sorted by group, as grouped_matmul and tgmm take them: what the host lists of them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/smem.hpp"

namespace tessera::kernels {

/// A shard of the groups: `groups` of them, after the first `before`, of `all` in all; 0: no others
/// come after.
struct GroupShard {
  int groups;
  int before;
  int all;

  int total() const { return all > 0 ? all : before + groups; }
  const char* fault() const {
    return groups < 1 || before < 0 || total() < before + groups
               ? "groups are one or more, and with those before them no more than all_groups"
               : nullptr;
  }
};

/// The first row of each group of the shard, and the end of the last: sums of input group_sizes, of
/// all groups and m in all. Made up they are uneven, the second one empty.
template <class Host>
std::vector<int> first_rows(Host& host, int m, const GroupShard& shard) {
  std::vector<int> cuts{0, m};
  for (int g = 1; g < shard.total(); ++g) cuts.push_back(g == 2 ? cuts[2] : host.random(0, m));
  std::sort(cuts.begin(), cuts.end());
  std::vector<int> split;
  for (std::size_t g = 1; g < cuts.size(); ++g) split.push_back(cuts[g] - cuts[g - 1]);
  const auto given = host.scalars("group_sizes", std::move(split));
  if (given.size != shard.total()) host.fail("group_sizes has one entry per group");
  std::vector<int> starts;
  int row = 0;
  for (int g = 0; g < given.size; ++g) {
    if (g >= shard.before && g <= shard.before + shard.groups) starts.push_back(row);
    if (given[g] < 0) host.fail("group_sizes are not negative");
    row += given[g];
  }
  if (row != m) host.fail("group_sizes add up to m");
  if (static_cast<int>(starts.size()) == shard.groups) starts.push_back(m);
  return starts;
}

}  // namespace tessera::kernels
