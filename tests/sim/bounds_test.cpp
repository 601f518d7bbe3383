// Error bounds: what another build computes from perturbed operands, in another order, with other
// roundings, lies within them; and they are not so wide that anything does.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "sim/diagnostics/diagnostic.hpp"
#include "sim/ops/all.hpp"
#include "sim/tiles/tile.hpp"

using namespace tessera;

namespace {

struct WithModel {
  explicit WithModel(const ErrorModel& m) : model(m) { op_state.error_model = &model; }
  WithModel(const WithModel&) = delete;
  WithModel& operator=(const WithModel&) = delete;
  ~WithModel() { op_state.error_model = nullptr; }
  ErrorModel model;
};

StorageHandle storage_of(const std::vector<float>& bounds) {
  StorageHandle h(Storage::allocate(sizeof(float) * bounds.size()));
  std::copy(bounds.begin(), bounds.end(), reinterpret_cast<float*>(h.bytes()));
  return h;
}

template <class T>
Tile<T> tile_of(int rows, int cols, const std::vector<double>& values,
                const std::vector<float>& bounds = {}) {
  FreshTile<T> t(rows, cols);
  for (std::size_t i = 0; i < values.size(); ++i) t.data()[i] = convert<T>(values[i]);
  return std::move(t).finish(bounds.empty() ? StorageHandle() : storage_of(bounds));
}

double bound_at(const Tile<float>& t, int i) {
  return t.bounds() == nullptr ? 0. : static_cast<double>(t.bounds()[i]);
}

using Exact = std::function<double(double, double)>;
struct Case {
  const char* op;
  double low;
  double high;
  std::function<Tile<float>(const Tile<float>&, const Tile<float>&)> ours;
  Exact exact;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"add", -4, 4, [](auto& a, auto& b) { return a + b; },
       [](double a, double b) { return a + b; }},
      {"sub", -4, 4, [](auto& a, auto& b) { return a - b; },
       [](double a, double b) { return a - b; }},
      {"mul", -4, 4, [](auto& a, auto& b) { return a * b; },
       [](double a, double b) { return a * b; }},
      {"div", -4, 4, [](auto& a, auto& b) { return a / b; },
       [](double a, double b) { return a / b; }},
      {"max", -4, 4, [](auto& a, auto& b) { return max(a, b); },
       [](double a, double b) { return std::max(a, b); }},
      {"min", -4, 4, [](auto& a, auto& b) { return min(a, b); },
       [](double a, double b) { return std::min(a, b); }},
      {"abs", -4, 4, [](auto& a, auto&) { return abs(a); },
       [](double a, double) { return std::abs(a); }},
      {"negate", -4, 4, [](auto& a, auto&) { return -a; }, [](double a, double) { return -a; }},
      {"floor", -4, 4, [](auto& a, auto&) { return floor(a); },
       [](double a, double) { return std::floor(a); }},
      {"ceil", -4, 4, [](auto& a, auto&) { return ceil(a); },
       [](double a, double) { return std::ceil(a); }},
      {"round_even", -4, 4, [](auto& a, auto&) { return round_even(a); },
       [](double a, double) { return std::nearbyint(a); }},
      {"where", -4, 4, [](auto& a, auto& b) { return where(a < b, a * 2.f, b); },
       [](double a, double b) { return a < b ? a * 2 : b; }},
      {"and", -4, 4, [](auto& a, auto& b) { return where(a < 0.f && b < 0.f, a, b); },
       [](double a, double b) { return a < 0 && b < 0 ? a : b; }},
      {"or", -4, 4, [](auto& a, auto& b) { return where(a < 0.f || !(b < 0.f), a, b); },
       [](double a, double b) { return a < 0 || !(b < 0) ? a : b; }},
      {"fma", -4, 4, [](auto& a, auto& b) { return fma(a, b, a); },
       [](double a, double b) { return a * b + a; }},
      {"sqrt", 0, 4, [](auto& a, auto&) { return sqrt(a); },
       [](double a, double) { return std::sqrt(a); }},
      {"rsqrt", 0, 4, [](auto& a, auto&) { return rsqrt(a); },
       [](double a, double) { return 1 / std::sqrt(a); }},
      {"exp", -90, 40, [](auto& a, auto&) { return exp(a); },
       [](double a, double) { return std::exp(a); }},
      {"exp2", -130, 60, [](auto& a, auto&) { return exp2(a); },
       [](double a, double) { return std::exp2(a); }},
      {"expm1", -4, 4, [](auto& a, auto&) { return expm1(a); },
       [](double a, double) { return std::expm1(a); }},
      {"log", 0, 4, [](auto& a, auto&) { return log(a); },
       [](double a, double) { return std::log(a); }},
      {"log2", 0, 4, [](auto& a, auto&) { return log2(a); },
       [](double a, double) { return std::log2(a); }},
      {"log1p", -1, 4, [](auto& a, auto&) { return log1p(a); },
       [](double a, double) { return std::log1p(a); }},
      {"tanh", -6, 6, [](auto& a, auto&) { return tanh(a); },
       [](double a, double) { return std::tanh(a); }},
      {"logistic", -20, 20, [](auto& a, auto&) { return logistic(a); },
       [](double a, double) { return 1 / (1 + std::exp(-a)); }},
      {"sin", -9, 9, [](auto& a, auto&) { return sin(a); },
       [](double a, double) { return std::sin(a); }},
      {"cos", -9, 9, [](auto& a, auto&) { return cos(a); },
       [](double a, double) { return std::cos(a); }},
      {"erf", -3, 3, [](auto& a, auto&) { return erf(a); },
       [](double a, double) { return std::erf(a); }},
      {"pow", 0, 4, [](auto& a, auto& b) { return pow(a, b); },
       [](double a, double b) { return std::pow(a, b); }},
  };
  return all;
}

