// What ops ask of a TPU core's units, and the time that follows: by hand on modules of text, and
// beside the schedules that the TPU's compiler made of real kernels (schedules_v5e.txt).
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "pallas/call_directory.hpp"
#include "predict/timeline.hpp"
#include "program/unit_count.hpp"
#include "program/unit_overlap.hpp"
#include "program/unit_phases.hpp"
#include "program/unit_pipeline.hpp"
#include "program/unit_placement.hpp"
#include "program/unit_products.hpp"
#include "program/unit_schedule.hpp"
#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

/// Of the modules in schedules_v5e.txt and its like, as predict/ACCURACY.md has them.
constexpr double kMedian = 0.25;
constexpr double kWorst = 0.9;

/// The compiler shares parallel cells among a v5p's two cores; a v4's it does not.
int cores_of(const RecordedCall& r, const std::string& chip) {
  const Program& p = *r.program;
  bool shared = false;
  for (std::size_t d = 0; d < p.grid.size(); ++d) shared |= p.parallel[d] && p.grid[d] > 1;
  return chip == "v5p" && shared ? 2 : r.cores;
}

std::map<std::string, std::int64_t> asked_by(const std::string& arguments,
                                             const std::string& body) {
  return asked(*plan_module(load_module(module_text(arguments, body), "the test's module")));
}

std::int64_t all_cycles(const program::CountedCode& c) {
  std::int64_t all = 0;
  for (const CoreUse& use : c.at) all += use.cycles;
  return all;
}

RunOptions timed(const char* device) {
  RunOptions options;
  options.device = load_device(device);
  options.trace_steps = 1 << 16;
  options.dry = true;
  return options;
}

/// A chip of which there are no costs.
RunOptions unmeasured() {
  RunOptions options = timed("tpu-v5p");
  options.device.jax.chip = "another";
  return options;
}

predict::Timeline timeline(const RunResult& r, int cores = 1) {
  return predict::timeline_of(r.plan, r.trace, DType::f32,
                              {.most_spans = 0, .cores = cores, .mesh = {}});
}

/// x is added to itself `trips` times.
std::unique_ptr<Program> looped(int trips) {
  const std::string n = std::to_string(trips);
  return plan_module(load_module(
      module_text(
          "%a: " + vmem("64x256xf32") + ", %o: " + vmem("64x256xf32"),
          load_whole("%x", "%a", "64x256xf32", 2) +
              "%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
              "%one = \"S.arith.constant\"() {value = 1 : i32} : () -> i32\n"
              "%n = \"S.arith.constant\"() {value = " +
              n +
              " : i32} : () -> i32\n"
              "%r = \"S.scf.for\"(%zero, %n, %one, %x) ({\n^bb0(%i: i32, %s: vector<64x256xf32>):\n"
              "%y = \"S.arith.addf\"(%s, %x) {fastmath = #arith.fastmath<none>} : "
              "(vector<64x256xf32>, vector<64x256xf32>) -> vector<64x256xf32>\n"
              "\"S.scf.yield\"(%y) : (vector<64x256xf32>) -> ()\n}) : (i32, i32, i32, "
              "vector<64x256xf32>) -> vector<64x256xf32>\n" +
              store_whole("%r", "%o", "64x256xf32", 2)),
      "the test's module"));
}

RunResult run_program(const Program& p, const Shape& shape, const RunOptions& options) {
  Call call;
  call.program = &p;
  call.inputs = {array_of(DType::f32, shape, [](auto i) { return static_cast<double>(i % 7); })};
  return run_call(call, options);
}

std::int64_t cycles_of_loop(int trips, bool dry = true) {
  RunOptions options = timed("tpu-v5e");
  options.dry = dry;
  const auto program = looped(trips);
  const RunResult r = run_program(*program, {64, 256}, options);
  REQUIRE(r.ok());
  REQUIRE(r.trace.works.size() == 1);
  return r.trace.works[0].core.cycles;
}

/// Cycles in which the TPU's compiler issues bundles of each module of the corpus, on a chip.
std::map<std::string, double> scheduled(const std::string& chip) {
  std::ifstream file(std::string(TESSERA_SCHEDULES) + "/schedules_" + chip + ".txt");
  std::map<std::string, double> cycles;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name;
    words >> name;
    words >> cycles[name];
  }
  return cycles;
}

/// A copy of blocks of 8 x 128 by so many parallel steps.
std::unique_ptr<Program> copied_blocks(int steps) {
  std::string text = module_text(
      "%i: i32, %a: " + vmem("8x128xf32") + ", %o: " + vmem("8x128xf32"),
      load_whole("%x", "%a", "8x128xf32", 2) + store_whole("%x", "%o", "8x128xf32", 2),
      "iteration_bounds = array<i64: " + std::to_string(steps) +
          ">, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, "
          "window_params = [{transform_indices = @to, window_bounds = array<i64: 8, 128>}, "
          "{transform_indices = @to, window_bounds = array<i64: 8, 128>}]",
      "\"S.func.func\"() ({\n^bb0(%i: i32):\n"
      "%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
      "\"S.func.return\"(%i, %zero) : (i32, i32) -> ()\n}) "
      "{function_type = (i32) -> (i32, i32), sym_name = \"to\"} : () -> ()\n");
  const std::string none = "dimension_semantics = []";
  text.replace(text.find(none), none.size(),
               "dimension_semantics = [#tpu.dimension_semantics<parallel>]");
  return plan_module(load_module(text, "the test's module"));
}

}  // namespace

TEST_CASE("ops ask for the registers of their vectors", "[pallas][units]") {
  // 20 x 300 f32: 3 registers down, 3 across; of bf16, 16 rows each: 2 down.
  const auto f32 = asked_by(
      "%a: " + vmem("20x300xf32") + ", %o: " + vmem("20x300xf32"),
      load_whole("%x", "%a", "20x300xf32", 2) +
          "%y = \"S.arith.addf\"(%x, %x) {fastmath = #arith.fastmath<none>} : (vector<20x300xf32>, "
          "vector<20x300xf32>) -> vector<20x300xf32>\n" +
          store_whole("%y", "%o", "20x300xf32", 2));
  CHECK(f32 == std::map<std::string, std::int64_t>{
                   {"load b32", 9}, {"arith.addf f32", 9}, {"store b32", 9}});
  const auto bf16 =
      asked_by("%a: " + vmem("20x300xbf16") + ", %o: " + vmem("20x300xbf16"),
               load_whole("%x", "%a", "20x300xbf16", 2) +
                   "%y = \"S.arith.mulf\"(%x, %x) {fastmath = #arith.fastmath<none>} : "
                   "(vector<20x300xbf16>, vector<20x300xbf16>) -> vector<20x300xbf16>\n" +
                   store_whole("%y", "%o", "20x300xbf16", 2));
  CHECK(bf16 == std::map<std::string, std::int64_t>{
                    {"load b16", 6}, {"arith.mulf bf16", 6}, {"store b16 masked", 6}});
}

TEST_CASE("a quotient asks by what repeats one number, and which", "[pallas][units]") {
  const auto divided = [](const std::string& type, const std::string& op,
                          const std::string& operands, const std::string& number) {
    const std::string shape = "16x128x" + type;
    const bool real = type == "f32";
    return asked_by("%a: " + vmem(shape) + ", %o: " + vmem(shape),
                    load_whole("%x", "%a", shape, 2) +
                        "%c = \"S.arith.constant\"() {value = dense<" + number + "> : vector<" +
                        shape + ">} : () -> vector<" + shape + ">\n%y = \"S.arith." + op + "\"(" +
                        operands + ")" + (real ? " {fastmath = #arith.fastmath<none>}" : "") +
                        " : (vector<" + shape + ">, vector<" + shape + ">) -> vector<" + shape +
                        ">\n" + store_whole("%y", "%o", shape, 2));
  };
  CHECK(divided("f32", "divf", "%x, %c", "3.0").at("arith.divf f32 splat") == 2);
  CHECK(divided("f32", "divf", "%c, %x", "3.0").at("arith.divf f32 of splat") == 2);
  CHECK(divided("f32", "divf", "%x, %x", "3.0").at("arith.divf f32") == 2);
  for (const std::string op : {"divsi", "remsi", "divui", "remui"}) {
    const std::string row = "arith." + op + " i32 ";
    CHECK(divided("i32", op, "%x, %c", "8").at(row + "splat power") == 2);
    CHECK(divided("i32", op, "%x, %c", "12").at(row + "splat") == 2);
    CHECK(divided("i32", op, "%c, %x", "8").at(row + "of splat") == 2);
  }
}

TEST_CASE("what the compiler knows of values it does not compute", "[pallas][units]") {
  const std::string type = "vector<16x128xi32>";
  const auto op = [&](const std::string& result, const std::string& name,
                      const std::string& operands, const std::string& more = "",
                      const std::string& to = "i32") {
    std::string types;
    for (const char c : operands) types += c == '%' ? (types.empty() ? "" : ", ") + type : "";
    return result + " = \"S." + name + "\"(" + operands + ")" + more + " : (" + types +
           ") -> vector<16x128x" + to + ">\n";
  };
  const std::string eight =
      "%c = \"S.arith.constant\"() {value = dense<8> : " + type + "} : () -> " + type + "\n";
  const std::string zero =
      "%z = \"S.arith.constant\"() {value = dense<0> : " + type + "} : () -> " + type + "\n";
  const std::string down = op("%n", "tpu.iota", "", " {dimensions = array<i32: 0>}");
  const auto rows = [&](const std::string& body) {
    return asked_by(
        "%w: memref<1xi32, @smem>, %a: " + vmem("16x128xi32") + ", %o: " + vmem("16x128xi32"),
        load_whole("%x", "%a", "16x128xi32", 2) + eight + zero + body +
            store_whole("%y", "%o", "16x128xi32", 2));
  };
  // Numbers of rows are not negative: shifts, and bits. Those of memory may be.
  CHECK(rows(down + op("%y", "arith.divsi", "%n, %c")).at("arith.shrui i32 splat") == 2);
  CHECK(rows(down + op("%y", "arith.remsi", "%n, %c")).at("arith.andi i32") == 2);
  CHECK(rows(op("%y", "arith.divsi", "%x, %c")).at("arith.divsi i32 splat power") == 2);
  const std::string less = " {predicate = 2 : i64}";
  const auto below = [&](const std::string& of) {
    return rows(down + op("%m", "arith.cmpi", of + ", %z", less, "i1") +
                "%y = \"S.arith.select\"(%m, %x, %n) : (vector<16x128xi1>, " + type + ", " + type +
                ") -> " + type + "\n");
  };
  CHECK(below("%n").count("arith.cmpi i32") + below("%n").count("arith.select i32") == 0);
  CHECK(below("%x").at("arith.select i32") == 2);
  // The same of the same is there already; of another it is not.
  const auto twice = [&](const std::string& a, const std::string& b) {
    return rows(down + op("%p", "arith.addi", "%x, %n", "") + op("%q", "arith.addi", a + ", " + b) +
                op("%y", "arith.xori", "%p, %q"));
  };
  CHECK(twice("%x", "%n").at("arith.addi i32") == 2);
  CHECK(twice("%x", "%x").at("arith.addi i32") == 4);
  // What one arm computes the other one has not.
  const auto arms = [&](const std::string& before) {
    const std::string sum = op("%p", "arith.addi", "%x, %n");
    const std::string again = op("%q", "arith.addi", "%x, %n");
    const auto arm = [&](const std::string& v) {
      return "\"S.scf.yield\"(" + v + ") : (" + type + ") -> ()\n";
    };
    return rows(down + before +
                "%i = \"S.arith.constant\"() {value = 0 : index} : () -> index\n"
                "%l = \"S.memref.load\"(%w, %i) : (memref<1xi32, @smem>, index) -> i32\n"
                "%s = \"S.arith.cmpi\"(%l, %l) {predicate = 1 : i64} : (i32, i32) -> i1\n"
                "%y = \"S.scf.if\"(%s) ({\n" +
                (before.empty() ? sum : "") + arm("%p") + "}, {\n" + again + arm("%q") +
                "}) : (i1) -> " + type + "\n");
  };
  CHECK(arms("").at("arith.addi i32") == 4);
  CHECK(arms(op("%p", "arith.addi", "%x, %n")).at("arith.addi i32") == 2);
}

TEST_CASE("by the same number that is written twice is computed once", "[pallas][units]") {
  // As JAX caps scores, once for their exponentials and once for their gradient.
  const std::string type = "vector<16x128xf32>";
  const auto tanh_of_quotients = [&](const std::string& first, const std::string& second) {
    const auto capped = [&](const std::string& n, const std::string& by) {
      return "%c" + n + " = \"S.arith.constant\"() {value = " + by + " : f32} : () -> f32\n%b" + n +
             " = \"S.vector.broadcast\"(%c" + n + ") : (f32) -> " + type + "\n%q" + n +
             " = \"S.arith.divf\"(%x, %b" + n + ") {fastmath = #arith.fastmath<none>} : (" + type +
             ", " + type + ") -> " + type + "\n%t" + n + " = \"S.math.tanh\"(%q" + n +
             ") {fastmath = #arith.fastmath<none>} : (" + type + ") -> " + type + "\n";
    };
    return asked_by("%a: " + vmem("16x128xf32") + ", %o: " + vmem("16x128xf32"),
                    load_whole("%x", "%a", "16x128xf32", 2) + capped("0", first) +
                        capped("1", second) +
                        "%y = \"S.arith.mulf\"(%t0, %t1) {fastmath = "
                        "#arith.fastmath<none>} : (" +
                        type + ", " + type + ") -> " + type + "\n" +
                        store_whole("%y", "%o", "16x128xf32", 2))
        .at("math.tanh f32");
  };
  CHECK(tanh_of_quotients("3.000000e+01", "3.000000e+01") == 2);
  CHECK(tanh_of_quotients("3.000000e+01", "5.000000e+01") == 4);
}

TEST_CASE("a product with a constant asks by its digits", "[pallas][units]") {
  const auto by = [](const std::string& factor) {
    return asked_by("%a: " + vmem("16x128xi32") + ", %o: " + vmem("16x128xi32"),
                    load_whole("%x", "%a", "16x128xi32", 2) +
                        "%c = \"S.arith.constant\"() {value = dense<" + factor +
                        "> : vector<16x128xi32>} : () -> vector<16x128xi32>\n"
                        "%y = \"S.arith.muli\"(%x, %c) : (vector<16x128xi32>, "
                        "vector<16x128xi32>) -> vector<16x128xi32>\n" +
                        store_whole("%y", "%o", "16x128xi32", 2));
  };
  // Of 16 x 128, 2 registers. 7 = 8 - 1; 81 = 64 + 16 + 1; 53841 = 2^16 - 2^14 + 2^12 + 2^9 + ...
  CHECK(by("8").at("arith.muli i32 splat") == 2);
  CHECK(by("8").count("arith.muli i32 splat digit") == 0);
  CHECK(by("7").at("arith.muli i32 splat digit") == 2);
  CHECK(by("81").at("arith.muli i32 splat digit") == 2 * 2);
  CHECK(by("53841").at("arith.muli i32 splat digit") == 2 * 6);
  CHECK(by("-766435501").at("arith.muli i32 splat digit") == 2 * 11);
}

TEST_CASE("a product with parts of a constant float asks by their digits", "[pallas][units]") {
  const std::string words = "vector<16x128xi32>";
  const std::string two = "(" + words + ", " + words + ") -> " + words + "\n";
  const auto rows = asked_by(
      "%a: " + vmem("16x128xi32") + ", %o: " + vmem("16x128xi32"),
      load_whole("%x", "%a", "16x128xi32", 2) +
          "%f = \"S.arith.constant\"() {value = dense<0.75> : vector<16x128xf32>} : () -> "
          "vector<16x128xf32>\n"
          "%g = \"S.arith.addf\"(%f, %f) {fastmath = #arith.fastmath<none>} : "
          "(vector<16x128xf32>, vector<16x128xf32>) -> vector<16x128xf32>\n"
          "%b = \"S.arith.bitcast\"(%g) : (vector<16x128xf32>) -> " +
          words + "\n%n = \"S.arith.constant\"() {value = dense<8388607> : " + words +
          "} : () -> " + words + "\n%one = \"S.arith.constant\"() {value = dense<8388608> : " +
          words + "} : () -> " + words + "\n%low = \"S.arith.andi\"(%b, %n) : " + two +
          "%all = \"S.arith.ori\"(%low, %one) : " + two +
          "%y = \"S.arith.muli\"(%x, %all) : " + two + store_whole("%y", "%o", "16x128xi32", 2));
  // 1.5 has the significand 0xc00000 = 2^24 - 2^22.
  CHECK(rows.at("arith.muli i32 splat") == 2);
  CHECK(rows.at("arith.muli i32 splat digit") == 2);
  CHECK(rows.count("arith.muli i32") == 0);
}

TEST_CASE("a mask of what lies before a constant asks where it is mixed", "[pallas][units]") {
  const auto masked = [](const std::string& dim, const std::string& bound) {
    const std::string type = "vector<16x512xi32>";
    const std::string two = "(" + type + ", " + type + ")";
    return asked_by(
        "%a: " + vmem("16x512xf32") + ", %o: " + vmem("16x512xf32"),
        load_whole("%x", "%a", "16x512xf32", 2) +
            "%n = \"S.tpu.iota\"() {dimensions = array<i32: " + dim + ">} : () -> " + type +
            "\n%c = \"S.arith.constant\"() {value = dense<" + bound + "> : " + type + "} : () -> " +
            type + "\n%m = \"S.arith.cmpi\"(%n, %c) {predicate = 2 : i64} : " + two +
            " -> vector<16x512xi1>\n"
            "%z = \"S.arith.constant\"() {value = dense<0.0> : vector<16x512xf32>} : () -> "
            "vector<16x512xf32>\n"
            "%y = \"S.arith.select\"(%m, %x, %z) : (vector<16x512xi1>, vector<16x512xf32>, "
            "vector<16x512xf32>) -> vector<16x512xf32>\n" +
            store_whole("%y", "%o", "16x512xf32", 2));
  };
  // 2 x 4 registers of 8 x 128: of the second of each row 112 lanes are masked, the others are
  // whole.
  CHECK(masked("1", "240").at("arith.select f32") == 2);
  CHECK(masked("1", "240").at("arith.cmpi i32") == 1);  // the same for each row
  CHECK(masked("1", "256").count("arith.select f32") == 0);
  CHECK(masked("0", "13").at("arith.select f32") == 4);
  CHECK(masked("0", "16").count("arith.select f32") == 0);
  // So is what it compares.
  CHECK(masked("0", "13").at("tpu.iota b32 sublanes") == 1);
  CHECK(masked("0", "16").count("tpu.iota b32 sublanes") == 0);
  // What is thrown away is not loaded.
  CHECK(masked("1", "240").at("load b32") == 4);
  CHECK(masked("0", "8").at("load b32") == 4);
  CHECK(masked("0", "13").at("load b32") == 8);
}

