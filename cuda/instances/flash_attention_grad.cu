#include "cuda/launch.hpp"
#include "kernels/flash_attention_grad.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::FlashAttentionGrad, TileSizes<32, 128, 128, 32, 0, 0>,
                TileSizes<1, 1, 1, 1, 0, 0>, TileSizes<32, 128, 64, 32, 1, 0>,
                TileSizes<32, 128, 128, 32, 0, 1>>(to);
});

}  // namespace tessera::cuda
