// Ops of Triton kernels against loops written out here.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

double wave(std::int64_t i) { return static_cast<double>((i * 37) % 101) - 50; }
double eighths(std::int64_t i) { return wave(i) / 8 + 1.0 / 64; }

/// bf16 nearest to x, ties to even, by searching its neighbours.
double nearest_bf16(double x) {
  if (x == 0) return 0;
  const double unit = std::ldexp(1.0, static_cast<int>(std::floor(std::log2(std::fabs(x)))) - 7);
  const double low = std::floor(x / unit);
  const double rest = x / unit - low;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(low, 2) != 0);
  return (low + (up ? 1 : 0)) * unit;
}

/// The float that tensor cores make of f32 operands: 10 bits of mantissa, toward zero.
double cut(double x) {
  if (x == 0) return 0;
  const double unit = std::ldexp(1.0, static_cast<int>(std::floor(std::log2(std::fabs(x)))) - 10);
  return std::trunc(x / unit) * unit;
}

const char* const kSum = R"({
^bb0(%p: f32, %q: f32):
  %s = "arith.addf"(%p, %q) : (f32, f32) -> f32
  "tt.reduce.return"(%s) : (f32) -> ()
})";

}  // namespace

TEST_CASE("tensors turned, joined, split and looked up", "[triton]") {
  const Array x = array_of(DType::f32, {4, 8}, wave);
  SECTION("trans") {
    const Ran r = run_op("tt.trans", "order = array<i32: 1, 0>", {x}, DType::f32, {8, 4});
    REQUIRE(r.ok());
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 4; ++j) REQUIRE(r.out(1).at(i * 4 + j) == x.at(j * 8 + i));
  }
  SECTION("join, and split again") {
    const Array y = array_of(DType::f32, {4, 8}, [](auto i) { return 1000.0 + double(i); });
    const Ran joined = run_op("tt.join", "", {x, y}, DType::f32, {4, 8, 2});
    REQUIRE(joined.ok());
    for (int i = 0; i < 32; ++i) {
      REQUIRE(joined.out(2).at(2 * i) == x.at(i));
      REQUIRE(joined.out(2).at(2 * i + 1) == y.at(i));
    }
    const std::string body =
        load("%z", "%a", "4x8x2", "f32") +
        "%l, %r = \"tt.split\"(%z) : (tensor<4x8x2xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)\n" +
        store("%l", "%b", "4x8", "f32") + store("%r", "%c", "4x8", "f32");
    const Ran split =
        launch_text(kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>", body),
                    {joined.out(2), Array(DType::f32, {32}), Array(DType::f32, {32})});
    REQUIRE(split.ok());
    for (int i = 0; i < 32; ++i) {
      REQUIRE(split.out(1).at(i) == x.at(i));
      REQUIRE(split.out(2).at(i) == y.at(i));
    }
  }
  SECTION("cat") {
    const Array y = array_of(DType::f32, {4, 8}, eighths);
    const Ran r = run_op("tt.cat", "", {x, y}, DType::f32, {8, 8});
    REQUIRE(r.ok());
    for (int i = 0; i < 64; ++i) REQUIRE(r.out(2).at(i) == (i < 32 ? x.at(i) : y.at(i - 32)));
  }
  SECTION("broadcast of rows and of columns") {
    const Array column = array_of(DType::f32, {4, 1}, wave);
    const Array row = array_of(DType::f32, {1, 8}, wave);
    const Ran rows = run_op("tt.broadcast", "", {column}, DType::f32, {4, 8});
    const Ran columns = run_op("tt.broadcast", "", {row}, DType::f32, {4, 8});
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 8; ++j) {
        REQUIRE(rows.out(1).at(i * 8 + j) == column.at(i));
        REQUIRE(columns.out(1).at(i * 8 + j) == row.at(j));
      }
    }
  }
  SECTION("gather") {
    const Array at = array_of(DType::i32, {4, 8}, [](auto i) { return double((i * 5) % 8); });
    const Ran r = run_op("tt.gather", "axis = 1 : i32", {x, at}, DType::f32, {4, 8});
    REQUIRE(r.ok());
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 8; ++j)
        REQUIRE(r.out(2).at(i * 8 + j) == x.at(i * 8 + int(at.at(i * 8 + j))));
  }
  SECTION("histogram") {
    // Those of 8 and more, and below 0, are not counted.
    const Array at = array_of(DType::i32, {64}, [](auto i) { return double((i * i) % 11) - 1; });
    const Ran r = run_op("tt.histogram", "", {at}, DType::i32, {8});
    REQUIRE(r.ok());
    for (int b = 0; b < 8; ++b) {
      int n = 0;
      for (int i = 0; i < 64; ++i) n += int(at.at(i)) == b ? 1 : 0;
      REQUIRE(r.out(1).at(b) == n);
    }
  }
}

