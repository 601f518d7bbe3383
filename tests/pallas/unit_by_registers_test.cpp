// How much a schedule of registers says of what code takes, and what is spilled in it.
#include "program/unit_by_registers.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "program/unit_count.hpp"
#include "program/unit_pressure.hpp"
#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

TEST_CASE("of products in a row registers decide where they say more", "[pallas][units]") {
  const program::ByRegisters narrow(3, 3, false, false, 4);
  CHECK(narrow.part_of_product(113, 226) == 1);
  CHECK(narrow.part_of_product(5000, 5100) == 1);  // however much they are
  CHECK(narrow.part_of_product(226, 113) == 0.5);
  // Not of what has no product, on wide units, nor of one product alone.
  CHECK(narrow.part(113) == 0.5);
  const program::ByRegisters wide(3, 3, false, false, 2);
  CHECK(wide.part_of_product(5000, 5100) == 0);
  const program::ByRegisters one(0, 2, true, false, 4);
  CHECK(one.part_of_product(113, 226) == 0.5);
}

TEST_CASE("of one product and reductions behind it registers decide where they say more",
          "[pallas][units]") {
  const auto part = [](std::size_t phases, double by_registers) {
    return program::ByRegisters(0, phases, true, false, 4).part_of_product(100, by_registers);
  };
  CHECK(part(2, 150) == 0.5);
  CHECK(part(3, 150) == 1);
  for (const std::size_t phases : {2, 3}) CHECK(part(phases, 50) == 1);
}

TEST_CASE("where few registers of split products spill a schedule decides on a v6e",
          "[pallas][units]") {
  const auto bundles = [](const char* chip, std::int64_t spilled) {
    const program::UnitCosts& costs = *program::unit_costs(chip);
    const program::UnitOp op{.reads = {1, 2}, .makes = {3}, .rows = {}};
    program::ScheduledOp of;
    of.product = 1;
    of.spilled = spilled;
    of.wide = {.tiles = 1,
               .deep = 1,
               .results = 8,
               .rows = 8,
               .pops = 8,
               .pushes = 16,
               .together = 2,
               .push = 4,
               .packs = costs.schedules->packs_words,
               .splits = true,
               .split_left = 8,
               .split_right = 16};
    return bundles_by_registers({}, {}, {&op}, {of}, {0}, costs,
                                program::ByRegisters(0, 0, false, false, 2), 1e6);
  };
  CHECK(bundles("v6e", 0) < 2000);
  CHECK(bundles("v6e", 16) < 2000);
  CHECK(bundles("v6e", 17) == 1e6);
  CHECK(bundles("v7x", 16) == 1e6);
}

TEST_CASE("of what is behind an end of a phase a share is stored and loaded", "[pallas][units]") {
  const program::Pressure::TooMany many{.behind = 64, .at_once = 3, .masks = 5};
  CHECK(many.vectors(0.25) == 19);
  CHECK(many.all() == 72);
}

TEST_CASE("a v4 stores and loads the sums of digits that ids are multiplied by",
          "[pallas][units]") {
  // Numbers of rows, and of those and what was loaded, times 53841: six sums of digits each.
  const auto slots = [](const char* chip, CoreUnit unit, int rows, bool loads) {
    const std::string shape = std::to_string(rows) + "x128xi32";
    const std::string vector = "vector<" + shape + ">";
    const auto two = [&](const std::string& result, const std::string& op) {
      return result + " = \"S.arith." + op + " : (" + vector + ", " + vector + ") -> " + vector +
             "\n";
    };
    const auto p = plan_module(load_module(
        module_text("%a: " + vmem(shape) + ", %o: " + vmem(shape),
                    load_whole("%x", "%a", shape, 2) +
                        "%n = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> " + vector +
                        "\n%c = \"S.arith.constant\"() {value = dense<53841> : " + vector +
                        "} : () -> " + vector + "\n" + two("%s", "addi\"(%n, %x)") +
                        two("%y", loads ? "muli\"(%s, %c)" : "muli\"(%n, %c)") +
                        two("%z", "addi\"(%y, %x)") + store_whole("%z", "%o", shape, 2)),
        "the test's module"));
    std::int64_t all = 0;
    for (const CoreUse& use : program::counted(*p, p->main, *program::unit_costs(chip)).at)
      all += use.slots[static_cast<std::size_t>(unit)];
    return all;
  };
  const auto more = [&](const char* chip, CoreUnit unit, int rows) {
    return slots(chip, unit, rows, false) - slots(chip, unit, rows, true);
  };
  // Of 32 registers all but 64 / 20, of three none.
  CHECK(more("v4", CoreUnit::store, 256) == 173);
  CHECK(more("v4", CoreUnit::load, 256) == 276);
  CHECK(more("v4", CoreUnit::store, 24) == 0);
  CHECK(more("v5e", CoreUnit::store, 256) == 0);
}

}  // namespace tessera::pallas
