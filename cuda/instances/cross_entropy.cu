#include "cuda/launch.hpp"
#include "kernels/cross_entropy.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::CrossEntropy, TileSizes<32, 128, 128, 0>, TileSizes<8, 128, 128, 0>,
                TileSizes<32, 128, 128, 128>>(to);
});

}  // namespace tessera::cuda