/// An f32 within e of a, x of the way to its end.
double within(double a, double e, double x) {
  const double v = static_cast<float>(a + x * e);
  return std::abs(v - a) <= e ? v : a;
}

/// v moved by `ulps` units in the last place of f32.
double off_by(double v, double ulps) {
  return v + ulps * std::abs(static_cast<double>(std::nextafterf(static_cast<float>(v), INFINITY)) -
                             static_cast<double>(static_cast<float>(v)));
}

}  // namespace

TEST_CASE("an op of perturbed operands stays within its bound", "[sim][bounds]") {
  const WithModel with{ErrorModel{}};
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> unit(0, 1);
  constexpr int kElems = 3000;
  for (const Case& c : cases()) {
    INFO(c.op);
    std::vector<double> a;
    std::vector<double> b;
    std::vector<float> ea;
    std::vector<float> eb;
    for (int i = 0; i < kElems; ++i) {
      a.push_back(static_cast<float>(c.low + (c.high - c.low) * unit(rng)));
      b.push_back(static_cast<float>(c.low + (c.high - c.low) * unit(rng)));
      ea.push_back(i % 5 == 0 ? 0.f : static_cast<float>(std::exp2(-30 * unit(rng))));
      eb.push_back(i % 3 == 0 ? 0.f : static_cast<float>(std::exp2(-30 * unit(rng))));
    }
    const Tile<float> z =
        c.ours(tile_of<float>(10, kElems / 10, a, ea), tile_of<float>(10, kElems / 10, b, eb));
    double closest = 0;
    for (int i = 0; i < kElems; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double ours = z(i / 300, i % 300);
      const double bound = bound_at(z, i);
      REQUIRE(bound >= 0);
      const double ulp = with.model.ulp_of(c.op);
      for (int side = 0; side < 6; ++side) {
        const double x = side < 4 ? (side % 2 == 0 ? -1 : 1) : 2 * unit(rng) - 1;
        const double y = side < 4 ? (side / 2 == 0 ? -1 : 1) : 2 * unit(rng) - 1;
        double theirs = c.exact(within(a[at], ea[at], x), within(b[at], eb[at], y));
        theirs =
            ulp > 0.5 ? off_by(theirs, ulp * x) : static_cast<double>(static_cast<float>(theirs));
        if (!(std::abs(theirs - ours) <= bound)) {
          CAPTURE(i, a[at], ea[at], b[at], eb[at], ours, theirs, bound);
          REQUIRE(std::isinf(bound));
        }
        if (bound > 0 && std::isfinite(bound))
          closest = std::max(closest, std::abs(theirs - ours) / bound);
      }
    }
    CHECK(closest > 0.5);  // a bound that nothing comes near is no bound
  }
}

