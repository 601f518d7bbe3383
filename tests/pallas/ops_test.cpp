// Ops of Mosaic modules against loops written out here.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

double wave(std::int64_t i) { return static_cast<double>((i * 37) % 101) - 50; }

}  // namespace

TEST_CASE("a vector turned, cut, joined and repeated", "[pallas]") {
  const Array x = array_of(DType::f32, {8, 128}, wave);
  SECTION("transpose") {
    const Ran r =
        run_op("tpu.transpose", "permutation = array<i64: 1, 0>", {x}, DType::f32, {128, 8});
    REQUIRE(r.result.ok());
    for (int i = 0; i < 128; ++i)
      for (int j = 0; j < 8; ++j) REQUIRE(r.out().at(i * 8 + j) == x.at(j * 128 + i));
  }
  SECTION("transpose of three dims") {
    const Array y = array_of(DType::bf16, {2, 3, 4}, [](auto i) { return double(i); });
    const Ran r =
        run_op("tpu.transpose", "permutation = array<i64: 2, 0, 1>", {y}, DType::bf16, {4, 2, 3});
    REQUIRE(r.result.ok());
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 2; ++j)
        for (int k = 0; k < 3; ++k)
          REQUIRE(r.out().at((i * 2 + j) * 3 + k) == y.at((j * 3 + k) * 4 + i));
  }
  SECTION("slice") {
    const Ran r =
        run_op("vector.extract_strided_slice",
               "offsets = [2, 64], sizes = [3, 32], strides = [1, 1]", {x}, DType::f32, {3, 32});
    REQUIRE(r.result.ok());
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 32; ++j) REQUIRE(r.out().at(i * 32 + j) == x.at((i + 2) * 128 + j + 64));
  }
  SECTION("concatenate") {
    const Array y = array_of(DType::f32, {8, 64}, [](auto i) { return 1000.0 + double(i); });
    const Ran r = run_op("tpu.concatenate", "dimension = 1 : i32", {x, y}, DType::f32, {8, 192});
    REQUIRE(r.result.ok());
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 192; ++j)
        REQUIRE(r.out().at(i * 192 + j) == (j < 128 ? x.at(i * 128 + j) : y.at(i * 64 + j - 128)));
  }
  SECTION("broadcast of rows, of columns, and between") {
    const Array column = array_of(DType::f32, {8, 1}, wave);
    const Ran rows = run_op("vector.broadcast", "", {column}, DType::f32, {8, 128});
    const Array row = array_of(DType::f32, {1, 128}, wave);
    const Ran columns = run_op("vector.broadcast", "", {row}, DType::f32, {8, 128});
    const Array middle = array_of(DType::f32, {2, 1, 4}, wave);
    const Ran between = run_op("vector.broadcast", "", {middle}, DType::f32, {2, 3, 4});
    REQUIRE(rows.result.ok());
    REQUIRE(columns.result.ok());
    REQUIRE(between.result.ok());
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 128; ++j) {
        REQUIRE(rows.out().at(i * 128 + j) == column.at(i));
        REQUIRE(columns.out().at(i * 128 + j) == row.at(j));
      }
    }
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 4; ++k)
          REQUIRE(between.out().at((i * 3 + j) * 4 + k) == middle.at(i * 4 + k));
  }
  SECTION("rotate, as jnp.roll does, and with a stride along another dim") {
    const std::string by = "%by = \"S.arith.constant\"() {value = 5 : i32} : () -> i32\n";
    const Ran r = run_op("tpu.dynamic_rotate", "dimension = 1 : si32", {x}, DType::f32, {8, 128},
                         by, ", %by", ", i32");
    const Ran s = run_op("tpu.dynamic_rotate",
                         "dimension = 1 : si32, stride = 2 : si32, stride_dimension = 0 : si32",
                         {x}, DType::f32, {8, 128}, by, ", %by", ", i32");
    REQUIRE(r.result.ok());
    REQUIRE(s.result.ok());
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 128; ++j) {
        REQUIRE(r.out().at(i * 128 + (j + 5) % 128) == x.at(i * 128 + j));
        REQUIRE(s.out().at(i * 128 + (j + 5 + 2 * i) % 128) == x.at(i * 128 + j));
      }
    }
  }
  SECTION("gather along lanes") {
    const Array at = array_of(DType::i32, {8, 128}, [](auto i) { return double((i * 7) % 128); });
    const Ran r =
        run_op("tpu.dynamic_gather", "dimensions = array<i32: 1>", {x, at}, DType::f32, {8, 128});
    REQUIRE(r.result.ok());
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 128; ++j)
        REQUIRE(r.out().at(i * 128 + j) == x.at(i * 128 + int(at.at(i * 128 + j))));
  }
  SECTION("gather along sublanes, by indices as wide as the elements") {
    for (const auto& [d, rows] : {std::pair{DType::i8, 32}, {DType::i16, 16}}) {
      const Array from = array_of(d, {rows, 128}, [](auto i) { return double(i % 251) - 125; });
      const Array at =
          array_of(d, {rows, 128}, [n = rows](auto i) { return double((i * 11) % n); });
      const Ran r =
          run_op("tpu.dynamic_gather", "dimensions = array<i32: 0>", {from, at}, d, {rows, 128});
      REQUIRE(r.result.ok());
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < 128; ++j)
          REQUIRE(r.out().at(i * 128 + j) == from.at(int(at.at(i * 128 + j)) * 128 + j));
    }
  }
}

