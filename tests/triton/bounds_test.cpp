// Error bounds of launches: what another build makes of sums, in orders that are tried out here.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

RunOptions bounded() {
  RunOptions options;
  options.error_model = ErrorModel{};
  return options;
}

std::string combine(const std::string& op, const std::string& type, const std::string& what) {
  return "{\n^bb0(%p: " + type + ", %q: " + type + "):\n%s = \"" + op + "\"(%p, %q) : (" + type +
         ", " + type + ") -> " + type + "\n\"tt." + what + ".return\"(%s) : (" + type +
         ") -> ()\n}";
}

/// Terms that cancel: what their sum is depends on its order.
double term(std::int64_t i) {
  return std::ldexp(1.0 + 0.37 * static_cast<double>(i % 13), static_cast<int>(i * 7 % 11) - 5) *
         (i % 3 == 0 ? -1 : 1);
}

float rounded(float x, DType type) {
  return type == DType::f16 ? convert<float>(convert<f16>(x)) : x;
}

/// The terms added in a tree of pairs that is drawn at random, each sum rounded.
double sum_in_some_order(std::vector<float> terms, DType type, std::mt19937& random) {
  while (terms.size() > 1) {
    std::uniform_int_distribution<std::size_t> any(0, terms.size() - 1);
    std::swap(terms[any(random)], terms.back());
    const float last = terms.back();
    terms.pop_back();
    std::uniform_int_distribution<std::size_t> other(0, terms.size() - 1);
    float& to = terms[other(random)];
    to = rounded(to + last, type);
  }
  return terms[0];
}

