#include "cuda/launch.hpp"
#include "kernels/norm_rows.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::NormRows, TileSizes<32, 512>, TileSizes<16, 384>, TileSizes<1, 1>,
                TileSizes<1, 4096>>(to);
});

}  // namespace tessera::cuda