TEST_CASE("reductions and scans by any region", "[triton]") {
  const Array x = array_of(DType::f32, {4, 8, 2}, eighths);
  for (int axis = 0; axis < 3; ++axis) {
    CAPTURE(axis);
    Shape to;
    for (int d = 0; d < 3; ++d)
      if (d != axis) to.push_back(x.shape()[d]);
    const Ran r =
        run_op("tt.reduce", "axis = " + std::to_string(axis) + " : i32", {x}, DType::f32, to, kSum);
    REQUIRE(r.ok());
    const std::int64_t extents[] = {4, 8, 2};
    const std::int64_t strides[] = {16, 2, 1};
    for (std::int64_t e = 0; e < to.elems(); ++e) {
      const std::int64_t outer = e / strides[axis];
      const std::int64_t inner = e % strides[axis];
      double sum = 0;  // exact in f32: eighths and sixty-fourths
      for (std::int64_t k = 0; k < extents[axis]; ++k)
        sum += x.at(outer * strides[axis] * extents[axis] + k * strides[axis] + inner);
      REQUIRE(r.out(1).at(e) == sum);
    }
  }
  SECTION("the largest and where, of two operands") {
    const Array values = array_of(DType::f32, {4, 16}, [](auto i) { return double((i * 11) % 7); });
    const std::string body = load("%v", "%a", "4x16", "f32") + R"(
%i = "tt.make_range"() <{start = 0 : i32, end = 16 : i32}> : () -> tensor<16xi32>
%j = "tt.expand_dims"(%i) <{axis = 0 : i32}> : (tensor<16xi32>) -> tensor<1x16xi32>
%k = "tt.broadcast"(%j) : (tensor<1x16xi32>) -> tensor<4x16xi32>
%m, %n = "tt.reduce"(%v, %k) <{axis = 1 : i32}> ({
^bb0(%p: f32, %pi: i32, %q: f32, %qi: i32):
  %same = "arith.cmpf"(%p, %q) <{predicate = 1 : i64}> : (f32, f32) -> i1
  %first = "arith.cmpi"(%pi, %qi) <{predicate = 2 : i64}> : (i32, i32) -> i1
  %tie = "arith.andi"(%same, %first) : (i1, i1) -> i1
  %more = "arith.cmpf"(%p, %q) <{predicate = 2 : i64}> : (f32, f32) -> i1
  %take = "arith.ori"(%more, %tie) : (i1, i1) -> i1
  %x = "arith.select"(%take, %p, %q) : (i1, f32, f32) -> f32
  %y = "arith.select"(%take, %pi, %qi) : (i1, i32, i32) -> i32
  "tt.reduce.return"(%x, %y) : (f32, i32) -> ()
}) : (tensor<4x16xf32>, tensor<4x16xi32>) -> (tensor<4xf32>, tensor<4xi32>)
)" + store("%m", "%b", "4", "f32") +
                             store("%n", "%c", "4", "i32");
    const Ran r =
        launch_text(kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<i32>", body),
                    {values, Array(DType::f32, {4}), Array(DType::i32, {4})});
    REQUIRE(r.ok());
    for (int row = 0; row < 4; ++row) {
      int best = 0;
      for (int c = 1; c < 16; ++c)
        if (values.at(row * 16 + c) > values.at(row * 16 + best)) best = c;
      REQUIRE(r.out(1).at(row) == values.at(row * 16 + best));
      REQUIRE(r.out(2).at(row) == best);
    }
  }
  SECTION("scans from either end") {
    const Array y = array_of(DType::f32, {2, 8, 2}, eighths);
    for (const bool reverse : {false, true}) {
      const Ran r = run_op("tt.scan",
                           std::string("axis = 1 : i32, reverse = ") + (reverse ? "true" : "false"),
                           {y}, DType::f32, {2, 8, 2}, R"({
^bb0(%p: f32, %q: f32):
  %s = "arith.addf"(%p, %q) : (f32, f32) -> f32
  "tt.scan.return"(%s) : (f32) -> ()
})");
      REQUIRE(r.ok());
      for (int o = 0; o < 2; ++o) {
        for (int i = 0; i < 2; ++i) {
          double sum = 0;
          for (int k = 0; k < 8; ++k) {
            const int at = o * 16 + (reverse ? 7 - k : k) * 2 + i;
            sum += y.at(at);
            REQUIRE(r.out(1).at(at) == sum);
          }
        }
      }
    }
  }
  SECTION("a scan whose combination does not commute: the later operand wins where it is not 0") {
    const Array y =
        array_of(DType::f32, {16}, [](auto i) { return i % 3 == 0 ? double(i + 1) : 0; });
    const Ran r = run_op("tt.scan", "axis = 0 : i32, reverse = false", {y}, DType::f32, {16}, R"({
^bb0(%p: f32, %q: f32):
  %zero = "arith.constant"() <{value = 0.0 : f32}> : () -> f32
  %none = "arith.cmpf"(%q, %zero) <{predicate = 1 : i64}> : (f32, f32) -> i1
  %s = "arith.select"(%none, %p, %q) : (i1, f32, f32) -> f32
  "tt.scan.return"(%s) : (f32) -> ()
})");
    REQUIRE(r.ok());
    for (int i = 0; i < 16; ++i) REQUIRE(r.out(1).at(i) == i / 3 * 3 + 1);
  }
}

