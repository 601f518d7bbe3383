#include "cuda/launch.hpp"
#include "kernels/attention_sink_grad.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::AttentionSinkGrad, TileSizes<8, 128>>(to);
});

}  // namespace tessera::cuda
