#include "cuda/launch.hpp"
#include "kernels/grad_x.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::GradX, TileSizes<128, 128, 128>, TileSizes<8, 128, 128>>(to);
});

}  // namespace tessera::cuda
