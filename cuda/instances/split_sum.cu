#include "cuda/launch.hpp"
#include "kernels/split_sum.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::SplitSum, TileSizes<8, 128>>(to);
});

}  // namespace tessera::cuda
