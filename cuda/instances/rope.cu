#include "cuda/launch.hpp"
#include "kernels/rope.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::Rope, TileSizes<128, 64>, TileSizes<128, 32>, TileSizes<16, 40>,
                TileSizes<1, 1>>(to);
});

}  // namespace tessera::cuda
