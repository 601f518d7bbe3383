#include "cuda/launch.hpp"
#include "kernels/quantised_matmul.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::QuantisedMatmul, TileSizes<16, 64, 16, 1, 8>, TileSizes<32, 128, 16, 2, 1>,
                TileSizes<32, 128, 16, 4, 1>, TileSizes<32, 128, 16, 8, 1>,
                TileSizes<16, 256, 16, 1, 1>, TileSizes<16, 256, 32, 2, 1>,
                TileSizes<8, 128, 16, 1, 1>, TileSizes<16, 128, 16, 1, 4>,
                TileSizes<64, 128, 16, 1, 1>>(to);
});

}  // namespace tessera::cuda
