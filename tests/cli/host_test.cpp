// What a kernel's prepare() is given.
#include <catch2/catch.hpp>

#include "cli/host.hpp"

using namespace tessera;

TEST_CASE("inputs of 4-bit types are made packed", "[cli][host]") {
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
