#include "cuda/launch.hpp"
#include "kernels/splash_attention_dkv.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::SplashAttentionDkv, TileSizes<32, 128, 64>, TileSizes<1, 1, 1>>(to);
});

}  // namespace tessera::cuda
