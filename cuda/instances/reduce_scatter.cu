#include "cuda/launch.hpp"
#include "kernels/reduce_scatter.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::ReduceScatter, TileSizes<64, 256>, TileSizes<16, 300>, TileSizes<32, 128>,
                TileSizes<16, 1>>(to);
});

}  // namespace tessera::cuda