TEST_CASE("sublanes are repacked, the lowest element first", "[pallas]") {
  Array x(DType::bf16, {16, 128});
  for (std::int64_t i = 0; i < x.elems(); ++i)
    x.data<bf16>()[i].bits = static_cast<std::uint16_t>(i * 31);
  const Ran r = run_op("tpu.bitcast", "", {x}, DType::i32, {8, 128});
  REQUIRE(r.result.ok());
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 128; ++j) {
      const std::uint64_t low = x.bits((2 * i) * 128 + j);
      const std::uint64_t high = x.bits((2 * i + 1) * 128 + j);
      REQUIRE(r.out().bits(i * 128 + j) == (low | high << 16));
    }
  }
  const Ran back = run_op("tpu.bitcast", "", {r.out()}, DType::bf16, {16, 128});
  REQUIRE(back.result.ok());
  for (std::int64_t i = 0; i < x.elems(); ++i) REQUIRE(back.out().bits(i) == x.bits(i));
  // Of memory: a memref's bitcast sees what a vector's does.
  const std::string body = "%b = \"S.tpu.memref_bitcast\"(%a) : (" + vmem("16x128xbf16") + ") -> " +
                           vmem("8x128xi32") + "\n" + load_whole("%x", "%b", "8x128xi32", 2) +
                           store_whole("%x", "%o", "8x128xi32", 2);
  const Ran memory =
      run_text(module_text("%a: " + vmem("16x128xbf16") + ", %o: " + vmem("8x128xi32"), body), {x});
  REQUIRE(memory.result.ok());
  for (std::int64_t i = 0; i < 8 * 128; ++i) REQUIRE(memory.out().bits(i) == r.out().bits(i));
}

TEST_CASE("reductions of any dims, with a start value", "[pallas]") {
  const Array x = array_of(DType::i32, {4, 6, 8}, wave);
  const auto reduce = [&](const char* kind, const char* dims, const Shape& to, double start) {
    Array s = array_of(DType::i32, to, [&](auto) { return start; });
    return run_op(
        "vector.multi_reduction",
        std::string("kind = #vector.kind<") + kind + ">, reduction_dims = array<i64: " + dims + ">",
        {x, s}, DType::i32, to);
  };
  const Ran last = reduce("add", "2", {4, 6}, 1);
  const Ran first = reduce("add", "0", {6, 8}, 0);
  const Ran outer = reduce("maxsi", "0, 2", {6}, -1000);
  const Ran least = reduce("minsi", "1", {4, 8}, 1000);
  for (const Ran* r : {&last, &first, &outer, &least}) REQUIRE(r->result.ok());
  for (int j = 0; j < 6; ++j) {
    double most = -1000;
    for (int i = 0; i < 4; ++i) {
      double sum = 1;
      for (int k = 0; k < 8; ++k) {
        sum += x.at((i * 6 + j) * 8 + k);
        most = std::max(most, x.at((i * 6 + j) * 8 + k));
      }
      REQUIRE(last.out().at(i * 6 + j) == sum);
    }
    REQUIRE(outer.out().at(j) == most);
    for (int k = 0; k < 8; ++k) {
      double sum = 0;
      for (int i = 0; i < 4; ++i) sum += x.at((i * 6 + j) * 8 + k);
      REQUIRE(first.out().at(j * 8 + k) == sum);
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 8; ++k) {
      double low = 1000;
      for (int j = 0; j < 6; ++j) low = std::min(low, x.at((i * 6 + j) * 8 + k));
      REQUIRE(least.out().at(i * 8 + k) == low);
    }
  }
}

