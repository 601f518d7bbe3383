#include "cuda/launch.hpp"
#include "kernels/mla.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::Mla, TileSizes<64, 64, 128, 32>, TileSizes<1, 1, 1, 1>>(to);
});

}  // namespace tessera::cuda
