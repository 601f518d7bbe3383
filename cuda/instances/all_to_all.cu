#include "cuda/launch.hpp"
#include "kernels/all_to_all.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::AllToAll, TileSizes<256>, TileSizes<300>, TileSizes<128>, TileSizes<1>>(
      to);
});

}  // namespace tessera::cuda
