#include "cuda/launch.hpp"
#include "kernels/ring_all_gather.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::RingAllGather, TileSizes<>>(to);
});

}  // namespace tessera::cuda
