// Error bounds of Mosaic modules: what they go through, what is refused, and that other builds of
// real kernels stay within them.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "golden/call_golden.hpp"
#include "golden/verdict.hpp"
#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

double percents(std::int64_t i) { return 0.01 * static_cast<double>((i * 37) % 101 - 50); }

/// A kernel of one f32[8, 128] operand; `body` makes %r of %x.
Ran run_bounded(const std::string& body, const ErrorModel& model = {}) {
  const std::string text = module_text(
      "%a: " + vmem("8x128xf32") + ", %o: " + vmem("8x128xf32"),
      load_whole("%x", "%a", "8x128xf32", 2) + body + store_whole("%r", "%o", "8x128xf32", 2));
  RunOptions options;
  options.error_model = model;
  options.keep_checksums = true;
  return run_text(text, {array_of(DType::f32, {8, 128}, percents)}, options);
}

std::string op(const std::string& result, const std::string& name, const std::string& operands,
               const std::string& signature, const std::string& attributes = "") {
  return result + " = \"S." + name + "\"(" + operands + ") {" + attributes + "} : " + signature +
         "\n";
}
constexpr const char* kUnary = "(vector<8x128xf32>) -> vector<8x128xf32>";
constexpr const char* kTwo = "(vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>";
const std::string& exp_of_x() {
  static const std::string text = op("%e", "math.exp", "%x", kUnary);
  return text;
}

float bound_of(const Ran& r, std::int64_t i) { return r.result.bounds[0].data<float>()[i]; }

void check_refused(const Ran& ran, const std::string& what) {
  const RunResult& r = ran.result;
  REQUIRE(r.diagnostics.size() == 1);
  CHECK(r.diagnostics[0].slug == "unmodelled");
  CHECK(r.diagnostics[0].headline.find(what) != std::string::npos);
}

}  // namespace

TEST_CASE("IEEE 754's ops of exact operands are exact, functions are not", "[pallas][bounds]") {
  const Ran sum = run_bounded(op("%r", "arith.addf", "%x, %x", kTwo));
  REQUIRE(sum.result.ok());
  CHECK(bound_of(sum, 5) == 0);
  const Ran e = run_bounded(op("%r", "math.exp", "%x", kUnary));
  REQUIRE(e.result.ok());
  CHECK(bound_of(e, 5) > 0);
  CHECK(static_cast<double>(bound_of(e, 5)) < 4 * 0x1p-23 * e.out().at(5));
  CHECK(e.result.checksums.size() == 1);
}

TEST_CASE("of real numbers bounds hold what f32 rounds away, and nothing where it rounds nothing",
          "[pallas][bounds]") {
  ErrorModel reals;
  reals.accumulate = unit_roundoff("real");
  const auto x = [](std::int64_t i) {
    return static_cast<double>(static_cast<float>(percents(i)));
  };
  const auto holds = [&](const Ran& r, auto real) {
    REQUIRE(r.result.ok());
    for (std::int64_t i = 0; i < 1024; ++i) {
      const double off = std::abs(r.out().at(i) - real(x(i)));
      INFO(i << ": " << off);
      REQUIRE(off <= static_cast<double>(bound_of(r, i)) * (1 + 0x1p-20));
      REQUIRE(static_cast<double>(bound_of(r, i)) <= 0x1p-22 * (1 + std::abs(real(x(i)))));
    }
  };
  holds(run_bounded(op("%r", "arith.mulf", "%x, %x", kTwo), reals), [](double v) { return v * v; });
  holds(run_bounded(exp_of_x() + op("%r", "arith.addf", "%e, %x", kTwo), reals),
        [](double v) { return std::exp(v) + v; });
  const Ran twice = run_bounded(op("%r", "arith.addf", "%x, %x", kTwo), reals);
  CHECK(bound_of(twice, 5) == 0);
  const auto times = [&](const std::string& constant) {
    const std::string value = "value = dense<" + constant + "> : vector<8x128xf32>";
    return run_bounded(op("%c", "arith.constant", "", "() -> vector<8x128xf32>", value) +
                           op("%r", "arith.mulf", "%x, %c", kTwo),
                       reals);
  };
  holds(times("0.1"), [](double v) { return v * 0.1; });
  CHECK(bound_of(times("0.25"), 5) == 0);
}

