// What a kernel's prepare() is given.
#include <catch2/catch.hpp>

#include <algorithm>

#include "cli/host.hpp"

using namespace tessera;

TEST_CASE("prefetched arrays are of any type of whole bytes", "[cli][host]") {
  cli::Host host("k", 0, {});
  const auto scales = host.scalars("scales", std::vector<float>{0.5f, -2.f});
  const auto codes = host.keep("codes", std::vector<std::uint8_t>{7, 200, 3});
  const auto halves = host.scalars("halves", std::vector<bf16>{bf16(1.5f)});
  CHECK(scales[1] == -2.f);
  CHECK(codes[1] == 200);
  CHECK(static_cast<float>(halves[0]) == 1.5f);
  const auto asked = host.asked();  // what another build is given
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].dtype == DType::f32);
  CHECK(asked[1].bytes == 2);
}

TEST_CASE("an input of a spread lies in it", "[cli][host]") {
  cli::Host host("k", 5, {}, cli::InputKind::wide);
  const Array decay = host.operand("decay", DType::f32, {4096}, {0.25, 0.75});
  double least = 1;
  double most = 0;
  for (std::int64_t i = 0; i < decay.elems(); ++i) {
    least = std::min(least, decay.at(i));
    most = std::max(most, decay.at(i));
  }
  CHECK(least >= 0.25);
  CHECK(least < 0.26);
  CHECK(most < 0.75);
  CHECK(most > 0.74);
  const Array steps = host.operand("steps", DType::i32, {4096}, {-2, 3});
  bool seen[5] = {};
  for (std::int64_t i = 0; i < steps.elems(); ++i) {
    REQUIRE(steps.at(i) >= -2);
    REQUIRE(steps.at(i) < 3);
    seen[static_cast<int>(steps.at(i)) + 2] = true;
  }
  for (const bool s : seen) CHECK(s);
}

TEST_CASE("inputs of packed types are made packed, of all their numbers", "[cli][host]") {
  const Array twos = cli::random_array(DType::i2, {64}, 1, "x", cli::InputKind::uniform);
  CHECK(twos.size_bytes() == 16);
  for (const double v : {-2., -1., 0., 1.}) {
    const std::vector<double> all = twos.to_doubles();
    CHECK(std::ranges::count(all, v) > 0);
  }
  cli::Host host("k", 0, {});
  std::vector<u4> made;
  for (int i = 0; i < 7; ++i) made.push_back(u4(std::int64_t{i + 1}));
  const std::vector<u4> values = host.input<u4>("x", {7}, made);
  REQUIRE(values.size() == 7);
  const Array x = host.operand("x", DType::u4, {7});
  CHECK(x.size_bytes() == 4);
  for (int i = 0; i < 7; ++i) {
    CHECK(x.at(i) == i + 1);
    CHECK(convert<double>(values[static_cast<std::size_t>(i)]) == i + 1);
  }
}
