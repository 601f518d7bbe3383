// How much of a core's VMEM holds or awaits a block, over the time of a timeline.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "predict/timeline.hpp"
#include "sim/pipeline/plan.hpp"

namespace tessera::report {

/// Seconds and bytes from then on, of the first core of device 0: scratch, and the blocks of steps
/// whose spans the timeline kept. Empty if it kept none.
std::vector<std::pair<double, std::int64_t>> occupancy_of(const predict::Timeline& line,
                                                          const Plan& plan);

}  // namespace tessera::report
