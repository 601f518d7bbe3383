// Error bounds of launches: what another build makes of sums, in orders that are tried out here.
#include <algorithm>
#include <bit>
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

namespace {

/// x in parts as inputPrecision 1 (tf32x3), 3 (bf16x3) and 4 (bf16x6) say, by their bits.
std::vector<float> parts(float x, int precision) {
  std::vector<float> all;
  for (int i = 0; i < (precision == 4 ? 3 : 2); ++i) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    if (precision != 1) bits += 0x7fff + (bits >> 16 & 1);
    all.push_back(std::bit_cast<float>(bits & (precision == 1 ? 0xffffe000 : 0xffff0000)));
    x -= all.back();
  }
  return all;
}

/// c and the products of parts of x and y, those of the smallest parts left out.
std::vector<float> terms_in_parts(const std::vector<float>& x, const std::vector<float>& y, float c,
                                  int precision) {
  std::vector<float> terms{c};
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::vector<float> a = parts(x[k], precision);
    const std::vector<float> b = parts(y[k], precision);
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; i + j < a.size(); ++j) {
        terms.push_back(a[i] * b[j]);
        REQUIRE(double{a[i]} * double{b[j]} == double{terms.back()});
      }
    }
  }
  return terms;
}

std::vector<float> row_of(const Array& a, std::int64_t first, std::int64_t step) {
  std::vector<float> v;
  for (int k = 0; k < 32; ++k) v.push_back(static_cast<float>(a.at(first + k * step)));
  return v;
}

}  // namespace

TEST_CASE("a product in parts: its bound holds for every order of the parts' products",
          "[triton][bounds]") {
  const int precision = GENERATE(1, 3, 4);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto some = [&](const Shape& s) {
    return array_of(DType::f32, s, [&](auto) { return static_cast<double>(normal(random)); });
  };
  const Array a = some({16, 32});
  const Array b = some({32, 16});
  const Array c = some({16, 16});
  const std::string attributes = "inputPrecision = " + std::to_string(precision) + " : i32";
  const Ran r = run_op("tt.dot", attributes, {a, b, c}, DType::f32, {16, 16}, "", bounded());
  INFO(r.text());
  REQUIRE(r.ok());
  const Ran plain = run_op("tt.dot", attributes, {a, b, c}, DType::f32, {16, 16});
  for (int e = 0; e < 256; ++e) REQUIRE(plain.out(3).bits(e) == r.out(3).bits(e));
  for (const int e : {0, 77, 255}) {
    check_sum(r.out(3).at(e), r.result.run.bounds.at(3).at(e),
              terms_in_parts(row_of(a, e / 16 * 32, 1), row_of(b, e % 16, 16),
                             static_cast<float>(c.at(e)), precision),
              DType::f32);
  }
}

TEST_CASE("a product in parts of operands that may be others", "[triton][bounds]") {
  const int precision = GENERATE(1, 3, 4);
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  const auto some = [&](const Shape& s) {
    return array_of(DType::f32, s, [&](auto) { return static_cast<double>(normal(random)); });
  };
  const Array a = some({16, 32});
  const Array b = some({32, 16});
  const auto exp = [](const std::string& to, const std::string& of, const std::string& type) {
    return to + " = \"math.exp\"(" + of + ") <{fastmath = #arith.fastmath<none>}> : (" + type +
           ") -> " + type + "\n";
  };
  const std::string body =
      load("%x", "%a", "16x32", "f32") + load("%y", "%b", "32x16", "f32") +
      load("%z", "%c", "16x16", "f32") + exp("%p", "%x", "tensor<16x32xf32>") +
      exp("%q", "%y", "tensor<32x16xf32>") +
      "%r = \"tt.dot\"(%p, %q, %z) <{inputPrecision = " + std::to_string(precision) +
      " : i32, maxNumImpreciseAcc = 0 : i32}> : (tensor<16x32xf32>, tensor<32x16xf32>, "
      "tensor<16x16xf32>) -> tensor<16x16xf32>\n" +
      store("%r", "%o", "16x16", "f32");
  const Ran r = launch_text(
      kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>, %o: !tt.ptr<f32>", body),
      {a, b, Array(DType::f32, {256}), Array(DType::f32, {256})}, {}, {1, 1, 1}, bounded());
  INFO(r.text());
  REQUIRE(r.ok());
  const double ulp = ErrorModel{}.ulp_of("exp");
  std::uniform_int_distribution<int> away(-2, 2);
  const auto theirs = [&](float x) {
    const double exact = std::exp(double{x});
    const auto nearest = static_cast<float>(exact);
    float y = nearest;
    for (int steps = away(random); steps != 0; steps += steps < 0 ? 1 : -1)
      y = std::nextafter(y, steps < 0 ? 0.f : INFINITY);
    const double unit = std::ldexp(1., std::ilogb(nearest) - 23);
    return std::fabs(double{y} - exact) <= ulp * unit ? y : nearest;
  };
  for (const int e : {0, 77, 255}) {
    const double bound = r.result.run.bounds.at(3).at(e);
    double farthest = 0;
    double without = 0;
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<float> x = row_of(a, e / 16 * 32, 1);
      std::vector<float> y = row_of(b, e % 16, 16);
      for (auto* v : {&x, &y}) std::ranges::transform(*v, v->begin(), theirs);
      const double off = sum_in_some_order(terms_in_parts(x, y, 0, precision), DType::f32, random) -
                         r.out(3).at(e);
      REQUIRE(std::fabs(off) <= bound);
      farthest = std::max(farthest, std::fabs(off));
      // Of the largest parts alone.
      double large = 0;
      for (std::size_t k = 0; k < x.size(); ++k)
        large += double{parts(x[k], precision)[0]} * double{parts(y[k], precision)[0]};
      without = std::max(without, std::fabs(large - r.out(3).at(e)));
    }
    REQUIRE(farthest > 0);
    REQUIRE(without > bound);
  }
}

