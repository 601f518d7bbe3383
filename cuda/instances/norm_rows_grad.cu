#include "cuda/launch.hpp"
#include "kernels/norm_rows_grad.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::NormRowsGrad, TileSizes<8, 1024>, TileSizes<8, 512>, TileSizes<8, 384>,
                TileSizes<1, 1>>(to);
});

}  // namespace tessera::cuda