TEST_CASE("far out, where a function is flat, its bound is nothing", "[sim][bounds]") {
  const WithModel with{ErrorModel{}};
  const auto far = tile_of<float>(1, 2, {80, -80}, {30, 30});
  CHECK(bound_at(tanh(far), 0) < 1e-6);
  CHECK(bound_at(tanh(far), 1) < 1e-6);
  CHECK(bound_at(logistic(far), 0) < 1e-4);
  CHECK(bound_at(logistic(far), 1) < 1e-4);
  CHECK(bound_at(erf(far), 0) < 1e-6);
  const auto wide = tile_of<float>(1, 1, {0.5}, {100});
  CHECK(bound_at(tanh(wide), 0) < 1.5);
  CHECK(bound_at(logistic(wide), 0) < 1.1);
  CHECK(bound_at(erf(wide), 0) < 1.6);
}

TEST_CASE("an op of exact operands has no bound unless the other side may round otherwise",
          "[sim][bounds]") {
  const auto a = tile_of<float>(1, 3, {0.1, 0.2, 3});
  const auto b = tile_of<float>(1, 3, {0.7, 0.9, 0.5});
  {
    const WithModel with{ErrorModel::order_alone()};
    for (const Case& c : cases()) {
      INFO(c.op);
      CHECK(c.ours(a, b).bounds() == nullptr);
    }
  }
  const WithModel with{ErrorModel{}};
  CHECK((a + b).bounds() == nullptr);
  CHECK((a / b).bounds() == nullptr);
  const Tile<float> product = a * b;
  CHECK(bound_at(product, 0) > 0);   // may be fused into an addition
  CHECK(bound_at(product, 2) == 0);  // 3 * 0.5 is exact either way
  CHECK(bound_at(exp(a), 0) > 0);
}

TEST_CASE("a NaN or an infinity of an operand is certain, one that may arise is not",
          "[sim][bounds]") {
  const WithModel with{ErrorModel{}};
  const double inf = INFINITY;
  const auto a = tile_of<float>(1, 4, {inf, NAN, 1, -1}, {0, 0, 2, 2});
  const Tile<float> sum = a + tile_of<float>(1, 4, {1, 1, 1, 1}, {1, 1, 1, 1});
  CHECK(bound_at(sum, 0) == 0);
  CHECK(bound_at(sum, 1) == 0);
  const Tile<float> root = sqrt(a);
  CHECK(std::isinf(bound_at(root, 2)));
  CHECK(std::isinf(bound_at(root, 3)));
  CHECK(std::isinf(bound_at(tile_of<float>(1, 4, {1, 1, 1, 1}) / a, 2)));
  CHECK(bound_at(exp(tile_of<float>(1, 1, {-inf})), 0) == 0);
}

TEST_CASE("bounds around a GPU's own functions reach the exact ones", "[sim][bounds][mufu]") {
  std::mt19937 rng(11);
  std::uniform_real_distribution<double> values(0.1, 20);
  std::vector<double> x(512);
  for (double& v : x) v = values(rng);
  const Tile<float> a = tile_of<float>(4, 128, x);
  const std::vector<std::function<Tile<float>(const Tile<float>&)>> functions = {
      [](auto& v) { return exp(v); }, [](auto& v) { return exp2(v); },
      [](auto& v) { return erf(v); }, [](auto& v) { return tanh(v); },
      [](auto& v) { return rsqrt(v); }};
  for (std::size_t f = 0; f < functions.size(); ++f) {
    CAPTURE(f);
    const Tile<float> exact = functions[f](a);
    const WithModel with(ErrorModel::order_alone());
    op_state.profile = Profile::gpu_hopper;
    const Tile<float> gpu = functions[f](a);
    op_state.profile = Profile::exact;
    int differ = 0;
    for (int i = 0; i < 512; ++i) {
      const double apart = std::fabs(static_cast<double>(gpu.data()[i]) - exact.data()[i]);
      differ += apart > 0 ? 1 : 0;
      CHECK(apart <= bound_at(gpu, i));
      CHECK(bound_at(gpu, i) <= apart * (1 + 1e-6));
    }
    CHECK(differ > 0);
  }
}

