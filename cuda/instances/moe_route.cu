#include "cuda/launch.hpp"
#include "kernels/moe_route.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::MoeRoute, TileSizes<64, 64, 128, 2>, TileSizes<64, 40, 128, 6>,
                TileSizes<8, 1, 128, 1>>(to);
});

}  // namespace tessera::cuda