TEST_CASE("products in every form of dimension numbers", "[pallas]") {
  const auto numbers = [](const char* text) {
    return std::string("dimension_numbers = #tpu.dot_dimension_numbers<") + text +
           ">, transpose_lhs = false, transpose_rhs = false";
  };
  const auto small = [](std::int64_t i) { return double((i * 7) % 13) - 6; };
  SECTION("plain, transposed left, transposed right, mixed types") {
    for (const int form : {0, 1, 2}) {
      for (const DType right_type : {DType::f32, DType::bf16, DType::f8e4m3fn}) {
        const Array a = array_of(DType::f32, form == 1 ? Shape{5, 4} : Shape{4, 5}, small);
        const Array b = array_of(right_type, form == 2 ? Shape{3, 5} : Shape{5, 3}, small);
        const Array c = array_of(DType::f32, {4, 3}, [](auto i) { return double(i); });
        const char* const text = form == 0   ? "[1], [0], [0], [1], [0, 0, 1, 1], [], []"
                                 : form == 1 ? "[0], [0], [1], [1], [0, 1, 1, 1], [], []"
                                             : "[1], [1], [0], [0], [0, 0, 1, 0], [], []";
        const Ran r = run_op("tpu.matmul", numbers(text), {a, b, c}, DType::f32, {4, 3});
        REQUIRE(r.result.ok());
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 3; ++j) {
            double sum = c.at(i * 3 + j);
            for (int k = 0; k < 5; ++k)
              sum +=
                  a.at(form == 1 ? k * 4 + i : i * 5 + k) * b.at(form == 2 ? j * 5 + k : k * 3 + j);
            REQUIRE(r.out().at(i * 3 + j) == sum);
          }
        }
      }
    }
  }
  SECTION("a batch in the middle, several kept dims, results in another order") {
    // a[i, b, k, p], b[b, k, j] -> [b, i, p, j], then with j before p.
    const Array a = array_of(DType::f32, {2, 3, 4, 2}, small);
    const Array b = array_of(DType::f32, {3, 4, 5}, small);
    const Array zero(DType::f32, {3, 2, 2, 5});
    const Ran r =
        run_op("tpu.matmul", numbers("[2], [1], [0, 3], [2], [0, 1, 0, 0, 0, 3, 1, 2], [1], [0]"),
               {a, b, zero}, DType::f32, {3, 2, 2, 5});
    REQUIRE(r.result.ok());
    const Array other(DType::f32, {3, 2, 5, 2});
    const Ran moved =
        run_op("tpu.matmul", numbers("[2], [1], [0, 3], [2], [0, 1, 0, 0, 1, 2, 0, 3], [1], [0]"),
               {a, b, other}, DType::f32, {3, 2, 5, 2});
    REQUIRE(moved.result.ok());
    for (int n = 0; n < 3; ++n)
      for (int i = 0; i < 2; ++i)
        for (int p = 0; p < 2; ++p)
          for (int j = 0; j < 5; ++j) {
            double sum = 0;
            for (int k = 0; k < 4; ++k)
              sum += a.at(((i * 3 + n) * 4 + k) * 2 + p) * b.at((n * 4 + k) * 5 + j);
            REQUIRE(r.out().at(((n * 2 + i) * 2 + p) * 5 + j) == sum);
            REQUIRE(moved.out().at(((n * 2 + i) * 5 + j) * 2 + p) == sum);
          }
  }
  SECTION("integers of any width beside floats, and those of 8 bits") {
    const auto check = [&](DType left, DType right, DType sum_type, auto of_right) {
      const Array a = array_of(left, {4, 5}, wave);
      const Array b = array_of(right, {5, 3}, of_right);
      const Array c(sum_type, {4, 3});
      const Ran r = run_op("tpu.matmul", numbers("[1], [0], [0], [1], [0, 0, 1, 1], [], []"),
                           {a, b, c}, sum_type, {4, 3});
      REQUIRE(r.result.ok());
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 3; ++j) {
          double sum = 0;
          for (int k = 0; k < 5; ++k) sum += a.at(i * 5 + k) * b.at(k * 3 + j);
          REQUIRE(r.out().at(i * 3 + j) == sum);
        }
    };
    for (const DType ints : {DType::i8, DType::i16, DType::i32})
      check(DType::bf16, ints, DType::f32, [](auto i) { return 100. - 31. * i; });
    check(DType::i8, DType::i8, DType::i32, wave);
  }
}