TEST_CASE("products take their operands as the op says", "[triton]") {
  const Array a = array_of(DType::f32, {16, 32}, [](auto i) { return wave(i) / 7; });
  const Array b = array_of(DType::f32, {32, 8}, [](auto i) { return wave(i * 3) / 11; });
  const Array c = array_of(DType::f32, {16, 8}, wave);
  // inputPrecision: 0 tf32, 1 tf32x3, 2 ieee.
  for (const int precision : {0, 1, 2}) {
    CAPTURE(precision);
    const Ran r = run_op(
        "tt.dot",
        "inputPrecision = " + std::to_string(precision) + " : i32, maxNumImpreciseAcc = 0 : i32",
        {a, b, c}, DType::f32, {16, 8});
    REQUIRE(r.ok());
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        double exact = c.at(i * 8 + j);
        double with_cut = exact;
        double size = std::fabs(exact);
        for (int k = 0; k < 32; ++k) {
          const double x = a.at(i * 32 + k);
          const double y = b.at(k * 8 + j);
          exact += x * y;
          with_cut += cut(x) * cut(y);
          size += std::fabs(x * y);
        }
        const double rounding = 64 * size * std::ldexp(1.0, -24);
        const double wanted = precision == 0 ? with_cut : exact;
        REQUIRE(std::fabs(r.out(3).at(i * 8 + j) - wanted) <=
                rounding + (precision == 1 ? size * std::ldexp(1.0, -20) : 0));
        if (precision == 0 && std::fabs(with_cut - exact) > 4 * rounding)
          REQUIRE(std::fabs(r.out(3).at(i * 8 + j) - exact) > rounding);
      }
    }
  }
  SECTION("batches of bf16, and 8-bit integers") {
    const Array x = array_of(DType::bf16, {2, 16, 16}, [](auto i) { return wave(i) / 4; });
    const Array y = array_of(DType::bf16, {2, 16, 16}, [](auto i) { return wave(i + 5) / 4; });
    const Array zero(DType::f32, {2, 16, 16});
    const Ran r = run_op("tt.dot", "inputPrecision = 0 : i32, maxNumImpreciseAcc = 0 : i32",
                         {x, y, zero}, DType::f32, {2, 16, 16});
    REQUIRE(r.ok());
    const Array i = array_of(DType::i8, {16, 32}, wave);
    const Array j = array_of(DType::i8, {32, 16}, wave);
    const Ran s = run_op("tt.dot", "inputPrecision = 0 : i32, maxNumImpreciseAcc = 0 : i32",
                         {i, j, Array(DType::i32, {16, 16})}, DType::i32, {16, 16});
    REQUIRE(s.ok());
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 16; ++n) {
        double sum = 0;
        for (int k = 0; k < 16; ++k) sum += x.at(256 + m * 16 + k) * y.at(256 + k * 16 + n);
        REQUIRE(r.out(3).at(256 + m * 16 + n) == sum);  // of sixteenths: exact in f32
        double whole = 0;
        for (int k = 0; k < 32; ++k) whole += i.at(m * 32 + k) * j.at(k * 16 + n);
        REQUIRE(s.out(3).at(m * 16 + n) == whole);
      }
    }
  }
  SECTION("operands as sums of bf16") {
    for (const char* const six : {"3", "4"}) {
      const Ran r = run_op("tt.dot", std::string("inputPrecision = ") + six + " : i32", {a, b, c},
                           DType::f32, {16, 8});
      REQUIRE(r.ok());
      for (int m = 0; m < 16; ++m) {
        for (int n = 0; n < 8; ++n) {
          double sum = c.at(m * 8 + n);
          double magnitude = std::fabs(sum);
          for (int k = 0; k < a.shape()[1]; ++k) {
            const double term = a.at(m * a.shape()[1] + k) * b.at(k * 8 + n);
            sum += term;
            magnitude += std::fabs(term);
          }
          REQUIRE(std::fabs(r.out(3).at(m * 8 + n) - sum) <=
                  magnitude * (*six == '3' ? 0x1p-14 : 0x1p-20));
        }
      }
    }
  }
}

TEST_CASE("bf16 is computed in f32 and rounded once", "[triton]") {
  const auto values = [](std::int64_t scale) {
    return array_of(DType::bf16, {256}, [=](auto i) {
      return (wave(i * scale) + 0.37) * std::ldexp(1.0, int(i % 9) - 4);
    });
  };
  const Array x = values(1);
  const Array y = values(3);
  const Ran sum = run_op("arith.addf", "", {x, y}, DType::bf16, {256});
  const Ran product = run_op("arith.mulf", "", {x, y}, DType::bf16, {256});
  REQUIRE(sum.ok());
  REQUIRE(product.ok());
  for (int i = 0; i < 256; ++i) {
    // Sums and products of two bf16 of like size are exact in f32.
    CHECK(sum.out(2).at(i) == nearest_bf16(x.at(i) + y.at(i)));
    CHECK(product.out(2).at(i) == nearest_bf16(x.at(i) * y.at(i)));
  }
}

