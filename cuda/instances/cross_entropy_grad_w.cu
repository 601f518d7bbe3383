#include "cuda/launch.hpp"
#include "kernels/cross_entropy_grad_w.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::CrossEntropyGradW, TileSizes<32, 128, 32, 0>, TileSizes<1, 1, 1, 0>,
                TileSizes<32, 128, 32, 64>>(to);
});

}  // namespace tessera::cuda
