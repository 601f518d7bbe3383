// Reductions of rows, and products with a transposed right operand, whose fast paths take several
// rows at a time: their bits against the definitions written down again.
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "sim/numerics/dot.hpp"
#include "sim/numerics/reduce_row.hpp"

using namespace tessera;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> drawn(std::size_t n, std::mt19937& random) {
  std::vector<float> v(n);
  for (float& x : v) {
    switch (random() % 12) {
      case 0:
        x = 0.f;
        break;
      case 1:
        x = -0.f;
        break;
      case 2:
        x = random() % 60 == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.f;
        break;
      case 3:
        x = random() % 30 == 0 ? kInfinity : -kInfinity;
        break;
      default:
        x = std::uniform_real_distribution<float>(-2, 2)(random);
    }
  }
  return v;
}

/// sim/ops/reduce.hpp's order.
template <class F>
float defined(const float* row, int columns, float identity, F combine) {
  std::array<float, 32> lanes;
  lanes.fill(identity);
  for (int c = 0; c < columns; ++c) {
    float& lane = lanes[static_cast<std::size_t>(c % 32)];
    lane = combine(lane, row[c]);
  }
  for (std::size_t s = 16; s > 0; s /= 2) {
    for (std::size_t l = 0; l < s; ++l) lanes[l] = combine(lanes[l], lanes[l + s]);
  }
  return lanes[0];
}

bool same_number(float x, float y) {
  return std::isnan(x) ? std::isnan(y)
                       : std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
}

template <class Reduction, class F>
void check(float identity, F combine) {
  std::mt19937 random(7);
  for (const int columns : {1, 31, 32, 33, 64, 96, 128, 200, 512}) {
    for (const int rows : {1, 3, 4, 5, 23}) {
      const int stride = columns + 3;
      const std::vector<float> x = drawn(static_cast<std::size_t>(rows * stride), random);
      std::vector<float> got(static_cast<std::size_t>(rows));
      reduce_rows<Reduction>(got.data(), x.data(), rows, columns, stride);
      for (int r = 0; r < rows; ++r) {
        const float wanted = defined(x.data() + r * stride, columns, identity, combine);
        INFO("row " << r << " of " << rows << ", " << columns
                    << " columns: " << got[static_cast<std::size_t>(r)] << " for " << wanted);
        REQUIRE(same_number(got[static_cast<std::size_t>(r)], wanted));
      }
    }
  }
}

}  // namespace

TEST_CASE("rows that are reduced together have the bits of rows that are reduced alone") {
  check<RowSum>(0.f, [](float a, float b) { return a + b; });
  check<RowMax>(-kInfinity, [](float a, float b) { return std::isnan(a) ? a : a >= b ? a : b; });
  check<RowMin>(kInfinity, [](float a, float b) { return std::isnan(a) ? a : a <= b ? a : b; });
}

TEST_CASE("a right operand that is transposed gives the bits of one that is not") {
  std::mt19937 random(8);
  for (const auto& [m, n, k] : std::vector<std::array<int, 3>>{
           {1, 1, 1}, {8, 16, 4}, {20, 33, 7}, {13, 64, 130}, {128, 128, 128}, {9, 259, 261}}) {
    std::uniform_real_distribution<float> values(-1, 1);
    std::vector<float> a(static_cast<std::size_t>(m * k));
    std::vector<float> b(static_cast<std::size_t>(k * n));
    for (float& x : a) x = values(random);
    for (float& x : b) x = values(random);
    std::vector<float> got(static_cast<std::size_t>(m * n));
    dot_accumulate(got.data(), n, Operand2d<float>{a.data(), k, 1},
                   Operand2d<float>{b.data(), 1, k}, m, n, k);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int p = 0; p < k; ++p)
          sum = std::fma(a[static_cast<std::size_t>(i * k + p)],
                         b[static_cast<std::size_t>(j * k + p)], sum);
        REQUIRE(same_number(got[static_cast<std::size_t>(i * n + j)], sum));
      }
    }
  }
}
