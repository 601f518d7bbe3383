// Which block shape near a kernel's own is predicted to be faster, and by how much.
#pragma once

#include <string>
#include <vector>

#include "cli/points.hpp"

namespace tessera::cli {

struct Advice {
  std::vector<Point> points;         ///< the first is the shape that was asked about
  std::vector<std::string> changes;  ///< of each, "bm=256 bk=64"; of the first empty
  std::size_t best = 0;              ///< faster than the first by more than 2 %, or it
};

/// Counts one tile doubled or halved, and two of them, one up and one down.
Advice advice_on(const KernelHandle& kernel, const Request& request, const std::string& device,
                 int threads, const Timing& timing);

/// "bk 128 -> 256: 9.8 us, 12 % less; 11 % fewer HBM bytes; fits VMEM (448 KiB); HBM
/// binds then": the fastest that are worth it, at most `most`. Empty if the shape does not run, or
/// none is.
std::vector<std::string> worth_trying(const Advice& advice,
                                      const std::vector<std::pair<std::string, int>>& tiles,
                                      std::size_t most);

}  // namespace tessera::cli