TEST_CASE("elementwise ops of tt, and libdevice by name", "[triton]") {
  const Array x = array_of(DType::f32, {64}, [](auto i) { return wave(i) / 16; });
  SECTION("clampf") {
    const Array low = array_of(DType::f32, {64}, [](auto) { return -1.0; });
    const Array high = array_of(DType::f32, {64}, [](auto) { return 1.5; });
    Array with_nan = x;
    with_nan.set(7, std::nan(""));
    const Ran none =
        run_op("tt.clampf", "propagateNan = 0 : i32", {with_nan, low, high}, DType::f32, {64});
    const Ran all =
        run_op("tt.clampf", "propagateNan = 65535 : i32", {with_nan, low, high}, DType::f32, {64});
    for (int i = 0; i < 64; ++i) {
      if (i == 7) continue;
      REQUIRE(none.out(3).at(i) == std::min(1.5, std::max(-1.0, x.at(i))));
      REQUIRE(all.out(3).at(i) == none.out(3).at(i));
    }
    CHECK(none.out(3).at(7) == -1);
    CHECK(std::isnan(all.out(3).at(7)));
  }
  SECTION("mulhiui") {
    const Array a =
        array_of(DType::i32, {64}, [](auto i) { return double(i * 104729 * 1021 % 2147483647); });
    const Array b = array_of(DType::i32, {64}, [](auto i) { return -double(i * 7919 + 1); });
    const Ran r = run_op("tt.mulhiui", "", {a, b}, DType::i32, {64});
    for (int i = 0; i < 64; ++i) REQUIRE(r.out(2).bits(i) == (a.bits(i) * b.bits(i)) >> 32);
  }
  SECTION("to fp8 with saturation") {
    Array wide = array_of(DType::f32, {64}, [](auto i) { return wave(i) * 32; });
    wide.set(0, HUGE_VAL);
    wide.set(1, -HUGE_VAL);
    const Ran r = run_op("tt.fp_to_fp", "rounding = 1 : i32", {wide}, DType::f8e4m3fn, {64});
    REQUIRE(r.ok());
    CHECK(r.out(1).at(0) == 448);
    CHECK(r.out(1).at(1) == -448);
    for (int i = 2; i < 64; ++i) {
      const double v = wide.at(i);
      const double got = r.out(1).at(i);
      if (std::fabs(v) >= 448)
        REQUIRE(got == std::copysign(448, v));
      else
        REQUIRE(std::fabs(got - v) <= std::fabs(v) / 16);  // 3 bits of mantissa
    }
  }
  SECTION("libdevice") {
    const auto check = [&](const char* symbol, double (*f)(double), bool positive) {
      CAPTURE(symbol);
      const Array of =
          positive ? array_of(DType::f32, {64}, [](auto i) { return 0.1 + double(i) / 16; }) : x;
      const Ran r =
          run_op("tt.extern_elementwise",
                 std::string("libname = \"\", libpath = \"\", pure = true, symbol = \"__nv_") +
                     symbol + "\"",
                 {of}, DType::f32, {64});
      REQUIRE(r.ok());
      for (int i = 0; i < 64; ++i) {
        const double w = f(of.at(i));
        REQUIRE(std::fabs(r.out(1).at(i) - w) <= std::fabs(w) * std::ldexp(1.0, -23));
      }
    };
    check("tanhf", std::tanh, false);
    check("erff", std::erf, false);
    check("expf", std::exp, false);
    check("log1pf", std::log1p, true);
    check(
        "rsqrtf", [](double v) { return 1 / std::sqrt(v); }, true);
    check("sinhf", std::sinh, false);
    CHECK_THROWS_WITH(
        run_op("tt.extern_elementwise", "symbol = \"__nv_fsqrt_ru\"", {x}, DType::f32, {64}),
        Catch::Contains("tt.extern_elementwise: of __nv_fsqrt_ru"));
  }
}

TEST_CASE("an offset of 32 bits that wraps is told with the line where it does", "[triton]") {
  // 65536 * 65536 is 0 in 32 bits: inside, and wrong.
  const auto body = [](const std::string& between) {
    return R"(
%k = "arith.muli"(%n, %n) : (i32, i32) -> i32
)" + between +
           R"(
%p = "tt.addptr"(%a, %at) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
%v = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<f32>) -> f32
"tt.store"(%b, %v) : (!tt.ptr<f32>, f32) -> ()
)";
  };
  const Array x = array_of(DType::f32, {4}, [](auto i) { return double(i) + 5; });
  const auto run = [&](const std::string& between, std::int64_t n) {
    return launch_text(kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32", body(between)),
                       {x, Array(DType::f32, {1})}, {n});
  };
  const std::string plain = "%at = \"arith.addi\"(%k, %n) : (i32, i32) -> i32";
  const Ran wraps = run(plain, 65536);
  CHECK(wraps.slug() == "oob-index");
  CHECK(
      wraps.text().find("an address depends on an offset that does not fit its type, and wraps") !=
      std::string::npos);
  CHECK(wraps.text().find("  wraps   ") != std::string::npos);
  // Just below 2^31 it does not: the address is far outside.
  const Ran far = run(plain, 46340);
  CHECK(far.slug() == "oob-index");
  CHECK(far.text().find("wraps") == std::string::npos);
  // A hash may.
  const Ran hash = run("%at = \"arith.remui\"(%k, %n) : (i32, i32) -> i32", 65536);
  REQUIRE(hash.ok());
  CHECK(hash.out(1).at(0) == 5);
  SECTION("of tensors, where the mask does not leave it out") {
    const std::string rows = R"(
%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%r = "tt.make_range"() <{start = 0 : i32, end = 16 : i32}> : () -> tensor<16xi32>
%s = "tt.splat"(%n) : (i32) -> tensor<16xi32>
%m = "tt.splat"(%rows) : (i32) -> tensor<16xi32>
%k = "arith.muli"(%r, %s) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
%on = "arith.cmpi"(%r, %m) <{predicate = 2 : i64}> : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
%q = "tt.splat"(%a) : (!tt.ptr<i8>) -> tensor<16x!tt.ptr<i8>>
%p = "tt.addptr"(%q, %k) : (tensor<16x!tt.ptr<i8>>, tensor<16xi32>) -> tensor<16x!tt.ptr<i8>>
%v = "tt.load"(%p, %on) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<16x!tt.ptr<i8>>, tensor<16xi1>) -> tensor<16xi8>
"tt.store"(%p, %v, %on) : (tensor<16x!tt.ptr<i8>>, tensor<16xi8>, tensor<16xi1>) -> ()
)";
    // Eight rows of 2^28 bytes end at 2^31; the ninth is row -8 then.
    const auto of = [&](std::int64_t n, std::int64_t used) {
      return launch_text(kernel_text("%a: !tt.ptr<i8>, %n: i32, %rows: i32", rows),
                         {Array(DType::i8, {1})}, {n, used});
    };
    CHECK(of(1 << 28, 1).ok());
    CHECK(of(1 << 28, 2).text().find("wraps") == std::string::npos);
    const Ran wrapped = of(1 << 28, 9);
    CHECK(wrapped.slug() == "oob-index");
    CHECK(wrapped.text().find("  wraps   ") != std::string::npos);
  }
}

