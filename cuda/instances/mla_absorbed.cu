#include "cuda/launch.hpp"
#include "kernels/mla_absorbed.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::MlaAbsorbed, TileSizes<16, 64, 256, 64>, TileSizes<1, 1, 1, 1>>(to);
});

}  // namespace tessera::cuda
