#include "cuda/launch.hpp"
#include "kernels/matmul_layernorm_gelu.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::MatmulLayernormGelu, TileSizes<32, 512, 64>, TileSizes<64, 256, 128>,
                TileSizes<8, 1, 128>>(to);
  add_instance<kernels::MatmulLayernormGelu<bf16>, bf16>(to, TileSizes<128, 256, 64>{});
});

}  // namespace tessera::cuda