TEST_CASE("a cast's bound is where its interval may round to", "[sim][bounds]") {
  const WithModel with{ErrorModel{}};
  const auto near = tile_of<float>(1, 3, {1.0, 1 + 0x1p-8 - 0x1p-20, 1 + 0x1p-8 + 0x1p-20},
                                   {0x1p-18f, 0x1p-18f, 0x1p-22f});
  const Tile<bf16> z = cast<bf16>(near);
  CHECK(z.bounds()[0] == 0);  // far from a tie
  CHECK(static_cast<double>(z.bounds()[1]) == Approx(0x1p-7));
  CHECK(z.bounds()[2] == 0);
}

namespace {

/// The sum of terms in a random order and tree, each addition rounded to f32.
float random_sum(std::vector<float> terms, std::mt19937_64& rng) {
  const bool tree = rng() % 2 == 0;
  std::shuffle(terms.begin(), terms.end(), rng);
  while (terms.size() > 1) {
    const std::size_t n = terms.size();
    if (!tree) {
      terms[n - 2] = terms[n - 1] + terms[n - 2];
      terms.pop_back();
      continue;
    }
    const std::size_t i = rng() % (n - 1);
    terms[i] = terms[i] + terms[n - 1];
    terms.pop_back();
  }
  return terms.empty() ? 0.f : terms[0];
}

}  // namespace

TEST_CASE("10^5 random orders of dots and of row sums stay within the bound", "[sim][bounds]") {
  const WithModel with{ErrorModel{}};
  std::mt19937_64 rng(11);
  std::normal_distribution<float> normal;
  double closest = 0;
  int orders = 0;
  for (int round = 0; round < 100; ++round) {
    const int k = 1 + static_cast<int>(rng() % 150);
    constexpr int kRows = 4;
    constexpr int kCols = 5;
    const int kind = round % 4;
    const auto value = [&] {
      const float v = normal(rng);
      switch (kind) {
        case 0:
          return v;
        case 1:
          return std::abs(v);
        case 2:
          return std::round(4 * v);
        default:
          return std::ldexp(v, static_cast<int>(rng() % 40) - 20);
      }
    };
    std::vector<double> a;
    std::vector<double> b;
    for (int i = 0; i < kRows * k; ++i) a.push_back(value());
    for (int i = 0; i < k * kCols; ++i) b.push_back(value());
    const auto x = tile_of<float>(kRows, k, a);
    const auto y = tile_of<float>(k, kCols, b);
    const Tile<float> product = load(dot(x, y));
    const Tile<float> total = row_sum(x);
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c <= kCols; ++c) {
        const bool is_dot = c < kCols;
        std::vector<float> terms;
        for (int p = 0; p < k; ++p) terms.push_back(is_dot ? x(r, p) * y(p, c) : x(r, p));
        const float ours = is_dot ? product(r, c) : total(r, 0);
        const double bound = is_dot ? bound_at(product, r * kCols + c) : bound_at(total, r);
        for (int order = 0; order < 42; ++order, ++orders) {
          const double off = std::abs(static_cast<double>(random_sum(terms, rng)) - ours);
          REQUIRE(off <= bound);
          if (bound > 0) closest = std::max(closest, off / bound);
        }
        if (kind == 2) REQUIRE(bound == 0);  // integers: no order rounds
      }
    }
  }
  CHECK(orders >= 100000);
  CHECK(closest > 0.1);
}

TEST_CASE("bounds of dots take in those of their operands", "[sim][bounds]") {
  const WithModel with{ErrorModel{}};
  std::mt19937_64 rng(5);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> unit(-1, 1);
  constexpr int kDepth = 70;
  std::vector<double> a;
  std::vector<double> b;
  std::vector<float> ea;
  std::vector<float> eb;
  for (int i = 0; i < 3 * kDepth; ++i) {
    a.push_back(normal(rng));
    b.push_back(normal(rng));
    ea.push_back(std::abs(normal(rng)) * 1e-3f);
    eb.push_back(i % 2 == 0 ? 0.f : std::abs(normal(rng)) * 1e-4f);
  }
  const auto x = tile_of<float>(3, kDepth, a, ea);
  const auto yt = tile_of<float>(3, kDepth, b, eb);
  const Tile<float> product = load(dot(x, transpose(yt)));
  for (int round = 0; round < 1000; ++round) {
    // Signs that make all errors add up, or any.
    for (int r = 0; r < 3; ++r) {
      for (int c = 0; c < 3; ++c) {
        double theirs = 0;
        for (int p = 0; p < kDepth; ++p) {
          const double sa = round == 0 ? (yt(c, p) > 0 ? 1 : -1) : static_cast<double>(unit(rng));
          const double sb = round == 0 ? (x(r, p) > 0 ? 1 : -1) : static_cast<double>(unit(rng));
          theirs += (x(r, p) + sa * ea[static_cast<std::size_t>(r * kDepth + p)]) *
                    (yt(c, p) + sb * eb[static_cast<std::size_t>(c * kDepth + p)]);
        }
        const double off = std::abs(theirs - static_cast<double>(product(r, c)));
        const double bound = bound_at(product, r * 3 + c);
        REQUIRE(off <= bound);
        if (round == 0) CHECK(off > 0.9 * bound);
      }
    }
  }
}