TEST_CASE("branches, loops and the grid", "[triton]") {
  SECTION("an early return, to a block that two branches share") {
    const std::string body = R"(
%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
%first = "arith.cmpi"(%x, %zero) <{predicate = 0 : i64}> : (i32, i32) -> i1
"cf.cond_br"(%first)[^leave, ^more] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
^leave:
"tt.return"() : () -> ()
^more:
%last = "arith.cmpi"(%x, %n) <{predicate = 5 : i64}> : (i32, i32) -> i1
"cf.cond_br"(%last)[^leave, ^store] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
^store:
%p = "tt.addptr"(%a, %x) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>
"tt.store"(%p, %x) : (!tt.ptr<i32>, i32) -> ())";
    const Ran r =
        launch_text(kernel_text("%a: !tt.ptr<i32>, %n: i32", body),
                    {array_of(DType::i32, {8}, [](auto) { return -1.0; })}, {6}, {8, 1, 1});
    REQUIRE(r.ok());
    for (int i = 0; i < 8; ++i) CHECK(r.out(0).at(i) == (i >= 1 && i < 6 ? i : -1));
  }
  SECTION("while, with what it carries") {
    const std::string body = R"(
%one = "arith.constant"() <{value = 1 : i32}> : () -> i32
%two = "arith.constant"() <{value = 2 : i32}> : () -> i32
%three = "arith.constant"() <{value = 3 : i32}> : () -> i32
%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%v, %steps = "scf.while"(%n, %zero) ({
^bb0(%k: i32, %c: i32):
  %go = "arith.cmpi"(%k, %one) <{predicate = 1 : i64}> : (i32, i32) -> i1
  "scf.condition"(%go, %k, %c) : (i1, i32, i32) -> ()
}, {
^bb0(%k: i32, %c: i32):
  %half = "arith.divsi"(%k, %two) : (i32, i32) -> i32
  %odd = "arith.remsi"(%k, %two) : (i32, i32) -> i32
  %t = "arith.muli"(%k, %three) : (i32, i32) -> i32
  %up = "arith.addi"(%t, %one) : (i32, i32) -> i32
  %is = "arith.cmpi"(%odd, %one) <{predicate = 0 : i64}> : (i32, i32) -> i1
  %next = "arith.select"(%is, %up, %half) : (i1, i32, i32) -> i32
  %more = "arith.addi"(%c, %one) : (i32, i32) -> i32
  "scf.yield"(%next, %more) : (i32, i32) -> ()
}) : (i32, i32) -> (i32, i32)
"tt.store"(%a, %steps) : (!tt.ptr<i32>, i32) -> ())";
    const Ran r =
        launch_text(kernel_text("%a: !tt.ptr<i32>, %n: i32", body), {Array(DType::i32, {1})}, {27});
    REQUIRE(r.ok());
    int steps = 0;
    for (int k = 27; k != 1; ++steps) k = k % 2 != 0 ? 3 * k + 1 : k / 2;
    CHECK(r.out(0).at(0) == steps);
  }
  SECTION("ids and extents of three dims") {
    std::string body;
    for (const char* const d : {"0", "1", "2"}) {
      body += std::string("%i") + d + " = \"tt.get_program_id\"() <{axis = " + d +
              " : i32}> : () -> i32\n%n" + d + " = \"tt.get_num_programs\"() <{axis = " + d +
              " : i32}> : () -> i32\n";
    }
    body += R"(
%y = "arith.muli"(%i2, %n1) : (i32, i32) -> i32
%z = "arith.addi"(%y, %i1) : (i32, i32) -> i32
%w = "arith.muli"(%z, %n0) : (i32, i32) -> i32
%at = "arith.addi"(%w, %i0) : (i32, i32) -> i32
%p = "tt.addptr"(%a, %at) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>
"tt.store"(%p, %at) : (!tt.ptr<i32>, i32) -> ())";
    const Ran r = launch_text(kernel_text("%a: !tt.ptr<i32>", body), {Array(DType::i32, {24})}, {},
                              {4, 3, 2});
    REQUIRE(r.ok());
    CHECK(r.result.run.steps == 24);
    for (int i = 0; i < 24; ++i) CHECK(r.out(0).at(i) == i);
  }
  SECTION("an assertion says where, a print comes in the order of the grid") {
    const std::string body = R"(
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
"tt.print"(%x) <{hex = false, isSigned = array<i32: 1>, prefix = " at: "}> : (i32) -> ()
%ok = "arith.cmpi"(%x, %n) <{predicate = 2 : i64}> : (i32, i32) -> i1
"tt.assert"(%ok) <{message = "x < n"}> : (i1) -> ())";
    std::string printed;
    RunOptions options;
    options.threads = 2;
    options.print = [&](const std::string& text) { printed += text; };
    const Ran r = launch_text(kernel_text("%n: i32", body), {}, {2}, {4, 1, 1}, options);
    CHECK(r.slug() == "check-failed");
    CHECK(r.text().find("check failed: x < n") != std::string::npos);
    CHECK(printed == "pid (0, 0, 0) at: 0\npid (1, 0, 0) at: 1\npid (2, 0, 0) at: 2\n");
    CHECK(launch_text(kernel_text("%n: i32", body), {}, {9}, {4, 1, 1}, options).ok());
  }
}

