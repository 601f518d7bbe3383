// What joins masks and packs them, one a bundle.
#include "program/unit_mask_ops.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "program/unit_schedule.hpp"
#include "program/unit_work.hpp"
#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

TEST_CASE("masks of words are packed once for selects of 16 bits", "[pallas][units]") {
  program::Program p;
  p.unit_rows = {"arith.cmpi i32", "arith.andi bool", "arith.select bf16", "arith.select f32"};
  const program::UnitOp one{.reads = {}, .makes = {1}, .rows = {{0, 8}}};
  const program::UnitOp other{.reads = {}, .makes = {2}, .rows = {{0, 1}}};
  const program::UnitOp both{.reads = {1, 2}, .makes = {3}, .rows = {{1, 8}}};
  const auto select = [](int mask, int row) {
    return program::UnitOp{.reads = {mask, 4, 5}, .makes = {6}, .rows = {{row, 4}}};
  };
  const program::UnitOp joined = select(3, 2);
  const program::UnitOp of_one = select(2, 2);
  const program::UnitOp of_words = select(1, 3);
  const program::UnitOp elsewhere = select(7, 2);
  const std::vector<const program::UnitOp*> ops = {&one,    &other,    &both,      &joined,
                                                   &joined, &of_words, &elsewhere, &of_one};
  program::UnitCosts costs;
  const auto packed = [&] {
    std::vector<std::int64_t> all;
    for (const program::MaskOps& m : program::mask_ops(p, ops, costs)) all.push_back(m.packed);
    return all;
  };
  CHECK(program::mask_ops(p, ops, costs)[2].joined == 8);
  CHECK(packed() == std::vector<std::int64_t>{0, 0, 0, 8, 0, 0, 0, 1});
  costs.knows_narrow_masks = true;  // masks of halves are made as they are
  CHECK(packed() == std::vector<std::int64_t>(8));
}

TEST_CASE("one bundle joins or packs one mask", "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(4);
  costs.schedules = {.memory = 4};
  program::UnitCost compared;
  compared.slots[static_cast<std::size_t>(CoreUnit::valu)] = 1;
  const program::UnitCost nothing;
  const auto bundles = [&](std::int64_t joined, std::int64_t packed) {
    program::UnitSchedule schedule(costs);
    schedule.add("arith.cmpi i32", compared, 8);
    schedule.end({.reads = {}, .makes = {1}, .rows = {}});
    schedule.add("arith.andi bool", nothing, joined);
    schedule.end({.reads = {1}, .makes = {2}, .rows = {}});
    const program::UnitOp select{.reads = {2}, .makes = {3}, .rows = {}};
    schedule.pack_masks(select, packed);
    schedule.add("arith.select bf16", compared, 4);
    schedule.end(select);
    return schedule.bundles().value();
  };
  CHECK(bundles(0, 0) < 8);
  CHECK(bundles(8, 0) >= 8);
  CHECK(bundles(8, 8) >= 16);
  // Slots as well.
  program::UnitWork work;
  work.add(compared, 4);
  work.masks = 16;
  work.close(costs, 4);
  CHECK(work.cycles == 16);
}

}  // namespace tessera::pallas
