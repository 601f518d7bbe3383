#include "cuda/launch.hpp"
#include "kernels/flash_attention.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::FlashAttention, TileSizes<128, 128, 64>, TileSizes<128, 128, 128>,
                TileSizes<128, 128, 72>, TileSizes<64, 128, 64>, TileSizes<1, 1, 1>>(to);
});

}  // namespace tessera::cuda
