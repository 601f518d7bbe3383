// Layouts, shadow state, refs, the ledger.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "memory_model/array.hpp"
#include "memory_model/ledger.hpp"
#include "memory_model/ref.hpp"
#include "memory_model/shadow.hpp"

using namespace tessera;

TEST_CASE("the last two dims are padded to the native tile of the element width",
          "[memory_model][layout]") {
  CHECK(padded_bytes(DType::f32, {8, 128}, native_tile(8, 128, DType::f32)) == 8 * 128 * 4);
  CHECK(padded_bytes(DType::f32, {9, 129}, native_tile(8, 128, DType::f32)) == 16 * 256 * 4);
  CHECK(padded_bytes(DType::bf16, {8, 128}, native_tile(8, 128, DType::bf16)) == 16 * 128 * 2);
  CHECK(padded_bytes(DType::i8, {1, 1}, native_tile(8, 128, DType::i8)) == 32 * 128);
  CHECK(padded_bytes(DType::i4, {3, 5, 7}, native_tile(8, 128, DType::i4)) == 3 * 64 * 128 / 2);
  CHECK(padded_bytes(DType::u2, {3, 5, 7}, native_tile(8, 128, DType::u2)) == 3 * 128 * 128 / 4);
  CHECK(padded_bytes(DType::f32, {1}, native_tile(8, 128, DType::f32)) == 512);
  CHECK(padded_bytes(DType::bf16, {257}, native_tile(8, 128, DType::bf16)) == 1024);
  CHECK(padded_bytes(DType::f32, {9, 129}, native_tile(1, 1, DType::f32)) == 9 * 129 * 4);
}

