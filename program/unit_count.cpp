#include "program/unit_count.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "program/unit_behind_loop.hpp"
#include "program/unit_by_registers.hpp"
#include "program/unit_choices.hpp"
#include "program/unit_few_rows.hpp"
#include "program/unit_mask_ops.hpp"
#include "program/unit_overlap.hpp"
#include "program/unit_phases.hpp"
#include "program/unit_placement.hpp"
#include "program/unit_pressure.hpp"
#include "program/unit_products.hpp"
#include "program/unit_stretches.hpp"
#include "program/unit_tiles.hpp"
#include "program/unit_wide.hpp"
#include "program/unit_work.hpp"

namespace tessera::program {

namespace {

/// Nothing that follows begins before it, nothing before it is left.
bool waits(const std::string& row) { return row == "tpu.wait_dma2" || row == "tpu.sem_wait"; }

/// Of each op what it shares units with: ops of its phase between the same waits.
std::vector<std::size_t> parts_by_waits(const Program& program,
                                        const std::vector<const UnitOp*>& ops,
                                        const Phases& phases) {
  std::vector<std::size_t> parts;
  std::size_t before = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool is_wait = std::ranges::any_of(ops[i]->rows, [&](const auto& row) {
      return waits(program.unit_rows[static_cast<std::size_t>(row.first)]);
    });
    if (is_wait) before += phases.count();
    parts.push_back(before + phases.of(i));
  }
  return parts;
}

/// Of an odd number of tiles of 16 bits side by side, loaded or stored, a half register in each row
/// of them, if no product reads halves; wide units' compilers take two on top of each other.
void add_odd_tiles(const Program& program, double matrix_units, FewRows::Rows& rows) {
  const auto name = [&](const auto& row) -> const std::string& {
    return program.unit_rows[static_cast<std::size_t>(row.first)];
  };
  const auto odd =
      std::ranges::find_if(rows, [&](const auto& row) { return name(row) == "odd tiles b16"; });
  if (odd == rows.end()) return;
  const std::int64_t more = odd->second;
  rows.erase(odd);
  if (matrix_units != kMostMatrixUnits ||
      std::ranges::any_of(rows, [&](const auto& row) { return name(row) == "halves b16"; }))
    return;
  for (auto& row : rows)
    if (name(row).starts_with("load b16") || name(row).starts_with("store b16")) row.second += more;
}

/// Looks at where a copy's ends lie (unit_copies.hpp) as they are beside vector work, which none of
/// it passes, and alone.
class Looks {
 public:
  Looks(const Program& program, const std::vector<const UnitCost*>& rows, const UnitCosts& costs) {
    constexpr auto kScalar = static_cast<std::size_t>(CoreUnit::scalar);
    const double a_bundle = std::max(1., costs.capacity[kScalar]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::string& name = program.unit_rows[r];
      if (rows[r] == nullptr || rows[r]->slots[kScalar] <= 0 ||
          !name.starts_with("tpu.enqueue_dma ") || name.ends_with(" predicated"))
        continue;
      const int row = static_cast<int>(r);
      const bool is_words = name.starts_with("tpu.enqueue_dma other tiles");
      if (is_words) words_.insert(row);
      UnitCost& cost = alone_[row] = *rows[r];
      cost.alone += cost.slots[kScalar] / a_bundle;
      cost.slots[kScalar] = 0;
      if (!name.ends_with(" behind vectors")) continue;
      // What stops the core if it is beyond its array takes a bundle.
      UnitCost& first = beside_[row] = *rows[r];
      const double stops = is_words ? 0 : std::min(first.slots[kScalar], a_bundle);
      first.alone += stops / a_bundle;
      first.slots[kScalar] -= stops;
    }
  }
  /// Null: it is none, or asks nothing.
  const UnitCost* of(const UnitOp& op, int row) const {
    const auto it = alone_.find(row);
    if (it == alone_.end()) return nullptr;
    // Of a copy that words describe nobody looks.
    const auto has = [&](const auto& which) {
      return std::ranges::find_if(op.rows,
                                  [&](const auto& other) { return which.contains(other.first); });
    };
    if (!words_.contains(row) && has(words_) != op.rows.end()) return &nothing_;
    const auto as_first = beside_.find(row);
    return has(alone_)->first == row && as_first != beside_.end() ? &as_first->second : &it->second;
  }

