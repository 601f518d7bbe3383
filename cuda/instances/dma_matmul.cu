#include "cuda/instances/all.hpp"
#include "cuda/launch.hpp"
#include "kernels/dma_matmul.hpp"

namespace tessera::cuda {

void add_dma_matmul(std::vector<Instance>& to) {
  add_instances<kernels::DmaMatmul, TileSizes<128, 128, 64>, TileSizes<16, 128, 128>>(to);
}

}  // namespace tessera::cuda