TEST_CASE("masks of 16 bits not every compiler knows", "[pallas][units]") {
  const std::string numbers = "vector<16x512xi32>";
  const std::string halves = "vector<16x512xbf16>";
  const auto program = plan_module(load_module(
      module_text(
          "%a: " + vmem("16x512xbf16") + ", %o: " + vmem("16x512xbf16"),
          load_whole("%x", "%a", "16x512xbf16", 2) +
              "%n = \"S.tpu.iota\"() {dimensions = array<i32: 1>} : () -> " + numbers +
              "\n%c = \"S.arith.constant\"() {value = dense<240> : " + numbers + "} : () -> " +
              numbers + "\n%m = \"S.arith.cmpi\"(%n, %c) {predicate = 2 : i64} : (" + numbers +
              ", " + numbers +
              ") -> vector<16x512xi1>\n"
              "%z = \"S.arith.constant\"() {value = dense<0.0> : " +
              halves + "} : () -> " + halves +
              "\n%y = \"S.arith.select\"(%m, %x, %z) : (vector<16x512xi1>, " + halves + ", " +
              halves + ") -> " + halves + "\n" + store_whole("%y", "%o", "16x512xbf16", 2)),
      "the test's module"));
  const auto selected = [&](const std::vector<program::UnitOp>& ops) {
    std::int64_t times = 0;
    for (const program::UnitOp& op : ops) {
      for (const auto& [row, n] : op.rows)
        times += program->unit_rows[static_cast<std::size_t>(row)] == "arith.select bf16" ? n : 0;
    }
    return times;
  };
  // 4 registers of 16 x 128, of which one is mixed and two are masked.
  CHECK(selected(program->main.units) == 4);
  CHECK(selected(program->main.units_of_known_narrow_masks) == 1);
}

