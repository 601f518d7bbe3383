// Every op of sim/ops/all.hpp against an oracle of its own: MPFR for what rounds, the definition
// for what does not.
#include <mpfr.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "sim/ops/all.hpp"
#include "sim/tiles/tile.hpp"
#include "tests/numerics/f32_oracle.hpp"

using namespace tessera;
using namespace tessera::tests;

namespace {

/// A whole number that MPFR computes, as f32.
float rounded(const std::function<void(mpfr_t)>& compute) {
  mpfr_t r;
  mpfr_init2(r, 200);
  compute(r);
  const float result = mpfr_get_flt(r, MPFR_RNDN);
  mpfr_clear(r);
  return result;
}
std::vector<float> samples(int random) {
  std::vector<float> values{
      0.f, -0.f, 1.f, -1.f, 0.5f, 2.f, 3.f, 100.f, -100.f, 88.72284f, -103.97208f, 1e-45f, -1e-45f,
      1e-38f, 1e38f, -1e38f,
      // logistic: f64 sees the midpoint of two floats
      0x1.8p-22f, 0x1.f8p-18f, -0x1.4p-23f, 0x1.0cp-17f, std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  std::mt19937 rng(1);
  for (int i = 0; i < random; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng())));
    values.push_back(std::uniform_real_distribution<float>(-20, 20)(rng));
  }
  return values;
}

Tile<float> tile_of(const std::vector<float>& values) {
  FreshTile<float> t(1, static_cast<int>(values.size()));
  std::copy(values.begin(), values.end(), t.data());
  return std::move(t).finish();
}

bool same(float a, float b) { return bits_of(a) == bits_of(b); }

template <class Op>
void check_unary(const std::function<float(float)>& oracle) {
  const auto in = samples(20'000);
  const Tile<float> got = Interpreter::map<Op>(tile_of(in));
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const float want = oracle(in[i]);
    if (same(got(0, static_cast<int>(i)), want)) continue;
    if (wrong++ == 0)
      UNSCOPED_INFO(Op::info.name << "(" << in[i] << ") = " << got(0, static_cast<int>(i))
                                  << ", exactly " << want);
  }
  CHECK(wrong == 0);
}
template <class Op, class R>
void check_binary(const std::function<R(float, float)>& oracle) {
  const auto a = samples(5'000);
  auto b = a;
  std::shuffle(b.begin(), b.end(), std::mt19937(2));
  const auto got = Interpreter::map<Op>(tile_of(a), tile_of(b));
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const R want = oracle(a[i], b[i]);
    const R value = got(0, static_cast<int>(i));
    bool equal = false;
    if constexpr (std::is_same_v<R, float>)
      equal = same(value, want);
    else
      equal = value == want;
    if (equal) continue;
    if (wrong++ == 0)
      UNSCOPED_INFO(Op::info.name << "(" << a[i] << ", " << b[i] << ") = " << value << ", exactly "
                                  << want);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("an op agrees with its oracle", "[sim][ops]", ops::All) {
  const std::string op = TestType::info.name;
  CAPTURE(op);
  F32Oracle oracle;
  if constexpr (requires { TestType::apply(1.f); }) {
    if (const auto it = kUnary.find(op); it != kUnary.end()) {
      check_unary<TestType>([&](float a) { return oracle(it->second, a); });
      return;
    }
    if (op == "abs")
      return check_unary<TestType>([](float a) {
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) & 0x7fffffffu);
      });
    if (op == "negate")
      return check_unary<TestType>([](float a) {
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) ^ 0x80000000u);
      });
    const auto rint = [](mpfr_rnd_t mode) {
      return [mode](float a) {
        const float r = rounded([&](mpfr_t x) {
          mpfr_set_flt(x, a, MPFR_RNDN);
          mpfr_rint(x, x, mode);
        });
        return std::isnan(a) ? a : std::copysign(r, a);
      };
    };
    if (op == "ceil") return check_unary<TestType>(rint(MPFR_RNDU));
    if (op == "floor") return check_unary<TestType>(rint(MPFR_RNDD));
    if (op == "round_even") return check_unary<TestType>(rint(MPFR_RNDN));
    if constexpr (std::is_same_v<TestType, LogicalNot>) {
      CHECK(LogicalNot::apply(false));
      CHECK_FALSE(LogicalNot::apply(true));
      return;
    }
  }
  if constexpr (requires { TestType::apply(1.f, 1.f); }) {
    if (const auto it = kBinary.find(op); it != kBinary.end()) {
      return check_binary<TestType, float>(
          [&](float a, float b) { return oracle(it->second, a, b); });
    }
    const auto nan = std::numeric_limits<float>::quiet_NaN();
    if (op == "max" || op == "min") {
      const bool larger = op == "max";
      return check_binary<TestType, float>([=](float a, float b) {
        if (std::isnan(a) || std::isnan(b)) return nan;
        return larger == (a >= b) || a == b ? a : b;
      });
    }
    const std::map<std::string, std::function<bool(float, float)>> compare{
        {"less", std::less<>()},       {"less_equal", std::less_equal<>()},
        {"greater", std::greater<>()}, {"greater_equal", std::greater_equal<>()},
        {"equal", std::equal_to<>()},  {"not_equal", std::not_equal_to<>()}};
    if constexpr (std::is_same_v<decltype(TestType::apply(1.f, 1.f)), bool>) {
      if (const auto it = compare.find(op); it != compare.end())
        return check_binary<TestType, bool>(it->second);
      for (const bool a : {false, true}) {
        for (const bool b : {false, true})
          CHECK(TestType::apply(a, b) == (op == "and" ? (a && b) : (a || b)));
      }
      return;
    }
  }
  // The others have tests of their own: tile_test.cpp, dtype_tables_test.cpp, tests/language.
  CHECK(std::set<std::string>{
      "bit_and",    "bit_or",      "bit_xor",    "bitcast",     "cast",        "col_ids",
      "col_max",    "col_min",     "col_sum",    "concat_cols", "concat_rows", "dot",
      "fma",        "full",        "mul_hi",     "rem",         "repeat_cols", "repeat_rows",
      "roll_cols",  "roll_rows",   "row_ids",    "row_max",     "row_min",     "row_sum",
      "shift_left", "shift_right", "split_cols", "split_rows",  "where",       "where_at"}
            .contains(op));
}

TEST_CASE("op names are unique and in alphabetical order", "[sim][ops]") {
  std::vector<std::string> names;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (names.emplace_back(std::tuple_element_t<I, ops::All>::info.name), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<ops::All>>{});
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}
