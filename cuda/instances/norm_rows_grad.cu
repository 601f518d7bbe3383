#include "cuda/launch.hpp"
#include "kernels/norm_rows_grad.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::NormRowsGrad, TileSizes<8, 1024, 0>, TileSizes<8, 512, 1>,
                TileSizes<8, 384, 1>, TileSizes<8, 384, 0>, TileSizes<1, 1, 0>>(to);
});

}  // namespace tessera::cuda
