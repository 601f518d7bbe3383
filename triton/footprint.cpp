#include "triton/footprint.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::triton {

namespace {

/// SplitMix64's finaliser (Steele, Lea, Flood, doi:10.1145/2660193.2660195).
std::uint64_t mixed(std::uint64_t hash, std::int64_t value) {
  std::uint64_t x = hash * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(value);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// The same bytes are the same tile, however their lanes are known.
std::uint64_t of_run(std::int64_t address, std::int64_t bytes) {
  return mixed(mixed(0, address), bytes);
}

/// A set of granules.
class Covered {
 public:
  /// How many of [first, first + count) were not in it.
  std::int64_t add(std::int64_t first, std::int64_t count) {
    std::int64_t fresh = 0;
    for (std::int64_t g = first; g < first + count; ++g) {
      std::uint64_t& word = pages_[g >> kPageBits][static_cast<std::size_t>(g >> 6) % kWords];
      const std::uint64_t bit = std::uint64_t{1} << (g & 63);
      fresh += (word & bit) == 0 ? 1 : 0;
      word |= bit;
    }
    return fresh;
  }

 private:
  static constexpr int kPageBits = 15;
  static constexpr std::size_t kWords = (std::size_t{1} << kPageBits) / 64;
  std::unordered_map<std::int64_t, std::array<std::uint64_t, kWords>> pages_;
};

}  // namespace

void Footprint::begin(std::int64_t program) {
  on_ = program < kMostPrograms;
  if (on_) programs_.push_back({program, {}, 0});
}

void Footprint::add(std::uint64_t key, std::int64_t bytes, bool write, auto&& granules) {
  asked_ += bytes;
  if (!on_) return;
  Program& p = programs_.back();
  if (p.accesses.size() >= kMostAccesses) return;
  const auto [it, is_new] = numbers_.try_emplace(key, static_cast<std::int32_t>(tiles_.size()));
  if (is_new) tiles_.push_back({key, granules()});
  p.accesses.push_back({it->second, write});
  p.bytes += bytes;
}

std::vector<Footprint::Granules> Footprint::merged(std::vector<Granules> runs) {
  // Rows come in order; what goes down them comes back to the first.
  if (!std::ranges::is_sorted(runs, {}, &Granules::first))
    std::ranges::sort(runs, {}, &Granules::first);
  std::vector<Granules> where;
  for (const Granules& r : runs) {
    if (!where.empty() && r.first <= where.back().first + where.back().count)
      where.back().count = std::max(where.back().count, r.first + r.count - where.back().first);
    else
      where.push_back(r);
  }
  return where;
}

void Footprint::note(const Strided& lanes, std::int64_t width, bool write) {
  std::uint64_t key = mixed(static_cast<std::uint64_t>(width), lanes.address);
  for (std::size_t d = 0; d < lanes.rank; ++d)
    key = mixed(mixed(key, lanes.step[d]), lanes.count[d]);
  if (lanes.rank == 0 || (lanes.rank == 1 && lanes.step[0] == width))
    key = of_run(lanes.address, lanes.lanes * width);
  add(key, lanes.lanes * width, write, [&] {
    std::vector<Granules> runs;
    lanes.each_run(width, [&](std::int64_t address, std::int64_t, std::int64_t n) {
      const std::int64_t first = address / kTileGranule;
      const std::int64_t end = (address + n * width - 1) / kTileGranule + 1;
      runs.push_back({first, end - first});
    });
    return merged(std::move(runs));
  });
}

void Footprint::note(const std::vector<std::int64_t>& addresses, std::int64_t width, bool write) {
  std::uint64_t key = mixed(static_cast<std::uint64_t>(width), std::ssize(addresses));
  for (const std::int64_t a : addresses) key = mixed(key, a);
  const std::int64_t bytes = std::ssize(addresses) * width;
  std::int64_t next = addresses[0];
  if (std::ranges::all_of(addresses,
                          [&](std::int64_t a) { return a == std::exchange(next, next + width); }))
    key = of_run(addresses[0], bytes);
  add(key, bytes, write, [&] {
    std::vector<Granules> all;
    all.reserve(addresses.size());
    for (const std::int64_t a : addresses) all.push_back({a / kTileGranule, 1});
    return merged(std::move(all));
  });
}

GridTiles together(const std::vector<const Footprint*>& all) {
  struct Part {
    const Footprint* of = nullptr;
    const Footprint::Program* program = nullptr;
  };
  std::vector<Part> programs;
  std::int64_t asked = 0;
  for (const Footprint* f : all) {
    asked += f->asked_;
    for (const Footprint::Program& p : f->programs_) programs.push_back({f, &p});
  }
  std::ranges::sort(programs, {}, [](const Part& p) { return p.program->number; });
  GridTiles r;
  Covered covered;
  std::unordered_map<std::uint64_t, std::int32_t> numbers;
  std::int64_t written_down = 0;
  for (const Part& p : programs) {
    r.begins.push_back(r.accesses.size());
    written_down += p.program->bytes;
    for (const GridTiles::Access& a : p.program->accesses) {
      const Footprint::Tile& tile = p.of->tiles_[static_cast<std::size_t>(a.tile)];
      const auto [it, is_new] =
          numbers.try_emplace(tile.key, static_cast<std::int32_t>(r.tiles.size()));
      if (is_new) {
        GridTile& made = r.tiles.emplace_back();
        for (const Footprint::Granules& g : tile.where) {
          made.bytes += g.count * kTileGranule;
          made.fresh += covered.add(g.first, g.count) * kTileGranule;
        }
      }
      r.accesses.push_back({it->second, a.write});
    }
  }
  if (written_down > 0) r.share = static_cast<double>(asked) / static_cast<double>(written_down);
  return r;
}

}  // namespace tessera::triton
