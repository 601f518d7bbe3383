// Tiles: broadcasting, the documented orders of dot and of reductions, values that stay what they
// were.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "sim/diagnostics/diagnostic.hpp"
#include "sim/ops/all.hpp"
#include "sim/tiles/tile.hpp"

using namespace tessera;

namespace {

template <class T>
Tile<T> make(int rows, int cols, const std::function<double(int, int)>& f) {
  FreshTile<T> t(rows, cols);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) t.data()[r * cols + c] = convert<T>(f(r, c));
  }
  return std::move(t).finish();
}
Tile<float> random_tile(int rows, int cols, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  return make<float>(rows, cols, [&](int, int) { return value(rng); });
}

}  // namespace

TEST_CASE("operands broadcast over rows, columns and scalars", "[sim][tile]") {
  const auto m = make<float>(3, 5, [](int r, int c) { return 10 * r + c; });
  const auto column = make<float>(3, 1, [](int r, int) { return 100 * r; });
  const auto row = make<float>(1, 5, [](int, int c) { return 1000 * c; });
  const Tile<float> sum = m + column + row + 0.5f;
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 5; ++c) CHECK(sum(r, c) == 10 * r + c + 100 * r + 1000 * c + 0.5f);
  }
  const Tile<float> outer = column * row;
  CHECK(outer.rows == 3);
  CHECK(outer.cols == 5);
  CHECK(outer(2, 4) == 200 * 4000);
  const Tile<bool> mask = column == 100.f;
  CHECK(where(mask, m, -1.f)(1, 3) == 13);
  CHECK(where(mask, m, -1.f)(0, 3) == -1);
  CHECK(where_at(
            m, [](int r, int c) { return r == c; }, 7.f)(2, 2) == 22);
  CHECK(where_at(
            m, [](int r, int c) { return r == c; }, 7.f)(2, 1) == 7);
  CHECK_THROWS_AS(m + make<float>(3, 4, [](int, int) { return 0; }), KernelError);
  CHECK_THROWS_AS(m + make<float>(2, 5, [](int, int) { return 0; }), KernelError);
}

TEST_CASE("bf16 arithmetic happens in f32 and rounds once", "[sim][tile]") {
  const auto a = make<bf16>(1, 64, [](int, int c) { return 1 + c / 128.; });
  const Tile<bf16> sum = a + 0.00390625f;
  for (int c = 0; c < 64; ++c) {
    CHECK(sum(0, c).bits ==
          bf16(static_cast<float>(a(0, c)) + static_cast<float>(bf16(0.00390625f))).bits);
  }
  CHECK(cast<float>(a)(0, 3) == static_cast<float>(a(0, 3)));
}

TEST_CASE("dot is one fma chain per element in increasing k", "[sim][dot]") {
  for (const auto [m, n, k] :
       {std::array{128, 128, 128}, std::array{1, 1, 1}, std::array{7, 33, 300},
        std::array{13, 17, 5}, std::array{6, 16, 257}, std::array{2, 100, 64}}) {
    const auto a = random_tile(m, k, 1);
    const auto b = random_tile(k, n, 2);
    const auto at = make<float>(k, m, [&](int r, int c) { return a(c, r); });
    const auto bt = make<float>(n, k, [&](int r, int c) { return b(c, r); });
    const Tile<float> results[] = {load(dot(a, b)), load(dot(transpose(at), b)),
                                   load(dot(a, transpose(bt))),
                                   load(dot(transpose(at), transpose(bt)))};
    const auto ah = cast<bf16>(a);
    const auto bh = cast<bf16>(b);
    const Tile<float> half = load(dot(ah, bh));
    std::int64_t wrong = 0;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        float chain = 0;
        float half_chain = 0;
        for (int p = 0; p < k; ++p) {
          chain = std::fma(a(i, p), b(p, j), chain);
          half_chain =
              std::fma(static_cast<float>(ah(i, p)), static_cast<float>(bh(p, j)), half_chain);
        }
        for (const auto& r : results) wrong += r(i, j) == chain ? 0 : 1;
        wrong += half(i, j) == half_chain ? 0 : 1;
      }
    }
    CAPTURE(m, n, k);
    CHECK(wrong == 0);
  }
}