TEST_CASE("floats that are no numbers, and zeros with a sign", "[pallas]") {
  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {0.0, -0.0, 1, -2, 1e-40, -1e-40, inf, -inf, nan};
  const auto n = std::ssize(special);
  const auto of = [&](std::int64_t i) { return special[static_cast<std::size_t>(i % n)]; };
  const Array x = array_of(DType::f32, {8, 128}, of);
  const Array y = array_of(DType::f32, {8, 128}, [&](auto i) { return of(i / n); });
  const auto each = [&](const Ran& r, const auto& expected) {
    REQUIRE(r.result.ok());
    for (std::int64_t i = 0; i < x.elems(); ++i) {
      const auto a = static_cast<float>(x.at(i));
      const auto b = static_cast<float>(y.at(i));
      const auto got = static_cast<float>(r.out().at(i));
      const auto want = static_cast<float>(expected(a, b));
      CAPTURE(a, b, got, want);
      REQUIRE((std::isnan(want) ? std::isnan(got)
                                : got == want && std::signbit(got) == std::signbit(want)));
    }
  };
  const auto compare = [&](int predicate, const auto& expected) {
    CAPTURE(predicate);
    const std::string cmp =
        "%c = \"S.arith.cmpf\"(%x0, %x1) {predicate = " + std::to_string(predicate) +
        " : i64} : (vector<8x128xf32>, vector<8x128xf32>) -> "
        "vector<8x128xi1>\n"
        "%one = \"S.arith.constant\"() {value = dense<1.0> : "
        "vector<8x128xf32>} : () -> vector<8x128xf32>\n"
        "%zero = \"S.arith.constant\"() {value = dense<0.0> : "
        "vector<8x128xf32>} : () -> vector<8x128xf32>\n"
        "%r = \"S.arith.select\"(%c, %one, %zero) : (vector<8x128xi1>, "
        "vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>\n";
    const std::string t = "8x128xf32";
    const std::string arguments = "%a0: " + vmem(t) + ", %a1: " + vmem(t) + ", %o: " + vmem(t);
    each(run_text(module_text(arguments, load_whole("%x0", "%a0", t, 2) +
                                             load_whole("%x1", "%a1", t, 2) + cmp +
                                             store_whole("%r", "%o", t, 2)),
                  {x, y}),
         [&](float a, float b) { return expected(a, b) ? 1.f : 0.f; });
  };
  // One that is not equal, as x != x asks, is true of NaN.
  compare(1, [](float a, float b) { return a == b; });
  compare(2, [](float a, float b) { return a > b; });
  compare(3, [](float a, float b) { return a >= b; });
  compare(4, [](float a, float b) { return a < b; });
  compare(5, [](float a, float b) { return a <= b; });
  compare(6, [](float a, float b) { return a != b; });
  compare(8, [](float a, float b) { return !(a < b || a > b); });
  compare(13, [](float a, float b) { return a != b; });
  compare(14, [](float a, float b) { return a != a || b != b; });
  const auto two = [&](const char* op) { return run_op(op, "", {x, y}, DType::f32, {8, 128}); };
  const auto larger = [](float a, float b) { return a > b || (a == b && !std::signbit(a)); };
  each(two("arith.maximumf"), [&](float a, float b) {
    return a != a || b != b ? NAN : larger(a, b) ? a : b;
  });
  each(two("arith.minimumf"), [&](float a, float b) {
    return a != a || b != b ? NAN : larger(a, b) ? b : a;
  });
  each(two("math.copysign"), [](float a, float b) { return std::copysign(a, b); });
}

