#include "program/unit_schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <queue>
#include <utility>

#include "program/unit_mask_ops.hpp"
#include "program/unit_schedule_places.hpp"

namespace tessera::program {

namespace {

// Cycles; of vectors an operation's result is there two later, of which the compiler leaves out
// one.
constexpr int kOfVector = 1;
constexpr int kOfStore = 4;   ///< until a load has what was stored
constexpr int kExtended = 2;  ///< slots of a bundle for matrix units and XLUs

constexpr int kNoUnit = place_number(Place::none);
constexpr int kMultiplies = place_number(Place::multiplies);
constexpr int kAdds = place_number(Place::adds);
constexpr int kMaskPlace = place_number(Place::masks);
constexpr int kStoresAlone = place_number(Place::stores_alone);
constexpr int unit_number(CoreUnit unit) { return static_cast<int>(unit); }
constexpr std::size_t unit_index(CoreUnit unit) { return static_cast<std::size_t>(unit); }

/// Scalars' latencies were read off listings as bundles, not as cycles.
bool is_of_scalars(const UnitCost& cost) {
  for (std::size_t u = 0; u < kCoreUnits; ++u)
    if (u != unit_index(CoreUnit::scalar) && cost.slots[u] > 0) return false;
  return true;
}

/// How many slots the i-th register takes where each takes so many on the average.
int of_each(double slots, std::int64_t i) {
  return static_cast<int>(std::llround(slots * static_cast<double>(i + 1)) -
                          std::llround(slots * static_cast<double>(i)));
}

}  // namespace

/// What the i-th of n registers reads.
std::vector<int> UnitSchedule::read_by(const std::vector<Registers>& inputs, std::int64_t i,
                                       std::int64_t n) {
  std::vector<int> found;
  for (const std::vector<int>& r : inputs) {
    const auto m = static_cast<std::int64_t>(r.size());
    const std::int64_t first = i * m / n;
    const std::int64_t last = std::min(m, std::max(first + 1, (i + 1) * m / n));
    for (std::int64_t k = first; k < last; ++k) found.push_back(r[static_cast<std::size_t>(k)]);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int UnitSchedule::begin(int unit, int every, int latency, const Registers& after) {
  const int here = static_cast<int>(operations_.size());
  std::int64_t earliest = 0;
  for (const int before : after) {
    const Operation& o = operations_[static_cast<std::size_t>(before)];
    edges_.push_back({before, here, o.latency});
    earliest = std::max(earliest, o.earliest + o.latency);
  }
  operations_.push_back({unit, every, latency, earliest});
  return here;
}

void UnitSchedule::follow(int before, int latency, int here) {
  edges_.push_back({before, here, latency});
  Operation& o = operations_[static_cast<std::size_t>(here)];
  o.earliest =
      std::max(o.earliest, operations_[static_cast<std::size_t>(before)].earliest + latency);
}

std::vector<UnitSchedule::Registers> UnitSchedule::made(const UnitOp& op, std::size_t read) const {
  const auto it = read < op.reads.size() ? made_by_.find(op.reads[read]) : made_by_.end();
  return it == made_by_.end() ? std::vector<Registers>{} : std::vector<Registers>{it->second};
}

/// Of a product, when what was added was done to it.
std::vector<UnitSchedule::Registers> UnitSchedule::left_of(const UnitOp& op) {
  std::vector<Registers> left = made(op, 0);
  for (const Row& row : rows_)
    left = {of_.turn > 0 ? turned(row, row.times, left) : registers(row, left)};
  rows_.clear();
  return left;
}

void UnitSchedule::multiply(const UnitOp& op, const Product& p) {
  if (!p.splits) ++products_;
  std::vector<Registers> left = left_of(op);
  if (is_too_much()) return;
  const std::vector<Registers> unsplit = made(op, 1);
  std::vector<Registers> right = p.splits ? std::vector<Registers>{} : unsplit;
  constexpr auto kSplit = static_cast<std::int64_t>(WideProduct::kSplitRounds);
  const std::int64_t rounds = p.splits ? kSplit : 1;
  const int product = of_.product - (p.splits ? 1 : 0);
  const auto tiles = static_cast<std::int64_t>(p.tiles.size()) / rounds;
  const std::int64_t columns = std::max<std::int64_t>(1, tiles / p.deep);
  const std::int64_t rows = std::max<std::int64_t>(1, p.results / columns);
  const int push = std::max(1, static_cast<int>(std::lround(p.push)));
  std::vector<Registers> passes(static_cast<std::size_t>(columns * rows));  // by result
  Parts left_parts;
  int shared = -1;    // round: where its second unit begins
  Parts right_parts;  // of a tile
  if (p.splits) left_parts = split(left, 0, rows * p.deep, rows * p.deep, false);
  for (std::int64_t i = 0; i < tiles * rounds; ++i) {
    const std::int64_t t = i / rounds;
    std::int64_t at = t * p.pushed;
    std::int64_t all = tiles * p.pushed;
    if (p.splits) {
      if (i % rounds == 0) right_parts = split(unsplit, at, at + p.pushed, all, false);
      const PartsOfRound parts = parts_of_round(static_cast<std::size_t>(i % rounds));
      left = left_parts[static_cast<std::size_t>(parts.left)];
      right = right_parts[static_cast<std::size_t>(parts.right)];
      at = 0;
      all = p.pushed;
    }
    const MatrixUnits& on = p.tiles[static_cast<std::size_t>(i)];
    double part = 0;
    Registers begun;  // by units that share the round
    for (std::size_t u = 0; u < on.size(); ++u) {
      // What passes at once is not shared out.
      const double share = static_cast<double>(rows) / static_cast<double>(p.of_a_pass);
      const auto until = [&] {
        return std::min<std::int64_t>(rows, std::llround(part * share) * p.of_a_pass);
      };
      const std::int64_t begins = until();
      part += on[u];
      const std::int64_t ends = until();
      if (begins == ends) continue;
      const auto place = [&](Place first) { return place_number(first) + static_cast<int>(u); };
      MatrixUnit& unit = matrix_units_[u];
      for (std::int64_t r = 0; r < p.pushed; ++r) {
        const int here = begin(place(Place::push), push, 1, read_by(right, at + r, all));
        if (r == 0 && unit.first_pass >= 0) follow(unit.first_pass, 1, here);
        if (unit.push >= 0) follow(unit.push, push, here);
        unit.push = here;
      }
      unit.first_pass = -1;
      for (std::int64_t r = begins; r < ends; r += p.of_a_pass) {
        const int here = begin(place(Place::pass), kCyclesOfPass * static_cast<int>(p.of_a_pass),
                               product, read_by(left, r * p.deep + t % p.deep, rows * p.deep));
        if (unit.first_pass < 0) {
          unit.first_pass = here;
          if (unit.push >= 0) follow(unit.push, push, here);
          begun.push_back(here);
        }
        if (unit.pass >= 0)
          follow(unit.pass, operations_[static_cast<std::size_t>(unit.pass)].every, here);
        unit.pass = here;
        for (std::int64_t k = r; k < std::min(r + p.of_a_pass, ends); ++k) {
          const int popped = begin(unit_number(CoreUnit::vpop), 1, 1, {here});
          if (!unit.results.empty()) follow(unit.results.back(), kCyclesOfPass, popped);
          unit.results.push_back(popped);
          passes[static_cast<std::size_t>(k * columns + t / p.deep % columns)].push_back(popped);
        }
      }
    }
    // Units that share a round are not in step, as listings have them: the second's rows begin half
    // a pass before the first's, of a second such round when the first one's do, two cycles before.
    if (p.splits && begun.size() == 2) {
      if (shared >= 0) follow(shared, kCyclesOfPass, begun[1]);
      follow(begun[1], shared < 0 ? kCyclesOfPass / 2 : 2, begun[0]);
      shared = shared < 0 ? begun[1] : -1;
    }
  }
  add_up(op, passes, kOfVector);
}

/// What adds to one register of the result.
void UnitSchedule::add_up(const UnitOp& op, const std::vector<Registers>& parts, int latency) {
  Registers sums;
  for (const Registers& of : parts) {
    int sum = -1;
    for (const int popped : of)
      sum = sum < 0 ? popped : begin(unit_number(CoreUnit::valu), 1, latency, {sum, popped});
    if (sum >= 0) sums.push_back(sum);
  }
  for (const int v : op.makes) made_by_[v] = sums;
}

void UnitSchedule::add(const std::string& row, const UnitCost& cost, std::int64_t times) {
  // A column that lies in all lanes is broadcast by nothing; slots of both kinds are one fit, to
  // which those of reductions belong.
  if (of_.reduce_every > 0 && row.ends_with(" of all lanes")) return;
  if (times > 0) rows_.push_back({row, &cost, times});
}

void UnitSchedule::put_together(const FewRows::Together& put) {
  if (put.each == nullptr || put.times <= 0) return;
  rows_.push_back({"", put.each, put.times, put});
  Row& row = rows_.back();
  row.put.whole = std::max<std::int64_t>(1, put.whole);
  row.put.stages = std::clamp<std::int64_t>(put.stages, 1, put.times);
}

void UnitSchedule::store(const FewRows::Stored& stored) {
  rows_.push_back({"", stored.each, stored.times, {}, stored});
}

void UnitSchedule::pack_masks(const UnitOp& op, std::int64_t times) {
  const std::vector<Registers> masks = made(op, 0);
  Registers& packed = packed_[op.reads[0]];
  for (std::int64_t i = 0; i < times; ++i)
    packed.push_back(begin(kMaskPlace, 1, kOfVector, read_by(masks, i, times)));
}

void UnitSchedule::add_serial(std::int64_t bundles) {
  if (bundles > 0) rows_.push_back({"", nullptr, bundles});
}

std::vector<UnitSchedule::Registers> UnitSchedule::inputs_of(const UnitOp& op) const {
  std::vector<Registers> inputs;
  for (const int v : op.reads) {
    if (const auto it = made_by_.find(v); it != made_by_.end()) inputs.push_back(it->second);
    if (const auto it = packed_.find(v); it != packed_.end()) inputs.push_back(it->second);
  }
  if (!rows_.empty() && rows_[0].name.starts_with("load ") && !op.reads.empty()) {
    if (const auto it = stored_.find(op.reads[0]); it != stored_.end())
      inputs.push_back(it->second);
  }
  return inputs;
}

UnitSchedule::Registers UnitSchedule::serial(std::int64_t bundles, Registers after) {
  for (std::int64_t i = 0; i < bundles; ++i) after = {begin(kNoUnit, 1, 1, after)};
  return after;
}

UnitSchedule::Chain UnitSchedule::chain_of(const Row& row, std::int64_t i) const {
  const auto slots = [&](CoreUnit u) { return row.cost->slots[unit_index(u)]; };
  constexpr double kAny = 0.2;  // of a register: the rest is what fits leave over
  Chain c{};
  // A register is pushed once, if its function is computed at all; that takes a slot of VALU too.
  const double functions = slots(CoreUnit::eup) / of_.eup_every;
  c.functions = functions < kAny ? 0 : std::max(1, of_each(functions, i));
  const double pops = std::max(0., slots(CoreUnit::vpop) - (c.functions > 0 ? functions : 0));
  // What several pushes make may be popped once.
  constexpr double kPushes = 4;
  const double xlu = slots(CoreUnit::xlu);
  // A column is pushed and popped for each register: its slots were fitted with reductions.
  const bool is_column = of_.reduce_every > 0 && row.name == "vector.broadcast b32 lanes";
  const double moves = is_column ? 1 : xlu < kAny ? 0 : std::max(pops, std::min(1., xlu / kPushes));
  c.moves = of_each(moves, i);
  c.move_every = moves > 0 ? std::max(1, static_cast<int>(std::lround(xlu / moves))) : 1;
  if (is_column) c.move_every = static_cast<int>(kPushes);
  if (of_.reduce_every > 0 && row.name.starts_with("vector.multi_reduction"))
    c.move_every = of_.reduce_every;
  c.vector = std::max(0, of_each(slots(CoreUnit::valu), i) - c.functions);
  // Of many the row's latency says how long a register alone takes, its slots apart.
  constexpr int kMostInARow = 3;
  const double valus = std::max(1., costs_.capacity[unit_index(CoreUnit::valu)]);
  const auto alone = static_cast<int>(std::lround(c.vector / valus + row.cost->latency));
  const int pushed_and_popped = 2 * (c.functions > 0 ? 1 : 0) + 2 * (c.moves > 0 ? 1 : 0);
  c.deep = c.vector <= kMostInARow ? c.vector : std::clamp(alone - pushed_and_popped, 1, c.vector);
  const int latency = static_cast<int>(std::lround(row.cost->latency));
  if (row.put.each != nullptr) {
    c.deep = std::min(c.deep, latency);
    c.serial = std::max(0, latency - c.vector);
  }
  return c;
}

int UnitSchedule::one_register(const Row& row, std::int64_t i, Registers after) {
  const Chain c = chain_of(row, i);
  after = serial(c.serial, after);
  const auto one_after_another = [&](CoreUnit unit, int n, int latency) {
    for (int k = 0; k < n; ++k) after = {begin(unit_number(unit), 1, latency, after)};
  };
  const auto slots = [&](CoreUnit u) { return of_each(row.cost->slots[unit_index(u)], i); };
  one_after_another(CoreUnit::scalar, slots(CoreUnit::scalar), 1);
  one_after_another(CoreUnit::load, slots(CoreUnit::load), kOfLoad);
  int left = c.vector;
  const int wide = c.deep > 0 ? (c.vector + c.deep - 1) / c.deep : 0;
  int multiplies = of_each(row.cost->multiply, i);
  int adds = of_each(row.cost->add, i);
  const auto place = [&] {  // by turns
    const int most = std::max(multiplies, adds);
    if (most <= 0 || most < left - multiplies - adds) return unit_number(CoreUnit::valu);
    return multiplies == most ? (--multiplies, kMultiplies) : (--adds, kAdds);
  };
  const auto vectors = [&](int deep) {
    for (int k = 0; k < deep && left > 0; ++k) {
      Registers level;
      for (int w = 0; w < wide && left > 0; ++w, --left)
        level.push_back(begin(place(), 1, kOfVector, after));
      after = level;
    }
  };
  // What is pushed is made ready in a slot or two, what is popped is worked on.
  vectors(c.functions + c.moves > 0 && c.deep > 2 ? 1 : c.deep);
  for (int k = 0; k < c.functions; ++k) {
    after = {begin(unit_number(CoreUnit::eup), of_.eup_every, of_.eup, after)};
    one_after_another(CoreUnit::vpop, 1, 1);
  }
  if (c.moves > 0) {
    const int latency = row.name.starts_with("vector.multi_reduction") ? of_.reduce : of_.permute;
    const Registers before = after;
    after.clear();
    for (int k = 0; k < c.moves; ++k) {
      const int pushed = begin(unit_number(CoreUnit::xlu), c.move_every, latency, before);
      after.push_back(begin(unit_number(CoreUnit::vpop), 1, 1, {pushed}));
    }
  }
  vectors(c.deep);
  one_after_another(CoreUnit::store, slots(CoreUnit::store), kOfStore);
  return after.empty() ? -1 : after.back();
}

/// Stored and then loaded, one stage after the other in a place.
UnitSchedule::Registers UnitSchedule::through_memory(const FewRows::Together& put,
                                                     const std::vector<Registers>& inputs) {
  const auto each = [&](CoreUnit u) { return std::lround(put.each->slots[unit_index(u)]); };
  // What there is little of is in the first stages.
  const auto begins = [&](std::int64_t n, std::int64_t stage) {
    return (stage * n + put.stages - 1) / put.stages;
  };
  const auto load = [&](const Registers& after) {
    return begin(unit_number(CoreUnit::load), 1, kOfLoad, after);
  };
  Registers made;
  for (std::int64_t stage = 0; stage < put.stages && !is_too_much(); ++stage) {
    const auto place = static_cast<std::size_t>(stage % put.places);
    int& loaded_last = loaded_last_[place];
    Registers stored;
    for (std::int64_t i = begins(put.times, stage); i < begins(put.times, stage + 1); ++i) {
      const bool computed = i < put.computed;
      stored.push_back(begin(unit_number(CoreUnit::store), 1, kOfStore,
                             computed ? read_by(inputs, i, put.computed) : Registers{}));
      if (loaded_last >= 0) follow(loaded_last, 1, stored.back());
      // What was stored there before, also if nobody has loaded it.
      const Registers& before = stored_last_[place];
      if (stored.size() <= before.size()) follow(before[stored.size() - 1], 1, stored.back());
    }
    stored_last_[place] = stored;
    for (std::int64_t i = begins(put.whole, stage); i < begins(put.whole, stage + 1); ++i) {
      Registers loads;
      for (int k = 0; k < each(CoreUnit::load); ++k) {
        if (k > 0 && put.has_halves) {
          if (stage < put.places) loads.push_back(load({}));
        } else {
          loads.push_back(load(stored));
          loaded_last = loads.back();
        }
      }
      for (int k = 0; k < each(CoreUnit::valu); ++k)
        loads = {begin(unit_number(CoreUnit::valu), 1, kOfVector, loads)};
      made.insert(made.end(), loads.begin(), loads.end());
    }
  }
  return made;
}

UnitSchedule::Registers UnitSchedule::stored(const FewRows::Stored& stored,
                                             const std::vector<Registers>& inputs) {
  Registers made;
  for (std::int64_t i = 0; i < stored.times && !is_too_much(); ++i) {
    const bool computed = i < stored.computed;
    const std::int64_t alone =
        (i + 1) * stored.alone / stored.times - i * stored.alone / stored.times;
    made.push_back(begin(alone > 0 ? kStoresAlone : unit_number(CoreUnit::store), 1, kOfStore,
                         computed ? read_by(inputs, i, stored.computed) : Registers{}));
  }
  return made;
}

UnitSchedule::Registers UnitSchedule::registers(const Row& row,
                                                const std::vector<Registers>& inputs) {
  if (row.cost == nullptr) return serial(row.times, read_by(inputs, 0, 1));
  if (row.stored.each != nullptr) return stored(row.stored, inputs);
  if (row.put.each != nullptr && row.cost->slots[unit_index(CoreUnit::store)] > 0)
    return through_memory(row.put, inputs);
  if (joins_masks(row.name)) {
    Registers joined;
    for (std::int64_t i = 0; i < row.times && !is_too_much(); ++i)
      joined.push_back(begin(kMaskPlace, 1, kOfVector, read_by(inputs, i, row.times)));
    return joined;
  }
  if (is_of_scalars(*row.cost)) {
    const Registers after = read_by(inputs, 0, 1);
    const double all =
        row.cost->slots[unit_index(CoreUnit::scalar)] * static_cast<double>(row.times);
    for (std::int64_t i = 0; i < std::llround(all); ++i)
      begin(unit_number(CoreUnit::scalar), 1, 1, after);
    return serial(std::llround(row.cost->latency), after);
  }
  // A transpose unit takes and gives whole tiles, whatever is in them: bundles that no row has.
  std::vector<Registers> turned;
  if (row.name.starts_with("tpu.transpose") || row.name.ends_with(" to column"))
    turned = {serial(std::llround(row.cost->latency), read_by(inputs, 0, 1))};
  Registers made;
  for (std::int64_t i = 0; i < row.times && !is_too_much(); ++i) {
    const int last = one_register(row, i, read_by(turned.empty() ? inputs : turned, i, row.times));
    if (last >= 0) made.push_back(last);
  }
  return made;
}

void UnitSchedule::spill(const UnitOp& op, std::int64_t registers) {
  for (const int v : op.makes) {
    const auto it = made_by_.find(v);
    if (it == made_by_.end()) continue;
    Registers& of = it->second;
    const auto n = static_cast<std::int64_t>(of.size());
    for (std::int64_t k = 0; k < registers; ++k) {
      int& r = of[static_cast<std::size_t>(k * n / registers % n)];
      const int stored = begin(unit_number(CoreUnit::store), 1, kOfStore, {r});
      r = begin(unit_number(CoreUnit::load), 1, kOfLoad, {stored});
    }
  }
}

void UnitSchedule::end(const UnitOp& op) {
  std::vector<Registers> inputs = inputs_of(op);
  Registers made;
  for (std::size_t k = 0; k < rows_.size(); ++k) {
    const Row& row = rows_[k];
    const bool turns = of_.turn > 0 && row.name.starts_with("tpu.transpose") &&
                       row.name.ends_with(" in") && k + 1 < rows_.size();
    made = turns ? turned(row, rows_[++k].times, inputs) : registers(row, inputs);
    inputs.clear();
    if (!made.empty()) inputs.push_back(made);
  }
  if (rows_.empty()) {  // it passes on what is there last
    const auto when = [&](const Registers& r) {
      return operations_[static_cast<std::size_t>(r.back())].earliest;
    };
    for (const Registers& r : inputs)
      if (made.empty() || when(r) > when(made)) made = r;
  }
  rows_.clear();
  if (made.empty()) return;
  for (const int v : op.makes) made_by_[v] = made;
  if (op.makes.empty() && op.reads.size() > 1) stored_[op.reads[1]] = made;
}

std::optional<std::int64_t> UnitSchedule::bundles(bool behind_copies) const {
  if (is_too_much()) return std::nullopt;
  if (splits_ || wide_products_ == 1) return static_cast<std::int64_t>(scheduled(false));
  if (behind_copies && wide_products_ > 1) return static_cast<std::int64_t>(scheduled(true));
  return static_cast<std::int64_t>((scheduled(false) + scheduled(true)) / 2);
}

namespace {

/// Of one bundle after another.
class BusyUnits {
 public:
  explicit BusyUnits(const UnitCosts& costs) : memory_(costs.schedules->memory) {
    for (std::size_t u = 0; u < kCoreUnits; ++u)
      free_[u].resize(static_cast<std::size_t>(std::max(1., costs.capacity[u])));
  }
  void next_bundle() {
    of_memory_ = extended_ = 0;
    has_masks_ = false;
    stores_alone_ = false;
  }
  /// Whether one is free for it now, and taken.
  bool take(int unit, int every, std::int64_t now) {
    if (unit == kNoUnit) return true;
    if (unit == kPrepares) return extended_ < kExtended && ++extended_ > 0;
    if (unit == kMaskPlace) return !std::exchange(has_masks_, true);
    if (unit == kStoresAlone) {
      if (stores_alone_ || !take(unit_number(CoreUnit::store), every, now)) return false;
      return stores_alone_ = true;
    }
    if (unit == kMultiplies || unit == kAdds) {
      std::int64_t& place = places_[static_cast<std::size_t>(unit == kAdds)];
      if (place > now || !take(unit_number(CoreUnit::valu), 1, now)) return false;
      place = now + 1;
      return true;
    }
    const bool is_pinned = unit >= place_number(Place::push);
    const bool is_extended = is_pinned || unit == unit_number(CoreUnit::xlu);
    if (is_extended && extended_ >= kExtended) return false;
    if (is_pinned) {
      std::int64_t& place = pinned_[static_cast<std::size_t>(unit - place_number(Place::push))];
      if (place > now) return false;
      place = now + every;
      ++extended_;
      return true;
    }
    const auto u = static_cast<std::size_t>(unit);
    const bool of_memory = u == unit_index(CoreUnit::load) || u == unit_index(CoreUnit::store);
    if (of_memory && of_memory_ >= memory_) return false;
    const auto free = std::ranges::min_element(free_[u]);
    if (*free > now) return false;
    if (u == unit_index(CoreUnit::eup)) {
      const auto pushes = std::ranges::min_element(free_[unit_index(CoreUnit::valu)]);
      if (*pushes > now) return false;
      *pushes = now + 1;
    }
    *free = now + every;
    if (of_memory) ++of_memory_;
    if (is_extended) ++extended_;
    return true;
  }

 private:
  std::array<std::vector<std::int64_t>, kCoreUnits> free_;  ///< from when on
  std::array<std::int64_t, kPinnedPlaces> pinned_{};
  std::array<std::int64_t, 2> places_{};  ///< likewise, of VALU's
  int memory_;
  int of_memory_ = 0;
  int extended_ = 0;
  bool has_masks_ = false;
  bool stores_alone_ = false;
};

using Timed = std::pair<std::int64_t, int>;

/// What may begin, by unit, so that of each that has no room in a bundle one is asked.
class ReadyByUnit {
 public:
  void add(int unit, const Timed& one) {
    by_unit_[index(unit)].push(one);
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  /// In order of all, each for which `begins` does; of a unit none behind one for which it does
  /// not.
  template <class Begins>
  void for_each(const Begins& begins) {
    std::array<bool, kQueues> is_full{};
    while (true) {
      std::size_t first = kQueues;
      for (std::size_t q = 0; q < kQueues; ++q) {
        if (is_full[q] || by_unit_[q].empty()) continue;
        if (first == kQueues || by_unit_[first].top() < by_unit_[q].top()) first = q;
      }
      if (first == kQueues) return;
      const auto i = static_cast<std::size_t>(std::abs(by_unit_[first].top().second));
      if (!begins(i)) {
        is_full[first] = true;
        continue;
      }
      by_unit_[first].pop();
      --count_;
    }
  }

 private:
  static constexpr int kBefore = -kStoresAlone;  // units of none and of VALU's places
  static constexpr std::size_t kQueues = kBefore + kCoreUnits + kPinnedPlaces;
  static std::size_t index(int unit) {
    constexpr int kPinned = place_number(Place::push);
    const int of_pinned = kBefore + static_cast<int>(kCoreUnits) + unit - kPinned;
    return static_cast<std::size_t>(unit >= kPinned ? of_pinned : kBefore + unit);
  }
  std::array<std::priority_queue<Timed>, kQueues> by_unit_;  ///< by way, then as programs have them
  std::size_t count_ = 0;
};

}  // namespace

/// Of a product alone, for each result of a narrow unit that which is placed just before it.
std::vector<int> UnitSchedule::results_before(bool backward) const {
  std::vector<int> before(operations_.size(), -1);
  if (products_ != 1) return before;
  for (const MatrixUnit& unit : matrix_units_) {
    for (std::size_t k = 1; k < unit.results.size(); ++k) {
      const int first = unit.results[backward ? k : k - 1];
      before[static_cast<std::size_t>(unit.results[backward ? k - 1 : k])] = first;
    }
  }
  return before;
}

double UnitSchedule::scheduled(bool backward) const {
  const std::size_t n = operations_.size();
  std::vector<std::vector<std::pair<int, int>>> next(n);  // and how much later
  std::vector<int> waits_for(n);
  for (const auto& [first, second, latency] : edges_) {
    const int to = backward ? first : second;
    next[static_cast<std::size_t>(backward ? second : first)].emplace_back(to, latency);
    ++waits_for[static_cast<std::size_t>(to)];
  }
  std::vector<int> left = waits_for;
  std::vector<std::size_t> order;  // each behind what it waits for
  order.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    if (left[i] == 0) order.push_back(i);
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (const auto& [to, latency] : next[order[k]])
      if (--left[static_cast<std::size_t>(to)] == 0) order.push_back(static_cast<std::size_t>(to));
  }
  std::vector<std::int64_t> way(n);  // to the end
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::size_t i = order[k];
    for (const auto& [to, latency] : next[i])
      way[i] = std::max(way[i], way[static_cast<std::size_t>(to)] + latency);
  }

  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> later;  // by when
  ReadyByUnit ready;
  const auto in_order = [&](int i) { return backward ? i : -i; };
  for (std::size_t i = 0; i < n; ++i)
    if (waits_for[i] == 0) later.emplace(0, static_cast<int>(i));
  std::vector<std::int64_t> when(n);
  BusyUnits units(costs_);
  std::vector<std::int64_t> begun(n);
  double bundles = 0;
  const std::vector<int> result_before = results_before(backward);
  std::vector<double> bundles_until(n);  // it began
  const auto fill_passes = [&](std::size_t i) {
    if (const int before = result_before[i]; before >= 0) {
      const auto b = static_cast<std::size_t>(before);
      if (begun[i] - begun[b] <= kCyclesOfPass)
        bundles = std::max(bundles, bundles_until[b] + of_.pass);
    }
    bundles_until[i] = bundles;
  };
  for (std::int64_t now = 0; !later.empty() || !ready.empty(); ++now) {
    if (ready.empty()) now = std::max(now, later.top().first);
    for (; !later.empty() && later.top().first <= now; later.pop()) {
      const int i = later.top().second;
      ready.add(operations_[static_cast<std::size_t>(i)].unit,
                {way[static_cast<std::size_t>(i)], in_order(i)});
    }
    units.next_bundle();
    bool any = false;
    ready.for_each([&](std::size_t i) {
      if (!units.take(operations_[i].unit, operations_[i].every, now)) return false;
      any = true;
      begun[i] = now;
      fill_passes(i);
      for (const auto& [to, latency] : next[i]) {
        const auto t = static_cast<std::size_t>(to);
        when[t] = std::max(when[t], now + latency);
        if (--waits_for[t] == 0) later.emplace(when[t], to);
      }
      return true;
    });
    if (any) ++bundles;
  }
  return bundles;
}

}  // namespace tessera::program
