// Registers of products on two matrix units of 256 x 256, and of transposes.
//
// A unit is given a tile of weights, a pair of registers after the other, while rows still pass the
// tile before; its products come one after the other. Two registers of the left side pass together
// and give `together` registers:
//
//   unit 0   push push push  pass pass pass        pass pass pass
//                            push push push
//   results                       pop pop pop ...
//
// Each push and each pass is prepared for by what takes a slot of matrix units before it. Where
// both units read the same rows of the left side they are in step, else the second is a bundle
// behind, so that a listing has three bundles of a pass of both and not two, however long it takes.
// A product alone is placed from the begin, as listings have it: its first results are popped when
// they are there, as many passes later as begin until then.
//
// A v6e pops them from a queue as each comes, a v7x from a buffer, all of a pass at once, in which
// it also adds up a column of tiles: these lie in one unit each, an odd one's tiles in either by
// turns. A transpose unit takes the registers of a tile of 128 x 128 one after the other and gives
// them likewise.
//
// In the highest precision (unit_rounds.hpp) what is split begins as early as it can: such a
// schedule is placed from the begin alone. On a v7x, which packs parts, those of a tile that do not
// fit in registers are loaded again for each round but the first.
#include <algorithm>
#include <array>

#include "program/unit_rounds.hpp"
#include "program/unit_schedule.hpp"
#include "program/unit_schedule_places.hpp"

namespace tessera::program {

namespace {

constexpr int kPopUnit = static_cast<int>(CoreUnit::vpop);
constexpr int kVectorUnit = static_cast<int>(CoreUnit::valu);
constexpr int kOfSplit = 2;  ///< cycles of a vector operation
constexpr std::int64_t kRegisters = 64;

int pinned_place(Place first, std::size_t unit) {
  return place_number(first) + static_cast<int>(unit);
}

/// Registers of a tile of 128 rows.
std::int64_t registers_of_tile(const std::string& row) {
  if (row.find(" b8") != row.npos) return 4;
  return row.find(" b16") != row.npos || row.find(" bf16") != row.npos ? 8 : 16;
}

}  // namespace

/// Rows may pass behind the last. `right`: of which a tile's are `at` and on.
UnitSchedule::Pushes UnitSchedule::push_tile(std::size_t unit, const WideProduct& p,
                                             const std::vector<Registers>& right, std::int64_t at,
                                             std::int64_t all, bool loads_again) {
  MatrixUnit& on = matrix_units_[unit];
  int before = on.push;
  Pushes pushed{-1, -1};
  const auto loaded = [&](const Registers& reads) {
    const int load = begin(static_cast<int>(CoreUnit::load), 1, kOfLoad, reads);
    if (before >= 0) follow(before, 1, load);
    return load;
  };
  for (std::int64_t r = 0; r < p.pushes; ++r) {
    Registers reads = read_by(right, at + r, all);
    if (loads_again) reads = {loaded(reads)};
    const int first = begin(kPrepares, 1, 1, reads);
    if (r == 0 && on.first_pass >= 0) follow(on.first_pass, 1, first);
    if (on.push >= 0) follow(on.push, 1, first);
    Registers after{first};
    if (loads_again) after.push_back(loaded({}));
    const int second = begin(pinned_place(Place::push, unit), p.push, 1, after);
    if (on.push >= 0) follow(on.push, p.push, second);
    before = on.push;
    on.push = second;
    if (r == 0) pushed.first = first;
    pushed.last = second;
  }
  return pushed;
}

/// Of n registers those from `begins` to `ends`; `packs`: two to one.
UnitSchedule::Parts UnitSchedule::split(const std::vector<Registers>& of, std::int64_t begins,
                                        std::int64_t ends, std::int64_t n, bool packs) {
  const auto vector = [&](const Registers& reads) {
    return begin(kVectorUnit, 1, kOfSplit, reads);
  };
  splits_ = true;
  std::array<Registers, kSplitParts> parts;
  for (std::int64_t i = begins; i < ends; ++i) {
    Registers reads = read_by(of, i, n);
    const int first = vector(reads);
    reads.push_back(first);
    const int rest = vector(reads);
    const int second = vector({rest});
    const int third = vector({vector({rest, second})});
    const std::array all{first, rest, second, third};
    for (std::size_t part = 0; part < all.size(); ++part) parts[part].push_back(all[part]);
  }
  Parts made;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].empty()) continue;
    made[part] = {parts[part]};
    if (!packs) continue;
    Registers packed;
    const std::int64_t half = (ends - begins + 1) / 2;
    for (std::int64_t i = 0; i < half; ++i) packed.push_back(vector(read_by(made[part], i, half)));
    made[part] = {packed};
  }
  return made;
}

/// Likewise, of a tile of what a product's right side is split into.
UnitSchedule::Pushes UnitSchedule::push_part(const UnitOp& op, const WideProduct& p,
                                             const WideRound& round, bool is_first) {
  // Whoever multiplies by the same has its parts.
  std::vector<Parts>& tiles = split_[op.reads.size() > 1 ? op.reads[1] : -1];
  const auto begins = [&](std::int64_t tile) { return tile * p.split_right / p.tiles; };
  if (round.tile >= std::ssize(tiles))
    tiles.push_back(
        split(made(op, 1), begins(round.tile), begins(round.tile + 1), p.split_right, p.packs));
  const auto parts = static_cast<std::int64_t>(kSplitParts) * begins(1) / (p.packs ? 2 : 1);
  const std::vector<Registers>& part =
      tiles[static_cast<std::size_t>(round.tile)][static_cast<std::size_t>(round.right)];
  return push_tile(round.unit, p, part, 0, p.pushes, p.packs && parts > kRegisters && !is_first);
}