 private:
  std::map<int, UnitCost> beside_;  ///< by row
  std::map<int, UnitCost> alone_;
  std::set<int> words_;  ///< rows
  UnitCost nothing_;
};

/// Of an op that follows from products, what of its work runs beside them, and where that is.
struct Beside {
  std::size_t part = 0;
  double share = 0;
};

/// Each register of a product is popped while others pass, and worked on: all that is behind the
/// first ones. `products_take`: bundles, by part.
std::vector<Beside> beside_products(const std::vector<std::size_t>& parts, const Phases& phases,
                                    const std::vector<double>& products_take) {
  constexpr double kFirst = 100;  // bundles in which weights are pushed, and until a pop
  std::vector<Beside> found;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t part = parts[i] - phases.of(i) + phases.beside(i);
    const bool hides = part != parts[i] && products_take[part] > kFirst;
    found.push_back({part, hides ? 1 - kFirst / products_take[part] : 0});
  }
  return found;
}

/// The chain of operations that takes longest, each after what it reads and after the last wait.
class Chain {
 public:
  /// The next op of the stretch.
  void add(const UnitOp& op, double latency, bool is_wait) {
    Link link{latency, latency, -1};
    const auto follow = [&](int before) {
      if (before < 0) return;
      const double done = links_[static_cast<std::size_t>(before)].done;
      if (link.after >= 0 && done + latency <= link.done) return;
      link.done = done + latency;
      link.after = before;
    };
    follow(is_wait ? last_ : wait_);
    for (const int v : op.reads) {
      const auto it = made_by_.find(v);
      if (it != made_by_.end()) follow(it->second);
    }
    const int here = static_cast<int>(links_.size());
    if (is_wait) wait_ = here;
    for (const int v : op.makes) made_by_[v] = here;
    if (last_ < 0 || link.done > links_[static_cast<std::size_t>(last_)].done) last_ = here;
    links_.push_back(link);
  }
  /// Calls f(number, latency) of each operation in it.
  template <class F>
  void for_each(F&& f) const {
    for (int i = last_; i >= 0; i = links_[static_cast<std::size_t>(i)].after)
      f(static_cast<std::size_t>(i), links_[static_cast<std::size_t>(i)].latency);
  }

 private:
  struct Link {
    double latency;
    double done;  ///< when its results are there
    int after;    ///< the one that it waits for longest; -1: none
  };
  std::vector<Link> links_;
  std::unordered_map<int, int> made_by_;
  int last_ = -1;
  int wait_ = -1;
};

/// Of a stretch what is done behind one wait and before the next one.
struct BetweenWaits {
  std::size_t step = 0;  ///< where it begins
  std::size_t ops = 0;
  std::array<double, kCoreUnits> slots{};
  std::map<int, double> lines;  ///< cycles by location
};

/// Where a stretch does much between two waits, the compiler works on one chain's operations beside
/// another's; where it does little its schedule is one phase after the other, as far as listings of
/// attention's blocks of keys show. `works`: by group.
void overlap_much(const WaitingGroups& groups, const std::vector<UnitWork>& works,
                  std::size_t phases, const UnitCosts& costs, std::vector<BetweenWaits>& between) {
  // Bundles, one phase after the other, from which on some of it lies beside another, and all.
  constexpr double kSome = 1200;
  constexpr double kAll = 1700;
  for (std::size_t b = 0; b < between.size(); ++b) {
    double apart = 0;
    for (const auto& [location, share] : between[b].lines) apart += share;
    if (apart <= kSome) continue;
    std::vector<GroupWork> here;
    std::vector<std::size_t> index(groups.count());
    for (std::size_t g = 0; g < groups.count(); ++g) {
      if (groups.part(g) / phases != b) continue;
      index[g] = here.size();
      GroupWork& work = here.emplace_back();
      work.cycles = works[g].cycles;
      work.units = works[g].busy(costs);
      work.part = groups.part(g);
    }
    for (std::size_t g = 0; g < groups.count(); ++g) {
      if (groups.part(g) / phases != b) continue;
      for (const std::size_t before : groups.before(g)) here[index[g]].before.insert(index[before]);
    }
    // As short as phases one after the other it is at least.
    const double saved = std::max(0., apart - overlapped(here));
    const double part = std::min(1., (apart - kSome) / (kAll - kSome));
    for (auto& [location, share] : between[b].lines) share *= 1 - part * saved / apart;
  }
}

