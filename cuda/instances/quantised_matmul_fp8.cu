#include "cuda/launch.hpp"
#include "kernels/quantised_matmul_fp8.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::QuantisedMatmulFp8, TileSizes<32, 128, 128, 4, 1>,
                TileSizes<32, 128, 128, 8, 1>, TileSizes<16, 128, 128, 4, 1>,
                TileSizes<8, 128, 128, 4, 1>>(to);
});

}  // namespace tessera::cuda