int UnitSchedule::pass(std::size_t unit, int results, const Registers& first_reads,
                       const Registers& reads) {
  MatrixUnit& on = matrix_units_[unit];
  const int first = begin(kPrepares, 1, 1, first_reads);
  Registers after = reads;
  after.push_back(first);
  const int here =
      begin(pinned_place(Place::pass, unit), WideProduct::kOfPop * results, of_.product, after);
  if (on.pass >= 0) {
    follow(on.pass, 1, first);
    follow(on.pass, operations_[static_cast<std::size_t>(on.pass)].every, here);
  }
  on.pass = here;
  return here;
}

/// `weights`: the last push; `popped`: by register of the result.
void UnitSchedule::pass_rows(const WideProduct& p, const WideRound& round, const Parts& left,
                             int weights, std::vector<Registers>& popped) {
  const std::int64_t pops = p.pops_of_tile(round.tile);
  const std::int64_t across = std::max<std::int64_t>(1, p.results / p.rows);
  const std::int64_t tile_across = round.tile / p.tiles_deep();
  const std::vector<Registers>& passing = left[static_cast<std::size_t>(round.left)];
  // Nothing passes before all of it is split, so that both units begin together.
  const std::vector<Registers>& split_last = left[static_cast<std::size_t>(SplitPart::third)];
  MatrixUnit& on = matrix_units_[round.unit];
  on.first_pass = -1;
  for (std::int64_t i = round.begins; i < round.ends; i += p.together) {
    const std::int64_t n = std::min(p.together, round.ends - i);
    Registers reads = read_by(passing, i + n - 1, pops);
    const Registers last = read_by(split_last, i + n - 1, pops);
    reads.insert(reads.end(), last.begin(), last.end());
    const int here = pass(round.unit, static_cast<int>(n), read_by(passing, i, pops), reads);
    if (on.first_pass < 0) {
      follow(weights, p.push, here);
      on.first_pass = here;
    }
    for (std::int64_t k = 0; k < n && !round.is_added_to; ++k) {
      const int pop = begin(kPopUnit, 1, 1, {here});
      if (of_.pops_from_queue)
        follow(here, of_.product + WideProduct::kOfPop * static_cast<int>(k), pop);
      if (on.pop >= 0) follow(on.pop, 1, pop);
      on.pop = pop;
      if (p.rows_alone && k % 2 == 1) continue;
      const std::int64_t row = std::min(p.rows - 1, (i + k) * p.rows / pops);
      const std::int64_t column = std::min(across - 1, 2 * tile_across + (i + k) % 2);
      popped[static_cast<std::size_t>(row * across + column)].push_back(pop);
    }
  }
}

void UnitSchedule::multiply(const UnitOp& op, const WideProduct& p, double of_first_unit) {
  Parts left;
  left[0] = left_of(op);
  if (is_too_much()) return;
  if (p.splits) left = split(left[0], 0, p.split_left, p.split_left, false);
  const std::vector<Registers> right = made(op, 1);
  std::vector<Registers> popped(static_cast<std::size_t>(p.results));
  ++wide_products_;
  struct Begun {
    Pushes pushed;
    int pass;
  };
  std::array<std::vector<Begun>, kWideUnits> begun;  // by round
  std::int64_t tile_before = -1;
  for (const WideRound& round : wide_rounds(p, of_.adds_up, of_first_unit)) {
    if (is_too_much()) return;
    const Pushes pushed = p.splits ? push_part(op, p, round, round.tile != tile_before)
                                   : push_tile(round.unit, p, right, round.tile * p.pushes,
                                               p.tiles * p.pushes, false);
    tile_before = round.tile;
    pass_rows(p, round, left, pushed.last, popped);
    const int first_pass = matrix_units_[round.unit].first_pass;
    const bool has_all_rows = !p.splits && round.begins == 0;
    if (has_all_rows && round.unit == 1 && begun[1].size() < begun[0].size()) {
      const Begun& beside = begun[0][begun[1].size()];
      const int behind = round.is_behind ? 1 : 0;
      follow(beside.pushed.first, behind, pushed.first);
      follow(beside.pushed.last, p.push + behind, first_pass);
      follow(pushed.last, p.push - behind, beside.pass);
    }
    begun[round.unit].push_back({pushed, first_pass});
  }
  add_up(op, popped, p.splits ? kOfSplit : 1);
}

UnitSchedule::Registers UnitSchedule::turned(const Row& in, std::int64_t out,
                                             const std::vector<Registers>& inputs) {
  const std::int64_t most = registers_of_tile(in.name);
  const std::int64_t tiles = (std::max(in.times, out) + most - 1) / most;
  const auto begins = [&](std::int64_t tile, std::int64_t all) { return tile * all / tiles; };
  Registers made;
  for (std::int64_t t = 0; t < tiles && !is_too_much(); ++t) {
    const std::size_t unit = turns_++ % transpose_units_.size();
    TransposeUnit& on = transpose_units_[unit];
    for (std::int64_t i = begins(t, in.times); i < begins(t + 1, in.times); ++i) {
      const int here =
          begin(pinned_place(Place::turn, unit), of_.turn_every, 1, read_by(inputs, i, in.times));
      if (on.in >= 0) follow(on.in, of_.turn_every, here);
      on.in = here;
    }
    for (std::int64_t i = begins(t, out); i < begins(t + 1, out); ++i) {
      const int here = begin(kPopUnit, 1, 1, {});
      follow(on.in, of_.turn, here);
      if (on.out >= 0) follow(on.out, of_.turn_every, here);
      on.out = here;
      made.push_back(here);
    }
  }
  return made;
}

}  // namespace tessera::program