/// Cycles are whole numbers, and of a stretch as many as of all together.
void note_between_waits(const Program& program, const std::vector<BetweenWaits>& all,
                        CountedCode& c) {
  double cycles = 0;
  for (const BetweenWaits& b : all) {
    if (b.lines.empty()) continue;
    const double before = cycles;
    for (const auto& [location, share] : b.lines) cycles += share;
    const std::int64_t rounded = std::llround(cycles) - std::llround(before);
    CoreUse& use = c.at[b.step];
    use.cycles += rounded;
    for (std::size_t u = 0; u < kCoreUnits; ++u) use.slots[u] += std::llround(b.slots[u]);
    if (rounded <= 0) continue;
    const double whole = static_cast<double>(rounded) / (cycles - before);
    for (const auto& [location, share] : b.lines) {
      const Location& at = program.locations[static_cast<std::size_t>(location)];
      if (share > 0) c.lines.push_back({b.step, {at.file.c_str(), at.line}, whole * share});
    }
  }
}

}  // namespace

CountedCode counted(const Program& program, const Code& code, const UnitCosts& costs,
                    const WindowArrays& arrays) {
  std::vector<const UnitCost*> rows;
  std::vector<const UnitCost*> rows_of_shared;
  CountedCode c;
  for (const std::string& row : program.unit_rows) {
    const auto it = costs.rows.find(row);
    rows.push_back(it == costs.rows.end() ? nullptr : &it->second);
    if (it == costs.rows.end()) c.unmeasured.push_back(row);
    const auto shared = costs.rows.find(row + " shared");
    rows_of_shared.push_back(shared == costs.rows.end() ? rows.back() : &shared->second);
  }
  const Looks looks(program, rows, costs);
  c.at.resize(code.steps.size());
  const std::vector<const Choice*> both_ways = taken_both_ways(program, code, costs);
  // What is behind a wait that may be passed over is done where both ways meet.
  const auto always_run = [&](std::size_t step) {
    for (const Choice* way : both_ways)
      if (step > way->begin && step < way->end) step = way->end;
    return step;
  };
  const std::vector<Stretch> every = stretches(code, costs.knows_narrow_masks, both_ways);
  const std::vector<PlacedProducts> all_placed = placed_products(program, every, rows, costs);
  double begun = 0;  // of the stretch, in the loop before it
  for (std::size_t number = 0; number < every.size(); ++number) {
    const Stretch& s = every[number];
    const PlacedProducts& placed = all_placed[number];
    if (s.begin >= c.at.size()) continue;
    const std::ptrdiff_t shared = shared_product(program, s.ops);
    std::vector<FewRows::Stored> stored(s.ops.size());
    const auto cost_of = [&](std::size_t op, int row) {
      if (stored[op].each != nullptr) return stored[op].each;
      if (const UnitCost* look = looks.of(*s.ops[op], row)) return look;
      const auto& of = static_cast<std::ptrdiff_t>(op) == shared ? rows_of_shared : rows;
      return of[static_cast<std::size_t>(row)];
    };
    constexpr auto kMatrix = static_cast<std::size_t>(CoreUnit::mxu);
    const double matrix_units = costs.capacity[kMatrix];
    const bool two_units = matrix_units == 2;
    const Phases phases(program, s.ops);
    const FewRows few(program, s.ops, arrays, costs);
    std::vector<FewRows::Rows> asked;   // by op
    std::vector<FewRows::Rows> halves;  // which slots of products have
    for (const UnitOp* op : s.ops) {
      const auto is_of_halves = [&](const auto& row) {
        return program.unit_rows[static_cast<std::size_t>(row.first)] == "halves b16";
      };
      stored[asked.size()] = few.stored(*op);
      FewRows::Rows& all = asked.emplace_back(few.rows(*op));
      add_odd_tiles(program, matrix_units, all);
      FewRows::Rows& of_halves = halves.emplace_back();
      if (matrix_units == kMostMatrixUnits)
        std::ranges::copy_if(all, std::back_inserter(of_halves), is_of_halves);
      std::erase_if(all, is_of_halves);
    }
    // Of each phase, before and behind each wait.
    const std::vector<std::size_t> part = parts_by_waits(program, s.ops, phases);
    std::vector<UnitWork> works(part.empty() ? 1 : std::ranges::max(part) + 1);
    const std::size_t of_a_wait = std::max<std::size_t>(1, phases.count());
    const WaitingGroups groups(program, s.ops, part, of_a_wait);
    std::vector<UnitWork> group_works(groups.count());
    const Pressure pressure(program, s.ops, phases, pushes_of(s.ops, rows, costs));
    const auto spilled = [&](std::size_t op) {
      // By listings a mask is made a vector, which is compared again two to three times.
      constexpr double kMaskOps = 3.5;
      constexpr double kMaskLoads = 2.5;
      // A sum of digits is stored, it and the factor are loaded, of five sizes of a hash.
      constexpr double kSumLoads = 1.6;
      const Pressure::TooMany& n = pressure.too_many(op);
      const double vectors = n.vectors(costs.spill);
      const auto masks = static_cast<double>(n.masks);
      std::array<double, kCoreUnits> of{};
      of[static_cast<std::size_t>(CoreUnit::store)] = vectors + masks + n.sums;
      of[static_cast<std::size_t>(CoreUnit::load)] =
          vectors + kMaskLoads * masks + kSumLoads * n.sums;
      of[static_cast<std::size_t>(CoreUnit::valu)] = kMaskOps * masks;
      return of;
    };
    Chain chain;
    std::int64_t products = 0;
    std::vector<std::int64_t> tiles_of(works.size());
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      const std::int64_t tiles = tiles_of_weights(program, *s.ops[i]).tiles;
      products += tiles > 0 ? 1 : 0;
      tiles_of[part[i]] += tiles;
    }
    const bool all_counted = placed.all_counted;
    const bool products_in_a_row = all_counted && products > 0 && placed.products > 1;
    bool all_as_they_are = true;
    for (std::size_t i = 0; i < s.ops.size(); ++i)
      all_as_they_are =
          all_as_they_are && pressure.too_many(i).all() == 0 && !turns_left(program, *s.ops[i]);
    const bool one_product = all_counted && placed.products == 1 && products == 1 &&
                             matrix_units == kMostMatrixUnits && all_as_they_are;
    const bool one_splits = placed.one_splits && all_as_they_are;
    std::vector<ScheduledOp> scheduled(s.ops.size());
    std::vector<double> products_take(works.size());
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      for (const auto& [row, times] : asked[i])
        if (const UnitCost* cost = cost_of(i, row))
          products_take[part[i]] +=
              cost->slots[kMatrix] * static_cast<double>(times) / std::max(1., matrix_units);
    }
    const std::vector<MaskOps> of_masks = mask_ops(program, s.ops, costs);
    const std::vector<Beside> beside = beside_products(part, phases, products_take);
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      UnitWork& of_group = group_works[groups.of(i)];
      works[part[i]].spill(spilled(i));
      const Pressure::TooMany& too_many = pressure.too_many(i);
      scheduled[i].spills_sums = too_many.sums > 0;
      scheduled[i].spilled =
          too_many.masks + std::llround(std::ceil(too_many.vectors(costs.spill)));
      scheduled[i].packs = of_masks[i].packed;
      for (UnitWork* w : {&works[part[i]], &of_group})
        w->masks += static_cast<double>(of_masks[i].joined + of_masks[i].packed);
      of_group.spill(spilled(i));
      double latency = 0;
      bool is_wait = false;
      bool multiplies = false;
      UnitWork own;
      scheduled[i].put = few.together(*s.ops[i]);
      scheduled[i].stored = stored[i];
      if (scheduled[i].put.each != nullptr) {
        const UnitCost all = scheduled[i].put.all();
        works[part[i]].add(all, 1);
        of_group.add(all, 1);
        latency += all.latency;
      }
      for (const auto& [row, times] : asked[i]) {
        const UnitCost* cost = cost_of(i, row);
        const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
        is_wait = is_wait || waits(name);
        scheduled[i].copies = scheduled[i].copies || waits(name) || name == "tpu.enqueue_dma";
        if (cost == nullptr) continue;
        latency += cost->latency;
        works[part[i]].add(*cost, times, 1 - beside[i].share);
        works[beside[i].part].add(*cost, times, beside[i].share);
        of_group.add(*cost, times, 1 - beside[i].share);
        if (beside[i].share > 0)
          group_works[groups.beside(i, beside[i].part)].add(*cost, times, beside[i].share);
        multiplies = multiplies || name.starts_with("tpu.matmul");
        if (costs.schedules && streams_rows(name))
          for (UnitWork* w : {&works[part[i]], &of_group})
            w->streamed += costs.schedules->pass * static_cast<double>(times);
        own.add(*cost, times);
        // In the highest precision costs are of both units.
        if (two_units && name.starts_with("tpu.matmul pass") && name.find(" highest") == name.npos)
          for (UnitWork* w : {&works[part[i]], &of_group, &own})
            w->add_passes(*cost, times, placed.parts[i]);
        scheduled[i].alone += cost->alone * static_cast<double>(times);
      }
      if (multiplies) {
        own.close(costs, matrix_units);
        scheduled[i].product = own.cycles + latency;
        if (costs.schedules && (placed.products > 1 || one_product || one_splits))
          scheduled[i].tiles =
              product_of_tiles(program, *s.ops[i], placed.tiles[i], *costs.schedules);
        if (two_units && costs.schedules)
          scheduled[i].wide = wide_product(program, *s.ops[i], costs);
        if (scheduled[i].wide && !scheduled[i].wide->knows_pushes()) scheduled[i].wide.reset();
        if (scheduled[i].wide)
          scheduled[i].of_first = of_left_over(*scheduled[i].wide, placed.parts[i]);
        if (scheduled[i].tiles || scheduled[i].wide) {
          for (const auto& [row, times] : s.ops[i]->rows)
            if (const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
                cost_of(i, row) != nullptr &&
                (name == "tpu.matmul left bf16 transposed" ||
                 name == "tpu.matmul left f32 transposed" ||
                 name.starts_with("tpu.matmul left f32 highest transposed")))
              scheduled[i].rows.emplace_back(row, times);
        }
      } else {
        scheduled[i].rows = asked[i];
        scheduled[i].rows.insert(scheduled[i].rows.end(), halves[i].begin(), halves[i].end());
      }
      chain.add(*s.ops[i], latency, is_wait);
    }
    const auto units_in = [&](std::size_t p) {
      return all_counted && !two_units ? units_of_tiles(tiles_of[p], placed.all_tiles, matrix_units)
                                       : matrix_units;
    };
    for (std::size_t p = 0; p < works.size(); ++p) works[p].close(costs, units_in(p));
    for (std::size_t g = 0; g < groups.count(); ++g)
      group_works[g].close(costs, units_in(groups.part(g)));

    // What lies behind a wait is done there: by that, and by line.
    std::vector<BetweenWaits> between((works.size() - 1) / of_a_wait + 1);
    between[0].step = s.begin;
    const auto waits_before = [&](std::size_t op) { return part[op] / of_a_wait; };
    for (std::size_t p = 0; p < works.size(); ++p) {
      for (std::size_t u = 0; u < kCoreUnits; ++u)
        between[p / of_a_wait].slots[u] += works[p].slots[u];
    }
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      BetweenWaits& b = between[waits_before(i)];
      if (b.ops++ < 2 && waits_before(i) > 0)
        b.step = always_run(s.ops[i]->step);  // the first one behind it
      double share = works[part[i]].share_of_spill(spilled(i));
      if (scheduled[i].put.each != nullptr)
        share += works[part[i]].share(scheduled[i].put.all(), 1);
      for (const auto& [row, times] : asked[i]) {
        const UnitCost* cost = cost_of(i, row);
        if (cost == nullptr) continue;
        share += (1 - beside[i].share) * works[part[i]].share(*cost, times) +
                 beside[i].share * works[beside[i].part].share(*cost, times);
      }
      b.lines[s.ops[i]->location] += share;
    }
    overlap_much(groups, group_works, of_a_wait, costs, between);
    chain.for_each([&](std::size_t op, double latency) {
      between[waits_before(op)].lines[s.ops[op]->location] += latency;
    });
    const ByRegisters by_registers(products_in_a_row ? phases.count() : 0, phases.count(),
                                   one_product, one_splits, matrix_units);
    for (std::size_t b = 0; b < between.size(); ++b) {
      std::vector<std::size_t> here;
      for (std::size_t i = 0; i < s.ops.size(); ++i)
        if (waits_before(i) == b) here.push_back(i);
      double by_slots = 0;
      for (const auto& [location, share] : between[b].lines) by_slots += share;
      if (by_slots <= 0) continue;
      const double now = bundles_by_registers(program, rows, s.ops, scheduled, here, costs,
                                              by_registers, by_slots);
      for (auto& [location, share] : between[b].lines) share *= now / by_slots;
    }
    double begun_here = 0;  // of what is behind the loop
    if (is_whole_loop(code, every, number))
      begun_here = begun_in_loop(program, s, every[number + 1], rows, costs);
    if (begun > 0) {
      double all = 0;
      for (const auto& [location, share] : between[0].lines) all += share;
      for (auto& [location, share] : between[0].lines) share *= 1 - std::min(1., begun / all);
    }
    if (begun_here > 0) between.back().lines[s.ops.back()->location] += begun_here;
    begun = begun_here;
    // What is begun fills the bundles behind its branch.
    if (s.branches && begun_here == 0) between.back().lines[s.branch_location] += costs.jump;
    if (!s.ops.empty()) between[0].lines[s.ops.front()->location] += costs.block;
    note_between_waits(program, between, c);
  }
  return c;
}

}  // namespace tessera::program
