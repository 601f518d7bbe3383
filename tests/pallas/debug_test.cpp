// What a run of a module may be asked besides its results: a step to look at, NaNs to stop at.
#include <catch2/catch.hpp>
#include <limits>

#include "program/print.hpp"
#include "tests/golden_text.hpp"
#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

const char* const kBlock = "8x128xf32";

/// o = sqrt(x - limit) if bad, else sqrt(max(x - limit, 0)); one fused group, each op on a line.
std::string shifted_root(bool bad) {
  const std::string vector = "vector<8x128xf32>";
  const std::string binary = " {fastmath = #arith.fastmath<none>} : (" + vector + ", " + vector +
                             ") -> " + vector + " loc(\"kernel.py\":";
  return module_text(
      "%a: " + vmem(kBlock) + ", %o: " + vmem(kBlock),
      load_whole("%x", "%a", kBlock, 2) +
          "%limit = \"S.arith.constant\"() {value = dense<5.0> : vector<8x128xf32>} : () -> " +
          vector +
          "\n%zero = \"S.arith.constant\"() {value = dense<0.0> : vector<8x128xf32>} : () "
          "-> " +
          vector + "\n%s = \"S.arith.subf\"(%x, %limit)" + binary + "3:1)\n" +
          "%m = \"S.arith.maximumf\"(%s, " + (bad ? "%s)" : "%zero)") + binary + "4:1)\n" +
          "%y = \"S.math.sqrt\"(%m) {fastmath = #arith.fastmath<none>} : (" + vector + ") -> " +
          vector + " loc(\"kernel.py\":5:1)\n" + store_whole("%y", "%o", kBlock, 2));
}

/// Copies block `map` of x to block i of o at each step of a grid of 6.
std::string blocks(const std::string& map) {
  const auto function = [](const std::string& name, const std::string& index) {
    return "\"S.func.func\"() ({\n^bb0(%i: i32):\n%zero = \"S.arith.constant\"() {value = 0 : i32} "
           ": () -> i32\n%two = \"S.arith.constant\"() {value = 2 : i32} : () -> i32\n" +
           index +
           "\"S.func.return\"(%r, %zero) : (i32, i32) -> ()\n}) {function_type = (i32) -> "
           "(i32, i32), sym_name = \"" +
           name + "\"} : () -> ()\n";
  };
  const std::string flags = " {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32\n";
  return module_text(
      "%i: i32, %a: " + vmem(kBlock) + ", %o: " + vmem(kBlock),
      load_whole("%x", "%a", kBlock, 2) + store_whole("%x", "%o", kBlock, 2),
      "iteration_bounds = array<i64: 6>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, "
      "window_params = [{transform_indices = @from, window_bounds = array<i64: 8, 128>}, "
      "{transform_indices = @to, window_bounds = array<i64: 8, 128>}]",
      function("from", map + flags) + function("to", "%r = \"S.arith.addi\"(%i, %zero)" + flags));
}

}  // namespace

TEST_CASE("a NaN that an op makes from numbers is trapped at the op's own line",
          "[pallas][nan-born]") {
  RunOptions options;
  options.trap_nan = true;
  const Array x = array_of(DType::f32, {8, 128}, [](auto i) { return i == 300 ? 1. : 9.; });
  const RunResult bad = run_text(shifted_root(true), {x}, options).result;
  REQUIRE(bad.diagnostics.size() == 1);
  CHECK(bad.diagnostics[0].slug == "nan-born");
  const std::string text = bad.diagnostics[0].text();
  CHECK(text.find("math.sqrt makes a NaN from numbers at [2, 44]") != std::string::npos);
  CHECK(text.find("kernel.py:5") != std::string::npos);
  CHECK(text.find("values  -4") != std::string::npos);
  CHECK(run_text(shifted_root(false), {x}, options).result.ok());
  options.trap_nan = false;
  CHECK(run_text(shifted_root(true), {x}, options).result.ok());
}

