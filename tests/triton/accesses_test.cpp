// Accesses and Ranges beside the plainest records of the same: a cell per granule, a bit per byte.
#include <catch2/catch.hpp>

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "triton/accesses.hpp"
#include "triton/ranges.hpp"

namespace tessera::triton {

namespace {

/// All that ever touched a granule.
struct Touch {
  std::int64_t program = 0;
  int site = 0;
  bool writes = false;
  bool changes = false;
  std::int64_t epoch = 0;
};

struct Plain {
  std::vector<std::vector<Touch>> granules;

  /// The first granule of an access that conflicts with an earlier one, or -1.
  std::int64_t conflict(std::int64_t program, const Accesses::Known& known, std::int64_t first,
                        std::int64_t last, bool writes, const std::vector<bool>& changes,
                        bool alone) const {
    for (std::int64_t g = first; g <= last; ++g) {
      for (const Touch& t : granules[static_cast<std::size_t>(g)]) {
        const auto it = known.find(t.program);
        if (t.program == program || (it != known.end() && it->second > t.epoch)) continue;
        const bool wrong =
            writes ? changes[static_cast<std::size_t>(g - first)] : (alone ? t.changes : t.writes);
        if (wrong) return g;
      }
    }
    return -1;
  }
};

}  // namespace

TEST_CASE("accesses conflict where two programs touch a granule and one changes it",
          "[triton][accesses]") {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int conflicts = 0;
  for (int round = 0; round < 400; ++round) {
    const bool alone = round % 2 == 0;
    const std::int64_t granule = std::int64_t{1} << draw(4);
    const std::int64_t size = granule * (1 + draw(3000)) + (draw(2) == 0 ? 0 : draw(granule));
    const std::int64_t most = 1 + draw(round % 3 == 0 ? 40 : 2000);  // bytes of an access
    const std::int64_t line = round % 4 < 2 ? 1 : 16 * granule;      // most accesses are of lines
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    const std::vector<std::byte> before = bytes;
    Accesses accesses(bytes.data(), size, granule, true, alone);
    Plain plain{std::vector<std::vector<Touch>>(static_cast<std::size_t>(size / granule + 1))};
    for (int step = 0; step < 60; ++step) {
      const std::int64_t program = step * (round % 5 + 1) / 8;
      const int site = static_cast<int>(draw(3));
      Accesses::Known known;
      const std::int64_t epoch = step / 3;  // steps of one program follow one another
      if (alone && draw(4) == 0) known[program - 1] = draw(epoch + 2);
      const bool writes = draw(2) == 0;
      const std::int64_t unit = draw(16) == 0 ? 1 : line;
      const std::int64_t offset = draw(size) / unit * unit;
      const std::int64_t least = 1 + draw(std::min(most, size - offset));
      const std::int64_t n = std::min((least + unit - 1) / unit * unit, size - offset);
      std::vector<std::byte> value(static_cast<std::size_t>(n));
      // Mostly what is there.
      std::memcpy(value.data(), bytes.data() + offset, static_cast<std::size_t>(n));
      if (draw(3) == 0)
        value[static_cast<std::size_t>(draw(n))] = std::byte{static_cast<unsigned char>(step + 1)};
      const std::int64_t first = offset / granule;
      const std::int64_t last = (offset + n - 1) / granule;
      std::vector<bool> changes(static_cast<std::size_t>(last - first + 1), !alone);
      for (std::int64_t i = 0; alone && i < n; ++i) {
        if (bytes[static_cast<std::size_t>(offset + i)] != value[static_cast<std::size_t>(i)])
          changes[static_cast<std::size_t>((offset + i) / granule - first)] = true;
      }
      const std::int64_t wanted =
          plain.conflict(program, known, first, last, writes, changes, alone);
      const auto got =
          writes ? accesses.write({program, site, false, epoch}, known, offset, n, value.data())
                 : accesses.read({program, site, false, epoch}, known, offset, n);
      INFO("round " << round << ", step " << step);
      // Of a page of many accessors the first reader alone is known beside "several".
      REQUIRE((got.has_value() ? got->granule : -1) == wanted);
      if (got) {
        ++conflicts;
        const auto& touches = plain.granules[static_cast<std::size_t>(wanted)];
        REQUIRE((!alone || std::ranges::any_of(touches, [&](const Touch& t) {
          return t.program == got->earlier.program && t.writes == got->earlier_writes &&
                 t.site == got->earlier.site;
        })));
        break;  // as a launch ends
      }
      for (std::int64_t g = first; g <= last; ++g) {
        plain.granules[static_cast<std::size_t>(g)].push_back(
            {program, site, writes, writes && changes[static_cast<std::size_t>(g - first)], epoch});
      }
      if (writes) std::memcpy(bytes.data() + offset, value.data(), static_cast<std::size_t>(n));
    }
    accesses.restore();
    REQUIRE(bytes == before);
  }
  CHECK(conflicts > 50);
}

TEST_CASE("rows that are written at once conflict as each of them does", "[triton][accesses]") {
  std::mt19937 random(11);
  const auto draw = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int conflicts = 0;
  for (int round = 0; round < 300; ++round) {
    const bool alone = round % 2 == 0;
    const std::int64_t granule = std::int64_t{1} << draw(4);
    const std::int64_t size = granule * 6000;
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    const std::vector<std::byte> before = bytes;
    Accesses together(bytes.data(), size, granule, true, alone);
    Accesses apart(bytes.data(), size, granule, true, alone);
    const std::int64_t programs = 1 + draw(8);
    for (std::int64_t program = 0; program < programs; ++program) {
      Accesses::Rows rows{.bytes = granule * (1 + draw(20)), .count = 1 + draw(8)};
      rows.step = rows.bytes + granule * draw(180);
      rows.offset = draw(size - rows.step * (rows.count - 1) - rows.bytes + 1);
      rows.from_step = rows.bytes + draw(3);
      const std::vector<std::byte> value(static_cast<std::size_t>(rows.from_step * rows.count),
                                         std::byte{static_cast<unsigned char>(program + 1)});
      const Accessor who{program, 0, false, 0};
      const auto got = together.write(who, {}, rows, value.data());
      std::optional<Conflict> wanted;
      for (std::int64_t i = 0; i < rows.count && !wanted; ++i) {
        wanted = apart.write(who, {}, rows.offset + i * rows.step, rows.bytes,
                             value.data() + i * rows.from_step);
      }
      REQUIRE(got.has_value() == wanted.has_value());
      if (got) {
        ++conflicts;
        REQUIRE(got->granule == wanted->granule);
        break;
      }
      for (std::int64_t i = 0; i < rows.count; ++i)
        std::memcpy(bytes.data() + rows.offset + i * rows.step, value.data() + i * rows.from_step,
                    static_cast<std::size_t>(rows.bytes));
    }
    together.restore();
    REQUIRE(bytes == before);
  }
  CHECK(conflicts > 50);
  CHECK(conflicts < 290);
}

TEST_CASE("ranges of bytes are the set of their bytes", "[triton][accesses]") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    constexpr std::size_t kSize = 60;
    std::vector<bool> plain(kSize);
    Ranges ranges;
    for (int step = 0; step < 40; ++step) {
      const std::size_t begin = random() % kSize;
      const std::size_t end = begin + random() % (kSize - begin + 1);
      const bool add = random() % 2 == 0;
      if (add)
        ranges.add(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
      else
        ranges.remove(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
      for (std::size_t i = begin; i < end; ++i) plain[i] = add;
      for (std::size_t i = 0; i < kSize; ++i) {
        const auto at = static_cast<std::int64_t>(i);
        REQUIRE(ranges.touches(at, at + 1) == plain[i]);
      }
      REQUIRE(ranges.empty() == (std::ranges::find(plain, true) == plain.end()));
    }
  }
}

}  // namespace tessera::triton
