#include "program/unit_pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "program/unit_carried.hpp"

namespace tessera::program {

PipelineWindows windows_of(const Program& program, const WindowArrays& arrays,
                           const SharedGrid& shared) {
  PipelineWindows found;
  const std::vector<bool>& in_registers = arrays.in_registers;
  found.checked = known_ranges(program);
  found.checked.flip();
  const auto moves_at = [&](std::size_t operand, double rate) {
    ++found.moving;
    found.rates[operand] = rate;
    const std::int64_t beyond = operand < arrays.beyond.size() ? arrays.beyond[operand] : 0;
    if (beyond > 0) {
      ++found.skipping;
      found.copies += rate;
    }
    const std::int64_t ragged = operand < arrays.ragged.size() ? arrays.ragged[operand] : 0;
    found.ragged += rate * static_cast<double>(ragged);
    // How much is copied is no constant where the last block is smaller.
    if (!found.checked[operand] && ragged == 0) return;
    if (beyond > 0)
      found.skipping_checks += rate;
    else
      ++found.checks;
  };
  const auto steps_behind = [&](std::size_t dim) {
    double steps = 1;
    for (std::size_t d = dim; d < program.grid.size(); ++d) {
      const bool one_step = std::cmp_equal(d, shared.of_one_step);
      steps *= one_step ? 1 : static_cast<double>(std::max<std::int64_t>(1, program.grid[d]));
    }
    return steps;
  };
  // Numbers that are the same at each of a core's steps; its id says which core it is.
  std::set<int> of_core{shared.of_one_step + 1};
  // Likewise, of every core: prefetched arrays, and a word of one at a place that is known.
  std::set<int> always;
  for (std::size_t k = 0; k < program.prefetched.size(); ++k)
    always.insert(static_cast<int>(program.grid.size() + k) + 1);
  std::set<int> made;
  std::set<int> loaded;  ///< what follows from a load
  const auto is_loaded = [&](int number) { return loaded.contains(number); };
  std::set<std::vector<int>> indices;
  found.stays.resize(program.operands.size());
  found.chosen.resize(program.operands.size());
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const Window& w = program.operands[i];
    found.rates.push_back(0);
    if (w.any || w.smem || w.semaphores) continue;
    if (i < in_registers.size() && in_registers[i]) {
      ++found.in_registers;
      continue;
    }
    ++found.all;
    if (w.whole) continue;
    if (w.transform.units.empty()) {  // its map branches
      moves_at(i, 1);
      ++found.indices;
      found.dims += std::ssize(w.bounds);
      continue;
    }
    const auto is_own = [&](int number) { return of_core.contains(number); };
    const auto moves = [&](int number) {
      const bool is_numbered = number < 0 && -number <= shared.numbered &&
                               program.parallel[static_cast<std::size_t>(-number - 1)];
      return is_numbered || (number > 0 && !is_own(number) && !always.contains(number));
    };
    std::map<int, std::size_t> inner;  // the innermost dim that a number follows from, and one more
    const auto inner_of = [&](int number) -> std::size_t {
      if (const auto it = inner.find(number); it != inner.end()) return it->second;
      const auto dim = static_cast<std::size_t>(std::max(0, number));
      return dim <= program.grid.size() && moves(number) ? dim : 0;
    };
    for (const UnitOp& op : w.transform.units) {
      if (op.makes.empty()) continue;
      std::size_t most = 0;
      for (const int read : op.reads) most = std::max(most, inner_of(read));
      inner.emplace(op.makes[0], most);
    }
    for (const UnitOp& op : w.transform.units) {
      if (op.makes.empty() || std::ranges::any_of(op.reads, moves)) continue;
      const bool own = std::ranges::any_of(op.reads, is_own);
      (own ? of_core : always).insert(op.makes[0]);
    }
    const std::vector<int>& index = w.transform.units.back().reads;
    if (std::ranges::none_of(index, moves)) {
      // Of a core's own block each step checks whether it lies in the array, as of one that moves.
      const bool own = std::ranges::any_of(index, is_own);
      if (own) {
        moves_at(i, 1 / steps_behind(0));
        ++found.own;
      } else {
        ++found.still;
      }
      found.stays[i] = !own;
      continue;
    }
    std::size_t innermost = 0;
    for (const int number : index) innermost = std::max(innermost, inner_of(number));
    const double by_map = i < arrays.moved_by_map.size() ? arrays.moved_by_map[i] : 0;
    moves_at(i, by_map > 0 ? by_map : 1 / steps_behind(innermost));
    found.dims += std::ranges::count_if(index, moves);
    std::set<int> here;  // within a map what is computed twice is computed once
    for (const UnitOp& op : w.transform.units) {
      if (op.makes.empty() || !moves(op.makes[0]) || !here.insert(op.makes[0]).second) continue;
      const auto& [row, times] = op.rows[0];
      const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
      const bool loads = name == "memref.load";
      const bool fresh = made.insert(op.makes[0]).second;
      if (loads || std::ranges::any_of(op.reads, is_loaded)) loaded.insert(op.makes[0]);
      if (loads) {
        found.map_loads += fresh ? times : 1;
        for (std::size_t k = 1; k < op.rows.size(); ++k)
          found.map_again[program.unit_rows[static_cast<std::size_t>(op.rows[k].first)]] +=
              op.rows[k].second;
      } else if (is_loaded(op.makes[0])) {
        found.map_again[name] += times;
      } else if (fresh) {
        found.map_ops[name] += times;
      }
    }
    const auto anywhere = [&](int number) {
      const auto dim = static_cast<std::size_t>(std::max(0, number - 1));
      const bool of_any_extent =
          number > 0 && dim < program.grid.size() && program.grid[dim] == kDynamic;
      return is_loaded(number) || of_any_extent;
    };
    const bool ends_beyond = i < arrays.beyond.size() && arrays.beyond[i] > 0;
    found.chosen[i] = !w.written && !ends_beyond && std::ranges::any_of(index, anywhere);
    if (found.chosen[i]) ++found.choices;
    // The compiler does not know that two loads bring the same.
    if (std::ranges::any_of(index, is_loaded))
      ++found.indices;
    else
      indices.insert(index);
  }
  found.indices += std::ssize(indices);
  std::vector<bool> moving;
  for (const double rate : found.rates) moving.push_back(rate > 0);
  found.words = carried_words(program, moving, found.indices);
  return found;
}