TEST_CASE("atomics give what was there", "[triton]") {
  const auto rmw = [](int number, const char* type) {
    return std::string(
               "%x = \"tt.get_program_id\"() <{axis = 0 : i32}> : () -> i32\n"
               "%on = \"arith.constant\"() <{value = true}> : () -> i1\n") +
           (std::string(type) == "f32" ? "%v = \"arith.sitofp\"(%x) : (i32) -> f32\n" : "") +
           "%old = \"tt.atomic_rmw\"(%a, " + (std::string(type) == "f32" ? "%v" : "%x") +
           ", %on) <{atomic_rmw_op = " + std::to_string(number) +
           " : i32, scope = 1 : i32, sem = 4 : i32}> : (!tt.ptr<" + type + ">, " + type +
           ", i1) -> " + type + "\n%p = \"tt.addptr\"(%b, %x) : (!tt.ptr<" + type +
           ">, i32) -> !tt.ptr<" + type + ">\n\"tt.store\"(%p, %old) : (!tt.ptr<" + type + ">, " +
           type + ") -> ()";
  };
  const auto run = [&](int number, DType d, double start) {
    const std::string type = name(d);
    return launch_text(kernel_text("%a: !tt.ptr<" + type + ">, %b: !tt.ptr<" + type + ">",
                                   rmw(number, type.c_str())),
                       {array_of(d, {1}, [=](auto) { return start; }), Array(d, {8})}, {},
                       {8, 1, 1});
  };
  const struct {
    int number;
    DType dtype;
    int (*f)(int, int);
  } cases[] = {{1, DType::i32, [](int a, int b) { return a & b; }},
               {2, DType::i32, [](int a, int b) { return a | b; }},
               {3, DType::i32, [](int a, int b) { return a ^ b; }},
               {4, DType::i32, [](int a, int b) { return a + b; }},
               {5, DType::f32, [](int a, int b) { return a + b; }},
               {6, DType::i32, [](int a, int b) { return std::max(a, b); }},
               {7, DType::i32, [](int a, int b) { return std::min(a, b); }},
               {10, DType::i32, [](int, int b) { return b; }}};
  for (const auto& c : cases) {
    CAPTURE(c.number);
    const Ran r = run(c.number, c.dtype, 3);
    REQUIRE(r.ok());
    int now = 3;
    for (int i = 0; i < 8; ++i) {
      CHECK(r.out(1).at(i) == now);
      now = c.f(now, i);
    }
    CHECK(r.out(0).at(0) == now);
  }
}

TEST_CASE("atomic loads and stores are of lanes that are on, and define what they write",
          "[triton]") {
  const std::string body =
      pointers("%a", "%a", "8", "f16") + pointers("%b", "%b", "8", "f16") +
      "%n = \"arith.constant\"() <{value = 5 : i32}> : () -> i32\n"
      "%ns = \"tt.splat\"(%n) : (i32) -> tensor<8xi32>\n"
      "%on = \"arith.cmpi\"(%a_r, %ns) <{predicate = 2 : i64}> : (tensor<8xi32>, tensor<8xi32>) -> "
      "tensor<8xi1>\n"
      "%v = \"tt.atomic_load\"(%a_at, %on) <{scope = 1 : i32, sem = 2 : i32}> : "
      "(tensor<8x!tt.ptr<f16>>, tensor<8xi1>) -> tensor<8xf16>\n"
      "\"tt.atomic_store\"(%b_at, %v, %on) <{scope = 1 : i32, sem = 3 : i32}> : "
      "(tensor<8x!tt.ptr<f16>>, tensor<8xf16>, tensor<8xi1>) -> ()\n"
      "%again = \"tt.load\"(%b_at, %on) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : "
      "(tensor<8x!tt.ptr<f16>>, tensor<8xi1>) -> tensor<8xf16>\n"
      "\"tt.grid_dependency_wait\"() : () -> ()\n"
      "\"tt.store\"(%a_at, %again, %on) : (tensor<8x!tt.ptr<f16>>, tensor<8xf16>, tensor<8xi1>) -> "
      "()\n"
      "\"tt.grid_dependency_launch_dependents\"() : () -> ()\n";
  const Ran r = launch_text(
      kernel_text("%a: !tt.ptr<f16>, %b: !tt.ptr<f16>", body),
      {array_of(DType::f16, {8}, [](auto i) { return i + 1.; }), Array(DType::f16, {8})}, {},
      {1, 1, 1}, {}, {false, true});
  CAPTURE(r.text());
  REQUIRE(r.ok());
  for (int i = 0; i < 5; ++i) CHECK(r.out(1).at(i) == i + 1);
  const auto& refs = r.result.run.ledger().refs();
  CHECK(refs[0].read_bytes == 10);
  CHECK(refs[1].write_bytes == 10);
  CHECK(refs[1].read_bytes == 10);
  REQUIRE(r.result.lines.size() == 4);
  for (const LineTraffic& l : r.result.lines) CHECK(l.requested.times == 1);
}

