#include "cuda/launch.hpp"
#include "kernels/matmul_epilogue.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::MatmulEpilogue, TileSizes<64, 128, 128, 3>, TileSizes<128, 128, 128, 17>,
                TileSizes<64, 128, 128, 2>, TileSizes<64, 256, 128, 28>,
                TileSizes<64, 128, 128, 16>, TileSizes<8, 128, 128, 17>>(to);
});

}  // namespace tessera::cuda
