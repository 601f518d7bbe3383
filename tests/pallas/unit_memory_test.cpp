// What VMEM costs a TPU core: what is stored and loaded again, what lies in tiles of few rows, what
// comes in registers, semaphores that are checked. By hand on modules of text.
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "program/unit_count.hpp"
#include "program/unit_pipeline.hpp"
#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

std::unique_ptr<Program> planned(const std::string& arguments, const std::string& body,
                                 const std::string& attributes = "", const std::string& more = "") {
  return plan_module(
      load_module(module_text(arguments, body, attributes, more), "the test's module"));
}

std::map<std::string, std::int64_t> rows_of(const Program& p) {
  std::map<std::string, std::int64_t> times;
  for (const program::UnitOp& op : p.main.units) {
    for (const auto& [row, n] : op.rows) times[p.unit_rows[static_cast<std::size_t>(row)]] += n;
  }
  return times;
}

std::string zeros(const std::string& name, const std::string& shape) {
  return name + " = \"S.arith.constant\"() {value = dense<0.0> : vector<" + shape +
         ">} : () -> vector<" + shape + ">\n";
}
std::string sum(const std::string& name, const std::string& of, const std::string& shape) {
  const std::string type = "vector<" + shape + ">";
  return name + " = \"S.arith.addf\"(" + of + ") {fastmath = #arith.fastmath<none>} : (" + type +
         ", " + type + ") -> " + type + "\n";
}

/// Windows that stay, of a grid of one dim, and one argument of the kernel's own.
std::string windows(int steps, const std::string& block, int own) {
  const std::string window = "{transform_indices = @to, window_bounds = array<i64: " + block + ">}";
  return "iteration_bounds = array<i64: " + std::to_string(steps) +
         ">, scalar_prefetch = 0 : i64, scratch_operands = " + std::to_string(own) +
         " : i64, window_params = [" + window + ", " + window + "]";
}
const char* const kMap =
    "\"S.func.func\"() ({\n^bb0(%i: i32):\n%zero = \"S.arith.constant\"() {value = 0 : i32} : () "
    "-> i32\n\"S.func.return\"(%zero, %zero) : (i32, i32) -> ()\n}) {function_type = (i32) -> "
    "(i32, i32), sym_name = \"to\"} : () -> ()\n";

/// acc = 0; acc = acc + x; o = acc, where 0 + x is x
std::unique_ptr<Program> accumulated(int steps, const std::string& block,
                                     const std::string& between = "") {
  std::string shape = block + "xf32";
  shape.replace(shape.find(", "), 2, "x");
  return planned("%i: i32, %a: " + vmem(shape) + ", %o: " + vmem(shape) + ", %acc: " + vmem(shape),
                 zeros("%z", shape) + store_whole("%z", "%acc", shape, 2) +
                     load_whole("%x", "%a", shape, 2) + load_whole("%y", "%acc", shape, 2) +
                     sum("%s", "%y, %x", shape) + store_whole("%s", "%acc", shape, 2) + between +
                     load_whole("%r", "%acc", shape, 2) + store_whole("%r", "%o", shape, 2),
                 windows(steps, block, 1), kMap);
}

RunResult run_on(const Program& p, const Shape& array) {
  RunOptions options;
  options.device = load_device("tpu-v5e");
  options.trace_steps = 1 << 16;
  options.dry = true;
  Call call;
  call.program = &p;
  call.inputs = {array_of(DType::f32, array, [](auto i) { return static_cast<double>(i % 7); })};
  return run_call(call, options);
}

}  // namespace

