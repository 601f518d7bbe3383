#include "cuda/launch.hpp"
#include "kernels/matmul_relu.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::MatmulRelu, TileSizes<128, 128, 128>, TileSizes<8, 128, 128>>(to);
});

}  // namespace tessera::cuda
