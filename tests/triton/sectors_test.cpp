// Sectors of accesses whose count is plain.
#include <catch2/catch.hpp>

#include "sim/diagnostics/diagnostic.hpp"
#include "tests/triton/ttir.hpp"
#include "triton/sectors.hpp"

namespace tessera::triton {

namespace {

/// 1,024 elements on 4 warps: each lane has four that follow one another, and 512 later four more.
WarpLayout four_each() { return {{1, 2, 512}, {4, 8, 16, 32, 64}, {128, 256}, 16}; }

std::vector<std::int64_t> addresses(std::int64_t first, std::int64_t step, std::int64_t n = 1024) {
  std::vector<std::int64_t> a(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = first + static_cast<std::int64_t>(i) * step;
  return a;
}

}  // namespace

TEST_CASE("sectors: f32 that follow one another are each in one, others are not",
          "[triton][sectors]") {
  const Sectors s = sectors_of(four_each(), addresses(0, 4).data(), nullptr, 4);
  CHECK(s.requests == 8);
  CHECK(s.sectors == 1024 * 4 / 32);
  // One further, each request touches one sector more.
  CHECK(sectors_of(four_each(), addresses(4, 4).data(), nullptr, 4).sectors == 8 * 17);
  // Element by element, a lane has four instructions in place of one, which touch the same sectors.
  WarpLayout single = four_each();
  single.bytes = 4;
  const Sectors t = sectors_of(single, addresses(0, 4).data(), nullptr, 4);
  CHECK(t.requests == 32);
  CHECK(t.sectors == 32 * 16);
  // Every eighth element: a sector for each.
  CHECK(sectors_of(single, addresses(0, 32).data(), nullptr, 4).sectors == 1024);
}

TEST_CASE("sectors: lanes that a mask leaves out ask for none", "[triton][sectors]") {
  std::vector<std::byte> mask(1024, std::byte{0});
  for (std::size_t i = 0; i < 100; ++i) mask[i] = std::byte{1};
  const Sectors s = sectors_of(four_each(), addresses(0, 4).data(), mask.data(), 4);
  CHECK(s.requests == 1);
  CHECK(s.sectors == 13);
  std::ranges::fill(mask, std::byte{0});
  const Sectors none = sectors_of(four_each(), addresses(0, 4).data(), mask.data(), 4);
  CHECK(none.requests == 0);
  CHECK(none.sectors == 0);
}

TEST_CASE("sectors: what several lanes hold, each loads and one stores", "[triton][sectors]") {
  // 8 elements on 2 warps.
  WarpLayout l{{}, {1, 2, 4, 0, 0}, {0}, 4};
  const Sectors loads = sectors_of(l, addresses(0, 64, 8).data(), nullptr, 4);
  CHECK(loads.requests == 2);
  CHECK(loads.sectors == 16);
  l.once = true;
  const Sectors stores = sectors_of(l, addresses(0, 64, 8).data(), nullptr, 4);
  CHECK(stores.requests == 1);
  CHECK(stores.sectors == 8);
  // What two registers of a lane hold is one access.
  l.registers = {0};
  CHECK(sectors_of(l, addresses(0, 64, 8).data(), nullptr, 4).requests == 1);
}

TEST_CASE("sectors: the L2 is asked for what the L1 has not", "[triton][sectors]") {
  FirstLevel l1;
  const auto loaded = [&](const WarpLayout& l, std::int64_t first) {
    const Sectors s = sectors_of(l, addresses(first, 4).data(), nullptr, 4, &l1);
    CHECK(s.sectors == 128);
    return s.of_l2;
  };
  CHECK(loaded(four_each(), 0) == 128);
  CHECK(loaded(four_each(), 0) == 0);
  CHECK(loaded(four_each(), 2048) == 64);  // half of it is new
  WarpLayout copy = four_each();
  copy.past_l1 = true;
  CHECK(loaded(copy, 0) == 128);
  CHECK(loaded(copy, 1 << 20) == 128);
  CHECK(loaded(four_each(), 1 << 20) == 128);
  l1.clear();  // another program
  CHECK(loaded(four_each(), 0) == 128);
  // Of a store: what begins at no multiple of 32 bytes, its requests share a sector with the next.
  WarpLayout apart = four_each();
  apart.bytes = 4;
  FirstLevel put_together;
  CHECK(sectors_of(four_each(), addresses(0, 4).data(), nullptr, 4).of_l2 == 128);
  const Sectors s = sectors_of(apart, addresses(4, 4).data(), nullptr, 4, &put_together);
  CHECK(s.sectors > 129);
  CHECK(s.of_l2 == 129);
}

TEST_CASE("sectors: another module's layouts, and what are none, are refused",
          "[triton][sectors]") {
  const auto kernel = plan_kernel(
      load_module(kernel_text("%p: !tt.ptr<f32>, %q: !tt.ptr<f32>",
                              load("%x", "%p", "8", "f32") + store("%x", "%q", "8", "f32")),
                  "the test's module"));
  const std::string one =
      R"([{"registers": [], "lanes": [0, 0, 0, 0, 0], "warps": [], "bytes": 4, "once": false}])";
  set_layouts(*kernel, "[" + one + ", " + one + "]");
  CHECK(kernel->sites[0].layouts.size() == 1);
  CHECK_THROWS_AS(set_layouts(*kernel, "[" + one + "]"), InputError);
  CHECK_THROWS_AS(set_layouts(*kernel, "[[{}], []]"), InputError);
  CHECK_THROWS_AS(set_layouts(*kernel, "no"), InputError);
  // A lane of an element that the access has not, and more lanes than a warp has.
  for (const char* lanes : {"[0, 0, 0, 0, 8]", "[-1]", "[0, 0, 0, 0, 0, 0]"}) {
    const std::string other = R"([{"registers": [], "lanes": )" + std::string(lanes) +
                              R"(, "warps": [], "bytes": 4, "once": false}])";
    CHECK_THROWS_AS(set_layouts(*kernel, "[" + one + ", " + other + "]"), InputError);
  }
  CHECK_NOTHROW(set_layouts(*kernel, "[" + one + R"(, [{"registers": [], "lanes": [1, 2, 4],
      "warps": [], "bytes": 4, "once": false}]])"));
}

}  // namespace tessera::triton