std::int64_t semaphores_of(const Program& program) {
  std::int64_t all = 0;
  for (const Window& w : program.scratch)
    if (w.semaphores) all += w.type.shape.elems();
  return all;
}

SharedGrid shared_grid(const Program& program, const std::vector<std::int64_t>& grid, int cores) {
  SharedGrid shared;
  for (std::size_t d = 0; d < grid.size() && cores > 1; ++d) {
    if (!program.parallel[d] || grid[d] <= 1) continue;
    shared.numbered = static_cast<int>(d) + 1;
    if (grid[d] % cores != 0) continue;
    return {.of_one_step = grid[d] == cores ? static_cast<int>(d) : -1, .numbered = 0};
  }
  return shared;
}

PipelineCycles pipeline_cycles(const Program& program, std::int64_t steps,
                               const WindowArrays& arrays, const UnitCosts& costs,
                               const SharedGrid& shared) {
  constexpr auto kScalar = static_cast<std::size_t>(CoreUnit::scalar);
  constexpr auto kStore = static_cast<std::size_t>(CoreUnit::store);
  const PipelineWindows w = windows_of(program, arrays, shared);
  const auto times = [](std::int64_t n, double each) { return static_cast<double>(n) * each; };
  // Two bundles bring what comes in registers to the vector unit, which stores each; a load of what
  // was just stored waits for four more.
  constexpr double kBringAndWait = 2 + 4;
  const double stores = std::max(1., costs.capacity[kStore]);
  const double of_registers =
      w.in_registers > 0 ? kBringAndWait + static_cast<double>(w.in_registers) / stores : 0;
  const double launch =
      costs.launch + of_registers + times(semaphores_of(program), costs.semaphore);
  const auto slots = [&](const std::map<std::string, std::int64_t>& rows) {
    double sum = 0;
    for (const auto& [row, n] : rows) {
      const auto cost = costs.rows.find(row);
      sum += times(n, cost == costs.rows.end() ? 1 : cost->second.slots[kScalar]);
    }
    return sum;
  };
  if (steps <= 1) {
    // Where a block of the core's own begins and ends in HBM is compared at run time, and how much
    // of it there is.
    constexpr double kOwn = 6;
    const double own = shared.of_one_step < 0 ? 0 : times(w.own, kOwn) + w.ragged * costs.ragged;
    return {std::llround(launch + times(w.all, costs.operand) + own), 0, {}};
  }
  // One is the other core's, or a rest; of each further dim a quotient and a rest, one after the
  // other (20 grids).
  constexpr double kQuotient = 8;  // bundles until it is there
  const auto dims =
      std::count(program.parallel.begin(), program.parallel.begin() + shared.numbered, true);
  const std::int64_t quotients = dims > 0 ? std::max<std::int64_t>(1, 2 * dims - 3) : 0;
  // Of 32 scalar registers those that are left for words and places of arrays, and for words alone.
  constexpr std::int64_t kFree = 14;
  constexpr std::int64_t kMost = 29;
  // The loop has two turns more: one brings the first windows, the other waits for the last ones.
  // A window that ends beyond its array is copied once for each of its blocks, others are told what
  // to do in these turns, too.
  constexpr std::int64_t kTurns = 2;
  const double turns = static_cast<double>(steps) / static_cast<double>(steps + kTurns);
  const double step =
      costs.step + times(w.moving - w.skipping, costs.window) + times(w.checks, costs.check) +
      turns *
          (w.copies * costs.window + w.skipping_checks * costs.check + w.ragged * costs.ragged) +
      times(std::max<std::int64_t>(0, w.words + w.moving - kFree), costs.carried) +
      times(std::max<std::int64_t>(0, w.words - kMost), costs.kept) +
      times(w.skipping, costs.skip) + times(w.still, costs.still) + times(w.dims, costs.dim) +
      times(w.indices, costs.index) + times(w.map_loads, costs.map) +
      costs.map_op * slots(w.map_ops) + costs.map_again * slots(w.map_again) +
      times(w.choices, costs.chosen) + times(quotients, kQuotient);
  return {std::llround(launch + kTurns * step - costs.ends), std::llround(step), w.stays};
}

}  // namespace tessera::program
