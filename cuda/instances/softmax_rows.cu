#include "cuda/launch.hpp"
#include "kernels/softmax_rows.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::SoftmaxRows, TileSizes<16, 1024>, TileSizes<16, 384>, TileSizes<1, 1>,
                TileSizes<1, 4096>, TileSizes<1, 16384>>(to);
});

}  // namespace tessera::cuda