TEST_CASE("what was stored in whole registers is not loaded again", "[pallas][units]") {
  using Rows = std::map<std::string, std::int64_t>;
  // What of the kernel's own memory is not loaded anywhere is not stored either.
  CHECK(rows_of(*accumulated(1, "16, 128")) == Rows{{"load b32", 2}, {"store b32", 2}});
  CHECK(rows_of(*accumulated(4, "16, 128")) == Rows{{"load b32", 2}, {"store b32", 2}});
  // Of parts of registers all is stored and loaded.
  CHECK(rows_of(*accumulated(1, "16, 64")) ==
        Rows{{"load b32", 6}, {"arith.addf f32", 2}, {"store b32", 6}});
  // Of what lies behind a branch nothing is known.
  const std::string branch =
      "%b = \"S.arith.cmpi\"(%i, %i) {predicate = 1 : i64} : (i32, i32) -> i1\n"
      "\"S.scf.if\"(%b) ({\n\"S.scf.yield\"() : () -> ()\n}, {\n}) : (i1) -> ()\n";
  CHECK(rows_of(*accumulated(4, "16, 128", branch)).at("load b32") == 4);
  CHECK(rows_of(*accumulated(4, "16, 128", branch)).at("store b32") == 4);
}

TEST_CASE("a load waits for what is stored there", "[pallas][units]") {
  const auto cycles = [](const char* block) {
    const auto p = accumulated(1, block);
    program::UnitCosts costs;
    costs.rows["load b32"].latency = 1;
    costs.rows["arith.addf f32"].latency = 10;
    costs.rows["store b32"].latency = 100;
    return program::counted(*p, p->main, costs).at.at(0).cycles;
  };
  CHECK(cycles("16, 128") == 1 + 100);
  CHECK(cycles("16, 64") == 1 + 10 + 1 + 100);
}

TEST_CASE("an array of one element comes in registers, and its tiles are of one row",
          "[pallas][units]") {
  const std::string shape = "24x512xf32";
  const auto p = planned("%i: i32, %a: " + vmem(shape) + ", %o: " + vmem(shape),
                         load_whole("%x", "%a", shape, 2) + store_whole("%x", "%o", shape, 2),
                         windows(1, "24, 512", 0), kMap);
  const RunResult whole = run_on(*p, {24, 512});
  const RunResult one = run_on(*p, {1, 1});
  REQUIRE((whole.ok() && one.ok()));
  const auto operand = program::unit_costs("v5e")->operand;
  CHECK(whole.plan.core.launch_cycles == std::llround(2 * operand));
  CHECK(one.plan.core.launch_cycles == std::llround(2 + 4 + 1 + operand));
  const auto slots = [](const RunResult& r, CoreUnit unit) {
    return r.trace.works.at(0).core.slots[static_cast<std::size_t>(unit)];
  };
  CHECK(slots(whole, CoreUnit::load) == 12);
  CHECK(slots(whole, CoreUnit::store) == 12);
  // 24 rows of 4 tiles, in a register each, are put together through memory: the other window's
  // array has tiles of 8 rows.
  CHECK(slots(one, CoreUnit::load) == 24 + 12);
  CHECK(slots(one, CoreUnit::store) == 24 + 12);
}

namespace {

/// x where the row is less than `end`, else 0, by way of a cast of shape.
std::string masked_rows(const std::string& shape, int end) {
  const std::string ints = "vector<" + shape.substr(0, shape.rfind('x')) + "xi32>";
  const std::string mask = "vector<" + shape.substr(0, shape.rfind('x')) + "xi1>";
  const std::string type = "vector<" + shape + ">";
  return "%n = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> " + ints +
         "\n%c = \"S.arith.constant\"() {value = dense<" + std::to_string(end) + "> : " + ints +
         "} : () -> " + ints + "\n%m = \"S.arith.cmpi\"(%n, %c) {predicate = 2 : i64} : (" + ints +
         ", " + ints + ") -> " + mask + "\n" + zeros("%z", shape) +
         "%r = \"S.vector.shape_cast\"(%x) : (vector<1x" + shape + ">) -> " + type +
         "\n%s = \"S.arith.select\"(%m, %r, %z) : (" + mask + ", " + type + ", " + type + ") -> " +
         type + "\n";
}

/// The first rows of an array of blocks of 24 x 512, and zeros behind them.
std::unique_ptr<Program> first_rows(int end) {
  const std::string shape = "24x512xf32";
  const std::string three =
      "\"S.func.func\"() ({\n^bb0(%i: i32):\n%zero = \"S.arith.constant\"() {value = 0 : i32} : () "
      "-> i32\n\"S.func.return\"(%zero, %zero, %zero) : (i32, i32, i32) -> ()\n}) {function_type = "
      "(i32) -> (i32, i32, i32), sym_name = \"three\"} : () -> ()\n";
  return planned("%i: i32, %a: " + vmem("1x" + shape) + ", %o: " + vmem(shape),
                 load_whole("%x", "%a", "1x" + shape, 3) + masked_rows(shape, end) +
                     store_whole("%s", "%o", shape, 2),
                 "iteration_bounds = array<i64: 1>, scalar_prefetch = 0 : i64, scratch_operands = "
                 "0 : i64, window_params = [{transform_indices = @three, window_bounds = "
                 "array<i64: 1, 24, 512>}, {transform_indices = @to, window_bounds = "
                 "array<i64: 24, 512>}]",
                 three + kMap);
}

}  // namespace