TEST_CASE("elements of less than a byte are packed and counted packed", "[memory_model][dtype]") {
  Array a(DType::i4, {3});
  CHECK(a.size_bytes() == 2);
  a.set(0, -8);
  a.set(1, 7);
  a.set(2, -1);
  CHECK(a.at(0) == -8);
  CHECK(a.at(1) == 7);
  CHECK(a.at(2) == -1);
  CHECK(std::to_integer<int>(a.bytes()[0]) == 0x78);  // the lower index in the low nibble
  Array b(DType::i2, {5});
  CHECK(b.size_bytes() == 2);
  const int values[] = {-2, 1, 0, -1, 1};
  for (int i = 0; i < 5; ++i) b.set(i, values[i]);
  b.set(1, 0);
  b.set(1, 1);  // beside others, which stay
  for (int i = 0; i < 5; ++i) CHECK(b.at(i) == values[i]);
  CHECK(std::to_integer<int>(b.bytes()[0]) == 0b11'00'01'10);  // the lowest index lowest
}

TEST_CASE("floats beyond an integer's range saturate and NaN is 0", "[memory_model][dtype]") {
  CHECK(convert<std::int8_t>(1e9f) == 127);
  CHECK(convert<std::int32_t>(-1e30f) == std::numeric_limits<std::int32_t>::min());
  CHECK(convert<std::uint8_t>(-3.f) == 0);
  CHECK(convert<i4>(20.f).value == 7);
  CHECK(convert<i4>(-1e30).value == -8);
  CHECK(convert<u2>(3.9f).value == 3);
  CHECK(convert<u2>(bf16(-7.f)).value == 0);
  CHECK(convert<i2>(std::int32_t{6}).value == -2);  // integers wrap
  CHECK(convert<std::int64_t>(std::numeric_limits<double>::quiet_NaN()) == 0);
}

TEST_CASE("shadow state is exact for rectangles", "[memory_model][shadow]") {
  Shadow s(6 * 10, Shadow::uninit);
  CHECK(s.first_missing() == 0);
  s.mark_init(Rect{12, 2, 3, 10});  // rows 1 and 2, columns 2 to 4
  CHECK(s.missing() == 54);
  CHECK(s.at(12) == Shadow::init);
  CHECK(s.at(15) == Shadow::uninit);
  CHECK(s.first_missing(Rect{12, 2, 3, 10}) == -1);
  CHECK(s.first_missing(Rect{12, 2, 4, 10}) == 15);
  s.mark_init(Rect{12, 2, 3, 10});
  CHECK(s.missing() == 54);
  s.mark_init(Rect{0, 6, 10, 10});
  CHECK(s.all_init());
  s.fill(Shadow::stale);
  CHECK(s.at(59) == Shadow::stale);
}

TEST_CASE("shadow state over many pages is that of a state per element", "[memory_model][shadow]") {
  constexpr std::int64_t kElems = 5 * 4096 + 17;
  Shadow s(kElems, Shadow::uninit);
  std::vector<Shadow::State> plain(kElems, Shadow::uninit);
  std::uint64_t seed = 1;
  const auto random = [&](std::int64_t below) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int64_t>((seed >> 33) % static_cast<std::uint64_t>(below));
  };
  for (int round = 0; round < 300; ++round) {
    const std::int64_t first = random(kElems);
    const std::int64_t cols = 1 + random(std::min<std::int64_t>(kElems - first, 6000));
    if (round % 3 == 0) {
      s.set(first, Shadow::uninit);
      plain[static_cast<std::size_t>(first)] = Shadow::uninit;
    } else {
      s.mark_init(Rect{first, 1, cols, cols});
      std::fill_n(plain.begin() + first, cols, Shadow::init);
    }
    const auto missing = std::count(plain.begin(), plain.end(), Shadow::uninit);
    REQUIRE(s.missing() == missing);
    const auto found = std::find(plain.begin(), plain.end(), Shadow::uninit);
    REQUIRE(s.first_missing() == (found == plain.end() ? -1 : found - plain.begin()));
    const std::int64_t i = random(kElems);
    REQUIRE(s.at(i) == plain[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("boxes overlap as their elements do", "[memory_model][box]") {
  // Every pair of progressions over a few elements, against sets.
  std::vector<Progression> all;
  for (std::int64_t start : {0, 1, 3}) {
    for (std::int64_t count : {0, 1, 2, 4}) {
      for (std::int64_t width : {1, 2}) {
        for (std::int64_t step = width; step < 5; ++step)
          all.push_back({start, count, step, width});
      }
    }
  }
  const auto elements = [](const Progression& p) {
    std::set<std::int64_t> s;
    for (std::int64_t i = 0; i < p.count; ++i) {
      for (std::int64_t w = 0; w < p.width; ++w) s.insert(p.start + i * p.step + w);
    }
    return s;
  };
  for (const auto& a : all) {
    for (const auto& b : all) {
      const auto left = elements(a);
      const auto right = elements(b);
      const bool meet =
          std::any_of(left.begin(), left.end(), [&](std::int64_t e) { return right.count(e) > 0; });
      REQUIRE(overlap(a, b) == meet);
      Box outer;
      Box inner;
      outer.rank = inner.rank = 1;
      outer.dims[0] = a;
      inner.dims[0] = b;
      if (covers(outer, inner)) {
        REQUIRE(std::includes(left.begin(), left.end(), right.begin(), right.end()));
      }
    }
  }
}

TEST_CASE("a ref slices with steps, squeezes and bitcasts", "[memory_model][ref]") {
  Array a(DType::f32, {4, 6});
  for (int i = 0; i < 24; ++i) a.data<float>()[i] = static_cast<float>(i);
  BorrowedBuffer buffer("a", Space::hbm, DType::f32, {4, 6}, a.bytes());
  const Ref odd = Ref(buffer).slice(0, 1, 2, 2).slice(1, 2, 3);  // rows 1 and 3, columns 2 to 4
  CHECK(odd.bytes() == 6 * 4);
  CHECK(odd.span().begin == (6 + 2) * 4);
  CHECK(odd.span().end == (18 + 5) * 4);
  float value = 0;
  std::memcpy(&value, buffer.bytes() + odd.byte_offset({1, 2}), 4);
  CHECK(value == 22);

  const Ref row = Ref(buffer).squeeze(0, 2);
  CHECK(row.extents() == Shape{6});
  Array b(DType::f32, {6});
  BorrowedBuffer row_buffer("b", Space::vmem, DType::f32, {6}, b.bytes());
  copy(row, Ref(row_buffer));
  CHECK(b.at(5) == 17);

  const Ref halves = Ref(buffer).bitcast(DType::bf16);
  CHECK(halves.extents() == Shape{4, 12});
  CHECK(halves.bytes() == Ref(buffer).bytes());
  CHECK(Ref(buffer).slice(1, 1, 2).bitcast(DType::i32).offset() == 1);
  CHECK_THROWS_AS(Ref(buffer).slice(1, 0, 3, 2).bitcast(DType::bf16), RefError);
  CHECK_THROWS_AS(Ref(buffer).slice(1, 1, 3).bitcast(DType::f64), RefError);
}

TEST_CASE("a reshape keeps the elements and their order, of repacked refs too",
          "[memory_model][ref]") {
  Array a(DType::i32, {4, 8});
  for (int i = 0; i < 32; ++i) a.data<std::int32_t>()[i] = 0x01020304 * i;
  BorrowedBuffer buffer("a", Space::vmem, DType::i32, {4, 8}, a.bytes());
  const auto bytes = [](const Ref& r) { return gather(r).bytes; };
  const Ref rows = Ref(buffer).repack(DType::i8);
  REQUIRE(rows.extents() == Shape{16, 8});
  CHECK(bytes(rows) != bytes(Ref(buffer)));
  for (const Shape& to : {Shape{4, 4, 8}, Shape{2, 2, 4, 8}, Shape{2, 2, 2, 2, 8}, Shape{1, 16, 8},
                          Shape{4, 1, 4, 8}, Shape{4, 4, 2, 4}, Shape{2, 8, 8}})
    CHECK(bytes(rows.reshape(to)) == bytes(rows));
  // A dim of 2 rows is half of an element: no stride says that.
  CHECK_THROWS_AS(rows.reshape({8, 2, 8}), RefError);
  CHECK(bytes(Ref(buffer).reshape({2, 2, 8})) == bytes(Ref(buffer)));
}

TEST_CASE("a slice may end at the last element and not one after", "[memory_model][ref]") {
  BorrowedBuffer buffer("a", Space::hbm, DType::f32, {4, 6}, nullptr);
  CHECK_NOTHROW(Ref(buffer).slice(1, 1, 3, 2));
  CHECK_THROWS_AS(Ref(buffer).slice(1, 2, 3, 2), RefError);
  CHECK_NOTHROW(Ref(buffer).squeeze(0, 3));
  CHECK_THROWS_AS(Ref(buffer).squeeze(0, 4), RefError);
}

TEST_CASE("copies go through any strides", "[memory_model][ref]") {
  Array from(DType::i16, {3, 4, 5});
  for (int i = 0; i < 60; ++i) from.data<std::int16_t>()[i] = static_cast<std::int16_t>(i);
  Array to(DType::i16, {3, 2, 5});
  BorrowedBuffer from_buffer("from", Space::hbm, DType::i16, {3, 4, 5}, from.bytes());
  BorrowedBuffer to_buffer("to", Space::vmem, DType::i16, {3, 2, 5}, to.bytes());
  copy(Ref(from_buffer).slice(1, 1, 2, 2), Ref(to_buffer));
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 5; ++k) CHECK(to.at(i * 10 + j * 5 + k) == i * 20 + (1 + 2 * j) * 5 + k);
    }
  }
  CHECK_THROWS_AS(copy(Ref(from_buffer), Ref(to_buffer)), RefError);
}

TEST_CASE("totals are the sums of the movements", "[memory_model][ledger]") {
  Ledger ledger;
  const int x = ledger.add_ref("x", "in");
  const int o = ledger.add_ref("o", "out");
  ledger.keep_movements(true);
  for (int i = 1; i <= 5; ++i) {
    Movement m;
    m.ref = i % 2 == 0 ? o : x;
    if (m.ref == o) {
      m.from = Space::vmem;
      m.to = Space::hbm;
      m.why = Why::writeback;
    }
    m.bytes = i;
    m.padded_bytes = 10 * i;
    ledger.record(m);
  }
  CHECK(ledger.hbm_read_bytes() == 1 + 3 + 5);
  CHECK(ledger.hbm_write_bytes() == 2 + 4);
  std::int64_t padded = 0;
  for (const auto& m : ledger.movements()) padded += m.padded_bytes;
  CHECK(ledger.padded_hbm_read_bytes() + ledger.padded_hbm_write_bytes() == padded);
  Ledger twice = ledger;
  twice.add(ledger);
  CHECK(twice.refs()[0].transfers == 2 * ledger.refs()[0].transfers);
}

TEST_CASE("the last of an odd number of 4-bit elements is marked alone", "[memory_model][ref]") {
  for (const std::int64_t n : {1, 3, 8}) {
    std::byte bytes[4] = {};
    BorrowedBuffer buffer("b", Space::smem, DType::i4, {n}, bytes);
    buffer.shadow = Shadow(n, Shadow::uninit);
    mark_defined(Ref(buffer));
    CHECK(buffer.shadow.all_init());
  }
}
