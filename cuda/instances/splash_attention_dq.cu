#include "cuda/launch.hpp"
#include "kernels/splash_attention_dq.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::SplashAttentionDq, TileSizes<64, 64, 64>, TileSizes<1, 1, 1>>(to);
});

}  // namespace tessera::cuda
