#include "triton/atomic_passes.hpp"

#include <catch2/catch.hpp>

namespace tessera::triton {
namespace {

std::vector<std::int64_t> lanes(std::int64_t n, auto&& address) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(address(i));
  return all;
}

TEST_CASE("lanes to one place change it one after another", "[triton][atomics]") {
  AtomicPasses passes;
  passes.note(lanes(64, [](auto) { return 4096; }));
  REQUIRE(passes.all() == 64);
  REQUIRE(passes.most() == 64);
}

TEST_CASE("lanes to places of one sector change it together", "[triton][atomics]") {
  AtomicPasses passes;
  passes.note(lanes(32, [](std::int64_t i) { return 4096 + 4 * i; }));  // 4 sectors
  REQUIRE(passes.all() == 4);
  passes.note(lanes(32, [](std::int64_t i) { return 8192 + 4 * (i % 8); }));  // 4 a place
  REQUIRE(passes.all() == 8);
  REQUIRE(passes.most() == 4);
}

TEST_CASE("units of 512 bytes work side by side", "[triton][atomics]") {
  for (const std::int64_t apart : {256, 512}) {
    AtomicPasses passes;
    passes.note(lanes(32, [&](std::int64_t i) { return i % 2 * apart; }));
    REQUIRE(passes.all() == 32);
    REQUIRE(passes.most() == (apart == 512 ? 16 : 32));
  }
}

TEST_CASE("warps do not share a pass, and nothing is none", "[triton][atomics]") {
  AtomicPasses passes;
  REQUIRE(passes.most() == 0);
  for (int warp = 0; warp < 3; ++warp) passes.note(lanes(8, [](std::int64_t i) { return 4 * i; }));
  REQUIRE(passes.most() == 3);
}

}  // namespace
}  // namespace tessera::triton
