#include <catch2/catch.hpp>

#include "triton/footprint.hpp"

using namespace tessera;
using namespace tessera::triton;

TEST_CASE("a tile has as many granules down its columns as along its rows") {
  // 16 x 64 elements of 2 bytes, rows of 1024 bytes: 16 rows of two granules.
  Strided along{.address = 4096, .lanes = 1024, .rank = 2};
  along.count = {16, 64};
  along.step = {1024, 2};
  along.apart = {64, 1};
  Strided down{.address = 4096, .lanes = 1024, .rank = 2};
  down.count = {64, 16};
  down.step = {2, 1024};
  down.apart = {16, 1};
  for (const Strided& s : {along, down}) {
    Footprint footprint;
    footprint.begin(0);
    footprint.note(s, 2, false);
    const GridTiles tiles = together({&footprint});
    REQUIRE(tiles.tiles.size() == 1);
    CHECK(tiles.tiles[0].bytes == 16 * 128);
    CHECK(tiles.tiles[0].fresh == 16 * 128);
  }
}