TEST_CASE("bounds move with the elements", "[pallas][bounds]") {
  const std::string turned =
      op("%t", "tpu.transpose", "%e", "(vector<8x128xf32>) -> vector<128x8xf32>",
         "permutation = array<i64: 1, 0>") +
      op("%u", "tpu.transpose", "%t", "(vector<128x8xf32>) -> vector<8x128xf32>",
         "permutation = array<i64: 1, 0>") +
      op("%r", "tpu.rotate", "%u", kUnary, "amount = 3 : i32, dimension = 1 : i32");
  const Ran still = run_bounded(exp_of_x() + op("%r", "arith.addf", "%e, %e", kTwo));
  const Ran moved = run_bounded(exp_of_x() + turned);
  const Ran plain = run_bounded(op("%r", "math.exp", "%x", kUnary));
  REQUIRE(still.result.ok());
  REQUIRE(moved.result.ok());
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 128; ++j)
      REQUIRE(bound_of(moved, i * 128 + (j + 3) % 128) == bound_of(plain, i * 128 + j));
  }
  CHECK(bound_of(still, 7) >= 2 * bound_of(plain, 7));
}

TEST_CASE("a sum of rows is bounded for every order", "[pallas][bounds]") {
  const std::string zero =
      op("%z", "arith.constant", "", "() -> vector<8xf32>", "value = dense<0.0> : vector<8xf32>");
  const std::string spread =
      op("%c", "vector.shape_cast", "%s", "(vector<8xf32>) -> vector<8x1xf32>") +
      op("%r", "vector.broadcast", "%c", "(vector<8x1xf32>) -> vector<8x128xf32>");
  const auto reduced = [&](const std::string& kind) {
    return run_bounded(zero +
                       op("%s", "vector.multi_reduction", "%x, %z",
                          "(vector<8x128xf32>, vector<8xf32>) -> vector<8xf32>",
                          "kind = #vector.kind<" + kind + ">, reduction_dims = [1]") +
                       spread);
  };
  const Ran sum = reduced("add");
  REQUIRE(sum.result.ok());
  const Array x = array_of(DType::f32, {8, 128}, percents);
  for (int i = 0; i < 8; ++i) {
    float backwards = 0;
    double magnitude = 0;
    for (int j = 127; j >= 0; --j) {
      backwards += static_cast<float>(x.at(i * 128 + j));
      magnitude += std::abs(x.at(i * 128 + j));
    }
    const double off = std::abs(static_cast<double>(backwards) - sum.out().at(i * 128));
    CHECK(off <= static_cast<double>(bound_of(sum, i * 128)));
    CHECK(static_cast<double>(bound_of(sum, i * 128)) < 128 * 0x1p-24 * magnitude);
  }
  const Ran largest = reduced("maximumf");
  REQUIRE(largest.result.ok());
  CHECK(bound_of(largest, 0) == 0);
  check_refused(reduced("mul"), "of a reduction by mul");
}