TEST_CASE("fewer bits of mantissa round to nearest even", "[pallas]") {
  const std::vector<float> values = {1.f,     1.00390625f, 1.01171875f, -1.00390626f,
                                     3.4e38f, INFINITY,    -0.f,        NAN};
  const Array x = array_of(DType::f32, {8}, [&](auto i) { return values[std::size_t(i)]; });
  const auto run = [&](int exponent, int mantissa) {
    return run_op("tpu.reduce_precision",
                  "exponent_bits = " + std::to_string(exponent) +
                      " : i32, mantissa_bits = " + std::to_string(mantissa) + " : i32",
                  {x}, DType::f32, {8});
  };
  const Ran as_bf16 = run(8, 7);
  const Ran whole = run(8, 23);
  REQUIRE(as_bf16.result.ok());
  REQUIRE(whole.result.ok());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto got = static_cast<float>(as_bf16.out().at(static_cast<std::int64_t>(i)));
    const float want = convert<float>(bf16(values[i]));
    CAPTURE(values[i], got, want);
    CHECK((std::isnan(want) ? std::isnan(got) : got == want));
    if (!std::isnan(want)) CHECK(whole.out().at(static_cast<std::int64_t>(i)) == double(values[i]));
  }
  CHECK_THROWS_AS(run(5, 10), KernelError);
}

TEST_CASE("both halves of a product", "[pallas]") {
  const std::vector<std::int32_t> a = {3, -1, 2147483647, -2147483647 - 1};
  const std::vector<std::int32_t> b = {7, -1, 2147483647, 2};
  const auto array = [](const std::vector<std::int32_t>& v) {
    return array_of(DType::i32, {4}, [&](auto i) { return double(v[std::size_t(i)]); });
  };
  for (const bool sign : {false, true}) {
    const std::string t = "4xi32";
    const Ran r = run_text(
        module_text("%a: " + vmem(t) + ", %b: " + vmem(t) + ", %l: " + vmem(t) + ", %h: " + vmem(t),
                    load_whole("%x", "%a", t, 1) + load_whole("%y", "%b", t, 1) +
                        "%low, %high = \"S.arith.mul" + (sign ? "s" : "u") +
                        "i_extended\"(%x, %y) : (vector<4xi32>, vector<4xi32>) -> "
                        "(vector<4xi32>, vector<4xi32>)\n" +
                        store_whole("%low", "%l", t, 1) + store_whole("%high", "%h", t, 1)),
        {array(a), array(b)});
    REQUIRE(r.result.ok());
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::uint64_t wide = sign ? std::uint64_t(std::int64_t{a[i]} * b[i])
                                      : std::uint64_t{std::uint32_t(a[i])} * std::uint32_t(b[i]);
      CHECK(r.out(0).at(std::int64_t(i)) == double(std::int32_t(wide)));
      CHECK(r.out(1).at(std::int64_t(i)) == double(std::int32_t(wide >> 32)));
    }
  }
}

TEST_CASE("integers wrap, and what MLIR leaves undefined has one value", "[pallas]") {
  const Array a = array_of(DType::i32, {8}, [](auto i) {
    const double v[] = {7, -7, -2147483648.0, 2147483647, 0, 5, -5, 1};
    return v[i];
  });
  const Array b = array_of(DType::i32, {8}, [](auto i) {
    const double v[] = {2, 2, -1, 1, 0, 0, 33, 31};
    return v[i];
  });
  const auto all = [&](const char* op) {
    const Ran r = run_op(op, "", {a, b}, DType::i32, {8});
    REQUIRE(r.result.ok());
    std::vector<std::int64_t> v;
    for (int i = 0; i < 8; ++i) v.push_back(static_cast<std::int64_t>(r.out().at(i)));
    return v;
  };
  using V = std::vector<std::int64_t>;
  CHECK(all("arith.divsi") == V{3, -3, -2147483648, 2147483647, -1, -1, 0, 0});
  CHECK(all("arith.remsi") == V{1, -1, 0, 0, 0, 5, -5, 1});
  CHECK(all("arith.floordivsi") == V{3, -4, -2147483648, 2147483647, -1, -1, -1, 0});
  CHECK(all("arith.shli")[6] == 0);
  CHECK(all("arith.shli")[7] == -2147483648);
  CHECK(all("arith.shrsi")[6] == -1);
  CHECK(all("arith.shrui")[1] == 1073741822);
  CHECK(all("arith.addi")[3] == -2147483648);
  CHECK(all("arith.maxui")[1] == -7);
}