TEST_CASE("f64 is computed in f64", "[triton]") {
  const Array x = array_of(DType::f64, {64}, [](auto i) { return wave(i) / 7; });
  const Array y = array_of(DType::f64, {64}, [](auto i) { return wave(i * 3) / 11 + 0.01; });
  const auto binary = [&](const char* op, const char* attributes, double (*f)(double, double)) {
    CAPTURE(op);
    const Ran r = run_op(op, attributes, {x, y}, DType::f64, {64});
    REQUIRE(r.ok());
    for (int i = 0; i < 64; ++i) REQUIRE(r.out(2).at(i) == f(x.at(i), y.at(i)));
  };
  binary("arith.addf", "", [](double a, double b) { return a + b; });
  binary("arith.mulf", "", [](double a, double b) { return a * b; });
  binary("arith.divf", "", [](double a, double b) { return a / b; });
  binary("arith.remf", "", [](double a, double b) { return std::fmod(a, b); });
  binary("arith.maximumf", "", [](double a, double b) { return std::max(a, b); });
  const Ran e = run_op("math.exp", "", {x}, DType::f64, {64});
  const Ran s = run_op("tt.extern_elementwise", "symbol = \"__nv_sinh\"", {x}, DType::f64, {64});
  const Ran narrow = run_op("arith.truncf", "", {x}, DType::f32, {64});
  const std::string compared = load("%x", "%a", "64", "f64") + load("%y", "%b", "64", "f64") + R"(
%l = "arith.cmpf"(%x, %y) <{predicate = 4 : i64}> : (tensor<64xf64>, tensor<64xf64>) -> tensor<64xi1>
%r = "arith.extui"(%l) : (tensor<64xi1>) -> tensor<64xi8>
)" + store("%r", "%c", "64", "i8");
  const Ran less =
      launch_text(kernel_text("%a: !tt.ptr<f64>, %b: !tt.ptr<f64>, %c: !tt.ptr<i8>", compared),
                  {x, y, Array(DType::i8, {64})});
  for (int i = 0; i < 64; ++i) {
    REQUIRE(e.out(1).at(i) == Approx(std::exp(x.at(i))).epsilon(1e-15));
    REQUIRE(s.out(1).at(i) == Approx(std::sinh(x.at(i))).epsilon(1e-15));
    REQUIRE(narrow.out(1).at(i) == double(float(x.at(i))));
    REQUIRE(less.out(2).at(i) == (x.at(i) < y.at(i) ? 1 : 0));
  }
  const Array a = array_of(DType::f64, {16, 16}, [](auto i) { return wave(i) / 7; });
  const Array b = array_of(DType::f64, {16, 16}, [](auto i) { return wave(i * 5) / 3; });
  const Ran dot = run_op("tt.dot", "inputPrecision = 2 : i32", {a, b, Array(DType::f64, {16, 16})},
                         DType::f64, {16, 16});
  REQUIRE(dot.ok());
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) sum = std::fma(a.at(i * 16 + k), b.at(k * 16 + j), sum);
      REQUIRE(dot.out(3).at(i * 16 + j) == sum);
    }
  }
}

TEST_CASE("numbers of one bit wrap, and 1 is -1 with a sign", "[triton]") {
  const Array a = array_of(DType::i8, {4}, [](auto i) { return double(i / 2); });
  const Array b = array_of(DType::i8, {4}, [](auto i) { return double(i % 2); });
  // Memory has bytes.
  const std::string bits = load("%x", "%a", "4", "i8") + load("%y", "%b", "4", "i8") + R"(
%p = "arith.trunci"(%x) : (tensor<4xi8>) -> tensor<4xi1>
%q = "arith.trunci"(%y) : (tensor<4xi8>) -> tensor<4xi1>
)";
  const auto run = [&](const std::string& op) {
    const std::string body =
        bits + "%z = " + op + R"( : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
%r = "arith.extui"(%z) : (tensor<4xi1>) -> tensor<4xi8>
)" + store("%r", "%c", "4", "i8");
    return launch_text(kernel_text("%a: !tt.ptr<i8>, %b: !tt.ptr<i8>, %c: !tt.ptr<i8>", body),
                       {a, b, Array(DType::i8, {4})});
  };
  const Ran sum = run("\"arith.addi\"(%p, %q)");
  const Ran product = run("\"arith.muli\"(%p, %q)");
  const Ran less = run("\"arith.cmpi\"(%p, %q) <{predicate = 2 : i64}>");
  const Ran real = launch_text(
      kernel_text("%a: !tt.ptr<i8>, %b: !tt.ptr<i8>, %c: !tt.ptr<f32>",
                  bits + "%r = \"arith.sitofp\"(%p) : (tensor<4xi1>) -> tensor<4xf32>\n" +
                      store("%r", "%c", "4", "f32")),
      {a, b, Array(DType::f32, {4})});
  for (int i = 0; i < 4; ++i) {
    const int x = i / 2;
    const int y = i % 2;
    CHECK(sum.out(2).at(i) == (x + y) % 2);
    CHECK(product.out(2).at(i) == x * y);
    CHECK(less.out(2).at(i) == (-x < -y ? 1 : 0));
    CHECK(real.out(2).at(i) == -x);
  }
}

TEST_CASE("products of blocks with scales", "[triton]") {
  // Numbers of e2m1, two in a byte, by powers of two for 32 of them; e4m3 without scales.
  const double numbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const auto number = [&](int i) { return (i & 8) != 0 ? -numbers[i & 7] : numbers[i & 7]; };
  const Array a = array_of(DType::i8, {16, 32}, [](auto i) { return double(i * 29 % 256) - 128; });
  const Array b =
      array_of(DType::f8e4m3fn, {64, 16}, [](auto i) { return double(i * 7 % 15) - 7; });
  Array scale = array_of(DType::i8, {16, 2}, [](auto i) { return double(120 + i % 7); });
  const std::string attributes =
      "a_elem_type = 4 : i32, b_elem_type = 0 : i32, fastMath = false, lhs_k_pack = true, "
      "rhs_k_pack = "
      "true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>";
  const Ran r = run_op("tt.dot_scaled", attributes, {a, b, Array(DType::f32, {16, 16}), scale},
                       DType::f32, {16, 16});
  REQUIRE(r.ok());
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      double sum = 0;  // exact in f32
      for (int k = 0; k < 64; ++k) {
        const auto byte = static_cast<int>(a.bits(i * 32 + k / 2));
        sum += number(k % 2 != 0 ? byte >> 4 : byte & 15) *
               std::ldexp(1.0, int(scale.at(i * 2 + k / 32)) - 127) * b.at(k * 16 + j);
      }
      REQUIRE(r.out(4).at(i * 16 + j) == sum);
    }
  }
  scale.set(2 * 5 + 1, -1);  // 255: NaN
  const Ran nan = run_op("tt.dot_scaled", attributes, {a, b, Array(DType::f32, {16, 16}), scale},
                         DType::f32, {16, 16});
  for (int e = 0; e < 256; ++e) REQUIRE(std::isnan(nan.out(4).at(e)) == (e / 16 == 5));
}

