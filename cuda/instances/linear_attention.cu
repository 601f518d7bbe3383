#include "cuda/launch.hpp"
#include "kernels/linear_attention.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::LinearAttention, TileSizes<64, 64, 64, 0, 0>, TileSizes<64, 64, 64, 1, 0>,
                TileSizes<1, 1, 1, 1, 0>, TileSizes<64, 64, 64, 0, 1>, TileSizes<64, 64, 64, 1, 1>,
                TileSizes<8, 64, 128, 1, 0>, TileSizes<8, 64, 128, 0, 1>>(to);
});

}  // namespace tessera::cuda
