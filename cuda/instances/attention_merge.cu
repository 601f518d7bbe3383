#include "cuda/launch.hpp"
#include "kernels/attention_merge.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::AttentionMerge, TileSizes<8, 128>, TileSizes<1, 1>>(to);
});

}  // namespace tessera::cuda
