// Products of f32 on an MXU: their bits against a definition written down again, their error
// against f64, and their error bounds.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/matmul.hpp"
#include "sim/bounds/sum.hpp"
#include "sim/numerics/dot.hpp"
#include "sim/numerics/op_state.hpp"
#include "sim/run.hpp"

using namespace tessera;

namespace {

class WithProfile {
 public:
  explicit WithProfile(Profile p) { op_state.profile = p; }
  ~WithProfile() { op_state.profile = Profile::exact; }
  WithProfile(const WithProfile&) = delete;
  WithProfile& operator=(const WithProfile&) = delete;
};

/// To 8 bits, ties to even, by arithmetic: Dekker's splitting.
float to_bf16(float x) {
  const float c = x * 65537.f;
  return c - (c - x);
}

std::vector<float> parts(float x) {
  const float first = to_bf16(x);
  const float second = to_bf16(x - first);
  return {first, second, to_bf16(x - first - second)};
}

/// The element of a product whose operands' row and column these are.
float defined(Profile profile, const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t p = 0; p < a.size(); ++p) {
    const auto x = parts(a[p]);
    const auto y = parts(b[p]);
    std::vector<std::pair<int, int>> terms{{0, 0}};
    if (profile == Profile::mxu_x3) terms = {{1, 0}, {0, 1}, {0, 0}};
    if (profile == Profile::mxu_x6) terms = {{1, 1}, {0, 2}, {2, 0}, {1, 0}, {0, 1}, {0, 0}};
    for (const auto& [i, j] : terms)
      sum = std::fma(x[static_cast<std::size_t>(i)], y[static_cast<std::size_t>(j)], sum);
  }
  return sum;
}

struct Problem {
  int m = 13;
  int n = 37;
  int k = 65;
  std::vector<float> a;
  std::vector<float> b;

  explicit Problem(unsigned seed) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    for (int i = 0; i < m * k; ++i)
      a.push_back(std::ldexp(normal(rng), static_cast<int>(rng() % 8)));
    for (int i = 0; i < k * n; ++i) b.push_back(normal(rng));
  }
  std::vector<float> row(int i) const { return {a.begin() + i * k, a.begin() + (i + 1) * k}; }
  std::vector<float> column(int j) const {
    std::vector<float> c;
    for (int p = 0; p < k; ++p) c.push_back(b[static_cast<std::size_t>(p * n + j)]);
    return c;
  }
  std::vector<float> product(Profile profile) const {
    const WithProfile with(profile);
    std::vector<float> c(static_cast<std::size_t>(m * n), 0.f);
    dot_accumulate(c.data(), n, Operand2d<float>{a.data(), k, 1}, Operand2d<float>{b.data(), n, 1},
                   m, n, k);
    return c;
  }
};

constexpr Profile kMxu[] = {Profile::mxu, Profile::mxu_x3, Profile::mxu_x6};

}  // namespace

