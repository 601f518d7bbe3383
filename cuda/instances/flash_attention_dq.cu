#include "cuda/launch.hpp"
#include "kernels/flash_attention_dq.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::FlashAttentionDq, TileSizes<64, 64, 64, 0, 0>, TileSizes<1, 1, 1, 0, 0>,
                TileSizes<64, 128, 64, 1, 0>, TileSizes<64, 64, 64, 0, 1>>(to);
});

}  // namespace tessera::cuda
