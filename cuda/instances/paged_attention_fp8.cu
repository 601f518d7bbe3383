#include "cuda/launch.hpp"
#include "kernels/paged_attention_fp8.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::PagedAttentionFp8, TileSizes<4, 32, 64>, TileSizes<1, 1, 1>>(to);
});

}  // namespace tessera::cuda