TEST_CASE("memory that nothing wrote may be selected away, not decide", "[pallas]") {
  const std::string scratch = vmem("8x128xf32");
  const std::string arguments = "%a: " + scratch + ", %o: " + scratch + ", %s: " + scratch;
  const std::string mask =
      "%i = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> vector<8x128xi32>\n"
      "%four = \"S.arith.constant\"() {value = dense<4> : vector<8x128xi32>} : () -> "
      "vector<8x128xi32>\n"
      "%keep = \"S.arith.cmpi\"(%i, %four) {predicate = 2 : i64} : (vector<8x128xi32>, "
      "vector<8x128xi32>) -> vector<8x128xi1>\n";
  const Array x = array_of(DType::f32, {8, 128}, wave);
  SECTION("selected away") {
    const std::string body =
        load_whole("%x", "%a", "8x128xf32", 2) + load_whole("%y", "%s", "8x128xf32", 2) + mask +
        "%all = \"S.arith.constant\"() {value = dense<0.0> : vector<8x128xf32>} : () -> "
        "vector<8x128xf32>\n"
        "%p = \"S.arith.mulf\"(%y, %y) : (vector<8x128xf32>, vector<8x128xf32>) -> "
        "vector<8x128xf32>\n"
        "%n = \"S.arith.xori\"(%keep, %keep) : (vector<8x128xi1>, vector<8x128xi1>) -> "
        "vector<8x128xi1>\n"
        "%r = \"S.arith.select\"(%n, %p, %x) : (vector<8x128xi1>, vector<8x128xf32>, "
        "vector<8x128xf32>) -> vector<8x128xf32>\n" +
        store_whole("%r", "%o", "8x128xf32", 2);
    const Ran r = run_text(module_text(arguments, body, "scratch_operands = 1 : i64"), {x});
    REQUIRE(r.result.ok());
    REQUIRE(r.result.undefined.at(0) == 0);
    for (std::int64_t i = 0; i < x.elems(); ++i) REQUIRE(r.out().at(i) == x.at(i));
  }
  SECTION("half of the result is undefined, and counted") {
    const std::string body =
        load_whole("%x", "%a", "8x128xf32", 2) + load_whole("%y", "%s", "8x128xf32", 2) + mask +
        "%r = \"S.arith.select\"(%keep, %x, %y) : (vector<8x128xi1>, vector<8x128xf32>, "
        "vector<8x128xf32>) -> vector<8x128xf32>\n" +
        store_whole("%r", "%o", "8x128xf32", 2);
    const Ran r = run_text(module_text(arguments, body, "scratch_operands = 1 : i64"), {x});
    REQUIRE(r.result.diagnostics.at(0).slug == "uninit-read");
    REQUIRE(r.result.diagnostics[0].headline.find("512 of 1,024 elements of out0 depend on "
                                                  "scratch0") == 0);
    REQUIRE(r.result.complete);
    REQUIRE(r.result.undefined.at(0) == 4 * 128);
    for (int i = 0; i < 4 * 128; ++i) REQUIRE(r.out().at(i) == x.at(i));
    for (int i = 4 * 128; i < 8 * 128; ++i) REQUIRE(std::isnan(r.out().at(i)));
  }
  SECTION("where a sum begins") {
    const std::string body =
        load_whole("%x", "%a", "4x6xf32", 2) + load_whole("%s", "%m", "4xf32", 1) +
        "%r = \"S.vector.multi_reduction\"(%x, %s) {kind = #vector.kind<add>, reduction_dims = "
        "array<i64: 1>} : (vector<4x6xf32>, vector<4xf32>) -> vector<4xf32>\n" +
        store_whole("%r", "%o", "4xf32", 1);
    const Ran r = run_text(
        module_text("%a: " + vmem("4x6xf32") + ", %o: " + vmem("4xf32") + ", %m: " + vmem("4xf32"),
                    body, "scratch_operands = 1 : i64"),
        {array_of(DType::f32, {4, 6}, wave)});
    REQUIRE(r.result.diagnostics.at(0).slug == "uninit-read");
    REQUIRE(r.result.undefined.at(0) == 4);
  }
  SECTION("where a product begins, whose dims are in another order") {
    const std::string c = "4x3xf32";  // of a[3, 2] b[2, 4]
    const std::string body =
        load_whole("%x", "%a", "3x2xf32", 2) + load_whole("%y", "%b", "2x4xf32", 2) +
        load_whole("%s", "%m", c, 2) +
        "%i = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> vector<4x3xi32>\n"
        "%one = \"S.arith.constant\"() {value = dense<1> : vector<4x3xi32>} : () -> "
        "vector<4x3xi32>\n"
        "%zero = \"S.arith.constant\"() {value = dense<0.0> : vector<4x3xf32>} : () -> "
        "vector<4x3xf32>\n"
        "%k = \"S.arith.cmpi\"(%i, %one) {predicate = 0 : i64} : (vector<4x3xi32>, "
        "vector<4x3xi32>) -> vector<4x3xi1>\n"
        "%c = \"S.arith.select\"(%k, %s, %zero) : (vector<4x3xi1>, vector<4x3xf32>, "
        "vector<4x3xf32>) -> vector<4x3xf32>\n"
        "%r = \"S.tpu.matmul\"(%x, %y, %c) {dimension_numbers = #tpu.dot_dimension_numbers<[1], "
        "[0], [0], [1], [1, 1, 0, 0], [], []>, transpose_lhs = false, transpose_rhs = false} : "
        "(vector<3x2xf32>, vector<2x4xf32>, vector<4x3xf32>) -> vector<4x3xf32>\n" +
        store_whole("%r", "%o", c, 2);
    const Ran r =
        run_text(module_text("%a: " + vmem("3x2xf32") + ", %b: " + vmem("2x4xf32") +
                                 ", %o: " + vmem(c) + ", %m: " + vmem(c),
                             body, "scratch_operands = 1 : i64"),
                 {array_of(DType::f32, {3, 2}, wave), array_of(DType::f32, {2, 4}, wave)});
    REQUIRE(r.result.diagnostics.at(0).slug == "uninit-read");
    for (int i = 0; i < 12; ++i) CHECK(std::isnan(r.out().at(i)) == (i / 3 == 1));
  }
  SECTION("decides a branch") {
    const std::string body =
        load_whole("%y", "%s", "8x128xf32", 2) +
        "%e = \"S.vector.extract\"(%y) {static_position = array<i64: 0, 0>} : (vector<8x128xf32>) "
        "-> f32\n"
        "%zero = \"S.arith.constant\"() {value = 0.0 : f32} : () -> f32\n"
        "%c = \"S.arith.cmpf\"(%e, %zero) {predicate = 1 : i64} : (f32, f32) -> i1\n"
        "\"S.scf.if\"(%c) ({\n\"S.scf.yield\"() : () -> ()\n}, {\n}) : (i1) -> ()\n";
    const Ran r = run_text(module_text(arguments, body, "scratch_operands = 1 : i64"), {x});
    REQUIRE(r.result.diagnostics.size() == 1);
    REQUIRE(r.result.diagnostics[0].slug == "uninit-read");
  }
}

