#include "cuda/launch.hpp"
#include "kernels/dma_matmul.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::DmaMatmul, TileSizes<128, 128, 64>, TileSizes<16, 128, 128>>(to);
  add_instance<kernels::DmaMatmul<bf16>, bf16>(to, TileSizes<128, 256, 64>{});
  add_instance<kernels::DmaMatmul<bf16>, bf16>(to, TileSizes<128, 256, 128>{});
});

}  // namespace tessera::cuda
