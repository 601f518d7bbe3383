#include "cuda/launch.hpp"
#include "kernels/flash_attention.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::FlashAttention, TileSizes<128, 128, 64, 0, 0, 0>,
                TileSizes<128, 128, 128, 0, 0, 0>, TileSizes<128, 128, 72, 0, 0, 0>,
                TileSizes<64, 128, 64, 0, 0, 0>, TileSizes<1, 1, 1, 0, 0, 0>,
                TileSizes<64, 128, 64, 1, 0, 0>, TileSizes<64, 128, 64, 0, 1, 0>,
                TileSizes<64, 128, 64, 0, 0, 1>>(to);
});

}  // namespace tessera::cuda