TEST_CASE("8-bit integers accumulate in i32 and f64 in f64", "[sim][dot]") {
  const auto a = make<std::int8_t>(3, 40, [](int r, int c) { return r * c % 128 - 64; });
  const auto b = make<std::int8_t>(40, 5, [](int r, int c) { return (r + 3 * c) % 100; });
  const Tile<std::int32_t> o = load(dot(a, b));
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 5; ++j) {
      std::int32_t sum = 0;
      for (int k = 0; k < 40; ++k) sum += a(i, k) * b(k, j);
      CHECK(o(i, j) == sum);
    }
  }
  const auto d = make<double>(2, 2, [](int r, int c) { return r + c / 3.; });
  CHECK(load(dot(d, d))(0, 1) == std::fma(d(0, 1), d(1, 1), d(0, 0) * d(0, 1)));
}

/// In 32 lanes that are then halved; of more than 512 terms, of what each 512 gave.
float sum_in_lanes(const std::vector<float>& x) {
  std::vector<float> lane(32);
  if (x.size() > 512) {
    std::vector<float> sums;
    for (std::size_t begin = 0; begin < x.size(); begin += 512)
      sums.push_back(
          sum_in_lanes({x.begin() + static_cast<std::ptrdiff_t>(begin),
                        x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), begin + 512))}));
    return sum_in_lanes(sums);
  }
  for (std::size_t c = 0; c < x.size(); ++c) lane[c % 32] += x[c];
  for (const std::size_t s : {16, 8, 4, 2, 1}) {
    for (std::size_t l = 0; l < s; ++l) lane[l] += lane[l + s];
  }
  return lane[0];
}

TEST_CASE("row reductions take 32 lanes, then halve them; long rows do so again", "[sim][reduce]") {
  for (const int cols : {1, 5, 31, 32, 33, 100, 512, 513, 1000, 2000, 300000}) {
    const auto x = random_tile(2, cols, static_cast<unsigned>(cols));
    const Tile<float> sums = row_sum(x);
    const Tile<float> tops = row_max(x);
    const Tile<float> lows = row_min(x);
    for (int r = 0; r < 2; ++r) {
      std::vector<float> row;
      for (int c = 0; c < cols; ++c) row.push_back(x(r, c));
      CHECK(sums(r, 0) == sum_in_lanes(row));
      CHECK(tops(r, 0) == *std::max_element(row.begin(), row.end()));
      CHECK(lows(r, 0) == *std::min_element(row.begin(), row.end()));
    }
  }
  for (const int rows : {30, 700}) {
    const auto x = random_tile(rows, 70, static_cast<unsigned>(rows));
    const Tile<float> sums = col_sum(x);
    for (int c = 0; c < 70; ++c) {
      std::vector<float> column;
      for (int r = 0; r < rows; ++r) column.push_back(x(r, c));
      CHECK(sums(0, c) == sum_in_lanes(column));
    }
  }
  const auto with_nan = make<float>(1, 70, [](int, int c) { return c == 40 ? NAN : c; });
  CHECK(std::isnan(row_max(with_nan)(0, 0)));
  CHECK(std::isnan(row_sum(with_nan)(0, 0)));
}

TEST_CASE("fma rounds once", "[sim][ops]") {
  const auto a = random_tile(1, 1000, 5);
  const auto b = random_tile(1, 1000, 6);
  const Tile<float> r = fma(a, b, 0.25f);
  for (int c = 0; c < 1000; ++c) CHECK(r(0, c) == std::fma(a(0, c), b(0, c), 0.25f));
}
