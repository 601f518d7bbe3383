#include "cuda/launch.hpp"
#include "kernels/flash_attention_dkv.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::FlashAttentionDkv, TileSizes<32, 128, 64, 0, 0>, TileSizes<1, 1, 1, 0, 0>,
                TileSizes<32, 128, 64, 1, 0>, TileSizes<32, 128, 64, 0, 1>>(to);
});

}  // namespace tessera::cuda
