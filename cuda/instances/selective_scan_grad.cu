#include "cuda/launch.hpp"
#include "kernels/selective_scan_grad.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::SelectiveScanGrad, TileSizes<32, 128, 16>, TileSizes<1, 1, 1>>(to);
});

}  // namespace tessera::cuda
