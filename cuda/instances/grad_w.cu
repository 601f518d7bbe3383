#include "cuda/instances/all.hpp"
#include "cuda/launch.hpp"
#include "kernels/grad_w.hpp"

namespace tessera::cuda {

void add_grad_w(std::vector<Instance>& to) {
  add_instances<kernels::GradW, TileSizes<64, 128, 128>, TileSizes<8, 128, 128>>(to);
}

}  // namespace tessera::cuda
