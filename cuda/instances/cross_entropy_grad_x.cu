#include "cuda/launch.hpp"
#include "kernels/cross_entropy_grad_x.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::CrossEntropyGradX, TileSizes<32, 128, 64, 0>, TileSizes<1, 1, 1, 0>,
                TileSizes<32, 128, 64, 128>>(to);
});

}  // namespace tessera::cuda