TEST_CASE("a product with scales: its bound holds for every order, and one scale more is beyond it",
          "[triton][bounds]") {
  const bool computed = GENERATE(false, true);
  const Array a = array_of(DType::f32, {16, 64}, [](auto i) { return term(i * 5 + 1); });
  const Array b =
      array_of(DType::f8e4m3fn, {64, 16}, [](auto i) { return double(i * 7 % 15) - 7; });
  const Array scale = array_of(DType::i8, {16, 2}, [](auto i) { return double(120 + i % 7); });
  const std::string x = computed ? "%e = \"math.sqrt\"(%l) : (tensor<16x64xf32>) -> "
                                   "tensor<16x64xf32>\n"
                                 : "%e = \"arith.addf\"(%l, %l) : (tensor<16x64xf32>, "
                                   "tensor<16x64xf32>) -> tensor<16x64xf32>\n";
  const std::string body =
      load("%l", "%a", "16x64", "f32") + load("%y", "%b", "64x16", "f8E4M3FN") +
      load("%s", "%f", "16x2", "i8") + load("%z", "%c", "16x16", "f32") + x +
      "%h = \"arith.truncf\"(%e) : (tensor<16x64xf32>) -> tensor<16x64xbf16>\n"
      "%r = \"tt.dot_scaled\"(%h, %y, %z, %s) <{a_elem_type = 5 : i32, b_elem_type = 0 : i32, "
      "fastMath = false, lhs_k_pack = true, rhs_k_pack = true, operandSegmentSizes = array<i32: 1, "
      "1, 1, 1, 0>}> : (tensor<16x64xbf16>, tensor<64x16xf8E4M3FN>, tensor<16x16xf32>, "
      "tensor<16x2xi8>) -> tensor<16x16xf32>\n" +
      store("%r", "%o", "16x16", "f32");
  RunOptions options = bounded();
  options.error_model->set_ulp("sqrt", 300000);  // more than bf16 takes notice of
  const Array input =
      computed ? array_of(DType::f32, {16, 64}, [&](auto i) { return std::fabs(a.at(i)); }) : a;
  const Ran r = launch_text(
      kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f8E4M3FN>, %f: !tt.ptr<i8>, %c: !tt.ptr<f32>, %o: "
                  "!tt.ptr<f32>",
                  body),
      {input, b, scale, Array(DType::f32, {256}), Array(DType::f32, {256})}, {}, {1, 1, 1},
      options);
  INFO(r.text());
  REQUIRE(r.ok());
  std::mt19937 random(5);
  std::uniform_real_distribution<double> any(-1, 1);
  const auto rounded_bf16 = [](double v) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
    return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
  };
  for (const int e : {3, 130, 255}) {
    const double bound = r.result.run.bounds.at(4).at(e);
    double farthest = 0;
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<float> terms;
      for (int k = 0; k < 64; ++k) {
        const double v = input.at(e / 16 * 64 + k);
        const double exact = computed ? std::sqrt(v) : 2 * v;
        const double other = computed ? exact * (1 + 0.99 * 300000 * 0x1p-24 * any(random)) : exact;
        const double by = std::ldexp(1., int(scale.at(e / 16 * 2 + k / 32)) - 127);
        terms.push_back(
            static_cast<float>(rounded_bf16(rounded_bf16(other) * by) * b.at(k * 16 + e % 16)));
      }
      const double off = sum_in_some_order(terms, DType::f32, random) - r.out(4).at(e);
      REQUIRE(std::fabs(off) <= bound);
      farthest = std::max(farthest, std::fabs(off));
      const auto most = std::max_element(
          terms.begin(), terms.end(), [](float p, float q) { return std::fabs(p) < std::fabs(q); });
      *most *= 2;  // its scale is one more
      if (trial == 0 && !computed)
        REQUIRE(std::fabs(sum_in_some_order(terms, DType::f32, random) - r.out(4).at(e)) > bound);
    }
    if (computed) REQUIRE(farthest > 0);
  }
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