TEST_CASE("what a mask leaves out behind a cast of shape is not loaded", "[pallas][units]") {
  const auto rows = rows_of(*first_rows(5));
  CHECK(rows.at("load b32") == 4);
  CHECK(rows.at("arith.select f32") == 4);
  CHECK(rows.at("store b32") == 12);
  CHECK(rows_of(*first_rows(13)).at("load b32") == 8);
}

TEST_CASE("few rows that meet a mask of an iota are put together, and parted again",
          "[pallas][units]") {
  using Slots = std::array<std::int64_t, 4>;  // load, VALU, store, XLU
  const auto slots = [](std::int64_t rows_of_tile, CoreUnit of_parted) {
    const auto p = first_rows(5);
    program::UnitCosts costs;
    costs.capacity.fill(1);
    const auto row = [&](const std::string& name, CoreUnit unit) {
      costs.rows[name].slots[static_cast<std::size_t>(unit)] = 1;
    };
    row("load b32", CoreUnit::load);
    row("arith.select f32", CoreUnit::valu);
    row("store b32", CoreUnit::store);
    row("few rows b32", CoreUnit::store);
    row("few rows b32", CoreUnit::load);
    row("few rows b32 parted", of_parted);
    program::WindowArrays arrays;
    arrays.few_rows = {rows_of_tile, rows_of_tile};
    const auto use = program::counted(*p, p->main, costs, arrays).at.at(0);
    const auto of = [&](CoreUnit unit) { return use.slots[static_cast<std::size_t>(unit)]; };
    return Slots{of(CoreUnit::load), of(CoreUnit::valu), of(CoreUnit::store), of(CoreUnit::xlu)};
  };
  CHECK(slots(0, CoreUnit::xlu) == Slots{4, 4, 12, 0});
  // All 24 are stored to be put together, of which those that are used are loaded; what is no
  // constant is parted where that is computed.
  CHECK(slots(1, CoreUnit::xlu) == Slots{24 + 4, 4, 24 + 24, 4});
  CHECK(slots(1, CoreUnit::store) == Slots{24 + 4, 4, 24 + 12 + 24, 0});
}

