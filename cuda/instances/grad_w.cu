#include "cuda/launch.hpp"
#include "kernels/grad_w.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::GradW, TileSizes<64, 128, 128>, TileSizes<8, 128, 128>>(to);
});

}  // namespace tessera::cuda