TEST_CASE("functions that are not inlined, and of each element", "[triton]") {
  const std::string text = R"(
%r = "tt.map_elementwise"(%x) <{pack = 1 : i32}> ({
^bb0(%v: f32):
  %zero = "arith.constant"() <{value = 0.0 : f32}> : () -> f32
  %one = "arith.constant"() <{value = 1.0 : f32}> : () -> f32
  %two = "arith.constant"() <{value = 2.0 : f32}> : () -> f32
  %less = "arith.cmpf"(%v, %zero) <{predicate = 4 : i64}> : (f32, f32) -> i1
  "cf.cond_br"(%less, %zero)[^leave, ^more] <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i1, f32) -> ()
^more:
  %same = "arith.cmpf"(%v, %zero) <{predicate = 1 : i64}> : (f32, f32) -> i1
  "cf.cond_br"(%same, %one, %two)[^leave, ^leave] <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (i1, f32, f32) -> ()
^leave(%y: f32):
  "tt.map_elementwise.return"(%y) : (f32) -> ()
}) : (tensor<64xf32>) -> tensor<64xf32>
)";
  const Array x = array_of(DType::f32, {64}, [](auto i) { return double(i % 3) - 1; });
  const Ran r = launch_text(
      kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>",
                  load("%x", "%a", "64", "f32") + text + store("%r", "%b", "64", "f32")),
      {x, Array(DType::f32, {64})});
  REQUIRE(r.ok());
  for (int i = 0; i < 64; ++i) REQUIRE(r.out(1).at(i) == (x.at(i) < 0 ? 0 : x.at(i) == 0 ? 1 : 2));
  // Called twice, and it stores: who races with it is told.
  const std::string body = R"(
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
%y = "tt.call"(%a, %x) <{callee = @twice}> : (!tt.ptr<i32>, i32) -> i32
%z = "tt.call"(%b, %y) <{callee = @twice}> : (!tt.ptr<i32>, i32) -> i32
"tt.return"() : () -> ()
}) : () -> ()
"tt.func"() <{sym_name = "twice", sym_visibility = "private"}> ({
^bb0(%p: !tt.ptr<i32>, %v: i32):
%q = "tt.addptr"(%p, %v) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>
%w = "arith.addi"(%v, %v) : (i32, i32) -> i32
"tt.store"(%q, %w) : (!tt.ptr<i32>, i32) -> ()
"tt.return"(%w) : (i32) -> ()
}) : () -> ()
}) : () -> ()
)";
  const std::string whole = kernel_text("%a: !tt.ptr<i32>, %b: !tt.ptr<i32>", body);
  const std::string calling = whole.substr(0, whole.rfind("\n\"tt.return\"()"));
  const Ran called =
      launch_text(calling, {Array(DType::i32, {4}), Array(DType::i32, {8})}, {}, {4, 1, 1});
  REQUIRE(called.ok());
  for (int i = 0; i < 4; ++i) {
    CHECK(called.out(0).at(i) == 2 * i);
    CHECK(called.out(1).at(2 * i) == 4 * i);
  }
  CHECK(launch_text(calling, {Array(DType::i32, {4}), Array(DType::i32, {6})}, {}, {4, 1, 1})
            .slug() == "oob-index");
}

TEST_CASE("what the compiler may assume must be so", "[triton]") {
  const std::string body = R"(
%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%ok = "arith.cmpi"(%n, %zero) <{predicate = 4 : i64}> : (i32, i32) -> i1
"llvm.intr.assume"(%ok) : (i1) -> ())";
  CHECK(launch_text(kernel_text("%n: i32", body), {}, {1}).ok());
  CHECK(launch_text(kernel_text("%n: i32", body), {}, {0}).slug() == "check-failed");
}

TEST_CASE("a program waits for what another writes", "[triton]") {
  // The first program waits for the last one's flag, then reads what it wrote.
  const std::string body = R"(
%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%one = "arith.constant"() <{value = 1 : i32}> : () -> i32
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
%first = "arith.cmpi"(%x, %zero) <{predicate = 0 : i64}> : (i32, i32) -> i1
"scf.if"(%first) ({
  %ok = "tt.atomic_poll"(%f, %one) <{scope = 1 : i32, sem = ORDER : i32}> : (!tt.ptr<i32>, i32) -> i1
  %v = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<i32>) -> i32
  "tt.store"(%o, %v) : (!tt.ptr<i32>, i32) -> ()
  "scf.yield"() : () -> ()
}, {
  "tt.store"(%p, %n) : (!tt.ptr<i32>, i32) -> ()
  %on = "arith.constant"() <{value = true}> : () -> i1
  %old = "tt.atomic_rmw"(%f, %one, %on) <{atomic_rmw_op = 10 : i32, scope = 1 : i32, sem = 3 : i32}> : (!tt.ptr<i32>, i32, i1) -> i32
  "scf.yield"() : () -> ()
}) : (i1) -> ())";
  const auto run = [&](const char* order) {
    std::string text = body;
    text.replace(text.find("ORDER"), 5, order);
    return launch_text(
        kernel_text("%f: !tt.ptr<i32>, %p: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32", text),
        {Array(DType::i32, {1}), Array(DType::i32, {1}), Array(DType::i32, {1})}, {42}, {2, 1, 1});
  };
  const Ran r = run("2");
  REQUIRE(r.ok());
  CHECK(r.out(2).at(0) == 42);
  CHECK(run("1").slug() == "race");
}

}  // namespace tessera::triton
