// Which parallel cells each core of a device has, and in which order: as the TPU's compiler gives
// them to a v5p's two cores.
//
// The first parallel dim whose extent cores divide is theirs: of each row of it a core has its
// part, in the order of the grid. If there is none, the first core has the first cells, what is
// left over too. The compiler's second core then begins again at cell 0, so as to have as many: it
// computes that cell once more, which a timeline plays (`repeats`) and the machine does not, since
// only time comes of it. Left out: the compiler's order where a parallel dim lies behind an
// arbitrary one (cells are those of the leading dims), and what more than two cores would repeat.
#pragma once

#include <cstdint>
#include <utility>

#include "sim/pipeline/plan.hpp"

namespace tessera {

/// Places in the order in which cells are given out, from a core's first one to that behind its
/// last.
inline std::pair<std::int64_t, std::int64_t> places_of(std::int64_t cells, std::int64_t core,
                                                       std::int64_t cores) {
  return {(cells * core + cores - 1) / cores, (cells * (core + 1) + cores - 1) / cores};
}

/// How many cells, from the first one on, the last core computes that the first one has too.
inline std::int64_t repeats(std::int64_t cells, std::int64_t cores) {
  return cores == 2 && cells > 1 ? cells % 2 : 0;
}

class CoreCells {
 public:
  CoreCells(const Plan& plan, int cores);

  /// The cell at a place.
  std::int64_t at(std::int64_t place) const {
    const std::int64_t row = place % of_core_ / part_;
    return row * row_ + place / of_core_ * part_ + place % part_;
  }
  /// How many places, from this one on, have cells that follow one another.
  std::int64_t in_order(std::int64_t place) const { return part_ - place % part_; }

 private:
  std::int64_t of_core_ = 1;  ///< places of a core
  std::int64_t row_ = 1;      ///< cells of a row of the dim that cores share
  std::int64_t part_ = 1;     ///< of which one core has so many
};

}  // namespace tessera
