// The tiles that the first programs of a launch ask for (memory_model/grid_tiles.hpp).
//
// Each thread writes down those of the programs that it runs; put together they are in the order of
// the grid, the same for every number of threads.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory_model/grid_tiles.hpp"
#include "triton/strided.hpp"

namespace tessera::triton {

/// What one thread writes down.
class Footprint {
 public:
  static constexpr std::int64_t kMostPrograms = 4096;
  static constexpr std::size_t kMostAccesses = 4096;  ///< of a program

  /// What follows is that program's.
  void begin(std::int64_t program);
  /// Lanes at those addresses, in storages (Memory::in_storage).
  void note(const Strided& lanes, std::int64_t width, bool write);
  void note(const std::vector<std::int64_t>& addresses, std::int64_t width, bool write);

  friend GridTiles together(const std::vector<const Footprint*>& all);

 private:
  /// Granules [first, first + count).
  struct Granules {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  struct Tile {
    std::uint64_t key = 0;
    std::vector<Granules> where;
  };
  struct Program {
    std::int64_t number = 0;
    std::vector<GridTiles::Access> accesses;
    std::int64_t bytes = 0;
  };
  void add(std::uint64_t key, std::int64_t bytes, bool write, auto&& granules);
  /// In order, each granule once.
  static std::vector<Granules> merged(std::vector<Granules> runs);

  std::unordered_map<std::uint64_t, std::int32_t> numbers_;  ///< of tiles, by key
  std::vector<Tile> tiles_;
  std::vector<Program> programs_;
  std::int64_t asked_ = 0;  ///< bytes, of all programs
  bool on_ = false;
};

GridTiles together(const std::vector<const Footprint*>& all);

}  // namespace tessera::triton
