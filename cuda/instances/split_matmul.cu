#include "cuda/launch.hpp"
#include "kernels/split_matmul.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::SplitMatmul, TileSizes<16, 128, 128>, TileSizes<48, 128, 128>,
                TileSizes<64, 128, 128>, TileSizes<8, 128, 128>, TileSizes<64, 128, 64>,
                TileSizes<128, 128, 64>>(to);
});

}  // namespace tessera::cuda
