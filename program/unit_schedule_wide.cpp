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
//
// A v6e pops them from a queue as each comes, a v7x from a buffer, all of a pass at once, in which
// it also adds up a column of tiles: these lie in one unit each, an odd one's tiles in either by
// turns. A transpose unit takes the registers of a tile of 128 x 128 one after the other and gives
// them likewise.
#include <algorithm>
#include <cmath>

#include "program/unit_schedule.hpp"
#include "program/unit_schedule_places.hpp"

namespace tessera::program {

namespace {

constexpr std::size_t kWideUnits = 2;
constexpr int kPopUnit = static_cast<int>(CoreUnit::vpop);

int pinned_place(Place first, std::size_t unit) {
  return place_number(first) + static_cast<int>(unit);
}

/// Registers of a tile of 128 rows.
std::int64_t registers_of_tile(const std::string& row) {
  if (row.find(" b8") != row.npos) return 4;
  return row.find(" b16") != row.npos || row.find(" bf16") != row.npos ? 8 : 16;
}

std::int64_t tiles_deep_of(const WideProduct& p) { return (p.deep + 1) / 2; }

/// Where the t-th tile lies, of one column of tiles after the other.
struct TileOnUnits {
  TileOnUnits(const WideProduct& p, std::int64_t t, bool adds_up, double of_first_unit) {
    const bool left_over = p.tiles % 2 == 1 && t + 1 == p.tiles;
    const auto on = [&](std::int64_t i) { return i % 2 == 0 ? 1. : 0.; };
    const std::int64_t deep = tiles_deep_of(p);
    const std::int64_t columns = (p.tiles + deep - 1) / deep;
    const bool alone = columns % 2 == 1 && t / deep + 1 == columns;  // both units have a part of it
    of_first = left_over ? of_first_unit : on(adds_up && !alone ? t / deep : t);
    is_behind = !left_over && (p.packs || (deep > 1 && (alone || !adds_up)));
    if (adds_up) is_added_to = alone ? t % deep + 2 < deep - deep % 2 : t % deep + 1 < deep;
  }

  double of_first;           ///< unit's part
  bool is_added_to = false;  ///< in its unit: nothing is popped
  bool is_behind;  ///< on the second unit: by a bundle, as it reads other registers than the first
};

}  // namespace

/// The first operation, and the last: rows may pass behind it.
std::pair<int, int> UnitSchedule::push_tile(std::size_t unit, const WideProduct& p,
                                            const std::vector<Registers>& right,
                                            std::int64_t tile) {
  MatrixUnit& on = matrix_units_[unit];
  const auto begun = static_cast<int>(operations_.size());
  for (std::int64_t r = 0; r < p.pushes; ++r) {
    const int first =
        begin(kPrepares, 1, 1, read_by(right, tile * p.pushes + r, p.tiles * p.pushes));
    if (r == 0 && on.first_pass >= 0) follow(on.first_pass, 1, first);
    if (on.push >= 0) follow(on.push, 1, first);
    const int second = begin(pinned_place(Place::push, unit), p.push, 1, {first});
    if (on.push >= 0) follow(on.push, p.push, second);
    on.push = second;
  }
  return {begun, on.push};
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

void UnitSchedule::multiply(const UnitOp& op, const WideProduct& p, double of_first_unit) {
  const std::vector<Registers> left = left_of(op);
  if (is_too_much()) return;
  const std::vector<Registers> right = made(op, 1);
  std::vector<Registers> popped(static_cast<std::size_t>(p.results));
  const std::int64_t across = std::max<std::int64_t>(1, p.results / p.rows);
  struct Begun {
    int push;
    int pass;
  };
  std::array<std::vector<Begun>, kWideUnits> begun;  // by tile
  for (std::int64_t t = 0; t < p.tiles; ++t) {
    const std::int64_t pops = (t + 1) * p.pops / p.tiles - t * p.pops / p.tiles;
    const TileOnUnits tile(p, t, of_.adds_up, of_first_unit);
    const auto of_first = std::llround(tile.of_first * static_cast<double>(pops));
    const std::int64_t tile_across = t / tiles_deep_of(p);
    for (std::size_t u = 0; u < kWideUnits; ++u) {
      const std::int64_t begins = u == 0 ? 0 : of_first;
      const std::int64_t ends = u == 0 ? of_first : pops;
      if (begins >= ends) continue;
      const auto [first_push, last_push] = push_tile(u, p, right, t);
      MatrixUnit& on = matrix_units_[u];
      on.first_pass = -1;
      for (std::int64_t i = begins; i < ends; i += p.together) {
        const std::int64_t n = std::min(p.together, ends - i);
        const int here =
            pass(u, static_cast<int>(n), read_by(left, i, pops), read_by(left, i + n - 1, pops));
        if (on.first_pass < 0) {
          follow(last_push, p.push, here);
          on.first_pass = here;
        }
        for (std::int64_t k = 0; k < n && !tile.is_added_to; ++k) {
          const int pop = begin(kPopUnit, 1, 1, {here});
          if (of_.pops_from_queue)
            follow(here, of_.product + WideProduct::kOfPop * static_cast<int>(k), pop);
          if (on.pop >= 0) follow(on.pop, 1, pop);
          on.pop = pop;
          const std::int64_t row = std::min(p.rows - 1, (i + k) * p.rows / pops);
          const std::int64_t column = std::min(across - 1, 2 * tile_across + (i + k) % 2);
          popped[static_cast<std::size_t>(row * across + column)].push_back(pop);
        }
      }
      if (tile.is_behind && u == 1 && begun[1].size() < begun[0].size()) {
        const Begun& beside = begun[0][begun[1].size()];
        follow(beside.push, 1, first_push);
        follow(beside.pass, 1, on.first_pass);
      }
      begun[u].push_back({first_push, on.first_pass});
    }
  }
  Registers sums;
  for (const Registers& parts : popped) {
    if (parts.empty()) continue;
    int sum = parts.front();
    for (std::size_t k = 1; k < parts.size(); ++k)
      sum = begin(static_cast<int>(CoreUnit::valu), 1, 1, {sum, parts[k]});
    sums.push_back(sum);
  }
  for (const int v : op.makes) made_by_[v] = sums;
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
