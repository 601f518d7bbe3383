#include "cuda/launch.hpp"
#include "kernels/flash_attention_dbias.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::FlashAttentionDbias, TileSizes<64, 128, 64, 0>, TileSizes<64, 128, 64, 1>,
                TileSizes<1, 1, 1, 0>>(to);
});

}  // namespace tessera::cuda