TEST_CASE("a NaN that a sum or a product makes from numbers is trapped", "[pallas][nan-born]") {
  RunOptions options;
  options.trap_nan = true;
  const auto slug_of = [&](const Ran& r) {
    return r.result.ok() ? std::string() : r.result.diagnostics.at(0).headline;
  };
  const auto with = [](double at_7, double at_9) {
    return [=](std::int64_t i) { return i == 7 ? at_7 : i == 9 ? at_9 : 1.; };
  };
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto sum = [&](DType dtype, double at_7, double at_9) {
    return slug_of(run_op("vector.multi_reduction",
                          "kind = #vector.kind<add>, reduction_dims = array<i64: 1>",
                          {array_of(dtype, {3, 5}, with(at_7, at_9)), Array(dtype, {3})}, dtype,
                          {3}, "", "", "", options));
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CHECK(sum(dtype, inf, -inf) == "vector.multi_reduction makes a NaN from numbers at [1]");
    CHECK(sum(dtype, inf, inf).empty());
    CHECK(sum(dtype, inf, nan).empty());
  }
  // a[3, 5] b[5, 2], results in the order of b's and a's dims.
  const auto product = [&](DType dtype, double at_7, double at_9, double right) {
    return run_op("tpu.matmul",
                  "dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [1, 1, 0, "
                  "0], [], []>, transpose_lhs = false, transpose_rhs = false",
                  {array_of(dtype, {3, 5}, with(at_7, at_9)),
                   array_of(dtype, {5, 2}, [=](auto i) { return i == 5 ? right : 1.; }),
                   Array(DType::f32, {2, 3})},
                  DType::f32, {2, 3}, "", "", "", options);
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Ran bad = product(dtype, inf, 1, 0);
    REQUIRE(slug_of(bad) == "tpu.matmul makes a NaN from numbers at [1, 1]");
    CHECK(bad.result.diagnostics[0].text().find("values  from 0, inf * 0 at k = 2") !=
          std::string::npos);
    CHECK(slug_of(product(dtype, inf, 1, 2)).empty());
    CHECK(slug_of(product(dtype, inf, nan, 0)).empty());
  }
  CHECK(slug_of(product(DType::f32, inf, -inf, 2)) ==
        "tpu.matmul makes a NaN from numbers at [0, 1]");
}

TEST_CASE("a planned module is printed step by step", "[pallas][steps]") {
  const auto program = plan_module(load_module_file(TESSERA_RICH_BYTECODE));
  tests::compare_with_golden(__FILE__, "rich_steps.txt", program::print(*program));
  CHECK(program->main.notes.size() == program->main.steps.size());
}

TEST_CASE("a step of a module is watched before its body", "[pallas][at]") {
  const std::string text = blocks("%r = \"S.arith.addi\"(%i, %zero)");
  const Array x = array_of(DType::f32, {48, 128}, [](auto i) { return double(i / 1024); });
  std::string seen;
  int times = 0;
  RunOptions options;
  options.at = {4};
  options.on_step = [&](const std::string& blocks_then) {
    seen = blocks_then;
    ++times;
  };
  REQUIRE(run_text(text, {x}, options).result.ok());
  CHECK(times == 1);
  CHECK(seen.find("in0_ref: VMEM f32[8, 128] <- in0: HBM f32[48, 128]") != std::string::npos);
  CHECK(seen.find("f32(8, 128)\n  4 4 4 4 4 4 4 4 ...") != std::string::npos);
  CHECK(seen.find("out0: HBM f32[48, 128]\n  undefined so far") != std::string::npos);
}

TEST_CASE("index maps of a module count alike step by step and in closed form", "[pallas][dry]") {
  const Array x = array_of(DType::f32, {104, 128}, [](auto i) { return double(i); });
  for (const char* map : {"%r = \"S.arith.addi\"(%i, %two)", "%r = \"S.arith.muli\"(%two, %i)",
                          "%r = \"S.arith.subi\"(%two, %zero)", "%r = \"S.arith.remsi\"(%i, %two)",
                          "%r = \"S.arith.divsi\"(%i, %two)"}) {
    CAPTURE(map);
    RunOptions options;
    const RunResult full = run_text(blocks(map), {x}, options).result;
    options.dry = true;
    const RunResult dry = run_text(blocks(map), {x}, options).result;
    for (const auto& d : full.diagnostics) FAIL_CHECK(d.text());
    REQUIRE(full.ok());
    REQUIRE(dry.ok());
    CHECK(dry.no_work.empty());
    CHECK(dry.steps == full.steps);
    for (std::size_t r = 0; r < full.ledger().refs().size(); ++r) {
      CHECK(dry.ledger().refs()[r].transfers == full.ledger().refs()[r].transfers);
      CHECK(dry.ledger().refs()[r].elided == full.ledger().refs()[r].elided);
      CHECK(dry.ledger().refs()[r].bytes == full.ledger().refs()[r].bytes);
    }
  }
  // A map that leaves the array is found in both.
  RunOptions options;
  for (const bool dry : {false, true}) {
    options.dry = dry;
    const RunResult bad = run_text(blocks("%r = \"S.arith.muli\"(%i, %i)"), {x}, options).result;
    REQUIRE(bad.diagnostics.size() == 1);
    CHECK(bad.diagnostics[0].headline == "in0 has no block (16, 0); its last is (12, 0)");
  }
}

}  // namespace tessera::pallas
