#include "cuda/launch.hpp"
#include "kernels/tgmm.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::Tgmm, TileSizes<64, 128, 128, 0>, TileSizes<64, 128, 128, 1>,
                TileSizes<8, 128, 128, 0>>(to);
});

}  // namespace tessera::cuda
