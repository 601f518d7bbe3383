#include "cuda/launch.hpp"
#include "kernels/ring_attention.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::RingAttention, TileSizes<2, 64, 64>, TileSizes<4, 32, 64>,
                TileSizes<4, 16, 40>, TileSizes<2, 32, 72>, TileSizes<2, 16, 1>>(to);
});

}  // namespace tessera::cuda
