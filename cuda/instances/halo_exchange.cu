#include "cuda/launch.hpp"
#include "kernels/halo_exchange.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::HaloExchange, TileSizes<64, 256>, TileSizes<48, 300>, TileSizes<16, 128>,
                TileSizes<16, 1>>(to);
});

}  // namespace tessera::cuda