TEST_CASE("an op that is not built is refused by name", "[pallas]") {
  const Array x(DType::f32, {8, 128});
  const std::string body = "\"S.tpu.fancy\"() : () -> ()\n";
  try {
    run_text(module_text("%a: " + vmem("8x128xf32"), body), {});
    FAIL("it was planned");
  } catch (const KernelError& e) {
    REQUIRE(e.diagnostic.slug == "unsupported");
    REQUIRE(e.diagnostic.headline == "tpu.fancy is not built yet");
  }
}

TEST_CASE("a bitcast of vectors keeps the width", "[pallas]") {
  const Array x = array_of(DType::f32, {2, 4}, wave);
  const Ran same = run_op("vector.bitcast", "", {x}, DType::i32, {2, 4});
  REQUIRE(same.result.ok());
  for (std::int64_t i = 0; i < 8; ++i) REQUIRE(same.out().bits(i) == x.bits(i));
  CHECK_THROWS_AS(run_op("vector.bitcast", "", {x}, DType::bf16, {4, 4}), KernelError);
}

TEST_CASE("the explicit ops of a matrix unit", "[pallas]") {
  const auto small = [](std::int64_t i) { return double((i * 7) % 13) - 6; };
  const Array a = array_of(DType::bf16, {16, 8}, small);
  const Array b = array_of(DType::bf16, {8, 8}, [&](auto i) { return small(i + 3); });
  const std::string push =
      "\"S.tpu.matmul_push_rhs\"(%b) {mxu_index = 1 : i32, staging_register = 0 : i32, transpose = "
      "true} : (vector<8x8xbf16>) -> ()\n";
  const auto accumulate = [](const std::string& load) {
    return "\"S.tpu.matmul_acc_lhs\"(%a) {acc = 0 : i32, mxu_index = 1 : i32" + load +
           "} : (vector<16x8xbf16>) -> ()\n";
  };
  const std::string load = ", load_staged_rhs = 0 : i32";
  const std::string pop =
      "%r = \"S.tpu.matmul_pop\"() {acc = 0 : i32, mxu_index = 1 : i32} : () -> "
      "vector<16x8xf32>\n";
  const auto run = [&](const std::string& ops) {
    return run_text(
        module_text(
            "%x: " + vmem("16x8xbf16") + ", %y: " + vmem("8x8xbf16") + ", %o: " + vmem("16x8xf32"),
            load_whole("%a", "%x", "16x8xbf16", 2) + load_whole("%b", "%y", "8x8xbf16", 2) + ops),
        {a, b});
  };
  const Ran r =
      run(push + accumulate(load) + accumulate("") + pop + store_whole("%r", "%o", "16x8xf32", 2));
  REQUIRE(r.result.ok());
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int k = 0; k < 8; ++k) sum += 2 * a.at(i * 8 + k) * b.at(j * 8 + k);
      REQUIRE(r.out().at(i * 8 + j) == sum);
    }
  }
  for (const std::string& wrong :
       {push + push, accumulate(load), accumulate(""), pop, push + accumulate(load), push}) {
    const Ran bad = run(wrong);
    REQUIRE(bad.result.diagnostics.size() == 1);
    CHECK(bad.result.diagnostics[0].slug == "matrix-unit");
  }
}

