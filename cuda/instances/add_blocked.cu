#include "cuda/launch.hpp"
#include "kernels/add_blocked.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::AddBlocked, TileSizes<64, 128>, TileSizes<16, 128>, TileSizes<8, 128>>(to);
});

}  // namespace tessera::cuda