TEST_CASE("bounds move with the elements, and bits of what may differ have none", "[sim][bounds]") {
  const WithModel with{ErrorModel{}};
  const Tile<float> a = tile_of<float>(2, 2, {1, 2, 3, 4}, {0.f, 0.25f, 0.5f, 0.f});
  const Tile<float> b = tile_of<float>(2, 2, {5, 6, 7, 8});
  const auto bounds_of = [](const Tile<float>& t) {
    std::vector<float> all;
    for (int i = 0; i < t.rows * t.cols; ++i) all.push_back(static_cast<float>(bound_at(t, i)));
    return all;
  };
  using Bounds = std::vector<float>;
  CHECK(bounds_of(concat_cols(a, b)) == Bounds{0, 0.25f, 0, 0, 0.5f, 0, 0, 0});
  CHECK(bounds_of(concat_rows(b, a)) == Bounds{0, 0, 0, 0, 0, 0.25f, 0.5f, 0});
  CHECK(bounds_of(roll_cols(a, 1)) == Bounds{0.25f, 0, 0, 0.5f});
  CHECK(bounds_of(roll_rows(a, -1)) == Bounds{0.5f, 0, 0, 0.25f});
  CHECK(bounds_of(split_cols<2>(a).second) == Bounds{0.25f, 0});
  CHECK(bounds_of(split_rows<2>(a).first) == Bounds{0, 0.25f});
  CHECK(bounds_of(repeat_rows<2>(a)) == Bounds{0, 0.25f, 0, 0.25f, 0.5f, 0, 0.5f, 0});
  CHECK(bounds_of(repeat_cols<2>(a)) == Bounds{0, 0, 0.25f, 0.25f, 0.5f, 0.5f, 0, 0});
  const auto bits = bitcast<std::int32_t>(a);
  REQUIRE(bits.bounds() != nullptr);
  CHECK(bits.bounds()[0] == 0);
  CHECK(std::isinf(bits.bounds()[1]));
  const auto masked = bits & 1;
  CHECK(masked.bounds()[3] == 0);
  CHECK(std::isinf(masked.bounds()[2]));
  // In any order, and of what the terms may be off by.
  const Tile<float> sums = col_sum(a);
  CHECK(bound_at(sums, 0) >= 0.5);
  CHECK(bound_at(sums, 1) >= 0.25);
  CHECK(bound_at(sums, 1) < 0.26);
  const Tile<float> most = col_max(a);
  CHECK(bound_at(most, 0) >= 0.5);
  CHECK(bound_at(most, 0) < 0.51);
}

TEST_CASE("every op has a rule, and one without is refused", "[sim][bounds]") {
  std::apply(
      [](auto... op) {
        const auto check = [](const OpInfo& info) {
          const std::string name = info.name;
          // Their bounds have functions of their own, are moved along, or are none.
          for (const char* other :
               {"bitcast",   "cast",      "col_max",    "col_min",    "col_sum",     "dot",
                "row_max",   "row_min",   "row_sum",    "where_at",   "concat_cols", "concat_rows",
                "roll_cols", "roll_rows", "split_cols", "split_rows", "repeat_cols", "repeat_rows",
                "col_ids",   "full",      "row_ids"}) {
            if (name == other) return;
          }
          CHECK_NOTHROW(bounds::rule_of(info.name));
        };
        (check(decltype(op)::info), ...);
      },
      ops::All{});
  CHECK_THROWS_AS(bounds::rule_of("atan2"), KernelError);
}
