// The expression that xtensor 0.24.3 gets wrong under g++ 12 in C++20 mode; this folder is built as
// C++17, as reference/ is.
#include <catch2/catch.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>

#include "reference/matmul.hpp"
#include "reference/rows.hpp"

TEST_CASE("lazy reducers are evaluated as written", "[reference][xtensor]") {
  const xt::xarray<float> a{{1.f, 2.f}, {3.f, 4.f}};
  const auto sums = xt::eval(xt::sum(a * 2.f, {1}));
  REQUIRE(sums.size() == 2);
  CHECK(sums(0) == 6.f);
  CHECK(sums(1) == 14.f);
}

TEST_CASE("oracles give what a hand computes", "[reference]") {
  using tessera::reference::Tensor;
  const Tensor x{{2, 2}, {1, 2, 3, 4}};
  const Tensor y{{2, 2}, {5, 6, 7, -8}};
  CHECK(tessera::reference::matmul(x, y).value.values == std::vector<double>{19, -10, 43, -14});
  CHECK(tessera::reference::matmul_relu(x, y).value.values == std::vector<double>{19, 0, 43, 0});
  CHECK(tessera::reference::grad_x(x, y, y).value.values == std::vector<double>{17, -9, 15, 21});
  CHECK(tessera::reference::grad_w(x, x, y).value.values == std::vector<double>{10, 2, 14, 4});
  const auto s = tessera::reference::softmax({{1, 2}, {0, std::log(3.)}});
  CHECK(s.value.values[0] == Approx(0.25));
  CHECK(s.value.values[1] == Approx(0.75));
}
