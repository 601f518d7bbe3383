#include "cuda/launch.hpp"
#include "kernels/wkv.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::Wkv, TileSizes<16, 8, 128>, TileSizes<1, 1, 1>>(to);
});

}  // namespace tessera::cuda