TEST_CASE("halves of tiles of few rows are packed when they have been put together",
          "[pallas][units]") {
  // 16 rows of f32, of an array of one row.
  const auto p =
      planned("%i: i32, %a: " + vmem("16x256xf32") + ", %o: " + vmem("16x256xbf16"),
              load_whole("%x", "%a", "16x256xf32", 2) + sum("%s", "%x, %x", "16x256xf32") +
                  "%y = \"S.arith.truncf\"(%s) : (vector<16x256xf32>) -> vector<16x256xbf16>\n" +
                  store_whole("%y", "%o", "16x256xbf16", 2),
              windows(1, "16, 256", 0), kMap);
  const auto slots = [&](std::int64_t rows_of_tile) {
    program::UnitCosts costs;
    costs.capacity.fill(1);
    const auto row = [&](const std::string& name, CoreUnit unit) {
      costs.rows[name].slots[static_cast<std::size_t>(unit)] = 1;
    };
    row("load b32", CoreUnit::load);
    row("few rows b32", CoreUnit::store);
    row("arith.addf f32", CoreUnit::valu);
    row("few rows b16", CoreUnit::xlu);
    program::WindowArrays arrays;
    arrays.few_rows = {rows_of_tile, 0};
    const auto use = program::counted(*p, p->main, costs, arrays).at.at(0);
    return std::array{use.slots[static_cast<std::size_t>(CoreUnit::load)],
                      use.slots[static_cast<std::size_t>(CoreUnit::valu)],
                      use.slots[static_cast<std::size_t>(CoreUnit::store)],
                      use.slots[static_cast<std::size_t>(CoreUnit::xlu)]};
  };
  CHECK(slots(0) == std::array<std::int64_t, 4>{4, 4, 0, 0});
  // 16 registers of a row each: added so, and then put together.
  CHECK(slots(1) == std::array<std::int64_t, 4>{16, 16, 0, 16});
}

TEST_CASE("tiles of two rows of 16 bits fill registers, and whole ones are parted for them",
          "[pallas][units]") {
  using Slots = std::array<std::int64_t, 4>;  // load, VALU, store, XLU
  const auto slots = [](const std::string& columns, std::vector<std::int64_t> rows_of_tiles) {
    const std::string shape = "64x" + columns + "xbf16";
    const auto p = planned("%i: i32, %a: " + vmem(shape) + ", %o: " + vmem(shape),
                           load_whole("%x", "%a", shape, 2) + sum("%s", "%x, %x", shape) +
                               store_whole("%s", "%o", shape, 2),
                           windows(1, "64, " + columns, 0), kMap);
    program::UnitCosts costs;
    costs.capacity.fill(1);
    const auto row = [&](const std::string& name, CoreUnit unit) {
      costs.rows[name].slots[static_cast<std::size_t>(unit)] = 1;
    };
    row("load b16", CoreUnit::load);
    row("arith.addf bf16", CoreUnit::valu);
    row("store b16", CoreUnit::store);
    row("few rows b16", CoreUnit::store);
    row("few rows b16 parted", CoreUnit::xlu);
    program::WindowArrays arrays;
    arrays.few_rows = std::move(rows_of_tiles);
    const auto use = program::counted(*p, p->main, costs, arrays).at.at(0);
    const auto of = [&](CoreUnit unit) { return use.slots[static_cast<std::size_t>(unit)]; };
    return Slots{of(CoreUnit::load), of(CoreUnit::valu), of(CoreUnit::store), of(CoreUnit::xlu)};
  };
  CHECK(slots("512", {0, 0}) == Slots{16, 16, 16, 0});
  // 32 rows of four tiles, two rows of them to a load: four sublanes of each to a store.
  CHECK(slots("512", {2, 2}) == Slots{16, 16, 32, 0});
  CHECK(slots("512", {0, 2}) == Slots{16, 16, 32, 16});
  // A row of one tile comes by itself.
  CHECK(slots("128", {2, 2}) == Slots{32, 32, 32, 0});
  CHECK(slots("512", {0, 4}) == Slots{16, 16, 16, 8});
}

TEST_CASE("a kernel checks each semaphore of its own at its end", "[pallas][units]") {
  const auto launch = [](const std::string& semaphores) {
    const auto p = planned(
        "%i: i32, %a: " + vmem("8x128xf32") + ", %o: " + vmem("8x128xf32") + ", %s: memref<" +
            semaphores + "!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>",
        load_whole("%x", "%a", "8x128xf32", 2) + store_whole("%x", "%o", "8x128xf32", 2),
        windows(1, "8, 128", 1), kMap);
    program::UnitCosts costs;
    costs.semaphore = 7;
    return program::pipeline_cycles(*p, 1, {}, costs).launch;
  };
  CHECK(launch("") == 7);
  CHECK(launch("3x") == 21);
}

}  // namespace tessera::pallas
