#include "tuning/key.hpp"

#include <catch2/catch.hpp>
#include <cmath>

using namespace tessera::tuning;

TEST_CASE("a bucket holds its own end, and nothing beyond an eighth of the octave", "[tuning]") {
  for (int extent = 1; extent <= 70'000; ++extent) {
    const double end = bucket(extent);
    REQUIRE(end >= extent);
    REQUIRE(bucket(end) == end);
    REQUIRE(end == std::floor(end));
    REQUIRE(end <= extent * 1.125);
    REQUIRE(bucket(extent + 1) >= end);
    if (extent <= 256) REQUIRE(end == extent);
  }
  CHECK(bucket(257) == 288);
  CHECK(bucket(7168) == 7168);
  CHECK(bucket(7169) == 7680);
  CHECK(bucket(7681) == 8192);
  CHECK(bucket(8192) == 8192);
  CHECK(bucket(8193) == 9216);
  CHECK(bucket(0) == 0);
  CHECK(bucket(1000.5) == 1000.5);  // no extent
}

TEST_CASE("keys keep sizes beside their buckets", "[tuning]") {
  const Key key = key_of("matmul", "tpu-v5e", "f", {{"m", 8190}, {"scale", 0.5}}, "bf16", {2, 4});
  CHECK(key.sizes == "m=8190 scale=0.5");
  CHECK(key.shapes == "m=8192 scale=0.5");
  CHECK(key.mesh == "2x4");
}

TEST_CASE("a fingerprint tells its parts apart", "[tuning]") {
  CHECK(fingerprint("ab", "c", "d") == fingerprint("ab", "c", "d"));
  CHECK(fingerprint("ab", "c", "d") != fingerprint("a", "bc", "d"));
  CHECK(fingerprint("ab", "c", "d") != fingerprint("ab", "c", "e"));
  CHECK(fingerprint("ab", "c", "d").size() == 16);
}
