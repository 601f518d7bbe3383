#include "sim/pipeline/core_cells.hpp"

#include <algorithm>

namespace tessera {

CoreCells::CoreCells(const Plan& plan, int cores) {
  const std::int64_t cells = std::max<std::int64_t>(1, plan.cells());
  of_core_ = row_ = part_ = cells;  // all in the order of the grid
  if (cores == 1 || plan.device.kind != DeviceSpec::Kind::tpu) return;
  std::int64_t row = cells;
  for (int d = 0; d < plan.parallel_rank; ++d) {
    const std::int64_t extent = plan.bounds[static_cast<std::size_t>(d)]->hi;
    if (extent > 0 && extent % cores == 0) {
      of_core_ = cells / cores;
      row_ = row;
      part_ = row / cores;
      return;
    }
    row /= std::max<std::int64_t>(1, extent);
  }
}

}  // namespace tessera