TEST_CASE("what a select of 8 bits leaves nobody knows", "[pallas][units]") {
  // Rows, then columns: of four registers of 32 rows the first is mixed, each has such a column.
  const std::string numbers = "vector<128x128xi32>";
  const std::string masks = "vector<128x128xi1>";
  const auto selected = [&](const std::string& type) {
    const std::string values = "vector<128x128x" + type + ">";
    const auto select = [&](const std::string& to, const std::string& from,
                            const std::string& dim) {
      return "%n" + dim + " = \"S.tpu.iota\"() {dimensions = array<i32: " + dim + ">} : () -> " +
             numbers + "\n%m" + dim + " = \"S.arith.cmpi\"(%n" + dim +
             ", %c) {predicate = 2 : i64} : (" + numbers + ", " + numbers + ") -> " + masks + "\n" +
             to + " = \"S.arith.select\"(%m" + dim + ", " + from + ", %z) : (" + masks + ", " +
             values + ", " + values + ") -> " + values + "\n";
    };
    const auto program = plan_module(load_module(
        module_text("%a: " + vmem("128x128x" + type) + ", %o: " + vmem("128x128x" + type),
                    load_whole("%x", "%a", "128x128x" + type, 2) +
                        "%c = \"S.arith.constant\"() {value = dense<1> : " + numbers +
                        "} : () -> " + numbers +
                        "\n%z = \"S.arith.constant\"() {value = dense<0> : " + values +
                        "} : () -> " + values + "\n" + select("%y", "%x", "0") +
                        select("%w", "%y", "1") + store_whole("%w", "%o", "128x128x" + type, 2)),
        "the test's module"));
    std::vector<std::int64_t> times;
    for (const program::UnitOp& op : program->main.units_of_known_narrow_masks) {
      for (const auto& [row, n] : op.rows)
        if (program->unit_rows[static_cast<std::size_t>(row)] == "arith.select " + type)
          times.push_back(n);
    }
    return times;
  };
  CHECK(selected("i8") == std::vector<std::int64_t>{1, 4});
  CHECK(selected("i16") == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("what follows from registers that hold the same is computed once", "[pallas][units]") {
  const std::string type = "vector<16x512xf32>";
  const std::string fast = " {fastmath = #arith.fastmath<none>} : ";
  const auto wide = [&](const std::string& to, const std::string& from) {
    return to + " = \"S.vector.broadcast\"(" + from + ") : (vector<16x1xf32>) -> " + type + "\n";
  };
  const auto pair = [&](const std::string& to, const std::string& op, const std::string& a,
                        const std::string& b) {
    return to + " = \"S.arith." + op + "\"(" + a + ", " + b + ")" + fast + "(" + type + ", " +
           type + ") -> " + type + "\n";
  };
  const std::string arguments =
      "%a: " + vmem("16x512xf32") + ", %b: " + vmem("16x1xf32") + ", %o: " + vmem("16x512xf32");
  const std::string loaded =
      load_whole("%x", "%a", "16x512xf32", 2) + load_whole("%c", "%b", "16x1xf32", 2);
  // Of 2 x 4 registers two divisors differ, and what is computed of those alone.
  const auto divided = asked_by(
      arguments, loaded + wide("%d", "%c") + pair("%e", "addf", "%d", "%d") +
                     pair("%y", "divf", "%x", "%e") + store_whole("%y", "%o", "16x512xf32", 2));
  CHECK(divided.at("arith.addf f32") == 2);
  CHECK(divided.at("arith.divf f32") == 2);
  CHECK(divided.at("arith.mulf f32") == 6);
  // Of four registers of a row one is x, one is mixed, and the two behind them are the same.
  const auto masked =
      asked_by(arguments,
               loaded +
                   "%n = \"S.tpu.iota\"() {dimensions = array<i32: 1>} : () -> vector<16x512xi32>\n"
                   "%k = \"S.arith.constant\"() {value = dense<240> : vector<16x512xi32>} : () -> "
                   "vector<16x512xi32>\n"
                   "%z = \"S.arith.constant\"() {value = dense<0xFF800000> : " +
                   type + "} : () -> " + type +
                   "\n%m = \"S.arith.cmpi\"(%n, %k) {predicate = 2 : i64} : (vector<16x512xi32>, "
                   "vector<16x512xi32>) -> vector<16x512xi1>\n"
                   "%s = \"S.arith.select\"(%m, %x, %z) : (vector<16x512xi1>, " +
                   type + ", " + type + ") -> " + type + "\n" + wide("%d", "%c") +
                   pair("%e", "subf", "%s", "%d") + "%y = \"S.math.exp\"(%e)" + fast + "(" + type +
                   ") -> " + type + "\n" + store_whole("%y", "%o", "16x512xf32", 2));
  CHECK(masked.at("arith.subf f32") == 2 * 3);
  CHECK(masked.at("math.exp f32") == 2 * 3);
  CHECK(masked.at("store b32") == 2 * 4);
}

TEST_CASE("a slice of columns stays in its lanes, and what meets it is rotated",
          "[pallas][units]") {
  // The left and right half of a row, computed with and put together again.
  const std::string half = "vector<8x64xf32>";
  const auto slice = [&](const std::string& to, const std::string& at) {
    return to + " = \"S.vector.extract_strided_slice\"(%x) {offsets = [0, " + at +
           "], sizes = [8, 64], strides = [1, 1]} : (vector<8x128xf32>) -> " + half + "\n";
  };
  const auto sum = [&](const std::string& to, const std::string& a, const std::string& b) {
    return to + " = \"S.arith.addf\"(" + a + ", " + b + ") {fastmath = #arith.fastmath<none>} : (" +
           half + ", " + half + ") -> " + half + "\n";
  };
  const auto rotations = [&](const std::string& a, const std::string& b) {
    const auto rows = asked_by(
        "%a: " + vmem("8x128xf32") + ", %b: " + vmem("8x64xf32") + ", %o: " + vmem("8x128xf32"),
        load_whole("%x", "%a", "8x128xf32", 2) + load_whole("%c", "%b", "8x64xf32", 2) +
            slice("%l", "0") + slice("%r", "64") + sum("%lc", "%l", "%c") + sum("%rc", "%r", "%c") +
            sum("%cr", "%c", "%r") + "%y = \"S.tpu.concatenate\"(" + a + ", " + b +
            ") {dimension = 1 : i32} : (" + half + ", " + half + ") -> vector<8x128xf32>\n" +
            store_whole("%y", "%o", "8x128xf32", 2));
    const auto at = [&](const std::string& row) {
      const auto it = rows.find(row);
      return it == rows.end() ? 0 : it->second;
    };
    return 10 * at("vector.extract_strided_slice b32 lanes") + at("tpu.concatenate b32 lanes");
  };
  // Beside the right half c is rotated, beside c the right half; what nobody reads is not computed.
  CHECK(rotations("%lc", "%rc") == 10);
  CHECK(rotations("%lc", "%cr") == 11);
  CHECK(rotations("%rc", "%lc") == 12);
}

TEST_CASE("a cast of shapes there and back again asks for nothing", "[pallas][units]") {
  const auto cast = [](const char* back) {
    return asked_by("%a: " + vmem("8x128xf32") + ", %o: " + vmem(back),
                    load_whole("%x", "%a", "8x128xf32", 2) +
                        "%y = \"S.vector.shape_cast\"(%x) : (vector<8x128xf32>) -> "
                        "vector<8x128x1xf32>\n%z = \"S.vector.shape_cast\"(%y) : "
                        "(vector<8x128x1xf32>) -> vector<" +
                        back + ">\n" + store_whole("%z", "%o", back, 2));
  };
  CHECK(cast("8x128xf32") ==
        std::map<std::string, std::int64_t>{{"load b32", 1}, {"store b32", 1}});
  CHECK(cast("16x64xf32").at("vector.shape_cast b32 rows to column") == 128);
}

TEST_CASE("a reduction asks for an op per register, then for one along it", "[pallas][units]") {
  const auto reduced = [](const char* dim, const char* shape) {
    return asked_by("%a: " + vmem("16x512xf32") + ", %o: " + vmem(std::string(shape)),
                    load_whole("%x", "%a", "16x512xf32", 2) +
                        "%c = \"S.arith.constant\"() {value = dense<0.0> : vector<" + shape +
                        ">} : () -> vector<" + shape +
                        ">\n%y = \"S.vector.multi_reduction\"(%x, %c) {kind = "
                        "#vector.kind<add>, reduction_dims = array<i64: " +
                        dim + ">} : (vector<16x512xf32>, vector<" + shape + ">) -> vector<" +
                        shape + ">\n" + store_whole("%y", "%o", shape, 1));
  };
  // 2 x 4 registers: four become one on each row of registers, or two on each column.
  const auto rows = reduced("1", "16xf32");
  CHECK(rows.at("vector.multi_reduction.add f32") == 6);
  CHECK(rows.at("vector.multi_reduction.add f32 lanes") == 2);
  // It leaves a column of each; memory has a line.
  CHECK(rows.at("vector.shape_cast b32 line from column") == 2);
  const auto columns = reduced("0", "512xf32");
  CHECK(columns.at("vector.multi_reduction.add f32") == 4);
  CHECK(columns.at("vector.multi_reduction.add f32 sublanes") == 4);
  CHECK_FALSE(columns.contains("vector.shape_cast b32 line from column"));
}

TEST_CASE("what a reduction along lanes leaves lies in all of them", "[pallas][units]") {
  // A maximum of each row, what follows from it, or a column that was loaded, spread over a row.
  const auto spread = [](const std::string& column) {
    return asked_by(
        "%a: " + vmem("16x512xf32") + ", %b: " + vmem("16x1xf32") + ", %o: " + vmem("16x512xf32"),
        load_whole("%x", "%a", "16x512xf32", 2) + load_whole("%l", "%b", "16x1xf32", 2) +
            "%c = \"S.arith.constant\"() {value = dense<0.0> : vector<16xf32>} : () -> "
            "vector<16xf32>\n"
            "%r = \"S.vector.multi_reduction\"(%x, %c) {kind = #vector.kind<add>, reduction_dims = "
            "array<i64: 1>} : (vector<16x512xf32>, vector<16xf32>) -> vector<16xf32>\n"
            "%s = \"S.vector.shape_cast\"(%r) : (vector<16xf32>) -> vector<16x1xf32>\n"
            "%e = \"S.math.exp\"(%s) {fastmath = #arith.fastmath<none>} : (vector<16x1xf32>) -> "
            "vector<16x1xf32>\n"
            "%m = \"S.arith.addf\"(%e, %l) {fastmath = #arith.fastmath<none>} : "
            "(vector<16x1xf32>, vector<16x1xf32>) -> vector<16x1xf32>\n"
            "%y = \"S.vector.broadcast\"(" +
            column + ") : (vector<16x1xf32>) -> vector<16x512xf32>\n" +
            store_whole("%y", "%o", "16x512xf32", 2));
  };
  const std::string row = "vector.broadcast b32 lanes";
  for (const char* const column : {"%s", "%e"}) {
    CHECK(spread(column).at(row + " of all lanes") == 2);
    CHECK_FALSE(spread(column).contains(row));
  }
  for (const char* const column : {"%l", "%m"}) CHECK(spread(column).at(row) == 2);
  // Where it is known how reductions are scheduled nothing is.
  program::UnitCosts costs;
  costs.capacity.fill(2);
  costs.schedules = {.reduce_every = 4, .memory = 4};
  program::UnitCost moved;
  moved.slots[static_cast<std::size_t>(CoreUnit::xlu)] = 2;
  const auto bundles = [&](const std::string& name) {
    program::UnitSchedule schedule(costs);
    schedule.add(name, moved, 8);
    schedule.end({});
    return schedule.bundles().value();
  };
  // Of what was loaded two registers are pushed every four cycles, and popped.
  CHECK(bundles(row) >= 7);
  CHECK(bundles(row + " of all lanes") == 0);
}

TEST_CASE("registers of few rows are stored in one place, eight rows after the others",
          "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(4);
  costs.capacity[static_cast<std::size_t>(CoreUnit::store)] = 1;
  costs.schedules.emplace();
  costs.schedules->memory = 4;
  program::UnitCost put;
  put.slots[static_cast<std::size_t>(CoreUnit::load)] = 1;
  put.slots[static_cast<std::size_t>(CoreUnit::store)] = 1;
  const auto bundles = [&](std::int64_t times, std::int64_t whole, std::int64_t stages,
                           int places = 1) {
    program::UnitSchedule schedule(costs);
    schedule.put_together({.each = &put,
                           .times = times,
                           .whole = whole,
                           .stages = stages,
                           .places = places,
                           .computed = times});
    program::UnitOp op;
    op.makes = {1};
    schedule.end(op);
    return schedule.bundles();
  };
  CHECK(bundles(8, 1, 1) == 8 + 1);
  CHECK(bundles(8, 3, 1) == 8 + 1);  // three loads of a bundle
  CHECK(bundles(16, 2, 2) == 2 * (8 + 1));
  CHECK(bundles(0, 1, 1) == 0);
  // In two places the second eight are stored while the first are loaded.
  CHECK(bundles(16, 2, 2, 2) == 16 + 1);
}

TEST_CASE("ones are pushed to wide units in half of the rounds of a product", "[pallas][units]") {
  const auto p = plan_module(load_module(
      module_text(
          "%a: " + vmem("8x128xf32") + ", %o: " + vmem("8x1xf32"),
          load_whole("%x", "%a", "8x128xf32", 2) +
              "%w = \"S.arith.constant\"() {value = dense<1.0> : vector<128x1xf32>} : () -> "
              "vector<128x1xf32>\n%z = \"S.arith.constant\"() {value = dense<0.0> : "
              "vector<8x1xf32>} : () -> vector<8x1xf32>\n%y = \"S.tpu.matmul\"(%x, %w, %z) "
              "{dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, "
              "1], [], []>, precision = #tpu.contract_precision<fp32>, transpose_lhs = "
              "false, transpose_rhs = false} : (vector<8x128xf32>, vector<128x1xf32>, "
              "vector<8x1xf32>) -> vector<8x1xf32>\n" +
              store_whole("%y", "%o", "8x1xf32", 2)),
      "the test's module"));
  std::int64_t pushed = 0;
  for (const program::UnitOp& op : p->main.units)
    for (const auto& [row, n] : op.rows)
      if (p->unit_rows[static_cast<std::size_t>(row)] == "tpu.matmul weights f32 highest wide")
        pushed += n;
  CHECK(pushed == 9);  // 16 in three rounds, one in three
}

TEST_CASE("constants are stored before what is computed, and of some a bundle has one",
          "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(4);
  costs.capacity[static_cast<std::size_t>(CoreUnit::store)] = 2;
  costs.schedules.emplace();
  costs.schedules->memory = 4;
  program::UnitCost one;
  one.slots[static_cast<std::size_t>(CoreUnit::store)] = 1;
  program::UnitCost three;  // one after another
  three.slots[static_cast<std::size_t>(CoreUnit::valu)] = 3;
  const auto bundles = [&](std::int64_t computed, std::int64_t alone) {
    program::UnitSchedule schedule(costs);
    program::UnitOp op;
    op.makes = {1};
    schedule.add("arith.addf f32", three, 1);
    schedule.end(op);
    schedule.store({.each = &one, .times = 8, .computed = computed, .alone = alone});
    program::UnitOp store;
    store.reads = {1};
    schedule.end(store);
    return schedule.bundles();
  };
  CHECK(bundles(8, 0) == 3 + 4);
  CHECK(bundles(2, 0) == 3 + 1);
  CHECK(bundles(8, 8) == 3 + 8);
  CHECK(bundles(8, 4) == 3 + 4);
}

TEST_CASE("what reads a reduction waits for all of it", "[pallas][units]") {
  // exp and a sum beside one another, or one after the other: the same rows.
  const auto cycles = [](const char* reduced) {
    const std::string text =
        load_whole("%x", "%a", "64x512xf32", 2) +
        "%y = \"S.math.exp\"(%x) {fastmath = #arith.fastmath<none>} : (vector<64x512xf32>) -> "
        "vector<64x512xf32>\n"
        "%c = \"S.arith.constant\"() {value = dense<0.0> : vector<512xf32>} : () -> "
        "vector<512xf32>\n"
        "%r = \"S.vector.multi_reduction\"(" +
        std::string(reduced) +
        ", %c) {kind = #vector.kind<add>, reduction_dims = array<i64: 0>} : (vector<64x512xf32>, "
        "vector<512xf32>) -> vector<512xf32>\n"
        "%e = \"S.math.exp\"(%r) {fastmath = #arith.fastmath<none>} : (vector<512xf32>) -> "
        "vector<512xf32>\n" +
        store_whole("%y", "%b", "64x512xf32", 2) + store_whole("%e", "%o", "512xf32", 1);
    const auto p = plan_module(
        load_module(module_text("%a: " + vmem("64x512xf32") + ", %b: " + vmem("64x512xf32") +
                                    ", %o: " + vmem("512xf32"),
                                text),
                    "the test's module"));
    program::UnitCosts costs = *program::unit_costs("v5e");
    for (auto& [row, cost] : costs.rows) cost.latency = 0;
    costs.schedules.reset();
    std::int64_t all = 0;
    for (const CoreUse& use : program::counted(*p, p->main, costs).at) all += use.cycles;
    costs.rest = 1;  // units one after the other: phases are nothing then
    std::int64_t sum = 0;
    for (const CoreUse& use : program::counted(*p, p->main, costs).at) sum += use.cycles;
    CHECK(all < sum);
    return all;
  };
  CHECK(cycles("%x") <= cycles("%y"));
}

TEST_CASE("what latencies cost is what other registers begin meanwhile", "[pallas][units]") {
  // exp of registers, each then added to itself: loaded, pushed, popped, added and stored.
  const auto cycles = [](int registers, int latency) {
    const std::string shape = std::to_string(8 * registers) + "x128xf32";
    const std::string vector = "vector<" + shape + ">";
    const auto p = plan_module(load_module(
        module_text("%a: " + vmem(shape) + ", %o: " + vmem(shape),
                    load_whole("%x", "%a", shape, 2) +
                        "%e = \"S.math.exp\"(%x) {fastmath = #arith.fastmath<none>} : (" + vector +
                        ") -> " + vector +
                        "\n%y = \"S.arith.addf\"(%e, %e) {fastmath = #arith.fastmath<none>} : (" +
                        vector + ", " + vector + ") -> " + vector + "\n" +
                        store_whole("%y", "%o", shape, 2)),
        "the test's module"));
    program::UnitCosts costs;
    costs.capacity.fill(1);
    const auto slot = [&](const char* row, CoreUnit unit) {
      costs.rows[row].slots[static_cast<std::size_t>(unit)] = 1;
    };
    slot("load b32", CoreUnit::load);
    slot("math.exp f32", CoreUnit::valu);
    slot("math.exp f32", CoreUnit::eup);
    slot("math.exp f32", CoreUnit::vpop);
    slot("arith.addf f32", CoreUnit::valu);
    slot("store b32", CoreUnit::store);
    costs.schedules = {.eup = latency, .eup_every = 1, .reduce = 1, .permute = 1, .memory = 2};
    return all_cycles(program::counted(*p, p->main, costs));
  };
  // One register alone: five bundles, whatever the latency. Bundles in which nothing begins are
  // none.
  CHECK(cycles(1, 2) == 5);
  CHECK(cycles(1, 50) == 5);
  // Of two the second begins what it can beside the first.
  CHECK(cycles(2, 50) <= 2 * 5 - 2);
  // VALU has two slots to give to each of eight: pushes and sums.
  CHECK(cycles(8, 4) >= 16);
  CHECK(cycles(8, 4) <= cycles(8, 50));
  CHECK(cycles(8, 50) <= 8 * 3);
  // Of many, slots alone decide.
  CHECK(cycles(256, 4) == cycles(256, 50));
}

TEST_CASE("products on a matrix unit follow one another in the program's order",
          "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(2);
  costs.schedules = {.memory = 4, .product = 30};
  struct Product {
    int reads;
    int makes;
    std::size_t unit;
  };
  const auto bundles = [&](const std::vector<Product>& products, std::int64_t spilled = 0) {
    program::UnitSchedule schedule(costs);
    for (const Product& p : products) {
      program::UnitOp op;
      op.reads = {p.reads, 0};
      op.makes = {p.makes};
      program::MatrixUnits on{};
      on[p.unit] = 1;
      schedule.multiply(
          op, {.tiles = {on}, .deep = 1, .results = 8, .pushed = 8, .push = 4, .of_a_pass = 1});
      schedule.spill(op, spilled);
    }
    return schedule.bundles().value();
  };
  // Eight pushes, passes and sums, some of which begin together.
  const std::int64_t alone = bundles({{1, 11, 0}});
  CHECK(alone > 16);
  CHECK(alone <= 24);
  // Two on two units at once, on one of them one after the other.
  CHECK(bundles({{1, 11, 0}, {2, 12, 1}}) <= alone + 2);
  CHECK(bundles({{1, 11, 0}, {2, 12, 0}}) > alone + 8);
  // What reads a product waits for it, but its weights may be pushed meanwhile.
  CHECK(bundles({{1, 11, 0}, {11, 12, 1}}) > alone + 8);
  CHECK(bundles({{1, 11, 0}, {11, 12, 1}}) < 2 * alone);
  // A third that waits for nothing, behind the one that does on its unit, and before it.
  CHECK(bundles({{1, 11, 0}, {11, 14, 0}, {14, 12, 1}, {2, 13, 1}, {13, 15, 1}}) >
        bundles({{1, 11, 0}, {11, 14, 0}, {2, 13, 1}, {13, 15, 1}, {14, 12, 1}}) + 8);
  // Each register that is spilled is stored and loaded.
  CHECK(bundles({{1, 11, 0}}, 8) > alone + 8);
  // Of a product alone a result's cycles until the next are bundles, but for a part.
  costs.schedules->pass = 7;
  CHECK(bundles({{1, 11, 0}}) >= 8 + 7 * 7);
  CHECK(bundles({{1, 11, 0}}) <= alone + 7 * 7);
  CHECK(bundles({{1, 11, 0}, {2, 12, 1}}) <= alone + 2);
  costs.schedules->pass = 0;
  // Cycles in which nothing begins are no bundles.
  CHECK(bundles({{1, 11, 0}, {2, 12, 0}}) <= alone + 24);
}

TEST_CASE("what passes a matrix unit at once is not shared out", "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(2);
  costs.schedules = {.memory = 4, .product = 30, .pass = 7};
  const auto bundles = [&](double first, std::int64_t of_a_pass) {
    program::UnitSchedule schedule(costs);
    program::UnitOp op;
    op.reads = {1, 0};
    op.makes = {2};
    schedule.multiply(op, {.tiles = {{first, 1 - first, 0, 0}},
                           .deep = 1,
                           .results = 6,
                           .pushed = 8,
                           .push = 4,
                           .of_a_pass = of_a_pass});
    return schedule.bundles().value();
  };
  // Of three passes of 16 rows of bf16 one unit has two.
  CHECK(bundles(0.5, 2) == bundles(2. / 3, 2));
  CHECK(bundles(0.5, 1) < bundles(2. / 3, 1));
}

TEST_CASE("products on either side of a branch share the matrix units, those of its ways do not",
          "[pallas][units]") {
  program::Code code;
  code.steps.resize(6);
  code.notes.resize(6);
  code.notes[1].target = std::make_shared<const std::size_t>(3);  // over step 2
  std::vector<program::Stretch> stretches = program::stretches(code, false, {});
  REQUIRE(stretches.size() == 3);
  CHECK(stretches[0].region == stretches[2].region);
  CHECK(stretches[0].region != stretches[1].region);
  program::Program p;
  p.unit_rows = {"tpu.matmul weights bf16", "tpu.matmul pass bf16"};
  program::UnitOp product;
  product.rows = {{0, 1}, {1, 8}};
  program::UnitCosts costs;
  costs.capacity.fill(4);
  program::UnitCost pass;
  pass.slots[static_cast<std::size_t>(CoreUnit::mxu)] = 16;
  const auto tiles_of = [&](std::size_t stretch) {
    return program::placed_products(p, stretches, {nullptr, &pass}, costs)[stretch].tiles;
  };
  for (program::Stretch& s : stretches) s.ops = {&product};
  using Tiles = std::vector<std::vector<program::MatrixUnits>>;
  CHECK(tiles_of(0) == Tiles{{{0.5, 0, 0.5, 0}}});
  CHECK(tiles_of(2) == Tiles{{{0, 0.5, 0, 0.5}}});
  CHECK(tiles_of(1) == Tiles{{{0.25, 0.25, 0.25, 0.25}}});
}

TEST_CASE("tiles are dealt out to the matrix unit that has least to do", "[pallas][units]") {
  using Cycles = std::map<std::size_t, double>;  // by op
  // Of products of a tile each what each of four units has.
  const auto dealt = [](const std::vector<double>& cycles) {
    std::vector<program::TilesToPlace> ops;
    for (const double c : cycles) ops.push_back({1, c});
    std::vector<Cycles> units(4);
    const auto found = program::dealt_out(ops, units.size());
    for (std::size_t i = 0; i < ops.size(); ++i)
      for (std::size_t u = 0; u < units.size(); ++u)
        if (found[i][0][u] > 0) units[u][i] = std::round(100 * cycles[i] * found[i][0][u]) / 100;
    return units;
  };
  CHECK(dealt({8}) == std::vector<Cycles>{{{0, 2}}, {{0, 2}}, {{0, 2}}, {{0, 2}}});
  CHECK(dealt({8, 8, 8}) ==
        std::vector<Cycles>{{{0, 6}}, {{1, 6}}, {{2, 6}}, {{0, 2}, {1, 2}, {2, 2}}});
  // As listings have them: whole tiles are moved before rows are.
  const std::vector<Cycles> rising = dealt({8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(rising[2] == Cycles{{2, 10}, {6, 13}});
  CHECK(rising[3] == Cycles{{3, 11}, {7, 12}});
  CHECK(rising[1].at(5) == 13);
  CHECK(rising[0].at(4) == 12);
  const std::vector<Cycles> uneven = dealt({8, 16, 24, 32, 40, 48, 9, 10});
  CHECK(uneven[1].begin()->first == 5);  // alone, and before rows are shared out
  CHECK(dealt({8, 8, 16, 16, 8, 8, 16, 16}) ==
        std::vector<Cycles>{
            {{4, 8}, {6, 16}}, {{5, 8}, {7, 16}}, {{0, 8}, {2, 16}}, {{1, 8}, {3, 16}}});
  const program::TilesToPlace none{};
  CHECK(program::dealt_out({none}, 4)[0].empty());
}

namespace {

/// Of 64 registers.
program::UnitOp unit_op(int row, std::vector<int> reads, int makes) {
  program::UnitOp made;
  made.rows = {{row, 64}};
  made.reads = std::move(reads);
  made.makes = {makes};
  return made;
}

std::vector<const program::UnitOp*> pointers_to(const std::vector<program::UnitOp>& ops) {
  std::vector<const program::UnitOp*> pointers;
  for (const program::UnitOp& each : ops) pointers.push_back(&each);
  return pointers;
}

}  // namespace

TEST_CASE("what follows from a product alone begins beside it", "[pallas][units]") {
  program::Program p;
  p.unit_rows = {"tpu.matmul pass bf16", "arith.addf f32", "vector.multi_reduction.add f32 lanes"};
  const std::vector<program::UnitOp> ops = {
      unit_op(0, {}, 1),      // a product,
      unit_op(1, {1}, 2),     // sums of what is popped,
      unit_op(2, {2}, 3),     // of their lanes, register by register, which take all of them,
      unit_op(1, {2, 3}, 4),  // and what follows from those
      unit_op(0, {2}, 5),     // as a product does
  };
  const program::Phases phases(p, pointers_to(ops));
  const auto all = [&](auto of) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ops.size(); ++i) found.push_back(of(i));
    return found;
  };
  CHECK(all([&](std::size_t i) { return phases.of(i); }) ==
        std::vector<std::size_t>{0, 1, 1, 2, 1});
  CHECK(all([&](std::size_t i) { return phases.beside(i); }) ==
        std::vector<std::size_t>{0, 0, 0, 2, 1});
}

TEST_CASE("ops of a phase that wait for the same ends are one group", "[pallas][units]") {
  program::Program p;
  p.unit_rows = {"tpu.matmul pass bf16", "math.exp f32", "vector.multi_reduction.maximumf f32"};
  const std::vector<program::UnitOp> ops = {
      unit_op(0, {}, 1),      // two blocks' products,
      unit_op(0, {}, 2),      //
      unit_op(2, {1}, 3),     // each's maxima,
      unit_op(2, {2}, 4),     //
      unit_op(1, {1, 3}, 5),  // exponentials of the one,
      unit_op(1, {5}, 6),     //
      unit_op(1, {2, 4}, 7),  // and of the other
      unit_op(0, {5, 7}, 8),  // and what takes both
  };
  const std::vector<std::size_t> phases = {0, 0, 1, 1, 2, 2, 2, 2};
  const program::WaitingGroups groups(p, pointers_to(ops), phases, 3);
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < ops.size(); ++i) of.push_back(groups.of(i));
  CHECK(of == std::vector<std::size_t>{0, 0, 1, 2, 3, 3, 4, 5});
  CHECK(groups.before(3) == std::set<std::size_t>{0, 1});
  CHECK(groups.before(5) == std::set<std::size_t>{0, 1, 2});
  CHECK(groups.part(4) == 2);
  CHECK(groups.beside(4, 1) == 1);  // beside its maxima
  CHECK(groups.beside(0, 1) == 0);  // waits for none
}

TEST_CASE("one chain's work lies beside another's", "[pallas][units]") {
  const auto work = [](CoreUnit unit, double cycles, double busy, std::set<std::size_t> before,
                       std::size_t phase) {
    program::GroupWork made;
    made.cycles = cycles;
    made.units[static_cast<std::size_t>(unit)] = busy;
    made.before = std::move(before);
    made.part = phase;
    return made;
  };
  const auto mxu = [&](std::set<std::size_t> before, std::size_t phase) {
    return work(CoreUnit::mxu, 100, 100, std::move(before), phase);
  };
  const auto eup = [&](std::set<std::size_t> before, double busy = 100) {
    return work(CoreUnit::eup, 100, busy, std::move(before), 1);
  };
  CHECK(program::overlapped({mxu({}, 0), eup({0}), mxu({1}, 2)}) == Approx(300));
  // The second product while the first one's exponentials are computed.
  CHECK(program::overlapped({mxu({}, 0), mxu({}, 0), eup({0}), eup({1})}) == Approx(300));
  // Half of a unit is left: both at once behind one product.
  CHECK(program::overlapped({mxu({}, 0), eup({0}, 50), eup({0}, 50)}) == Approx(200));
  // What takes nothing holds nobody up.
  CHECK(program::overlapped({mxu({}, 0), work(CoreUnit::eup, 0, 0, {0}, 1), mxu({1}, 2)}) ==
        Approx(200));
}

TEST_CASE("of two matrix units each has a tile of its own, what is left over they share",
          "[pallas][units]") {
  program::Program p;
  p.unit_rows = {"tpu.matmul weights bf16",
                 "tpu.matmul weights bf16 wide",
                 "tpu.matmul weights bf16 transposed",
                 "tpu.matmul weights bf16 wide transposed",
                 "tpu.matmul pass bf16",
                 "tpu.matmul pass bf16 wide",
                 "tpu.matmul sum bf16",
                 "arith.addf f32"};
  // Tiles of 256 x 128, two narrow ones each, and 16 registers of rows.
  const auto product = [](std::int64_t tiles, bool turned = false) {
    const int weights = turned ? 2 : 0;
    program::UnitOp op;
    op.rows = {
        {weights, 2 * tiles}, {weights + 1, 8 * tiles}, {4, 32 * tiles}, {5, 32 * tiles}, {6, 16}};
    return op;
  };
  const program::UnitOp one = product(1);
  const program::UnitOp turned = product(1, true);
  const program::UnitOp two = product(2);
  program::UnitOp sum;
  sum.rows = {{7, 64}};
  using Parts = std::vector<program::MatrixUnits>;
  const program::MatrixUnits first{1, 0};
  const program::MatrixUnits second{0, 1};
  const program::MatrixUnits both{0.5, 0.5};
  program::UnitCosts costs;
  costs.schedules.emplace();
  const auto on = [&](const std::vector<const program::UnitOp*>& ops) {
    return placed(p, ops, costs);
  };
  CHECK(on({&one}) == Parts{both});
  CHECK(on({&one, &sum, &one}) == Parts{first, both, second});  // a sum on none
  CHECK(on({&one, &one, &one}) == Parts{first, second, both});
  CHECK(on({&two, &two}) == Parts{both, both});
  CHECK(on({&one, &two}) == Parts{both, both});
  // Weights that are turned take longer to push, a unit's first ones beside no rows.
  const program::MatrixUnits most{0.75, 0.25};
  CHECK(on({&turned, &one, &turned, &one}) == Parts{first, second, second, most});
  CHECK(on({&one, &turned, &one}) == Parts{first, second, most});
  CHECK(on({&turned, &one, &turned, &one, &turned, &one, &turned, &one}) ==
        Parts{first, second, second, first, second, first, second, most});
}

/// A product of bf16 of 128 x 128 by 128 x 128.
constexpr program::WideProduct kTileOf128{.tiles = 1,
                                          .deep = 1,
                                          .results = 16,
                                          .rows = 16,
                                          .pops = 16,
                                          .pushes = 8,
                                          .together = 4,
                                          .push = 4};

TEST_CASE("behind a wait for a copy what no product waits for is placed late", "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(2);
  costs.schedules = {
      .memory = 4, .product = 90, .pops_from_queue = true, .turn = 30, .turn_every = 4};
  program::UnitCost vector;
  vector.slots[static_cast<std::size_t>(CoreUnit::valu)] = 1;
  const auto bundles = [&](int products, bool behind_copies) {
    program::UnitSchedule schedule(costs);
    program::UnitOp left;  // a bundle after the other
    left.makes = {10};
    schedule.add_serial(40);
    schedule.end(left);
    for (int i = 0; i < products; ++i) {  // a chain
      program::UnitOp op;
      op.reads = {10 + i, 0};
      op.makes = {11 + i};
      schedule.multiply(op, kTileOf128, i % 2);
    }
    // An accumulator, and the sum of both.
    program::UnitOp accumulator;
    accumulator.makes = {1};
    schedule.add("arith.select f32", vector, 64);
    schedule.end(accumulator);
    program::UnitOp sum;
    sum.reads = {10 + products, 1};
    sum.makes = {2};
    schedule.add("arith.addf f32", vector, 16);
    schedule.end(sum);
    return schedule.bundles(behind_copies).value();
  };
  CHECK(bundles(1, true) == bundles(1, false));
  // Early it is made beside what the first one waits for, late while there is nothing else.
  CHECK(bundles(2, true) > bundles(2, false) + 4);
}

TEST_CASE("products on two wide matrix units come one after the other on each", "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(2);
  costs.schedules = {
      .memory = 4, .product = 90, .pops_from_queue = true, .turn = 30, .turn_every = 4};
  const program::WideProduct tile = kTileOf128;
  struct Product {
    int reads;
    int makes;
    double of_first;
  };
  const auto bundles_of = [&](const program::WideProduct& wide,
                              const std::vector<Product>& products) {
    program::UnitSchedule schedule(costs);
    for (const Product& each : products) {
      program::UnitOp op;
      op.reads = {each.reads, 0};
      op.makes = {each.makes};
      schedule.multiply(op, wide, each.of_first);
    }
    return schedule.bundles().value();
  };
  const auto bundles = [&](const std::vector<Product>& products) {
    return bundles_of(tile, products);
  };
  // Eight pushes and four passes, two bundles each, sixteen results.
  const std::int64_t alone = bundles({{1, 11, 1}});
  CHECK(alone > 36);
  CHECK(alone <= 40);
  CHECK(bundles({{1, 11, 0.5}}) < alone - 8);  // on both
  // Two on two units lie beside one another; on one the second is pushed while the first passes.
  CHECK(bundles({{1, 11, 1}, {2, 12, 0}}) <= alone + 8);
  CHECK(bundles({{1, 11, 1}, {2, 12, 1}}) > alone + 24);
  // What reads a product finds its weights there, but waits for its results.
  CHECK(bundles({{1, 11, 1}, {11, 12, 0}}) > alone + 16);
  // Two tiles of the same rows are worked on in step, of others the second a bundle behind.
  program::WideProduct two = tile;
  two.tiles = 2;
  two.results = two.pops = 32;
  const std::int64_t in_step = bundles_of(two, {{1, 11, 0}});
  two.packs = true;
  CHECK(bundles_of(two, {{1, 11, 0}}) >= in_step + 8);
  // From a buffer, too, a unit pops one a bundle, two units beside one another.
  costs.schedules->pops_from_queue = false;
  CHECK(bundles({{1, 11, 1}}) > alone - 4);
  CHECK(bundles({{1, 11, 0.5}}) <= alone - 10);
  // Of 512 x 512 tiles on top of each other are added in their unit: half as many are popped.
  const program::WideProduct four{.tiles = 4,
                                  .deep = 4,
                                  .results = 64,
                                  .rows = 16,
                                  .pops = 128,
                                  .pushes = 16,
                                  .together = 4,
                                  .push = 4};
  const auto of_four = [&](bool adds_up) {
    costs.schedules->adds_up = adds_up;
    return bundles_of(four, {{1, 2, 0}});
  };
  CHECK(of_four(true) <= of_four(false) - 32);
}

TEST_CASE("in the highest precision six rounds of a tile share four units", "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(2);
  costs.schedules = {.memory = 4, .product = 124};
  const auto tiles_of = [](std::int64_t tiles) {
    return program::dealt_out({{.tiles = tiles, .cycles = 1}}, program::kMostMatrixUnits).front();
  };
  // The first two are shared.
  const std::vector<program::MatrixUnits> rounds = tiles_of(6);
  CHECK(rounds[0] == program::MatrixUnits{0.5, 0, 0.5, 0});
  CHECK(rounds[1] == program::MatrixUnits{0, 0.5, 0, 0.5});
  CHECK(rounds[5] == program::MatrixUnits{0, 1, 0, 0});
  const auto bundles = [&](bool splits, std::int64_t rows) {
    program::UnitSchedule schedule(costs);
    program::UnitOp op;
    op.reads = {0, 1};
    op.makes = {2};
    schedule.multiply(op, {.tiles = tiles_of(splits ? 6 : 1),
                           .deep = 1,
                           .results = rows,
                           .pushed = 16,
                           .push = 2,
                           .of_a_pass = 1,
                           .splits = splits});
    return schedule.bundles().value();
  };
  CHECK(bundles(true, 16) > 2 * bundles(false, 16));
  // Each unit has one and a half passes of each register more: five to eight bundles each.
  const std::int64_t more = bundles(true, 32) - bundles(true, 16);
  CHECK(more > 16 * 5);
  CHECK(more <= 16 * 12);
}

TEST_CASE("tiles of zeros have rounds, too, of one register each", "[pallas][units]") {
  program::Program p;
  p.unit_rows = {"tpu.matmul pass f32 highest", "tpu.matmul rows f32 highest",
                 "tpu.matmul weights f32 highest"};
  const auto rounds = [&](std::int64_t weights) {
    program::UnitOp op;
    op.rows = {{0, 8}, {1, 2}, {2, weights}};  // 16 rows, four tiles
    return program::rounds_of_weights(p, op);
  };
  CHECK(rounds(64).tiles == 24);
  CHECK(rounds(64).registers == 16);
  // Of 512 rows of weights all but one is 0: a v5e's listing has 24 pushes of one register.
  CHECK(rounds(1).tiles == 24);
  CHECK(rounds(1).registers == 1);
  CHECK(rounds(0).tiles == 0);  // nothing is pushed
}

TEST_CASE("in the highest precision a tile takes six rounds, of parts of both sides",
          "[pallas][units]") {
  using enum program::SplitPart;
  program::WideProduct tile = kTileOf128;
  tile.together = 2;
  tile.splits = true;
  tile.split_left = tile.split_right = 16;
  const auto units_of = [](const program::WideProduct& p, bool adds_up, double of_first) {
    std::string units;
    for (const program::WideRound& round : wide_rounds(p, adds_up, of_first)) {
      units += std::to_string(round.unit);
      if (!round.is_added_to) units += " ";  // it is popped
    }
    return units;
  };
  const std::vector<program::WideRound> rounds = wide_rounds(tile, false, 0.5);
  REQUIRE(rounds.size() == 6);
  CHECK(rounds.front().left == third);
  CHECK(rounds.front().right == first);
  CHECK(rounds[2].left == rest);
  CHECK(rounds[2].right == rest);
  CHECK(rounds.back().left == first);
  CHECK(rounds.back().right == first);
  CHECK(units_of(tile, false, 0.5) == "0 1 0 1 0 1 ");
  // Added up, each unit pops once.
  CHECK(units_of(tile, true, 0.5) == "111 000 ");
  CHECK(units_of(tile, true, 0.25) == "00 1111 ");
  CHECK(units_of(tile, true, 1) == "000000 ");
  program::WideProduct columns = tile;
  columns.tiles = 2;
  CHECK(units_of(columns, true, 0) == "000000 111111 ");
  program::WideProduct column = columns;
  column.deep = 4;
  CHECK(units_of(column, true, 0) == "000000 111111 ");
  columns.tiles = 4;
  columns.deep = 4;
  CHECK(units_of(columns, true, 0) == "000000000000 111111111111 ");
  column.apart = true;
  CHECK(units_of(column, true, 0) == "0 1 0 1 0 1 0 1 0 1 0 1 ");

  program::UnitCosts costs;
  costs.capacity.fill(2);
  costs.schedules = {.memory = 4, .product = 90, .pops_from_queue = true};
  const auto bundles = [&](const program::WideProduct& p, int products = 1) {
    program::UnitSchedule schedule(costs);
    for (int i = 0; i < products; ++i) {
      program::UnitOp op;
      op.reads = {2 * i, -1};  // all by the same
      op.makes = {2 * i + 1};
      schedule.multiply(op, p, 0.5);
    }
    return schedule.bundles().value();
  };
  program::WideProduct once = tile;
  once.splits = false;
  const std::int64_t alone = bundles(tile);
  CHECK(alone > 3 * bundles(once));
  // Its right side is split once, 16 registers by five operations, two a bundle.
  CHECK(bundles(tile, 2) < 2 * alone - 20);
  // Nothing passes beside an odd register of rows, and what that gives is popped.
  program::WideProduct odd = tile;
  odd.results = odd.rows = odd.split_left = 15;
  odd.pops = 30;
  odd.rows_alone = true;
  CHECK(bundles(odd) > alone + 30);
  costs.schedules->pops_from_queue = false;
  costs.schedules->adds_up = true;
  CHECK(bundles(tile) < alone - 32);
}

TEST_CASE("a transpose unit takes a tile in and gives it, a register after the other",
          "[pallas][units]") {
  program::UnitCosts costs;
  costs.capacity.fill(2);
  costs.schedules = {.memory = 4, .turn = 30, .turn_every = 4};
  const program::UnitCost none;
  const auto bundles = [&](int transposes, std::int64_t registers) {
    program::UnitSchedule schedule(costs);
    for (int i = 0; i < transposes; ++i) {
      program::UnitOp op;
      op.makes = {i};
      schedule.add("tpu.transpose b32 in", none, registers);
      schedule.add("tpu.transpose b32 out", none, registers);
      schedule.end(op);
    }
    return schedule.bundles().value();
  };
  CHECK(bundles(1, 16) == 32);
  CHECK(bundles(2, 16) <= 34);  // on either unit one
  CHECK(bundles(1, 32) <= 34);
  CHECK(bundles(4, 16) > 60);
}

TEST_CASE("products of few tiles leave matrix units idle", "[pallas][units]") {
  // So many products of a tile each, of other weights, or each of what the one before made.
  const auto cycles = [](int products, bool chained, const std::string& type = "bf16",
                         double pass = 0) {
    const std::string tile = "128x128x" + type;
    const std::string sums = "vector<128x128xf32>";
    std::string arguments = "%a: " + vmem(tile) + ", %o: " + vmem("128x128xf32");
    std::string body = load_whole("%x0", "%a", tile, 2);
    body +=
        "%s = \"S.arith.constant\"() {value = dense<0.0> : " + sums + "} : () -> " + sums + "\n";
    for (int i = 0; i < products; ++i) {
      const std::string n = std::to_string(i);
      const std::string left = chained ? "%x" + n : "%x0";
      arguments += ", %b" + n + ": " + vmem(tile);
      body += load_whole("%w" + n, "%b" + n, tile, 2) + "%y" + n + " = \"S.tpu.matmul\"(" + left +
              ", %w" + n +
              ", %s) {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, "
              "1], [], []>, transpose_lhs = false, transpose_rhs = false} : (vector<" +
              tile + ">, vector<" + tile + ">, " + sums + ") -> " + sums + "\n" +
              store_whole("%y" + n, "%o", "128x128xf32", 2);
      if (chained)
        body += "%x" + std::to_string(i + 1) + " = \"S.arith.truncf\"(%y" + n + ") : (" + sums +
                ") -> vector<" + tile + ">\n";
    }
    const auto p = plan_module(load_module(module_text(arguments, body), "the test's module"));
    program::UnitCosts costs;
    costs.capacity[static_cast<std::size_t>(CoreUnit::mxu)] = 4;
    costs.rows["tpu.matmul pass " + type].slots[static_cast<std::size_t>(CoreUnit::mxu)] = 100;
    if (pass > 0) {
      costs.schedules.emplace();
      costs.schedules->pass = pass;
    }
    return all_cycles(program::counted(*p, p->main, costs));
  };
  // 16 passes each.
  CHECK(cycles(1, false) == 400);
  CHECK(cycles(2, false) == 2 * 400);  // two units each
  CHECK(cycles(3, false) == 1600);     // one each
  CHECK(cycles(4, false) == 1600);
  CHECK(cycles(5, false) == 5 * 400);
  CHECK(cycles(3, true) == 3 * 400);  // one after another, row by row
  CHECK(cycles(3, false, "f32") == 1600);
  // A unit takes no fewer bundles than its rows do.
  CHECK(cycles(1, false, "bf16", 120) > cycles(1, false, "bf16", 99));
  CHECK(cycles(3, false, "bf16", 120) > cycles(3, false, "bf16", 99));
}

TEST_CASE("products of one pass in a row are little code phase by phase", "[pallas][units]") {
  // Exponentials of so many products, each of what the one before made.
  const auto cycles = [](int products, int passes, int eup) {
    const std::string tile = "128x128xbf16";
    const std::string sums = "vector<128x128xf32>";
    std::string arguments = "%a: " + vmem(tile) + ", %o: " + vmem("128x128xf32");
    std::string body = load_whole("%x0", "%a", tile, 2);
    body +=
        "%s = \"S.arith.constant\"() {value = dense<0.0> : " + sums + "} : () -> " + sums + "\n";
    for (int i = 0; i < products; ++i) {
      const std::string n = std::to_string(i);
      arguments += ", %b" + n + ": " + vmem(tile);
      body += load_whole("%w" + n, "%b" + n, tile, 2) + "%y" + n + " = \"S.tpu.matmul\"(%x" + n +
              ", %w" + n +
              ", %s) {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, "
              "1], [], []>, transpose_lhs = false, transpose_rhs = false} : (vector<" +
              tile + ">, vector<" + tile + ">, " + sums + ") -> " + sums + "\n%e" + n +
              " = \"S.math.exp\"(%y" + n + ") {fastmath = #arith.fastmath<none>} : (" + sums +
              ") -> " + sums + "\n%x" + std::to_string(i + 1) + " = \"S.arith.truncf\"(%e" + n +
              ") : (" + sums + ") -> vector<" + tile + ">\n" +
              store_whole("%e" + n, "%o", "128x128xf32", 2);
    }
    const auto p = plan_module(load_module(module_text(arguments, body), "the test's module"));
    program::UnitCosts costs;
    costs.capacity.fill(1);
    costs.capacity[static_cast<std::size_t>(CoreUnit::mxu)] = 4;
    costs.rows["tpu.matmul pass bf16"].slots[static_cast<std::size_t>(CoreUnit::mxu)] = passes;
    costs.rows["math.exp f32"].slots[static_cast<std::size_t>(CoreUnit::eup)] = 1;
    costs.schedules.emplace();
    costs.schedules->memory = 4;
    costs.schedules->eup = eup;
    return all_cycles(program::counted(*p, p->main, costs));
  };
  CHECK(cycles(4, 20, 90) != cycles(4, 20, 1));    // 384 bundles of slots in five phases
  CHECK(cycles(4, 120, 90) != cycles(4, 120, 1));  // 1984 in five, by which half is decided
}

TEST_CASE("what one product makes is stored beside its passes", "[pallas][units]") {
  const auto cycles = [](const char* dims, bool schedules) {
    const std::string of = "128x128xbf16";
    const std::string sums = "vector<128x128xf32>";
    const auto p = plan_module(load_module(
        module_text("%a: " + vmem(of) + ", %b: " + vmem(of) + ", %o: " + vmem("128x128xf32"),
                    load_whole("%x", "%a", of, 2) + load_whole("%w", "%b", of, 2) +
                        "%s = \"S.arith.constant\"() {value = dense<0.0> : " + sums + "} : () -> " +
                        sums +
                        "\n%y = \"S.tpu.matmul\"(%x, %w, %s) {dimension_numbers = "
                        "#tpu.dot_dimension_numbers<" +
                        dims + ", [], []>} : (vector<" + of + ">, vector<" + of + ">, " + sums +
                        ") -> " + sums + "\n" + store_whole("%y", "%o", "128x128xf32", 2)),
        "the test's module"));
    program::UnitCosts costs;
    costs.capacity.fill(1);
    costs.capacity[static_cast<std::size_t>(CoreUnit::mxu)] = 4;
    costs.rows["tpu.matmul pass bf16"].slots[static_cast<std::size_t>(CoreUnit::mxu)] = 32;
    costs.rows["store b32"].slots[static_cast<std::size_t>(CoreUnit::store)] = 8;
    if (schedules) costs.schedules = {.memory = 4, .product = 30};
    return all_cycles(program::counted(*p, p->main, costs));
  };
  // 16 registers: 128 bundles each, by slots one after the other.
  CHECK(cycles("[1], [0], [0], [1], [0, 0, 1, 1]", false) == 256);
  CHECK(cycles("[1], [0], [0], [1], [0, 0, 1, 1]", true) < 200);
  CHECK(cycles("[1], [0], [0], [1], [0, 0, 1, 1]", true) >= 128);
  // What turns its left side first is left to slots.
  CHECK(cycles("[0], [0], [1], [1], [0, 1, 1, 1]", true) > 200);
}

TEST_CASE("rows are put together as they lie where they were loaded from", "[pallas][units]") {
  const auto together = [](const std::string& array, const std::string& rows,
                           const std::string& element, const char* flat) {
    const std::string r = "vector<" + rows + "x128x";
    const std::string to = std::string(flat) + "x128xf32";
    const bool widens = element == "bf16";
    return asked_by(
        "%a: " + vmem(array + "x128x" + element) + ", %o: " + vmem(to),
        "%i = \"S.arith.constant\"() {value = 0 : index} : () -> index\n%x = "
        "\"S.vector.load\"(%a, %i, %i, %i) : (" +
            vmem(array + "x128x" + element) + ", index, index, index) -> " + r + element + ">\n" +
            (widens ? "%w = \"S.arith.extf\"(%x) : (" + r + "bf16>) -> " + r + "f32>\n" : "") +
            "%y = \"S.vector.shape_cast\"(" + (widens ? "%w" : "%x") + ") : (" + r +
            "f32>) -> vector<" + to + ">\n" + store_whole("%y", "%o", to, 2));
  };
  const std::string b32 = "vector.shape_cast b32 ";
  CHECK(together("32x1", "32x1", "f32", "32").at(b32 + "rows together") == 32);
  CHECK(together("32x2", "32x1", "f32", "32").at(b32 + "rows together turned") == 32);
  CHECK(together("32x2", "32x1", "bf16", "32").at(b32 + "rows together of halves") == 32);
  CHECK(together("32x4", "32x1", "bf16", "32").at(b32 + "rows together turned") == 32);
  CHECK(together("32x2", "32x2", "f32", "64").at(b32 + "2 rows together") == 32);
  CHECK(together("16x3", "16x3", "f32", "48").at(b32 + "more rows") == 16);
}

TEST_CASE("a row that was a line of words lies in all sublanes", "[pallas][units]") {
  const auto added = [](const char* line, const char* row, const char* cast) {
    const std::string fast = " {fastmath = #arith.fastmath<none>} : (vector<";
    const auto rows = asked_by(
        "%a: " + vmem(line) + ", %o: " + vmem(line),
        load_whole("%x", "%a", line, 1) + "%r = \"S.vector.shape_cast\"(%x) : (vector<" + line +
            ">) -> vector<" + cast + ">\n%e = \"S.math.exp\"(%r)" + fast + cast + ">) -> vector<" +
            cast + ">\n%s = \"S.arith.addf\"(%e, %r)" + fast + cast + ">, vector<" + cast +
            ">) -> vector<" + cast + ">\n%y = \"S.vector.shape_cast\"(%s) : (vector<" + cast +
            ">) -> vector<" + line + ">\n" + store_whole("%y", "%o", line, 1));
    const auto it = rows.find(row);
    return it == rows.end() ? 0 : it->second;
  };
  CHECK(added("8192xf32", "arith.addf f32", "1x8192xf32") == 8);
  CHECK(added("8192xf32", "math.exp f32", "1x8192xf32") == 8);
  CHECK(added("8192xbf16", "arith.addf bf16", "1x8192xbf16") == 64);
}

TEST_CASE("a v4 multiplies floats in one place, and adds them and shifts in another",
          "[pallas][units]") {
  const auto cycles = [](const char* first, const char* second) {
    const std::string shape = "512x128xf32";
    const std::string vector = "vector<" + shape + ">";
    const auto op = [&](const char* result, const char* name, const char* of) {
      return std::string(result) + " = \"S.arith." + name + "\"(" + of + ", " + of +
             ") {fastmath = #arith.fastmath<none>} : (" + vector + ", " + vector + ") -> " +
             vector + "\n";
    };
    const auto p = plan_module(
        load_module(module_text("%a: " + vmem(shape) + ", %o: " + vmem(shape),
                                load_whole("%x", "%a", shape, 2) + op("%y", first, "%x") +
                                    op("%z", second, "%y") + op("%u", first, "%z") +
                                    op("%v", second, "%u") + op("%s", first, "%v") +
                                    op("%t", second, "%s") + store_whole("%t", "%o", shape, 2)),
                    "the test's module"));
    return all_cycles(program::counted(*p, p->main, *program::unit_costs("v4")));
  };
  // 64 registers: six bundles each, or three.
  CHECK(cycles("mulf", "mulf") > 5 * 64);
  CHECK(cycles("addf", "subf") > 5 * 64);
  CHECK(cycles("mulf", "addf") < 4 * 64);
}

TEST_CASE("of a branch that computes little both ways are taken", "[pallas][units]") {
  // Products and sums of registers behind a branch, or none; whether it costs a jump.
  const auto jumps = [](int registers, int pairs, const char* last = "addf") {
    const std::string shape = std::to_string(8 * registers) + "x128xf32";
    const std::string vector = "vector<" + shape + ">";
    const std::string fast = " {fastmath = #arith.fastmath<none>} : (" + vector;
    std::string way;
    std::string x = "%x";
    for (int i = 0; i < pairs; ++i) {
      const std::string n = std::to_string(i);
      const bool ends = i + 1 == pairs;
      way += "%p" + n + " = \"S.arith.mulf\"(" + x + ", %x)" + fast + ", " + vector + ") -> " +
             vector + "\n%s" + n + " = \"S.arith." + (ends ? last : "addf") + "\"(%p" + n + ", " +
             x + ")" + fast + ", " + vector + ") -> " + vector + "\n";
      x = "%s" + n;
    }
    const auto p = plan_module(load_module(
        module_text("%w: memref<1xi32, @smem>, %a: " + vmem(shape) + ", %o: " + vmem(shape),
                    load_whole("%x", "%a", shape, 2) +
                        "%i = \"S.arith.constant\"() {value = 0 : index} : () -> index\n"
                        "%one = \"S.memref.load\"(%w, %i) : (memref<1xi32, @smem>, index) -> i32\n"
                        "%t = \"S.arith.cmpi\"(%one, %one) {predicate = 2 : i64} : (i32, i32) -> "
                        "i1\n%r = \"S.scf.if\"(%t) ({\n" +
                        way + "\"S.scf.yield\"(" + x + ") : (" + vector +
                        ") -> ()\n}, {\n\"S.scf.yield\"(%x) : (" + vector +
                        ") -> ()\n}) : (i1) -> " + vector + "\n" +
                        store_whole("%r", "%o", shape, 2)),
        "the test's module"));
    program::UnitCosts costs = *program::unit_costs("v5e");
    const std::int64_t before = all_cycles(program::counted(*p, p->main, costs));
    costs.jump += 1000;
    return all_cycles(program::counted(*p, p->main, costs)) > before;
  };
  // By the v5e compiler's listings; so do the others, 62 and 16 registers.
  CHECK_FALSE(jumps(1, 62));
  CHECK(jumps(1, 63));
  CHECK_FALSE(jumps(16, 3));
  CHECK(jumps(31, 2));
  CHECK_FALSE(jumps(32, 1));
}

TEST_CASE("where a branch goes that asks for the id of a dim of one step is known",
          "[pallas][units]") {
  // Of sums of 16 registers kept in scratch: 0 first, what is added, and written last.
  const std::string when =
      "%c = \"S.arith.cmpi\"(%j, %zero) {predicate = 0 : i64} : (i32, i32) -> i1\n";
  const std::string shape = "64x256xf32";
  const auto of_grid = [&](const std::string& grid, const std::string& way) {
    return plan_module(load_module(
        module_text(
            "%i: i32, %j: i32, %a: " + vmem(shape) + ", %o: " + vmem(shape) +
                ", %s: " + vmem(shape),
            "%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n" + when +
                "\"S.scf.if\"(%c) ({\n" + way + "\"S.scf.yield\"() : () -> ()\n}, {\n" +
                load_whole("%b", "%a", shape, 2) + store_whole("%b", "%o", shape, 2) +
                "\"S.scf.yield\"() : () -> ()\n}) : (i1) -> ()\n" +
                load_whole("%x", "%a", shape, 2) + load_whole("%y", "%s", shape, 2) +
                "%z = \"S.arith.addf\"(%x, %y) {fastmath = #arith.fastmath<none>} : (vector<" +
                shape + ">, vector<" + shape + ">) -> vector<" + shape + ">\n" +
                store_whole("%z", "%s", shape, 2) + load_whole("%e", "%s", shape, 2) +
                store_whole("%e", "%o", shape, 2),
            "iteration_bounds = array<i64: " + grid +
                ">, scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, "
                "window_params = [{transform_indices = @to, window_bounds = array<i64: 64, "
                "256>}, {transform_indices = @to, window_bounds = array<i64: 64, 256>}]",
            "\"S.func.func\"() ({\n^bb0(%i: i32, %j: i32):\n"
            "\"S.func.return\"(%i, %j) : (i32, i32) -> ()\n}) "
            "{function_type = (i32, i32) -> (i32, i32), sym_name = \"to\"} : () -> ()\n"),
        "the test's module"));
  };
  const std::string zeros = "%n = \"S.arith.constant\"() {value = dense<0.0> : vector<" + shape +
                            ">} : () -> vector<" + shape + ">\n" +
                            store_whole("%n", "%s", shape, 2);
  // As the listings of JAX's matmul have it: one stretch, of which nothing is left but the copy.
  const auto known = of_grid("4, 1", zeros);
  CHECK(asked(*known) == std::map<std::string, std::int64_t>{{"load b32", 16}, {"store b32", 16}});
  const auto is_one = [](const Program& p) {
    const program::UnitCosts& costs = *program::unit_costs("v5e");
    program::UnitCosts more = costs;
    more.jump += 1000;
    more.block += 1000;
    return all_cycles(program::counted(p, p.main, more)) -
               all_cycles(program::counted(p, p.main, costs)) ==
           1000;
  };
  CHECK(is_one(*known));
  const auto asks = of_grid("4, 2", zeros);
  CHECK(asked(*asks).at("store b32") == 4 * 16);
  CHECK_FALSE(is_one(*asks));
}

TEST_CASE("windows that share an index are told once where to move", "[pallas][units]") {
  // Two windows: one at (i, j), the other where `index` says.
  const auto step = [](const std::string& index, const std::string& grid,
                       std::vector<std::int64_t> ragged = {}, const std::string& other = "%i, %j",
                       const program::SharedGrid& shared = {}) {
    const auto map = [](const std::string& name, const std::string& returned) {
      return "\"S.func.func\"() ({\n^bb0(%i: i32, %j: i32):\n"
             "%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
             "%sum = \"S.arith.addi\"(%i, %j) {overflowFlags = #arith.overflow<none>} : (i32, i32) "
             "-> "
             "i32\n%eight = \"S.arith.constant\"() {value = 8 : i32} : () -> i32\n"
             "%part = \"S.arith.divsi\"(%j, %eight) : (i32, i32) -> i32\n\"S.func.return\"(" +
             returned + ") : (i32, i32) -> ()\n}) {function_type = (i32, i32) -> (i32, i32), " +
             "sym_name = \"" + name + "\"} : () -> ()\n";
    };
    const auto program = plan_module(load_module(
        module_text(
            "%i: i32, %j: i32, %a: " + vmem("8x128xf32") + ", %o: " + vmem("8x128xf32"),
            load_whole("%x", "%a", "8x128xf32", 2) + store_whole("%x", "%o", "8x128xf32", 2),
            "iteration_bounds = array<i64: " + grid +
                ">, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, "
                "window_params = [{transform_indices = @to, window_bounds = array<i64: 8, "
                "128>}, {transform_indices = @from, window_bounds = array<i64: 8, 128>}]",
            map("to", other) + map("from", index)),
        "the test's module"));
    program->parallel = {true, true};
    program::UnitCosts costs;  // a digit for each kind
    costs.window = 1;
    costs.dim = 10;
    costs.index = 100;
    costs.map_op = 1000;
    costs.ragged = 10000;
    costs.map_again = 100000;
    costs.still = 1000000;
    costs.skip = 10000000;
    costs.rows["arith.divsi power"].slots[static_cast<std::size_t>(CoreUnit::scalar)] = 6;
    program::WindowArrays arrays;
    arrays.ragged = ragged;
    arrays.beyond = ragged;
    return program::pipeline_cycles(*program, 8, arrays, costs, shared).step;
  };
  CHECK(step("%i, %j", "4, 2") == 142);
  CHECK(step("%j, %i", "4, 2") == 242);
  CHECK(step("%sum, %j", "4, 2") == 1242);
  CHECK(step("%i, %zero", "4, 2") == 232);
  CHECK(step("%zero, %zero", "4, 2") == 1000121);  // it stays
  CHECK(step("%i, %j", "8, 1") == 122);            // one of the ids is always 0
  // What ends beyond its array is branched over where it stays: here at every second step.
  // In 10 turns there are 8 copies, or 4.
  CHECK(step("%i, %j", "4, 2", {2, 1}) == std::llround(20000140 + (2 + 30000) * 8 / 10.));
  CHECK(step("%i, %zero", "4, 2", {0, 2}) == std::llround(10000231 + (1 + 20000) * 4 / 10.));
  CHECK(step("%i, %part", "4, 2") == 6242);                 // as many slots as it takes
  CHECK(step("%sum, %j", "4, 2", {}, "%sum, %i") == 1242);  // both maps add: once
  // Of two cores, each of which has one step of the first dim.
  CHECK(step("%i, %j", "2, 4", {}, "%i, %j", {.of_one_step = 0}) == 122);
  CHECK(step("%i, %zero", "2, 4", {}, "%i, %j", {.of_one_step = 0}) == 112);  // at its core's place
  // Of no dim that is shared: what a step knows of its cell is computed of a number.
  CHECK(step("%i, %j", "4, 2", {}, "%i, %j", {.numbered = 2}) == 142 + 8);
  CHECK(step("%i, %j", "1, 8") == 122);
  CHECK(step("%i, %j", "1, 8", {}, "%i, %j", {.numbered = 2}) == 142 + 8);
  CHECK(step("%zero, %i", "1, 8") == 1000111);
  CHECK(step("%zero, %i", "1, 8", {}, "%i, %j", {.numbered = 2}) == 232 + 8);
}

TEST_CASE("of a core's only step its own blocks are looked for in HBM", "[pallas][units]") {
  const auto launch = [](const std::string& index, const program::SharedGrid& shared,
                         std::int64_t ragged = 0) {
    const auto program = plan_module(load_module(
        module_text(
            "%i: i32, %a: " + vmem("8x128xf32") + ", %o: " + vmem("8x128xf32"),
            load_whole("%x", "%a", "8x128xf32", 2) + store_whole("%x", "%o", "8x128xf32", 2),
            "iteration_bounds = array<i64: 2>, scalar_prefetch = 0 : i64, scratch_operands = 0 : "
            "i64, window_params = [{transform_indices = @at, window_bounds = array<i64: 8, 128>}, "
            "{transform_indices = @at, window_bounds = array<i64: 8, 128>}]",
            "\"S.func.func\"() ({\n^bb0(%i: i32):\n"
            "%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
            "\"S.func.return\"(" +
                index +
                ", %zero) : (i32, i32) -> ()\n}) {function_type = (i32) -> (i32, i32), sym_name = "
                "\"at\"} : () -> ()\n"),
        "the test's module"));
    program::UnitCosts costs;
    costs.operand = 100;
    costs.ragged = 1000;
    program::WindowArrays arrays;
    arrays.ragged = {ragged, 0};
    return program::pipeline_cycles(*program, 1, arrays, costs, shared).launch;
  };
  CHECK(launch("%i", {.of_one_step = 0}) == 200 + 2 * 6);
  CHECK(launch("%i", {.of_one_step = 0}, 1) == 1200 + 2 * 6);
  CHECK(launch("%zero", {.of_one_step = 0}) == 200);  // the same of both cores
  CHECK(launch("%i", {}) == 200);
}

TEST_CASE("what maps load each window loads and compares anew", "[pallas][units]") {
  // Of windows that all move to where a word says.
  const auto step = [](int windows, const std::string& type, const std::string& body = "",
                       const std::vector<std::int64_t>& beyond = {},
                       const std::string& place = "%i") {
    const std::string words = "memref<8x" + type + ", @smem>";
    std::string arguments = "%i: i32, %s: " + words;
    std::string bounds;
    for (int w = 0; w < windows; ++w) {
      arguments += ", %a" + std::to_string(w) + ": " + vmem("8x128xf32");
      bounds += std::string(w == 0 ? "" : ", ") +
                "{transform_indices = @by_word, window_bounds = array<i64: 8, 128>}";
    }
    const std::string number = type == "i32"
                                   ? "%n = \"S.arith.addi\"(%word, %zero) : (i32, i32) -> i32\n"
                                   : "%n = \"S.arith.extsi\"(%word) : (" + type + ") -> i32\n";
    const auto program = plan_module(load_module(
        module_text(arguments, body,
                    "iteration_bounds = array<i64: 8>, scalar_prefetch = 1 : i64, "
                    "scratch_operands = 0 : i64, window_params = [" +
                        bounds + "]",
                    "\"S.func.func\"() ({\n^bb0(%i: i32, %s: " + words +
                        "):\n%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
                        "%at = \"S.arith.index_cast\"(" +
                        place +
                        ") : (i32) -> index\n"
                        "%word = \"S.memref.load\"(%s, %at) : (" +
                        words + ", index) -> " + type + "\n" + number +
                        "\"S.func.return\"(%n, %zero) : (i32, i32) -> ()\n}) {function_type = "
                        "(i32, " +
                        words + ") -> (i32, i32), sym_name = \"by_word\"} : () -> ()\n"),
        "the test's module"));
    program::UnitCosts costs;  // a digit for each kind
    costs.window = 1;
    costs.dim = 10;
    costs.index = 100;
    costs.map = 1000;
    costs.map_op = 10000;
    costs.map_again = 100000;
    costs.chosen = 1000000;
    costs.still = 10000000;
    program::WindowArrays arrays;
    arrays.beyond = beyond;
    return program::pipeline_cycles(*program, 8, arrays, costs, {}).step;
  };
  CHECK(step(1, "i32") == 1101111);
  CHECK(step(3, "i32") == 3303333);
  // A part of a word is shifted and masked too; in which word it lies is computed once.
  CHECK(step(1, "i8") == 1451111);
  CHECK(step(2, "i16") == 2852222);
  // Nothing is chosen of what is written, or ends beyond its array.
  const std::string body =
      load_whole("%x", "%a0", "8x128xf32", 2) + store_whole("%x", "%a1", "8x128xf32", 2);
  CHECK(step(2, "i32", body) == 1202222);
  CHECK(step(2, "i32", body, {1, 0}) == 202222 - std::llround(2 / 10.));
  // A word whose place is known is the same at each step (a listing of splash attention of one
  // block of keys: 90 bundles a step, 158 if its keys and values moved).
  CHECK(step(2, "i32", "", {}, "%zero") == 20000000);
}

TEST_CASE("a copy is checked where the range of its place is not known", "[pallas][units]") {
  // An input and an output, whose maps return these of the grid's ids.
  const auto step = [](const std::string& grid, const std::string& from,
                       const program::WindowArrays& arrays = {}) {
    const bool one = grid.find(',') == std::string::npos;
    const std::string ids = one ? "%i: i32" : "%i: i32, %j: i32";
    const std::string types = one ? "(i32)" : "(i32, i32)";
    const auto map = [&](const std::string& name, const std::string& returned) {
      return "\"S.func.func\"() ({\n^bb0(" + ids +
             "):\n%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
             "%three = \"S.arith.constant\"() {value = 3 : i32} : () -> i32\n"
             "%sum = \"S.arith.addi\"(%i, %three) {overflowFlags = #arith.overflow<none>} : (i32, "
             "i32) -> i32\n%half = \"S.arith.divsi\"(%sum, %three) : (i32, i32) -> i32\n"
             "\"S.func.return\"(" +
             returned + ", %zero) : (i32, i32) -> ()\n}) {function_type = " + types +
             " -> (i32, i32), sym_name = \"" + name + "\"} : () -> ()\n";
    };
    const auto program = plan_module(load_module(
        module_text(
            ids + ", %a: " + vmem("8x128xf32") + ", %o: " + vmem("8x128xf32"),
            load_whole("%x", "%a", "8x128xf32", 2) + store_whole("%x", "%o", "8x128xf32", 2),
            "iteration_bounds = array<i64: " + grid +
                ">, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, "
                "window_params = [{transform_indices = @from, window_bounds = array<i64: 8, "
                "128>}, {transform_indices = @to, window_bounds = array<i64: 8, 128>}]",
            map("from", from) + map("to", "%i")),
        "the test's module"));
    program::UnitCosts costs;
    costs.check = 1;
    return program::pipeline_cycles(*program, 8, arrays, costs, {}).step;
  };
  // A v5e's and a v6e's listings: what is written is, an input by ids and their sums is not.
  CHECK(step("4, 2", "%i") == 1);
  CHECK(step("4, 2", "%sum") == 1);
  CHECK(step("4, 2", "%half") == 2);
  CHECK(step("4, 1", "%i") == 1);
  CHECK(step("4", "%i") == 2);  // the loop's counter, which runs beyond the end
  program::WindowArrays smaller;
  smaller.ragged = smaller.beyond = {1, 0};  // its last block: in 10 turns 4 copies at 8 steps
  CHECK(step("4, 2", "%i", smaller) == std::llround(1 + 4 / 10.));
  CHECK(step("8, 1", "%i", smaller) == std::llround(1 + 8 / 10.));
}

TEST_CASE("words that a turn carries and registers do not hold are stored", "[pallas][units]") {
  // Windows that each move by an index of their own.
  const auto step = [](int windows, const std::string& grid) {
    std::string arguments = "%i: i32, %j: i32";
    std::string bounds;
    std::string maps;
    for (int w = 0; w < windows; ++w) {
      const std::string n = std::to_string(w);
      arguments += ", %a" + n + ": " + vmem("8x128xf32");
      bounds += std::string(w == 0 ? "" : ", ") + "{transform_indices = @t" + n +
                ", window_bounds = array<i64: 8, 128>}";
      maps +=
          "\"S.func.func\"() ({\n^bb0(%i: i32, %j: i32):\n%zero = \"S.arith.constant\"() "
          "{value = 0 : i32} : () -> i32\n%n = \"S.arith.constant\"() {value = " +
          n +
          " : i32} : () -> i32\n%sum = \"S.arith.addi\"(%j, %n) {overflowFlags = "
          "#arith.overflow<none>} : (i32, i32) -> i32\n\"S.func.return\"(%sum, %zero) : (i32, "
          "i32) -> ()\n}) {function_type = (i32, i32) -> (i32, i32), sym_name = \"t" +
          n + "\"} : () -> ()\n";
    }
    const auto program = plan_module(
        load_module(module_text(arguments, "",
                                "iteration_bounds = array<i64: " + grid +
                                    ">, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, "
                                    "window_params = [" +
                                    bounds + "]",
                                maps),
                    "the test's module"));
    program::UnitCosts costs;
    costs.carried = 1;
    costs.kept = 100;
    return program::pipeline_cycles(*program, 8, {}, costs, {}).step;
  };
  // The turn's number, three of each index, an id: and the places of arrays.
  CHECK(step(3, "4, 2") == 0);  // 11 + 3
  CHECK(step(4, "4, 2") == 4);  // 14 + 4
  CHECK(step(4, "2, 1") == 0);  // nothing moves
  CHECK(step(10, "4, 2") == 28 + 3 * 100);
}

TEST_CASE("two cores share the first parallel dim that is even", "[pallas][units]") {
  program::Program p;
  p.parallel = {false, true, true};
  CHECK(program::shared_grid(p, {2, 3, 2}, 2).of_one_step == 2);
  CHECK(program::shared_grid(p, {2, 4, 2}, 2).of_one_step == -1);  // each has two steps of it
  CHECK(program::shared_grid(p, {2, 3, 2}, 1).of_one_step == -1);
  CHECK(program::shared_grid(p, {2, 3, 2}, 2).numbered == 0);
  CHECK(program::shared_grid(p, {2, 3, 1}, 2).numbered == 2);
  CHECK(program::shared_grid(p, {2, 3, 5}, 2).numbered == 3);
  CHECK(program::shared_grid(p, {2, 1, 5}, 2).numbered == 3);
}

TEST_CASE("where cells are numbered through a step computes its ids one after the other",
          "[pallas][units]") {
  program::UnitCosts costs;
  const auto step = [&](std::vector<bool> parallel, int numbered) {
    program::Program p;
    p.parallel = std::move(parallel);
    return program::pipeline_cycles(p, 8, {}, costs, {.numbered = numbered}).step;
  };
  // Bundles of a step beside one of as many dims, one of which is even: 5 of (3), 7 of (5, 5) and
  // (3, 5), 10 of (1, 3), 19 of (3, 3, 3), 20 of (5, 5, 3), 28 of (1, 1, 3), 27 of (1, 3, 5), 44 of
  // (1, 1, 1, 3), of which dims of one step that a window now moves along are 2 to 3 each.
  CHECK(step({true}, 1) == 8);
  CHECK(step({true, true}, 2) == 8);
  CHECK(step({true, true, true}, 3) == 3 * 8);
  CHECK(step({true, true, true, true}, 4) == 5 * 8);
  CHECK(step({false, true, true}, 3) == 8);  // each step of an arbitrary dim is every core's
  CHECK(step({true, true}, 0) == 0);
}

TEST_CASE("a pipeline takes two turns more than steps", "[pallas][units]") {
  // Listings of 1 and 3 inputs and 2 to 32 steps, all generations: 1.5 to 1.8 turns of theirs.
  program::UnitCosts costs;
  costs.launch = 5;
  costs.step = 100;
  costs.ends = 20;
  const program::PipelineCycles c = program::pipeline_cycles({}, 8, {}, costs, {});
  CHECK(c.step == 100);
  CHECK(c.launch == 5 + 2 * 100 - 20);
}

TEST_CASE("where no dim is even, a second core computes the first cell too", "[pallas][units]") {
  const auto program = copied_blocks(3);
  RunOptions options = timed("tpu-v5p");
  options.cores = 2;
  const RunResult r = run_program(*program, {24, 128}, options);
  REQUIRE(r.ok());
  CHECK(r.steps == 3);  // the machine does not
  const predict::Timeline line = timeline(r, 2);
  REQUIRE(line.longest_compute_seconds > 0);
  CHECK(line.compute_seconds == Approx(line.longest_compute_seconds));
}

TEST_CASE("a loop computes where blocks are while the first one comes", "[pallas][units]") {
  const auto program = copied_blocks(3);
  const predict::Timeline loop = timeline(run_program(*program, {24, 128}, timed("tpu-v5p")));
  CHECK(loop.exposed_seconds == 0);  // nor does its schedule wait
  CHECK(loop.seconds == Approx(loop.compute_seconds));
  // One step alone has no loop: it waits for its input, and for its output to land.
  const auto once = copied_blocks(1);
  const RunResult one = run_program(*once, {8, 128}, timed("tpu-v5p"));
  const predict::Timeline waits = timeline(one);
  const double each = 8 * 128 * 4 / (one.plan.device.hbm_bytes_per_s / one.plan.device.cores);
  CHECK(waits.exposed_seconds == Approx(each));
  CHECK(waits.seconds == Approx(waits.compute_seconds + 2 * each));
}

TEST_CASE("a block beyond its array's tiles is told at each step how much moves",
          "[pallas][units]") {
  const auto step = [](const std::string& block, const Shape& array) {
    const std::string bounds = block.substr(0, block.find('x'));
    const auto program = plan_module(load_module(
        module_text("%i: i32, %a: " + vmem(block) + ", %o: " + vmem("8x128xf32"), "",
                    "iteration_bounds = array<i64: 5>, scalar_prefetch = 0 : i64, "
                    "scratch_operands = 0 : i64, window_params = [{transform_indices = @to, "
                    "window_bounds = array<i64: " +
                        bounds +
                        ", 128>}, {transform_indices = @to, window_bounds = array<i64: 8, 128>}]",
                    "\"S.func.func\"() ({\n^bb0(%i: i32):\n%zero = \"S.arith.constant\"() {value "
                    "= 0 : i32} : () -> i32\n\"S.func.return\"(%i, %zero) : (i32, i32) -> ()\n}) "
                    "{function_type = (i32) -> (i32, i32), sym_name = \"to\"} : () -> ()\n"),
        "the test's module"));
    return run_program(*program, array, timed("tpu-v5e")).plan.core.step_cycles;
  };
  const std::int64_t whole = step("16x128xf32", {80, 128});
  // Five blocks are copied in seven turns, what needs no telling in each.
  const program::UnitCosts& costs = *program::unit_costs("v5e");
  const double more = costs.skip + (5 * costs.ragged - 2 * (costs.window + costs.check)) / 7;
  REQUIRE(more > 1);
  // Rows 66 to 71 are there as padding: 9 tiles, of which the last block has one.
  CHECK(static_cast<double>(step("16x128xf32", {66, 128}) - whole) == Approx(more).margin(1));
  CHECK(step("16x128xf32", {78, 128}) == whole);
  CHECK(step("8x128xf32", {35, 128}) == whole);
}

TEST_CASE("a window behind a branch is copied as often as prefetched words move it",
          "[pallas][units]") {
  // `beyond`: whether its blocks of 64 rows end beyond its array. Words say which at each step.
  const auto ran = [](bool beyond, const std::vector<int>& words, int steps) {
    const auto program = plan_module(load_module(
        module_text(
            "%i: i32, %s: memref<6xi32, @smem>, %a: " + vmem("64x128xf32") +
                ", %o: " + vmem("8x128xf32"),
            "",
            "iteration_bounds = array<i64: " + std::to_string(steps) +
                ">, scalar_prefetch = 1 : i64, "
                "scratch_operands = 0 : i64, window_params = [{transform_indices = @by_word, "
                "window_bounds = array<i64: 64, 128>}, {transform_indices = @to, "
                "window_bounds = array<i64: 8, 128>}]",
            "\"S.func.func\"() ({\n^bb0(%i: i32, %s: memref<6xi32, @smem>):\n%zero = "
            "\"S.arith.constant\"() {value = 0 : i32} : () -> i32\n%at = "
            "\"S.arith.index_cast\"(%i) : (i32) -> index\n%word = "
            "\"S.memref.load\"(%s, %at) : (memref<6xi32, @smem>, index) -> i32\n"
            "\"S.func.return\"(%word, %zero) : (i32, i32) -> ()\n}) {function_type = (i32, "
            "memref<6xi32, @smem>) -> (i32, i32), sym_name = \"by_word\"} : () -> ()\n"
            "\"S.func.func\"() ({\n^bb0(%i: i32, %s: memref<6xi32, @smem>):\n%zero = "
            "\"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
            "\"S.func.return\"(%i, %zero) : (i32, i32) -> ()\n}) {function_type = (i32, "
            "memref<6xi32, @smem>) -> (i32, i32), sym_name = \"to\"} : () -> ()\n"),
        "the test's module"));
    Call call;
    call.program = program.get();
    call.prefetched = {array_of(DType::i32, {6}, [&](auto i) {
      return static_cast<double>(words[static_cast<std::size_t>(i)]);
    })};
    call.inputs = {array_of(DType::f32, {beyond ? 100 : 128, 128}, [](auto) { return 1.0; })};
    return run_call(call, timed("tpu-v5e"));
  };
  const auto step = [&](bool beyond, const std::vector<int>& words) {
    return static_cast<double>(ran(beyond, words, 6).plan.core.step_cycles);
  };
  const std::vector<int> each{0, 1, 0, 1, 0, 1};
  const std::vector<int> once{0, 0, 0, 1, 1, 1};
  // Six copies or two in eight turns; the v5e compiler's listings of grouped_matmul branch over
  // what brings a group's weights where the group stays, if their block ends beyond the array.
  const program::UnitCosts& costs = *program::unit_costs("v5e");
  const double less = (costs.window + costs.check + costs.ragged) * (6 - 2) / 8;
  REQUIRE(less > 4);
  CHECK(step(true, each) - step(true, once) == Approx(less).margin(1));
  CHECK(step(false, each) == step(false, once));  // predicated, so issued at each step
  // A step more than there are words: the run says at which, whether or not words were counted.
  for (const bool beyond : {true, false}) {
    const RunResult fault = ran(beyond, each, 7);
    REQUIRE(fault.diagnostics.size() == 1);
    CHECK(fault.diagnostics[0].slug == "oob-index");
    CHECK(fault.diagnostics[0].text().find("grid (6)") != std::string::npos);
  }
}

TEST_CASE("a window behind a branch is copied as often as its map's bound lets it move",
          "[pallas][units]") {
  // min(i, most) is the block of 64 rows, of 356 (which end beyond their array) or 384.
  const auto step = [](bool beyond, const std::string& most) {
    const auto program = plan_module(load_module(
        module_text("%i: i32, %a: " + vmem("64x128xf32") + ", %o: " + vmem("8x128xf32"), "",
                    "iteration_bounds = array<i64: 6>, scalar_prefetch = 0 : i64, "
                    "scratch_operands = 0 : i64, window_params = [{transform_indices = @bounded, "
                    "window_bounds = array<i64: 64, 128>}, {transform_indices = @to, "
                    "window_bounds = array<i64: 8, 128>}]",
                    "\"S.func.func\"() ({\n^bb0(%i: i32):\n%zero = \"S.arith.constant\"() {value = "
                    "0 : i32} : () -> i32\n%most = \"S.arith.constant\"() {value = " +
                        most +
                        " : i32} : () -> i32\n%least = \"S.arith.minsi\"(%i, %most) : (i32, i32) "
                        "-> i32\n\"S.func.return\"(%least, %zero) : (i32, i32) -> ()\n}) "
                        "{function_type = (i32) -> (i32, i32), sym_name = \"bounded\"} : () -> "
                        "()\n\"S.func.func\"() ({\n^bb0(%i: i32):\n%zero = "
                        "\"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
                        "\"S.func.return\"(%i, %zero) : (i32, i32) -> ()\n}) {function_type = "
                        "(i32) -> (i32, i32), sym_name = \"to\"} : () -> ()\n"),
        "the test's module"));
    Call call;
    call.program = program.get();
    call.inputs = {array_of(DType::f32, {beyond ? 356 : 384, 128}, [](auto) { return 1.0; })};
    return static_cast<double>(run_call(call, timed("tpu-v5e")).plan.core.step_cycles);
  };
  // Six copies or two in seven turns, as a listing of flash_attention_dbias branches over them.
  const program::UnitCosts& costs = *program::unit_costs("v5e");
  CHECK(step(true, "5") - step(true, "1") ==
        Approx((costs.window + costs.ragged) * (6 - 2) / 7).margin(1));
  CHECK(step(false, "5") == step(false, "1"));
}

TEST_CASE("a product in the highest precision splits what is no constant", "[pallas][units]") {
  const auto product = [](const std::string& known, const std::string& precision) {
    return asked_by(
        "%a: " + vmem("16x128xf32") + ", %b: " + vmem("128x128xf32") +
            ", %o: " + vmem("16x128xf32"),
        load_whole("%x", "%a", "16x128xf32", 2) + load_whole("%w", "%b", "128x128xf32", 2) +
            "%n = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> vector<128x128xi32>\n"
            "%c = \"S.arith.constant\"() {value = dense<" +
            known +
            "> : vector<128x128xi32>} : () -> vector<128x128xi32>\n"
            "%m = \"S.arith.cmpi\"(%n, %c) {predicate = 2 : i64} : (vector<128x128xi32>, "
            "vector<128x128xi32>) -> vector<128x128xi1>\n"
            "%z = \"S.arith.constant\"() {value = dense<0.0> : vector<128x128xf32>} : () -> "
            "vector<128x128xf32>\n"
            "%v = \"S.arith.select\"(%m, %w, %z) : (vector<128x128xi1>, vector<128x128xf32>, "
            "vector<128x128xf32>) -> vector<128x128xf32>\n"
            "%s = \"S.arith.constant\"() {value = dense<0.0> : vector<16x128xf32>} : () -> "
            "vector<16x128xf32>\n"
            "%y = \"S.tpu.matmul\"(%x, %v, %s) {dimension_numbers = "
            "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs = "
            "false, transpose_rhs = false" +
            precision +
            "} : (vector<16x128xf32>, vector<128x128xf32>, vector<16x128xf32>) -> "
            "vector<16x128xf32>\n" +
            store_whole("%y", "%o", "16x128xf32", 2));
  };
  const std::string highest = ", precision = #tpu.contract_precision<fp32>";
  CHECK(product("128", highest).at("tpu.matmul weights f32 highest") == 16);
  CHECK(product("13", highest).at("tpu.matmul weights f32 highest") == 2);
  CHECK(product("13", highest).at("tpu.matmul left f32 highest of few weights") == 2);
  CHECK(product("64", highest).at("tpu.matmul left f32 highest") == 2);
  CHECK(product("64", highest).at("tpu.matmul rows f32 highest") == 2);
  CHECK(product("13", "").at("tpu.matmul weights f32") == 1);
}

TEST_CASE("a product asks for passes of tiles, and of halves of a wide matrix unit",
          "[pallas][units]") {
  const auto product = [](int k, int n, const std::string& of_left = "bf16") {
    const auto shape = [](int rows, int columns, const std::string& type = "bf16") {
      return std::to_string(rows) + "x" + std::to_string(columns) + "x" + type;
    };
    const std::string left = shape(16, k, of_left);
    const std::string out = "16x" + std::to_string(n) + "xf32";
    return asked_by(
        "%a: " + vmem(left) + ", %b: " + vmem(shape(k, n)) + ", %o: " + vmem(out),
        load_whole("%x", "%a", left, 2) + load_whole("%w", "%b", shape(k, n), 2) +
            "%s = \"S.arith.constant\"() {value = dense<0.0> : vector<" + out +
            ">} : () -> vector<" + out +
            ">\n%y = \"S.tpu.matmul\"(%x, %w, %s) {dimension_numbers = "
            "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs = "
            "false, transpose_rhs = false} : (vector<" +
            left + ">, vector<" + shape(k, n) + ">, vector<" + out + ">) -> vector<" + out + ">\n" +
            store_whole("%y", "%o", out, 2));
  };
  const auto passes = [&](int k, int n) {
    const auto rows = product(k, n);
    return std::pair(rows.at("tpu.matmul pass bf16"), rows.at("tpu.matmul pass bf16 wide"));
  };
  // 16 rows of f32 are two registers: each once a tile. Half a unit takes one tile of 128 x 128.
  CHECK(passes(128, 128) == std::pair<std::int64_t, std::int64_t>(2, 2));
  CHECK(passes(128, 256) == std::pair<std::int64_t, std::int64_t>(4, 4));
  CHECK(passes(256, 256) == std::pair<std::int64_t, std::int64_t>(8, 4));
  CHECK(passes(384, 128) == std::pair<std::int64_t, std::int64_t>(6, 6));
  CHECK(passes(384, 384) == std::pair<std::int64_t, std::int64_t>(18, 14));
  // Registers of two tiles are pushed side by side: 72 of nine tiles, five times those of one.
  CHECK(product(384, 384).at("tpu.matmul weights bf16 wide") == 40);
  CHECK(product(128, 128).at("tpu.matmul weights bf16 wide") == 8);
  CHECK(product(256, 128).at("tpu.matmul weights bf16 wide") == 8);
  // Rows of an array of more than 128 columns are loaded by halves of two tiles.
  CHECK(product(128, 128).count("halves b16") == 0);
  CHECK(product(256, 128).at("halves b16") == 2);
  CHECK(product(128, 256).at("halves b16") == 16);
  CHECK(product(256, 256).at("halves b16") == 2 + 32);
  CHECK(product(256, 256, "f32").at("halves b16") == 32);
  // Registers beside words are pushed in pairs, too.
  CHECK(product(256, 128, "f32").at("tpu.matmul pairs f32 bf16") == 8);
  CHECK(product(32, 128, "f32").at("tpu.matmul pairs f32 bf16") == 2);
}

TEST_CASE("a wide matrix unit takes half of a tile whose other half is known to be 0",
          "[pallas][units]") {
  struct Filled {
    int k_left;
    int k_right;
    int n;
  };
  const auto product = [](int m, int k, int n, const Filled& filled, bool highest = true) {
    const auto shape = [](int rows, int columns, const char* type) {
      return std::to_string(rows) + "x" + std::to_string(columns) + "x" + type;
    };
    // Of `from` those along a dim that are before `end`.
    const auto before = [&](const std::string& name, const std::string& from, int dim, int end,
                            int rows, int columns) {
      const std::string words = shape(rows, columns, "i32");
      const std::string floats = shape(rows, columns, "f32");
      return "%n" + name + " = \"S.tpu.iota\"() {dimensions = array<i32: " + std::to_string(dim) +
             ">} : () -> vector<" + words + ">\n%c" + name +
             " = \"S.arith.constant\"() {value = dense<" + std::to_string(end) + "> : vector<" +
             words + ">} : () -> vector<" + words + ">\n%m" + name + " = \"S.arith.cmpi\"(%n" +
             name + ", %c" + name + ") {predicate = 2 : i64} : (vector<" + words + ">, vector<" +
             words + ">) -> vector<" + shape(rows, columns, "i1") + ">\n%i" + name +
             " = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n%f" + name +
             " = \"S.arith.sitofp\"(%i" + name + ") : (i32) -> f32\n%z" + name +
             " = \"S.vector.broadcast\"(%f" + name + ") : (f32) -> vector<" + floats + ">\n%" +
             name + " = \"S.arith.select\"(%m" + name + ", " + from + ", %z" + name +
             ") : (vector<" + shape(rows, columns, "i1") + ">, vector<" + floats + ">, vector<" +
             floats + ">) -> vector<" + floats + ">\n";
    };
    const std::string left = shape(m, k, "f32");
    const std::string right = shape(k, n, "f32");
    const std::string out = shape(m, n, "f32");
    return asked_by(
        "%a: " + vmem(left) + ", %b: " + vmem(right) + ", %o: " + vmem(out),
        load_whole("%x", "%a", left, 2) + load_whole("%w", "%b", right, 2) +
            before("l", "%x", 1, filled.k_left, m, k) + before("u", "%w", 0, filled.k_right, k, n) +
            before("v", "%u", 1, filled.n, k, n) +
            "%s = \"S.arith.constant\"() {value = dense<0.0> : vector<" + out +
            ">} : () -> vector<" + out +
            ">\n%y = \"S.tpu.matmul\"(%l, %v, %s) {dimension_numbers = "
            "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs = "
            "false, transpose_rhs = false" +
            (highest ? ", precision = #tpu.contract_precision<fp32>" : "") + "} : (vector<" + left +
            ">, vector<" + right + ">, vector<" + out + ">) -> vector<" + out + ">\n" +
            store_whole("%y", "%o", out, 2));
  };
  const auto passes = [&](int k, int n, const Filled& filled) {
    return product(8, k, n, filled).at("tpu.matmul pass f32 highest wide");
  };
  // Rows of weights count if both sides are 0 there, columns by themselves.
  CHECK(passes(256, 128, {256, 256, 128}) == 2);
  CHECK(passes(256, 128, {256, 128, 128}) == 2);
  CHECK(passes(256, 128, {128, 256, 128}) == 2);
  CHECK(passes(256, 128, {128, 128, 128}) == 1);
  CHECK(passes(128, 256, {128, 128, 128}) == 1);
  CHECK(passes(128, 256, {128, 128, 160}) == 2);
  // A whole tile of 0 takes as much, and a push of one register.
  CHECK(passes(128, 512, {128, 128, 256}) == 3);
  const char* const pushed = "tpu.matmul weights f32 highest wide";
  CHECK(product(8, 128, 512, {128, 128, 256}).at(pushed) == 16 + 1);
  CHECK(product(8, 512, 128, {128, 128, 128}).at(pushed) == 16 + 1);
  // Registers of a half that is not whole lie beside none of the other half.
  CHECK(product(8, 256, 32, {256, 256, 32}).at(pushed) == 16);
  CHECK(product(8, 256, 32, {256, 150, 32}).at(pushed) == 19);
  CHECK(product(8, 384, 32, {384, 150, 32}).at(pushed) == 19 + 1);
  CHECK(product(8, 384, 32, {384, 300, 32}).at(pushed) == 16 + 6);
  CHECK(product(8, 384, 256, {384, 150, 256}).at(pushed) == 19 + 1);
  // Of more rows than a tile has two tiles do not lie beside one another.
  CHECK(product(128, 256, 128, {256, 256, 128}).at("tpu.matmul apart f32 highest") == 32);
  CHECK(product(128, 256, 256, {256, 256, 128}).at("tpu.matmul apart f32 highest") == 32);
  CHECK_FALSE(product(136, 256, 128, {256, 256, 128}).contains("tpu.matmul apart f32 highest"));
  // In the default precision one of 0 is left out, half of one is not.
  const auto by_default = [&](int k, const Filled& filled) {
    return product(128, k, 128, filled, false);
  };
  const char* const pass = "tpu.matmul pass f32 wide";
  CHECK(by_default(512, {256, 256, 128}).at(pass) == 32);
  CHECK(by_default(512, {257, 257, 128}).at(pass) == 64);
  CHECK(by_default(512, {512, 256, 128}).at(pass) == 64);
  CHECK(by_default(256, {128, 128, 128}).at(pass) == 32);
  CHECK(by_default(512, {128, 128, 128}).at("tpu.matmul pass f32") == 64);  // narrow ones
}

TEST_CASE("products in the highest precision of a matrix unit that is twice as wide",
          "[pallas][units]") {
  const auto program = [](int products, int k, int n, bool transposed) {
    const auto shape = [](int rows, int columns) {
      return std::to_string(rows) + "x" + std::to_string(columns) + "xf32";
    };
    const std::string right = transposed ? shape(n, k) : shape(k, n);
    const std::string out = shape(16, n);
    std::string body = load_whole("%x", "%a", shape(16, k), 2) + load_whole("%w", "%b", right, 2) +
                       "%s = \"S.arith.constant\"() {value = dense<0.0> : vector<" + out +
                       ">} : () -> vector<" + out + ">\n";
    for (int i = 0; i < products; ++i) {
      const std::string y = "%y" + std::to_string(i);
      body +=
          y +
          " = \"S.tpu.matmul\"(%x, %w, %s) {dimension_numbers = #tpu.dot_dimension_numbers<[1], [" +
          (transposed ? "1], [0], [0], [0, 0, 1, 0" : "0], [0], [1], [0, 0, 1, 1") +
          "], [], []>, transpose_lhs = false, transpose_rhs = false, precision = "
          "#tpu.contract_precision<fp32>} : (vector<" +
          shape(16, k) + ">, vector<" + right + ">, vector<" + out + ">) -> vector<" + out + ">\n" +
          store_whole(y, "%o" + std::to_string(i), out, 2);
    }
    std::string arguments = "%a: " + vmem(shape(16, k)) + ", %b: " + vmem(right);
    for (int i = 0; i < products; ++i) arguments += ", %o" + std::to_string(i) + ": " + vmem(out);
    return plan_module(load_module(module_text(arguments, body), "the test's module"));
  };
  const auto of = [&](const std::string& row, int k, int n, bool transposed) {
    const auto rows = asked(*program(1, k, n, transposed));
    const auto it = rows.find("tpu.matmul " + row);
    return it == rows.end() ? 0 : it->second;
  };
  CHECK(of("weights f32 highest wide", 128, 128, false) == 16);
  CHECK(of("weights f32 highest wide", 256, 128, false) == 16);
  CHECK(of("weights f32 highest wide", 192, 96, false) == 24);
  CHECK(of("weights f32 highest wide transposed", 256, 256, true) == 32);
  CHECK(of("weights f32 highest wide transposed", 64, 192, true) == 24);
  // Sums of each of two tiles that lie beside one another, of two registers of rows.
  CHECK(of("apart f32 highest", 128, 128, false) == 0);
  CHECK(of("apart f32 highest", 384, 128, false) == 2 * 2);
  CHECK(of("apart f32 highest", 256, 256, false) == 0);
  CHECK(of("apart f32 highest", 256, 128, true) == 0);

  // Both units share the last of an odd number.
  program::UnitCosts costs;
  costs.capacity.fill(1);
  costs.rows["tpu.matmul weights f32 highest wide"].slots[static_cast<std::size_t>(CoreUnit::mxu)] =
      6;
  const auto cycles = [&](int products, int k) {
    const auto p = program(products, k, 128, false);
    return all_cycles(program::counted(*p, p->main, costs));
  };
  CHECK(cycles(3, 128) == 3 * 16 * 6);
  costs.rows["tpu.matmul weights f32 highest wide shared"]
      .slots[static_cast<std::size_t>(CoreUnit::mxu)] = 2;
  CHECK(cycles(1, 128) == 16 * 2);
  CHECK(cycles(2, 128) == 2 * 16 * 6);
  CHECK(cycles(3, 128) == 2 * 16 * 6 + 16 * 2);
  CHECK(cycles(1, 256) == 16 * 6);

  // Registers decide, but for parts that are packed.
  costs.capacity.fill(2);
  costs.rows["tpu.matmul weights f32 highest wide"].slots[static_cast<std::size_t>(CoreUnit::mxu)] =
      600;
  costs.schedules = {.memory = 4, .product = 90, .pops_from_queue = true, .turn = 30};
  const std::int64_t by_registers = cycles(2, 128);
  costs.schedules->packs_words = true;
  CHECK(by_registers < 1000);
  CHECK(cycles(2, 128) > 4 * by_registers);
}

TEST_CASE("a wait is told of no places, and nothing behind it begins before", "[pallas][units]") {
  // Two slices of an array, copied at a time or one after the other.
  const auto program = [](bool at_a_time) {
    const std::string array = "memref<32x128xf32, #tpu.memory_space<hbm>>";
    const std::string part = "memref<16x128xf32, #tpu.memory_space<hbm>>";
    const std::string there = vmem("16x128xf32");
    const std::string semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
    const auto slice = [&](const std::string& name, const std::string& row) {
      return name + " = \"S.tpu.memref_slice\"(%a, " + row +
             ", %zero) {operandSegmentSizes = array<i32: 1, 2, 0>} : (" + array +
             ", i32, i32) -> " + part + "\n";
    };
    const auto begin = [&](const std::string& n, const std::string& row) {
      return slice("%f" + n, row) + "\"S.tpu.enqueue_dma\"(%f" + n + ", %v" + n + ", %s" + n +
             ") {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, "
             "strict_ordering = false} : (" +
             part + ", " + there + ", " + semaphore + ") -> ()\n";
    };
    const auto wait = [&](const std::string& n, const std::string& row) {
      return slice("%w" + n, row) + "\"S.tpu.wait_dma2\"(%s" + n + ", %w" + n + ", %v" + n +
             ") {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, strict_ordering = false} : (" +
             semaphore + ", " + part + ", " + there + ") -> ()\n";
    };
    const std::string begin_0 = begin("0", "%zero");
    const std::string wait_0 = wait("0", "%zero");
    const std::string begin_1 = begin("1", "%half");
    return plan_module(
        load_module(module_text("%a: " + array + ", %v0: " + there + ", %v1: " + there +
                                    ", %s0: " + semaphore + ", %s1: " + semaphore,
                                "%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
                                "%half = \"S.arith.constant\"() {value = 16 : i32} : () -> i32\n" +
                                    begin_0 + (at_a_time ? begin_1 + wait_0 : wait_0 + begin_1) +
                                    wait("1", "%half")),
                    "the test's module"));
  };
  const auto chain = [&](bool at_a_time) {
    const auto p = program(at_a_time);
    CHECK(asked(*p).at("tpu.memref_slice") == 1);  // the other one begins where the array does
    CHECK(asked(*p).at("tpu.wait_dma2") == 2);
    program::UnitCosts costs;
    costs.rows["tpu.memref_slice"].latency = 1;
    costs.rows["tpu.enqueue_dma"].latency = 10;
    costs.rows["tpu.wait_dma2"].latency = 100;
    return all_cycles(program::counted(*p, p->main, costs));
  };
  CHECK(chain(true) == 1 + 10 + 100 + 100);
  CHECK(chain(false) == 10 + 100 + 1 + 10 + 100);
  // Units that work beside one another do not across a wait.
  const auto p = program(true);
  program::UnitCosts costs;
  costs.capacity.fill(1);
  costs.rows["tpu.enqueue_dma"].slots[static_cast<std::size_t>(CoreUnit::load)] = 6;
  costs.rows["tpu.wait_dma2"].slots[static_cast<std::size_t>(CoreUnit::scalar)] = 6;
  const program::CountedCode c = program::counted(*p, p->main, costs);
  CHECK(all_cycles(c) == 2 * 6 + 6 + 6);
  // What lies behind a wait is done there, not where the code begins.
  CHECK(c.at.at(0).cycles == 2 * 6);
}

TEST_CASE("what waits for a reduction between copies is scheduled with them", "[pallas][units]") {
  // Rows of two registers come and are summed.
  const std::string array = "memref<16x128xf32, #tpu.memory_space<hbm>>";
  const std::string there = vmem("16x128xf32");
  const std::string semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
  const auto p = plan_module(load_module(
      module_text(
          "%a: " + array + ", %v: " + there + ", %s: " + semaphore + ", %o: " + vmem("16x1xf32"),
          "\"S.tpu.enqueue_dma\"(%a, %v, %s) {operandSegmentSizes = array<i32: 1, 0, 1, 1, "
          "0, 0>, priority = 0 : i32, strict_ordering = false} : (" +
              array + ", " + there + ", " + semaphore +
              ") -> ()\n\"S.tpu.wait_dma2\"(%s, %a, %v) {operandSegmentSizes = array<i32: "
              "1, 1, 1, 0, 0>, strict_ordering = false} : (" +
              semaphore + ", " + array + ", " + there + ") -> ()\n" +
              load_whole("%x", "%v", "16x128xf32", 2) +
              "%c = \"S.arith.constant\"() {value = dense<0.0> : vector<16xf32>} : () -> "
              "vector<16xf32>\n"
              "%r = \"S.vector.multi_reduction\"(%x, %c) {kind = #vector.kind<add>, "
              "reduction_dims = array<i64: 1>} : (vector<16x128xf32>, vector<16xf32>) -> "
              "vector<16xf32>\n"
              "%y = \"S.vector.shape_cast\"(%r) : (vector<16xf32>) -> vector<16x1xf32>\n" +
              store_whole("%y", "%o", "16x1xf32", 2)),
      "the test's module"));
  program::UnitCosts costs;
  costs.capacity.fill(1);
  costs.rows["load b32"].slots[static_cast<std::size_t>(CoreUnit::load)] = 1;
  costs.rows["tpu.wait_dma2"].slots[static_cast<std::size_t>(CoreUnit::scalar)] = 1;
  program::UnitCost& sums = costs.rows["vector.multi_reduction.add f32 lanes"];
  sums.slots[static_cast<std::size_t>(CoreUnit::xlu)] = 8;
  sums.slots[static_cast<std::size_t>(CoreUnit::vpop)] = 1;
  const auto cycles = [&](int turn) {
    costs.schedules = {.reduce = 90, .reduce_every = 4, .memory = 4, .turn = turn, .turn_every = 4};
    return all_cycles(program::counted(*p, p->main, costs));
  };
  CHECK(cycles(0) >= 16);  // by slots
  CHECK(cycles(30) <= 7);  // a wait, two loads, pushes and pops
}

namespace {

/// Copies of pages of an array in HBM, which a table in SMEM names, behind a branch, each to a
/// place of its own or all to one; then waits.
std::unique_ptr<Program> paged(int copies, const std::string& place = "") {
  const std::string pages = "memref<32x16x128xf32, #tpu.memory_space<any>>";
  const std::string page = "memref<1x16x128xf32, #tpu.memory_space<any>>";
  const std::string buffer = "memref<32x16x128xf32, #tpu.memory_space<vmem>>";
  const std::string part = "memref<1x16x128xf32, #tpu.memory_space<vmem>>";
  const std::string semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
  const auto slice = [](const std::string& name, const std::string& of, const std::string& at,
                        const std::string& from, const std::string& to) {
    return name + " = \"S.tpu.memref_slice\"(" + of + ", " + at +
           ", %zero, %zero) {operandSegmentSizes = array<i32: 1, 3, 0>} : (" + from +
           ", i32, i32, i32) -> " + to + "\n";
  };
  std::string way;
  std::string waits;
  for (int i = 0; i < copies; ++i) {
    const std::string n = std::to_string(i);
    way += "%c" + n + " = \"S.arith.constant\"() {value = " + n + " : i32} : () -> i32\n%at" + n +
           " = \"S.arith.addi\"(%first, %c" + n + ") : (i32, i32) -> i32\n%x" + n +
           " = \"S.arith.index_cast\"(%at" + n + ") : (i32) -> index\n%page" + n +
           " = \"S.memref.load\"(%table, %x" + n + ") : (memref<64xi32, @smem>, index) -> i32\n" +
           slice("%from" + n, "%pages", "%page" + n, pages, page) +
           slice("%to" + n, "%buffer", place.empty() ? "%c" + n : place, buffer, part) +
           "\"S.tpu.enqueue_dma\"(%from" + n + ", %to" + n +
           ", %s) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, "
           "strict_ordering = false} : (" +
           page + ", " + part + ", " + semaphore + ") -> ()\n";
    waits += slice("%wait" + n, "%buffer", "%zero", buffer, part) +
             "\"S.tpu.wait_dma2\"(%s, %wait" + n + ", %wait" + n +
             ") {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, strict_ordering = false} : (" +
             semaphore + ", " + part + ", " + part + ") -> ()\n";
  }
  return plan_module(load_module(
      module_text("%table: memref<64xi32, @smem>, %pages: " + pages + ", %buffer: " + buffer +
                      ", %s: " + semaphore,
                  "%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
                  "%one = \"S.arith.constant\"() {value = 1 : i32} : () -> i32\n"
                  "%begin = \"S.arith.constant\"() {value = 0 : index} : () -> index\n"
                  "%first = \"S.memref.load\"(%table, %begin) : (memref<64xi32, @smem>, index) -> "
                  "i32\n"
                  "%t = \"S.arith.cmpi\"(%first, %one) {predicate = 2 : i64} : (i32, i32) -> i1\n"
                  "%slot = \"S.arith.select\"(%t, %zero, %one) : (i1, i32, i32) -> i32\n"
                  "\"S.scf.if\"(%t) ({\n" +
                      way + "\"S.scf.yield\"() : () -> ()\n}, {\n}) : (i1) -> ()\n" + waits),
      "the test's module"));
}

}  // namespace

TEST_CASE("copies behind a branch are predicated if they are few", "[pallas][units]") {
  // How many, by the compilers' listings.
  const auto jumps = [](const std::string& chip, int copies) {
    const auto p = paged(copies);
    program::UnitCosts costs = *program::unit_costs(chip);
    const std::int64_t before = all_cycles(program::counted(*p, p->main, costs));
    costs.jump += 1000;
    return all_cycles(program::counted(*p, p->main, costs)) > before;
  };
  for (const auto& [chip, most] :
       std::map<std::string, int>{{"v4", 25}, {"v5e", 14}, {"v5p", 18}, {"v6e", 18}, {"v7x", 18}}) {
    CHECK_FALSE(jumps(chip, most));
    CHECK(jumps(chip, most + 1));
  }
}

TEST_CASE("a copy looks at either end, and waits in a row are one", "[pallas][units]") {
  const auto three = asked(*paged(3));
  CHECK(three.at("tpu.enqueue_dma") == 3);
  CHECK(three.at("tpu.enqueue_dma hbm unsure") == 3);
  CHECK(three.at("tpu.enqueue_dma vmem") == 3);
  CHECK(three.at("tpu.memref_slice dynamic") == 3);
  CHECK(three.count("tpu.memref_slice") == 0);
  CHECK(three.at("tpu.wait_dma2") == 1);
  // Of a slot the address is computed once; that it is 0 or 1 the compiler knows, of a word that
  // was loaded it knows nothing.
  const auto slot = asked(*paged(3, "%slot"));
  CHECK(slot.at("tpu.memref_slice dynamic") == 3 + 1);
  CHECK(slot.at("scalar") == three.at("scalar") + 2);  // a shift, and which slot
  CHECK(slot.at("tpu.enqueue_dma vmem") == 1);         // the same place, three times
  CHECK(slot.at("tpu.enqueue_dma vmem again") == 2);
  CHECK(asked(*paged(3, "%first")).at("tpu.enqueue_dma vmem unsure") == 1);
}

TEST_CASE("of an odd number of tiles of 16 bits a half register is one more", "[pallas][units]") {
  const auto program = [](const std::string& shape, const std::string& type) {
    const std::string of = shape + "x" + type;
    return plan_module(
        load_module(module_text("%x: " + vmem(of) + ", %y: " + vmem(of),
                                load_whole("%r", "%x", of, 2) + store_whole("%r", "%y", of, 2)),
                    "the test's module"));
  };
  const auto cycles = [&](const std::string& shape, const std::string& type, double matrix_units) {
    program::UnitCosts costs;
    costs.capacity.fill(1);
    costs.capacity[static_cast<std::size_t>(CoreUnit::mxu)] = matrix_units;
    for (const char* const row : {"store b16", "store b16 masked", "store b32"})
      costs.rows[row].slots[static_cast<std::size_t>(CoreUnit::store)] = 1;
    const auto p = program(shape, type);
    return all_cycles(program::counted(*p, p->main, costs));
  };
  CHECK(cycles("64x256", "bf16", 4) == 8);
  CHECK(cycles("64x384", "bf16", 4) == 12 + 4);
  CHECK(cycles("64x640", "bf16", 4) == 20 + 4);
  CHECK(cycles("24x384", "bf16", 4) == 3 * 2);
  CHECK(cycles("64x128", "bf16", 4) == 4);
  CHECK(cycles("64x384", "bf16", 2) == 12);
  CHECK(cycles("64x384", "f32", 4) == 24);
}

TEST_CASE("of a copy's looks one lies beside vector work that it waits for", "[pallas][units]") {
  // 16 registers are stored; what was written is copied, or comes from elsewhere.
  const auto program = [](const std::string& copied, const std::string& type) {
    const std::string there = "memref<64x256x" + type + ", #tpu.memory_space<hbm>>";
    const std::string semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
    const std::string here = vmem("64x256x" + type);
    return plan_module(load_module(
        module_text("%x: " + vmem("64x256xf32") + ", %y: " + vmem("64x256xf32") + ", %o: " + here +
                        ", %a: " + there + ", %b: " + there + ", %s: " + semaphore,
                    load_whole("%r", "%x", "64x256xf32", 2) +
                        store_whole("%r", "%y", "64x256xf32", 2) + "\"S.tpu.enqueue_dma\"(" +
                        copied +
                        ", %s) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : "
                        "i32, strict_ordering = false} : (" +
                        (copied.starts_with("%a") ? there : here) + ", " +
                        (copied.ends_with("%b") ? there : here) + ", " + semaphore + ") -> ()\n"),
        "the test's module"));
  };
  program::UnitCosts costs;
  costs.capacity.fill(1);
  costs.rows["store b32"].slots[static_cast<std::size_t>(CoreUnit::store)] = 1;
  for (const char* const end : {"hbm", "vmem"})
    for (const char* const behind : {"", " behind vectors"})
      costs.rows["tpu.enqueue_dma " + std::string(end) + behind]
          .slots[static_cast<std::size_t>(CoreUnit::scalar)] = 6;
  const auto cycles = [&](const std::string& copied, const std::string& type = "f32") {
    const auto p = program(copied, type);
    return all_cycles(program::counted(*p, p->main, costs));
  };
  // Where it may stop takes a bundle of its own.
  CHECK(cycles("%y, %b") == 16 + 1 + 6);
  CHECK(cycles("%a, %y") == 16 + 1 + 6);
  CHECK(cycles("%a, %x") == 16 + 1 + 6);  // what was there is read before
  CHECK(cycles("%x, %b") == 16 + 6 + 6);  // begun in front of the stores
  CHECK(cycles("%a, %o") == 16 + 6 + 6);
  // A tpu7x describes a copy between tiles of 8 rows and of 16 by words, and looks at nothing.
  const auto p = program("%a, %o", "bf16");
  CHECK(asked(*p).at("tpu.enqueue_dma other tiles") == 1);
  CHECK(asked(*program("%a, %o", "f32")).count("tpu.enqueue_dma other tiles") == 0);
  CHECK(all_cycles(program::counted(*p, p->main, costs)) == 16 + 6 + 6);
  costs.rows["tpu.enqueue_dma other tiles"].slots[static_cast<std::size_t>(CoreUnit::scalar)] = 9;
  CHECK(all_cycles(program::counted(*p, p->main, costs)) == 16 + 9);
}

TEST_CASE("what is done alone hides nothing", "[pallas][units]") {
  // 8 bits to 32, 4 registers of 8 rows, and as many sums.
  const std::string bytes = "vector<32x128xi8>";
  const std::string words = "vector<32x128xi32>";
  const auto p = plan_module(load_module(
      module_text("%a: " + vmem("32x128xi8") + ", %o: " + vmem("32x128xi32"),
                  load_whole("%x", "%a", "32x128xi8", 2) + "%w = \"S.arith.extsi\"(%x) : (" +
                      bytes + ") -> " + words + "\n%y = \"S.arith.addi\"(%w, %w) : (" + words +
                      ", " + words + ") -> " + words + "\n" +
                      store_whole("%y", "%o", "32x128xi32", 2)),
      "the test's module"));
  program::UnitCosts costs;
  costs.capacity.fill(1);
  costs.rows["arith.extsi i8 i32"].alone = 5;
  costs.rows["arith.addi i32"].slots[static_cast<std::size_t>(CoreUnit::valu)] = 1;
  costs.rows["load b8"].slots[static_cast<std::size_t>(CoreUnit::load)] = 3;
  const program::CountedCode c = program::counted(*p, p->main, costs);
  CHECK(c.at.at(0).cycles == 4 * 5 + 4);
  double of_lines = 0;
  for (const CoreLine& line : c.lines) of_lines += line.cycles;
  CHECK(of_lines == Approx(24));
}

TEST_CASE("what is made behind a reduction while 64 registers hold others is spilled",
          "[pallas][units]") {
  // Of u, which is `rows` x 512 numbers and the sums of their columns or without those: its roots,
  // kept while something else is made, or read at once.
  const auto stored = [](int rows, bool sums, bool kept, double spill) {
    const std::string shape = std::to_string(rows) + "x512xf32";
    const std::string vector = "vector<" + shape + ">";
    const std::string fast = " {fastmath = #arith.fastmath<none>} : (" + vector;
    const auto two = [&](const std::string& result, const std::string& op, const std::string& of) {
      return result + " = \"S.arith." + op + "\"(" + of + ")" + fast + ", " + vector + ") -> " +
             vector + "\n";
    };
    const std::string added =
        "%c = \"S.arith.constant\"() {value = dense<0.0> : vector<512xf32>} : () -> "
        "vector<512xf32>\n"
        "%l = \"S.vector.multi_reduction\"(%x, %c) {kind = #vector.kind<add>, reduction_dims = "
        "array<i64: 0>} : (" +
        vector +
        ", vector<512xf32>) -> vector<512xf32>\n"
        "%l1 = \"S.vector.shape_cast\"(%l) : (vector<512xf32>) -> vector<1x512xf32>\n"
        "%b = \"S.vector.broadcast\"(%l1) : (vector<1x512xf32>) -> " +
        vector + "\n";
    const auto p = plan_module(load_module(
        module_text(
            "%a: " + vmem(shape) + ", %o: " + vmem(shape),
            load_whole("%x", "%a", shape, 2) + (sums ? added : "") +
                two("%u", "addf", sums ? "%x, %b" : "%x, %x") + "%r = \"S.math.sqrt\"(%u)" + fast +
                ") -> " + vector + "\n" + two("%s", "addf", kept ? "%u, %u" : "%r, %r") +
                two("%t", "mulf", kept ? "%s, %r" : "%s, %s") + store_whole("%t", "%o", shape, 2)),
        "the test's module"));
    program::UnitCosts costs = *program::unit_costs("v5e");
    costs.spill = spill;
    std::int64_t all = 0;
    for (const CoreUse& use : program::counted(*p, p->main, costs).at)
      all += use.slots[static_cast<std::size_t>(CoreUnit::store)];
    return all;
  };
  const auto spilled = [&](int rows, bool sums, bool kept) {
    return stored(rows, sums, kept, 1) - stored(rows, sums, kept, 0);
  };
  CHECK(spilled(64, true, true) == 0);   // 2 x 32 registers
  CHECK(spilled(72, true, true) == 8);   // 2 x 36
  CHECK(spilled(72, true, false) == 0);  // 36 at a time
  CHECK(spilled(72, false, true) == 0);  // one register after another
}

TEST_CASE("what follows from no load is made by each operation at once", "[pallas][units]") {
  // u = y + y, and (u + u) sqrt(u), of y that is loaded or of a row and numbers of rows.
  const auto slots = [](int rows, bool loaded, bool masked) {
    const std::string shape = std::to_string(rows) + "x512xf32";
    const std::string vector = "vector<" + shape + ">";
    const std::string words = "vector<" + std::to_string(rows) + "x512xi32>";
    const std::string bits = "vector<" + std::to_string(rows) + "x512xi1>";
    const std::string fast = " {fastmath = #arith.fastmath<none>} : (" + vector;
    const auto two = [&](const std::string& result, const std::string& op, const std::string& of) {
      return result + " = \"S.arith." + op + "\"(" + of + ")" + fast + ", " + vector + ") -> " +
             vector + "\n";
    };
    const std::string row = "1x512xf32";
    const std::string made =
        load_whole("%l", "%a", row, 2) + "%b = \"S.vector.broadcast\"(%l) : (vector<" + row +
        ">) -> " + vector + "\n%i = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> " +
        words + "\n%f = \"S.arith.sitofp\"(%i) : (" + words + ") -> " + vector + "\n" +
        two("%y", "addf", "%f, %b");
    const auto mask = [&](const std::string& name, const std::string& by) {
      return name + " = \"S.arith.cmpf\"(%y, " + by +
             ") {fastmath = #arith.fastmath<none>, predicate = 2 : i64} : (" + vector + ", " +
             vector + ") -> " + bits + "\n";
    };
    const std::string chosen = mask("%m", "%b") + two("%u", "addf", "%y, %y") +
                               "%c = \"S.arith.select\"(%m, %u, %b) : (" + bits + ", " + vector +
                               ", " + vector + ") -> " + vector + "\n" +
                               store_whole("%c", "%o", shape, 2);
    const std::string rooted = two("%u", "addf", "%y, %y") + "%r = \"S.math.sqrt\"(%u)" + fast +
                               ") -> " + vector + "\n" + two("%s", "addf", "%u, %u") +
                               two("%t", "mulf", "%s, %r") + store_whole("%t", "%o", shape, 2);
    const auto p = plan_module(load_module(
        module_text(
            "%a: " + vmem(loaded ? shape : row) + ", %o: " + vmem(shape),
            (loaded ? load_whole("%y", "%a", shape, 2) : made) + (masked ? chosen : rooted)),
        "the test's module"));
    program::UnitCosts costs;
    costs.capacity.fill(1);
    std::array<std::int64_t, kCoreUnits> all{};
    for (const CoreUse& use : program::counted(*p, p->main, costs).at)
      for (std::size_t u = 0; u < kCoreUnits; ++u) all[u] += use.slots[u];
    return all;
  };
  constexpr auto kStore = static_cast<std::size_t>(CoreUnit::store);
  constexpr auto kValu = static_cast<std::size_t>(CoreUnit::valu);
  CHECK(slots(64, false, false)[kStore] == 0);  // 2 x 32 registers
  CHECK(slots(72, false, false)[kStore] == 8);  // 2 x 36
  CHECK(slots(144, true, false)[kStore] == 0);  // one register after another
  CHECK(slots(32, false, true)[kStore] == 0);   // 16 masks
  CHECK(slots(40, false, true)[kStore] == 4);   // 20
  CHECK(slots(40, false, true)[kValu] == 14);   // made vectors, and compared again
}

TEST_CASE(
    "what follows from a product alone is popped when it is needed, of bf16 and much work at once",
    "[pallas][units]") {
  // `ops` sums behind a product of `rows` x 128 results, each of the one before it and of one eight
  // before, so that eight are kept: whether more is stored than the last one.
  const auto spilled = [](const char* chip, int rows, int ops, const std::string& type) {
    const auto shape = [](int n, const std::string& of) {
      return std::to_string(n) + "x128x" + of;
    };
    const std::string out = shape(rows, "f32");
    const std::string vector = "vector<" + out + ">";
    std::string body =
        load_whole("%x", "%a", shape(rows, type), 2) + load_whole("%w", "%b", shape(128, type), 2) +
        "%z = \"S.arith.constant\"() {value = dense<0.0> : " + vector + "} : () -> " + vector +
        "\n%v0 = \"S.tpu.matmul\"(%x, %w, %z) {dimension_numbers = "
        "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, "
        "transpose_lhs = false, transpose_rhs = false} : (vector<" +
        shape(rows, type) + ">, vector<" + shape(128, type) + ">, " + vector + ") -> " + vector +
        "\n";
    for (int i = 1; i <= ops; ++i)
      body += "%v" + std::to_string(i) + " = \"S.arith.addf\"(%v" + std::to_string(i - 1) + ", %v" +
              std::to_string(std::max(0, i - 8)) + ") {fastmath = #arith.fastmath<none>} : (" +
              vector + ", " + vector + ") -> " + vector + "\n";
    const auto p = plan_module(
        load_module(module_text("%a: " + vmem(shape(rows, type)) +
                                    ", %b: " + vmem(shape(128, type)) + ", %o: " + vmem(out),
                                body + store_whole("%v" + std::to_string(ops), "%o", out, 2)),
                    "the test's module"));
    std::int64_t all = 0;
    for (const CoreUse& use : program::counted(*p, p->main, *program::unit_costs(chip)).at)
      all += use.slots[static_cast<std::size_t>(CoreUnit::store)];
    return all > rows / 8;
  };
  // By listings of 17 to 24 registers that some 200 operations each follow from; of 16 with as many
  // as quantised_matmul_int8 has none is stored either.
  for (const char* const chip : {"v5e", "v5p"}) {
    CHECK_FALSE(spilled(chip, 128, 205, "bf16"));
    CHECK_FALSE(spilled(chip, 136, 205, "bf16"));
    CHECK(spilled(chip, 144, 205, "bf16"));
    CHECK(spilled(chip, 152, 205, "bf16"));
    CHECK_FALSE(spilled(chip, 192, 105, "bf16"));
    CHECK_FALSE(spilled(chip, 192, 205, "f32"));
  }
  for (const char* const chip : {"v6e", "v7x"}) {
    CHECK_FALSE(spilled(chip, 136, 205, "bf16"));
    CHECK_FALSE(spilled(chip, 144, 205, "bf16"));  // nine registers of bf16
    CHECK(spilled(chip, 152, 205, "bf16"));        // ten
    CHECK_FALSE(spilled(chip, 176, 205, "bf16"));  // eleven
    CHECK(spilled(chip, 192, 205, "bf16"));
  }
}

TEST_CASE(
    "weights of one register of rows and an odd number of columns are made as they are pushed",
    "[pallas][units]") {
  // Of words that are spread over 128 rows, three values of each at once: whether twice as much is
  // stored as the product.
  const auto spilled = [](const char* chip, int rows, int columns) {
    const auto shape = [](int n, int m, const std::string& of) {
      return std::to_string(n) + "x" + std::to_string(m) + "x" + of;
    };
    const auto vector = [](const std::string& of) { return "vector<" + of + ">"; };
    const std::string left = shape(rows, 128, "bf16");
    const std::string row = shape(1, columns, "f32");
    const std::string out = shape(rows, columns, "f32");
    const std::string made = vector(shape(128, columns, "f32"));
    const std::string words = vector(shape(128, columns, "i32"));
    const std::string weights = vector(shape(128, columns, "bf16"));
    const std::string fast = " {fastmath = #arith.fastmath<none>} : (" + made;
    const auto two = [&](const std::string& result, const std::string& op, const std::string& of) {
      return result + " = \"S.arith." + op + "\"(" + of + ")" + fast + ", " + made + ") -> " +
             made + "\n";
    };
    const std::string body =
        load_whole("%x", "%a", left, 2) + load_whole("%l", "%b", row, 2) +
        "%s = \"S.vector.broadcast\"(%l) : (" + vector(row) + ") -> " + made +
        "\n%i = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> " + words +
        "\n%f = \"S.arith.sitofp\"(%i) : (" + words + ") -> " + made + "\n" +
        two("%y", "addf", "%f, %s") + "%u = \"S.math.sqrt\"(%y)" + fast + ") -> " + made + "\n" +
        two("%v", "mulf", "%u, %y") + two("%t", "addf", "%v, %u") + two("%r", "addf", "%t, %y") +
        "%w = \"S.arith.truncf\"(%r) : (" + made + ") -> " + weights +
        "\n%z = \"S.arith.constant\"() {value = dense<0.0> : " + vector(out) + "} : () -> " +
        vector(out) +
        "\n%p = \"S.tpu.matmul\"(%x, %w, %z) {dimension_numbers = "
        "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, "
        "transpose_lhs = false, transpose_rhs = false} : (" +
        vector(left) + ", " + weights + ", " + vector(out) + ") -> " + vector(out) + "\n" +
        store_whole("%p", "%o", out, 2);
    const auto p = plan_module(load_module(
        module_text("%a: " + vmem(left) + ", %b: " + vmem(row) + ", %o: " + vmem(out), body),
        "the test's module"));
    std::int64_t all = 0;
    for (const CoreUse& use : program::counted(*p, p->main, *program::unit_costs(chip)).at)
      all += use.slots[static_cast<std::size_t>(CoreUnit::store)];
    return all > 2 * rows / 8 * columns / 128;
  };
  // By listings of quantised_matmul of 8 to 40 rows and 128 to 896 columns.
  CHECK(spilled("v5e", 8, 384));
  for (const char* const chip : {"v6e", "v7x"}) {
    CHECK(spilled(chip, 8, 256));
    CHECK_FALSE(spilled(chip, 8, 384));
    CHECK(spilled(chip, 8, 512));
    CHECK_FALSE(spilled(chip, 8, 640));
    CHECK(spilled(chip, 16, 384));
    CHECK(spilled(chip, 24, 384));
  }
}

TEST_CASE("each turn of a loop takes as many cycles", "[pallas][units]") {
  const std::int64_t one = cycles_of_loop(1);
  const std::int64_t turn = cycles_of_loop(2) - one;
  CHECK(turn >= 16 / 4);  // 16 additions, 4 in a bundle
  CHECK(cycles_of_loop(100) == one + 99 * turn);
  CHECK(cycles_of_loop(5, false) == one + 4 * turn);  // with values, too
}

TEST_CASE("lines share all cycles of what ran", "[pallas][units]") {
  const auto program = looped(7);
  const program::CountedCode c =
      program::counted(*program, program->main, *program::unit_costs("v5e"));
  for (std::size_t step = 0; step < c.at.size(); ++step) {
    double shared = 0;
    for (const CoreLine& l : c.lines) shared += l.step == step ? l.cycles : 0;
    CHECK(shared == Approx(static_cast<double>(c.at[step].cycles)));
  }
  for (const bool dry : {true, false}) {
    RunOptions options = timed("tpu-v5e");
    options.dry = dry;
    const RunResult r = run_program(*program, {64, 256}, options);
    const predict::Timeline line = timeline(r);
    double lines = 0;
    for (const predict::LineTime& l : line.lines) lines += l.seconds;
    CHECK(lines * r.plan.core.clock_hz ==
          Approx(static_cast<double>(r.trace.works.at(0).core.cycles)));
    CHECK(lines + line.pipeline_seconds == Approx(line.compute_seconds));
  }
  CHECK(timeline(run_program(*program, {64, 256}, unmeasured())).lines.empty());
}

TEST_CASE("a line has what the sum over units grows by", "[pallas][units]") {
  // Of ops on lines of their own: their shares are the derivatives of the stretch's cycles.
  const auto program = plan_module(load_module(
      module_text("%a: " + vmem("64x256xf32") + ", %o: " + vmem("64x256xf32"),
                  load_whole("%x", "%a", "64x256xf32", 2) +
                      "%y = \"S.arith.mulf\"(%x, %x) {fastmath = #arith.fastmath<none>} : "
                      "(vector<64x256xf32>, vector<64x256xf32>) -> vector<64x256xf32>\n"
                      "%z = \"S.math.exp\"(%y) {fastmath = #arith.fastmath<none>} : "
                      "(vector<64x256xf32>) -> vector<64x256xf32>\n" +
                      store_whole("%z", "%o", "64x256xf32", 2)),
      "the test's module"));
  program::UnitCosts costs = *program::unit_costs("v5e");
  costs.block = costs.jump = 0;
  costs.rest = 0.1;
  for (auto& [row, cost] : costs.rows) {
    cost.latency = 0;
    for (double& n : cost.slots) n *= 1e8;  // rounding to cycles is nothing then
  }
  const auto cycles = [&] {
    double all = 0;
    for (const CoreUse& use : program::counted(*program, program->main, costs).at)
      all += static_cast<double>(use.cycles);
    return all;
  };
  const double before = cycles();
  std::vector<double> grows;
  for (const std::string& row : program->unit_rows) {
    const auto cost = costs.rows.find(row);
    if (cost == costs.rows.end()) continue;
    const auto kept = cost->second.slots;
    for (double& n : cost->second.slots) n *= 1.001;
    grows.push_back((cycles() - before) / 0.001);
    cost->second.slots = kept;
    if (grows.back() == 0) grows.pop_back();
  }
  std::vector<double> shares;
  for (const CoreLine& l : program::counted(*program, program->main, costs).lines)
    shares.push_back(l.cycles);
  std::ranges::sort(grows);
  std::ranges::sort(shares);
  REQUIRE(shares.size() == 4);
  REQUIRE(grows.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(shares[i] == Approx(grows[i]).epsilon(2e-3));
}

TEST_CASE("a prediction says which model made it, and how far off it may be", "[pallas][units]") {
  const auto program = looped(1000);
  const predict::Timeline v5e = timeline(run_program(*program, {64, 256}, timed("tpu-v5e")));
  REQUIRE(v5e.unmodelled.empty());
  CHECK(v5e.model.find("v5e") != std::string::npos);
  CHECK(v5e.left_out.empty());
  CHECK(v5e.binds == "compute");
  CHECK(0 < v5e.least_seconds);
  CHECK(v5e.least_seconds < v5e.seconds);
  CHECK(v5e.seconds < v5e.most_seconds);
  // 16 adds a turn, 4 in a bundle.
  CHECK(v5e.seconds >= 1000 * 4 / 1.5e9);
  // What waits lies beyond what follows from the interval of cycles.
  RunResult wide = run_program(*program, {64, 256}, timed("tpu-v5e"));
  wide.plan.core.least_whole /= 2;
  wide.plan.core.most_whole *= 3;
  CHECK(timeline(wide).least_seconds == Approx(v5e.least_seconds / 2));
  CHECK(timeline(wide).most_seconds == Approx(v5e.most_seconds * 3));
  const predict::Timeline v6e = timeline(run_program(*program, {64, 256}, timed("tpu-v6e")));
  CHECK(v6e.model.find("v6e") != std::string::npos);
  const predict::Timeline other = timeline(run_program(*program, {64, 256}, unmeasured()));
  CHECK(other.model == "published rates");
  CHECK(other.most_seconds == 0);
  CHECK(other.least_seconds == 0);
}

TEST_CASE("what nobody measured is left out by name", "[pallas][units]") {
  program::UnitCosts costs = *program::unit_costs("v5e");
  const auto program = looped(1);
  CHECK(program::counted(*program, program->main, costs).unmeasured.empty());
  costs.rows.erase("arith.addf f32");
  CHECK(program::counted(*program, program->main, costs).unmeasured ==
        std::vector<std::string>{"arith.addf f32"});
}

TEST_CASE("real kernels compute for about as long as their schedules", "[pallas][units][corpus]") {
  const std::string chip = GENERATE("v4", "v5e", "v5p", "v6e", "v7x");
  std::vector<double> off;
  for (const auto& [name, cycles] : scheduled(chip)) {
    const std::string folder = std::string(TESSERA_CORPUS) + "/" + name;
    if (!std::filesystem::exists(folder)) continue;
    CAPTURE(chip, name);
    const RecordedCall r = read_call(folder);
    RunOptions options = timed(("tpu-" + chip).c_str());
    options.cores = cores_of(r, chip);
    const RunResult result = run_call(r.call, options);
    REQUIRE(result.ok());
    const predict::Timeline line = timeline(result, options.cores);
    REQUIRE(line.unmodelled.empty());
    const double predicted = line.compute_seconds * result.plan.core.clock_hz;
    CAPTURE(cycles, predicted);
    off.push_back(std::max(predicted / cycles, cycles / predicted) - 1);
    CHECK(off.back() <= kWorst);
  }
  if (off.empty()) {
    std::cerr << "skipped: no " << TESSERA_CORPUS << "\n";
    return;
  }
  std::ranges::sort(off);
  CHECK(off[off.size() / 2] < kMedian);
}

}  // namespace tessera::pallas