TEST_CASE("an MXU's products of f32 are sums of products of their parts", "[sim][mxu]") {
  const Problem problem(1);
  for (const Profile profile : kMxu) {
    CAPTURE(name(profile));
    const auto c = problem.product(profile);
    int wrong = 0;
    for (int i = 0; i < problem.m; ++i) {
      for (int j = 0; j < problem.n; ++j) {
        const float wanted = defined(profile, problem.row(i), problem.column(j));
        wrong += std::bit_cast<std::uint32_t>(c[static_cast<std::size_t>(i * problem.n + j)]) !=
                 std::bit_cast<std::uint32_t>(wanted);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("more passes are nearer to the product", "[sim][mxu]") {
  const Problem problem(2);
  const auto error = [&](Profile profile) {
    const auto c = problem.product(profile);
    double worst = 0;
    for (int i = 0; i < problem.m; ++i) {
      for (int j = 0; j < problem.n; ++j) {
        const auto a = problem.row(i);
        const auto b = problem.column(j);
        double exact = 0;
        double magnitude = 0;
        for (std::size_t p = 0; p < a.size(); ++p) {
          exact += static_cast<double>(a[p]) * static_cast<double>(b[p]);
          magnitude += std::abs(static_cast<double>(a[p]) * static_cast<double>(b[p]));
        }
        worst = std::max(
            worst,
            std::abs(static_cast<double>(c[static_cast<std::size_t>(i * problem.n + j)]) - exact) /
                magnitude);
      }
    }
    return worst;
  };
  CHECK(error(Profile::mxu) < 0x1p-8 + 0x1p-8);
  CHECK(error(Profile::mxu) > 0x1p-14);
  CHECK(error(Profile::mxu_x3) < 0x1p-14);
  CHECK(error(Profile::mxu_x3) > 0x1p-22);
  CHECK(error(Profile::mxu_x6) < 0x1p-21);
}

TEST_CASE("infinities and NaNs are what one product makes of them", "[sim][mxu]") {
  const float inf = INFINITY;
  for (const Profile profile : kMxu) {
    const WithProfile with(profile);
    const auto product = [](float a, float b) {
      float c = 0;
      dot_accumulate(&c, 1, Operand2d<float>{&a, 1, 1}, Operand2d<float>{&b, 1, 1}, 1, 1, 1);
      return c;
    };
    CAPTURE(name(profile));
    CHECK(product(inf, 1.5f) == inf);
    CHECK(product(-inf, 1.f) == -inf);
    CHECK(std::isnan(product(NAN, 1.f)));
    CHECK(product(0x1.fffffep127f, 1.f) == inf);  // rounds to no bf16
  }
}

TEST_CASE("bits of an MXU's products do not depend on the blocks of k", "[sim][mxu]") {
  constexpr int kN = 48;
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  Array x(DType::f32, {kN, kN});
  Array y(DType::f32, {kN, kN});
  for (std::int64_t i = 0; i < x.elems(); ++i) {
    x.set(i, static_cast<double>(normal(rng)));
    y.set(i, static_cast<double>(normal(rng)));
  }
  for (const Profile profile : kMxu) {
    std::vector<Array> outputs;
    for (const int bk : {8, 16, 48}) {
      RunResult result = run(kernels::Matmul<float>{.m = kN, .n = kN, .k = kN}, tiles(16, kN, bk),
                             arrays(x, y), {.device = load_device("h100"), .profile = profile});
      REQUIRE(result.ok());
      outputs.push_back(std::move(result.outputs[0]));
    }
    CHECK(outputs[0].to_doubles() == outputs[1].to_doubles());
    CHECK(outputs[0].to_doubles() == outputs[2].to_doubles());
  }
}

TEST_CASE("bounds of an MXU's products hold for perturbed and for unrounded operands",
          "[sim][mxu][bounds]") {
  std::mt19937 rng(4);
  std::uniform_real_distribution<float> unit(-1, 1);
  for (const Profile profile : kMxu) {
    for (const double operands : {0., 0x1p-24}) {
      for (const bool perturbed : {false, true}) {
        CAPTURE(name(profile), operands, perturbed);
        const Problem problem(5);
        std::vector<float> ea;
        std::vector<float> eb;
        for (std::size_t i = 0; i < problem.a.size(); ++i)
          ea.push_back(perturbed && i % 3 != 0 ? std::exp2(-12 + 8 * unit(rng)) : 0.f);
        for (std::size_t i = 0; i < problem.b.size(); ++i)
          eb.push_back(perturbed && i % 5 != 0 ? std::exp2(-12 + 8 * unit(rng)) : 0.f);
        const int m = problem.m;
        const int n = problem.n;
        const int k = problem.k;
        std::vector<float> c(static_cast<std::size_t>(m * n), 0.f);
        bounds::SumState state(m, n);
        ErrorModel model = ErrorModel::order_alone();
        model.operands = operands;
        StorageHandle bound;
        {
          const WithProfile with(profile);
          bounds::dot_accumulate(c.data(), n, Operand2d<float>{problem.a.data(), k, 1},
                                 Operand2d<float>{perturbed ? ea.data() : nullptr, k, 1},
                                 Operand2d<float>{problem.b.data(), n, 1},
                                 Operand2d<float>{perturbed ? eb.data() : nullptr, n, 1}, m, n, k,
                                 model, state.view());
          bound =
              bounds::write_bounds({c.data(), DType::f32, m, n, n, nullptr}, state.view(), model);
        }
        const auto* const allowed = reinterpret_cast<const float*>(bound.bytes());
        CHECK(c == problem.product(profile));  // keeping bounds changes nothing
        double closest = 0;
        for (int round = 0; round < 20; ++round) {
          Problem theirs = problem;
          for (std::size_t i = 0; i < ea.size(); ++i) theirs.a[i] += unit(rng) * 0.999f * ea[i];
          for (std::size_t i = 0; i < eb.size(); ++i) theirs.b[i] += unit(rng) * 0.999f * eb[i];
          const auto product = theirs.product(operands > 0 ? Profile::exact : profile);
          for (std::size_t i = 0; i < c.size(); ++i) {
            const double off =
                std::abs(static_cast<double>(product[i]) - static_cast<double>(c[i]));
            REQUIRE(off <= static_cast<double>(allowed[i]));
            if (allowed[i] > 0) closest = std::max(closest, off / static_cast<double>(allowed[i]));
          }
        }
        if (perturbed || (operands > 0 && profile == Profile::mxu)) CHECK(closest > 0.05);
      }
    }
  }
}
