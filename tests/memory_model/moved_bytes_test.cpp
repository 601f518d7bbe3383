// What copies and windows move, against granules of 32 bytes in libtpu's listings.
#include "memory_model/moved_bytes.hpp"

#include <catch2/catch.hpp>

#include "memory_model/array.hpp"

using namespace tessera;

namespace {

struct Listed {
  DType dtype;
  Shape array;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t column;
  std::int64_t columns;
  std::int64_t granules;
};

}  // namespace

TEST_CASE("copies move what libtpu 0.0.42's listings say they do", "[memory_model][layout]") {
  const auto c = GENERATE(values<Listed>({
      // One tile wide, of words: the rows themselves.
      {DType::f32, {3, 128}, 0, 3, 0, 128, 48},
      {DType::f32, {7, 100}, 0, 7, 0, 100, 112},
      {DType::f32, {20, 128}, 8, 12, 0, 128, 192},
      {DType::f32, {5, 256}, 0, 5, 128, 128, 80},
      // Within a tile, likewise.
      {DType::f32, {16, 128}, 3, 1, 0, 128, 16},
      {DType::f32, {16, 256}, 4, 4, 0, 256, 128},
      {DType::f32, {7, 256}, 1, 6, 0, 256, 192},
      {DType::f32, {20, 256}, 16, 4, 0, 256, 128},
      {DType::bf16, {3, 128}, 0, 2, 0, 128, 16},
      {DType::bf16, {20, 256}, 8, 6, 0, 256, 96},
      {DType::i8, {12, 256}, 8, 4, 0, 256, 32},
      {DType::i8, {64, 256}, 4, 28, 0, 256, 224},
      // Whole arrays, and more than a tile: tiles.
      {DType::f32, {3, 256}, 0, 3, 0, 256, 128},
      {DType::f32, {20, 256}, 8, 12, 0, 256, 512},
      {DType::bf16, {3, 128}, 0, 3, 0, 128, 32},
      {DType::bf16, {5, 256}, 0, 5, 128, 128, 64},
      {DType::bf16, {1, 300}, 0, 1, 0, 300, 48},
      {DType::bf16, {20, 128}, 8, 12, 0, 128, 128},
      {DType::i8, {5, 128}, 0, 5, 0, 128, 32},
      {DType::i8, {20, 256}, 0, 20, 0, 256, 192},
  }));
  CAPTURE(describe(c.dtype, c.array), c.row, c.rows, c.column, c.columns);
  const DeviceSpec& device = default_device();
  std::byte none{};
  BorrowedBuffer array("x", Space::hbm, c.dtype, c.array, &none);
  const Ref part = Ref(array).slice(0, c.row, c.rows).slice(1, c.column, c.columns);
  CHECK(copied_bytes(device, part) == 32 * c.granules);

  // The same in the middle of an array of three dims, and with that dim dropped.
  BorrowedBuffer deep("y", Space::hbm, c.dtype, {3, c.array[0], c.array[1]}, &none);
  const Ref slab = Ref(deep).slice(1, c.row, c.rows).slice(2, c.column, c.columns);
  CHECK(copied_bytes(device, slab) == 3 * 32 * c.granules);
  CHECK(copied_bytes(device, slab.squeeze(0, 1)) == 32 * c.granules);
  CHECK(copied_bytes(load_device("h200"), part) == part.bytes());
}

TEST_CASE("a row that is dropped moves its own words", "[memory_model][layout]") {
  std::byte none{};
  BorrowedBuffer rows("x", Space::hbm, DType::f32, {4, 16, 256}, &none);
  CHECK(copied_bytes(default_device(), Ref(rows).squeeze(1, 3)) == 32 * 128);
  BorrowedBuffer single("y", Space::hbm, DType::f32, {4, 1, 100}, &none);
  CHECK(copied_bytes(default_device(), Ref(single)) == 4 * 512);
  CHECK(copied_bytes(default_device(), Ref(single).squeeze(1, 0)) == 4 * 512);
  BorrowedBuffer line("z", Space::hbm, DType::bf16, {300}, &none);
  CHECK(copied_bytes(default_device(), Ref(line)) == 32 * 32);
}

TEST_CASE("windows move whole tiles of their arrays", "[memory_model][layout]") {
  const auto bytes = [](DType d, const Shape& array, const Shape& inside) {
    return window_bytes(default_device(), d, array, inside);
  };
  // As listed: of f32[3, 1024], bf16[2, 256], int8[4, 128]; what is left at an edge.
  CHECK(bytes(DType::f32, {3, 1024}, {3, 256}) == 32 * 128);
  CHECK(bytes(DType::f32, {4, 1, 256}, {2, 1, 256}) == 32 * 64);
  CHECK(bytes(DType::bf16, {4, 2, 256}, {2, 2, 256}) == 32 * 64);
  CHECK(bytes(DType::i8, {4, 128}, {4, 128}) == 32 * 16);
  CHECK(bytes(DType::f32, {19, 100}, {3, 100}) == 8 * 512);
  CHECK(bytes(DType::bf16, {19, 256}, {3, 256}) == 8 * 512);
  CHECK(bytes(DType::i8, {3, 18, 128}, {1, 2, 128}) == 8 * 128);
  CHECK(bytes(DType::i4, {3, 5, 7}, {3, 5, 7}) == 3 * 8 * 128 / 2);
}