TEST_CASE("what a body prints", "[pallas]") {
  std::string printed;
  RunOptions options;
  options.print = [&](const std::string& text) { printed += text; };
  const std::string body =
      "%n = \"S.arith.constant\"() {value = 42 : i32} : () -> i32\n"
      "\"S.tpu.log\"(%n, %n) {formatted = true, tag = \"n is $0, again $d1.\"} : (i32, i32) -> ()\n"
      "\"S.tpu.log\"(%n) {formatted = false, tag = \"n\"} : (i32) -> ()\n"
      "\"S.tpu.log_buffer\"(%a) {shape = array<i64: 2, 3>, tag = \"a\"} : (" +
      vmem("2x3xf32") + ") -> ()\n";
  const Array a = array_of(DType::f32, {2, 3}, [](auto i) { return double(i) / 2; });
  const Ran r = run_text(module_text("%a: " + vmem("2x3xf32"), body), {a}, options);
  REQUIRE(r.result.ok());
  CHECK(printed ==
        "n is 42, again 42.\nn s32[] 42\na f32[2,3] {\n  { 0, 0.5, 1 },\n  { 1.5, 2, 2.5 }\n}\n");
}

TEST_CASE("random bits are a function of the seed", "[pallas]") {
  const auto bits = [](int seed) {
    const std::string body = "%s = \"S.arith.constant\"() {value = " + std::to_string(seed) +
                             " : i32} : () -> i32\n" +
                             "\"S.tpu.prng_set_seed_32\"(%s) : (i32) -> ()\n"
                             "%r = \"S.tpu.prng_random_bits\"() : () -> vector<256x128xi32>\n" +
                             store_whole("%r", "%o", "256x128xi32", 2);
    Ran r = run_text(module_text("%o: " + vmem("256x128xi32"), body), {});
    REQUIRE(r.result.ok());
    return r.result.outputs[0];
  };
  const Array one = bits(1);
  const Array again = bits(1);
  const Array two = bits(2);
  std::int64_t same = 0;
  std::int64_t ones = 0;
  for (std::int64_t i = 0; i < one.elems(); ++i) {
    REQUIRE(one.bits(i) == again.bits(i));
    same += one.bits(i) == two.bits(i) ? 1 : 0;
    ones += __builtin_popcountll(one.bits(i) & 0xffffffffu);
  }
  CHECK(same < 4);
  // 2^20 fair bits: six standard deviations are 3,072.
  CHECK(std::abs(ones - (1 << 19)) < 3072);
}

}  // namespace tessera::pallas
