#include "cuda/instances/all.hpp"
#include "cuda/launch.hpp"
#include "kernels/grad_relu.hpp"

namespace tessera::cuda {

void add_grad_relu(std::vector<Instance>& to) {
  add_instances<kernels::GradRelu, TileSizes<64, 128>, TileSizes<16, 128>, TileSizes<8, 128>>(to);
}

}  // namespace tessera::cuda
