#include "cuda/launch.hpp"
#include "kernels/quantised_matmul.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::QuantisedMatmul, TileSizes<64, 128, 16, 1>, TileSizes<32, 128, 16, 2>,
                TileSizes<32, 128, 16, 4>, TileSizes<32, 128, 16, 8>, TileSizes<16, 256, 16, 1>,
                TileSizes<16, 256, 32, 2>, TileSizes<8, 128, 16, 1>>(to);
});

}  // namespace tessera::cuda
