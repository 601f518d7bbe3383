#include "cuda/launch.hpp"
#include "kernels/pipelined_add.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::PipelinedAdd, TileSizes<64, 128, 2>, TileSizes<16, 256, 3>,
                TileSizes<64, 256, 1>, TileSizes<16, 128, 4>>(to);
});

}  // namespace tessera::cuda