TEST_CASE("what bounds cannot go through is refused, and only where there are some",
          "[pallas][bounds]") {
  const std::string cast =
      op("%b", "arith.bitcast", "%e", "(vector<8x128xf32>) -> vector<8x128xi32>") +
      op("%r", "arith.bitcast", "%b", "(vector<8x128xi32>) -> vector<8x128xf32>");
  check_refused(run_bounded(exp_of_x() + cast), "through arith.bitcast");
  std::string of_x = cast;
  of_x.replace(of_x.find("%e"), 2, "%x");
  CHECK(run_bounded(of_x).result.ok());

  check_refused(run_bounded(op("%r", "math.tan", "%x", kUnary)), "of math.tan");
  check_refused(run_bounded(exp_of_x() + op("%r", "math.round", "%e", kUnary)),
                "through math.round");
  CHECK(run_bounded(op("%r", "math.round", "%x", kUnary)).result.ok());

  const std::string approximate = op("%r", "tpu.reciprocal", "%x", kUnary, "approx = true");
  check_refused(run_bounded(approximate), "--ulp reciprocal=N");
  ErrorModel stated;
  stated.set_ulp("reciprocal", 4096);
  const Ran r = run_bounded(approximate, stated);
  REQUIRE(r.result.ok());
  CHECK(static_cast<double>(bound_of(r, 0)) ==
        Approx(2 * 4096.5 * 0x1p-24 * std::abs(r.out().at(0))).epsilon(1e-3));
}

TEST_CASE("a decision by a value that another build may not have is refused", "[pallas][bounds]") {
  const auto chosen = [](const std::string& from) {
    return op("%s", "vector.extract", from, "(vector<8x128xf32>) -> f32",
              "static_position = array<i64: 0, 0>") +
           op("%z", "arith.constant", "", "() -> f32", "value = 0.0 : f32") +
           op("%t", "arith.cmpf", "%s, %z", "(f32, f32) -> i1", "predicate = 2 : i64") +
           "%r = \"S.scf.if\"(%t) ({\n\"S.scf.yield\"(%x) : (vector<8x128xf32>) -> ()\n}, {\n" +
           "\"S.scf.yield\"(%x) : (vector<8x128xf32>) -> ()\n}) : (i1) -> vector<8x128xf32>\n";
  };
  CHECK(run_bounded(chosen("%x")).result.ok());
  // exp(x) > 0 holds however far off it is: only where the comparison may turn is it refused.
  CHECK(run_bounded(exp_of_x() + chosen("%e")).result.ok());
  const std::string near =
      exp_of_x() + op("%f", "math.exp", "%x", kUnary) + op("%d", "arith.subf", "%e, %f", kTwo);
  check_refused(run_bounded(near + chosen("%d")), "a branch depends on");
}

TEST_CASE("what JAX made of real kernels is within the bounds of their goldens",
          "[corpus][bounds]") {
  std::error_code error;
  int judged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_CORPUS, error)) {
    if (!entry.is_directory()) continue;
    CAPTURE(entry.path());
    const RecordedCall r = read_call(entry.path());
    if (r.devices > 1) continue;
    RunOptions options;
    options.device = r.device.value_or(load_device("tpu-v6e"));
    options.cores = r.cores;
    if (r.eager) options.schedule = Schedule{};
    options.error_model = ErrorModel{};
    options.keep_checksums = true;
    RunResult result = run_call(r.call, options);
    for (const auto& d : result.diagnostics) FAIL_CHECK(d.text());
    if (!result.ok()) continue;
    const golden::Golden made =
        golden::golden_of_call("kernel", {}, {}, std::move(result), options, "");
    CHECK(made.steps.rows.shape()[0] > 0);
    for (std::size_t j = 0; j < r.expected.size(); ++j) {
      if (!r.expected[j].interpreted) continue;
      const Array& theirs = *r.expected[j].interpreted;
      const golden::Verdict v = golden::judge(made, j, theirs);
      if (v.mismatch) FAIL_CHECK(v.mismatch->text());
      ++judged;
      // Sharp: the same array off by 2 % is not let pass.
      if (!is_float(theirs.dtype()) || v.unbounded > 0) continue;
      Array off = theirs;
      bool any = false;
      for (std::int64_t i = 0; i < off.elems(); ++i) {
        const double x = theirs.at(i);
        any = any || (std::isfinite(x) && std::abs(x) > 0.1);
        off.set(i, x * 1.02);
      }
      if (any) CHECK(golden::judge(made, j, off).wrong > 0);
    }
  }
  if (judged == 0) std::cerr << "skipped: no " << TESSERA_CORPUS << "\n";
}

}  // namespace tessera::pallas
