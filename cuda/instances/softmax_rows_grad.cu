#include "cuda/launch.hpp"
#include "kernels/softmax_rows_grad.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::SoftmaxRowsGrad, TileSizes<16, 1024>, TileSizes<16, 384>, TileSizes<1, 1>>(
      to);
});

}  // namespace tessera::cuda
