// What lies behind a loop and is begun in it.
#include "program/unit_behind_loop.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

using program::Stretch;
using program::UnitCost;
using program::UnitOp;

TEST_CASE("a loop that waits for a product begins what is behind it", "[pallas][units]") {
  program::Program p;
  p.unit_rows = {"load b32", "tpu.matmul pass f32", "store b32", "tpu.wait_dma2"};
  UnitCost load;
  load.slots[static_cast<std::size_t>(CoreUnit::load)] = 1;
  const UnitCost nothing;
  const std::vector<const UnitCost*> rows = {&load, &nothing, &nothing, &nothing};
  program::UnitCosts costs;
  costs.capacity.fill(1);
  costs.schedules = {.behind_loop = 20};
  constexpr int kArray = 100;  // that the loop writes
  constexpr int kOther = 101;
  const UnitOp product{.reads = {1}, .makes = {2}, .rows = {{1, 1}}};
  const UnitOp stores{.reads = {2, kArray}, .makes = {}, .rows = {{2, 1}}};
  const UnitOp waits{.reads = {}, .makes = {}, .rows = {{3, 1}}};
  const auto loads = [](int from, int makes, std::int64_t times) {
    return UnitOp{.reads = {from}, .makes = {makes}, .rows = {{0, times}}};
  };
  const auto begun = [&](const std::vector<UnitOp>& loop, const std::vector<UnitOp>& next) {
    const auto stretch = [](const std::vector<UnitOp>& ops) {
      Stretch s;
      for (const UnitOp& op : ops) s.ops.push_back(&op);
      return s;
    };
    return program::begun_in_loop(p, stretch(loop), stretch(next), rows, costs);
  };
  const std::vector<UnitOp> loop = {product, stores};
  CHECK(begun(loop, {loads(kOther, 3, 8)}) == 4);
  CHECK(begun(loop, {loads(kOther, 3, 800)}) == 20);  // at most
  CHECK(begun(loop, {loads(kArray, 3, 8)}) == 0);     // what the loop wrote
  CHECK(begun(loop, {loads(2, 3, 8)}) == 0);          // or made
  // What follows from that, or from an end of a phase, is not.
  CHECK(begun(loop, {loads(kArray, 3, 8), loads(3, 4, 8)}) == 0);
  const UnitOp behind{.reads = {kOther}, .makes = {5}, .rows = {{1, 1}}};
  CHECK(begun(loop, {behind, loads(5, 6, 8)}) == 0);
  CHECK(begun(loop, {behind, loads(kOther, 6, 8)}) == 4);
  CHECK(begun(loop, {waits, loads(kOther, 6, 8)}) == 0);
  CHECK(begun({product, waits}, {loads(kOther, 3, 8)}) == 0);
  CHECK(begun({stores}, {loads(kOther, 3, 8)}) == 0);  // a loop that multiplies nothing
}

TEST_CASE("a loop is whole if all that it computes is one stretch", "[pallas][units]") {
  const auto whole = [](bool branches) {
    const std::string shape = "8x128xf32";
    const std::string vector = "vector<" + shape + ">";
    const std::string number = " = \"S.arith.constant\"() {value = ";
    const std::string adds =
        load_whole("%s", "%o", shape, 2) +
        "%y = \"S.arith.addf\"(%s, %x) {fastmath = #arith.fastmath<none>} : (" + vector + ", " +
        vector + ") -> " + vector + "\n";
    const std::string stores = store_whole("%y", "%o", shape, 2);
    const std::string is_first =
        "%first = \"S.arith.cmpi\"(%i, %n) {predicate = 0 : i64} : (i32, i32) -> i1\n";
    // Stores of vectors are branched over.
    const std::string body = branches ? adds + is_first + "\"S.scf.if\"(%first) ({\n" + stores +
                                            "\"S.scf.yield\"() : () -> ()\n}, {\n}) : (i1) -> ()\n"
                                      : adds + stores;
    const auto p = plan_module(load_module(
        module_text(
            "%a: " + vmem(shape) + ", %o: " + vmem(shape),
            load_whole("%x", "%a", shape, 2) + "%zero" + number + "0 : i32} : () -> i32\n" +
                "%one" + number + "1 : i32} : () -> i32\n%n" + number +
                "7 : i32} : () -> i32\n\"S.scf.for\"(%zero, %n, %one) ({\n^bb0(%i: i32):\n" + body +
                "\"S.scf.yield\"() : () -> ()\n}) : (i32, i32, i32) -> ()\n" +
                store_whole("%x", "%a", shape, 2)),
        "the test's module"));
    const std::vector<Stretch> all = program::stretches(p->main, false, {});
    int found = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      found += program::is_whole_loop(p->main, all, i) ? 1 : 0;
    return found;
  };
  CHECK(whole(false) == 1);
  CHECK(whole(true) == 0);
}

}  // namespace tessera::pallas
