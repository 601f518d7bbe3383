#include "cuda/launch.hpp"
#include "kernels/all_gather_matmul.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::AllGatherMatmul, TileSizes<64, 128, 256>, TileSizes<16, 100, 300>,
                TileSizes<32, 128, 128>, TileSizes<32, 100, 300>, TileSizes<16, 1, 1>>(to);
});

}  // namespace tessera::cuda