/// Sums of the terms in many orders lie within `bound` of ours, not all of them on it; without the
/// largest of the terms they do not.
void check_sum(double ours, double bound, const std::vector<float>& terms, DType type) {
  std::mt19937 random(28);
  double farthest = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const double off = std::fabs(sum_in_some_order(terms, type, random) - ours);
    farthest = std::max(farthest, off);
    REQUIRE(off <= bound);
  }
  REQUIRE(farthest > 0);
  std::vector<float> fewer = terms;
  fewer.erase(std::max_element(fewer.begin(), fewer.end(),
                               [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
  REQUIRE(std::fabs(sum_in_some_order(fewer, type, random) - ours) > bound);
}

}  // namespace

TEST_CASE("a reduction's bound holds for every order of its sum", "[triton][bounds]") {
  const DType type = GENERATE(DType::f32, DType::f16);
  const std::string f = mlir_name(type);
  const int n = type == DType::f32 ? 64 : 8;
  const Array x = array_of(type, {2, n}, term);
  const Ran r = run_op("tt.reduce", "axis = 1 : i32", {x}, type, {2},
                       combine("arith.addf", f, "reduce"), bounded());
  INFO(r.text());
  REQUIRE(r.ok());
  for (int row = 0; row < 2; ++row) {
    std::vector<float> terms;
    for (int i = 0; i < n; ++i) terms.push_back(static_cast<float>(x.at(row * n + i)));
    check_sum(r.out(1).at(row), r.result.run.bounds.at(1).at(row), terms, type);
  }
}

TEST_CASE("integers that are floats add up alike in every order", "[triton][bounds]") {
  const Array x = array_of(DType::f32, {64}, [](auto i) { return static_cast<double>(i * i); });
  const Ran r = run_op("tt.scan", "axis = 0 : i32, reverse = false", {x}, DType::f32, {64},
                       combine("arith.addf", "f32", "scan"), bounded());
  REQUIRE(r.ok());
  for (int i = 0; i < 64; ++i) REQUIRE(r.result.run.bounds.at(1).at(i) == 0);
}

TEST_CASE("a scan's bounds hold for every order of its sums", "[triton][bounds]") {
  const bool reverse = GENERATE(false, true);
  const Array x = array_of(DType::f32, {64}, term);
  const Ran r =
      run_op("tt.scan", std::string("axis = 0 : i32, reverse = ") + (reverse ? "true" : "false"),
             {x}, DType::f32, {64}, combine("arith.addf", "f32", "scan"), bounded());
  REQUIRE(r.ok());
  for (const int upto : {32, 48, 63}) {
    std::vector<float> terms;
    for (int i = 0; i <= upto; ++i) terms.push_back(static_cast<float>(x.at(reverse ? 63 - i : i)));
    const int at = reverse ? 63 - upto : upto;
    check_sum(r.out(1).at(at), r.result.run.bounds.at(1).at(at), terms, DType::f32);
  }
}

TEST_CASE("what a reduction chooses is exact, and what rounds otherwise is refused",
          "[triton][bounds]") {
  const auto reduced = [&](const std::string& op) {
    return run_op("tt.reduce", "axis = 0 : i32", {array_of(DType::f32, {64, 1}, term)}, DType::f32,
                  {1}, combine(op, "f32", "reduce"), bounded());
  };
  const Ran most = reduced("arith.maxnumf");
  REQUIRE(most.ok());
  REQUIRE(most.result.run.bounds.at(1).at(0) == 0);
  const Ran product = reduced("arith.mulf");
  REQUIRE(!product.ok());
  REQUIRE(product.text().find("whose combination rounds and is no sum") != std::string::npos);
}

TEST_CASE("sums of atomics are in any order of programs", "[triton][bounds]") {
  const std::string add =
      "%i = \"tt.get_program_id\"() <{axis = 0 : i32}> : () -> i32\n"
      "%f = \"tt.addptr\"(%a, %i) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>\n"
      "%v = \"tt.load\"(%f) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<f32>) -> f32\n"
      "%old = \"tt.atomic_rmw\"(%o, %v) <{atomic_rmw_op = 5 : i32, sem = 1 : i32, scope = 1 : "
      "i32}> : (!tt.ptr<f32>, f32) -> f32\n";
  const Array x = array_of(DType::f32, {40}, term);
  const Ran r = launch_text(kernel_text("%a: !tt.ptr<f32>, %o: !tt.ptr<f32>", add),
                            {x, array_of(DType::f32, {1}, [](auto) { return 0.3; })}, {},
                            {40, 1, 1}, bounded());
  INFO(r.text());
  REQUIRE(r.ok());
  std::vector<float> terms{0.3f};
  for (int i = 0; i < 40; ++i) terms.push_back(static_cast<float>(x.at(i)));
  check_sum(r.out(1).at(0), r.result.run.bounds.at(1).at(0), terms, DType::f32);

  const std::string look = add + "\"tt.store\"(%f, %old) : (!tt.ptr<f32>, f32) -> ()\n";
  const Ran found = launch_text(kernel_text("%a: !tt.ptr<f32>, %o: !tt.ptr<f32>", look),
                                {x, Array(DType::f32, {1})}, {}, {40, 1, 1}, bounded());
  REQUIRE(!found.ok());
  REQUIRE(found.text().find("what an atomic found") != std::string::npos);
}

TEST_CASE("bounds lie in memory, and a mask that may be another is refused", "[triton][bounds]") {
  const auto kernel = [](bool by_function) {
    return load("%x", "%a", "16", "f32") +
           "%e = \"math.exp\"(%x) <{fastmath = #arith.fastmath<none>}> : (tensor<16xf32>) -> "
           "tensor<16xf32>\n" +
           store("%e", "%b", "16", "f32") + load("%y", "%b", "16", "f32") +
           store("%y", "%c", "16", "f32") + "%m = \"arith.cmpf\"(" + (by_function ? "%y" : "%x") +
           ", %x) <{predicate = 2 : i64, fastmath = #arith.fastmath<none>}> : (tensor<16xf32>, "
           "tensor<16xf32>) -> tensor<16xi1>\n" +
           pointers("%d", "%c", "16", "f32") +
           "\"tt.store\"(%d_at, %x, %m) : (tensor<16x!tt.ptr<f32>>, tensor<16xf32>, "
           "tensor<16xi1>) -> ()\n";
  };
  const auto run = [&](bool by_function) {
    return launch_text(
        kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>", kernel(by_function)),
        {array_of(DType::f32, {16}, [](auto i) { return 0.1 * static_cast<double>(i); }),
         Array(DType::f32, {16}), Array(DType::f32, {16})},
        {}, {1, 1, 1}, bounded());
  };
  const Ran r = run(false);
  INFO(r.text());
  REQUIRE(r.ok());
  for (int i = 0; i < 16; ++i) {
    REQUIRE(r.result.run.bounds.at(0).at(i) == 0);
    REQUIRE(r.result.run.bounds.at(1).at(i) > 0);
    REQUIRE(r.result.run.bounds.at(2).at(i) == r.result.run.bounds.at(1).at(i));
  }
  const Ran other = run(true);
  REQUIRE(!other.ok());
  REQUIRE(other.text().find("a mask depends on a value that others may not have") !=
          std::string::npos);
}

}  // namespace tessera::triton
