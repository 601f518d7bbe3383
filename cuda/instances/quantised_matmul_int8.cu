#include "cuda/launch.hpp"
#include "kernels/quantised_matmul_int8.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::QuantisedMatmulInt8, TileSizes<64, 128, 128, 1, 1>,
                TileSizes<32, 128, 128, 2, 1>, TileSizes<16, 128, 128, 1, 1>,
                TileSizes<8, 128, 128, 1, 1>>(to);
});

}  // namespace tessera::cuda
