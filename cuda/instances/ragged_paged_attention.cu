#include "cuda/launch.hpp"
#include "kernels/ragged_paged_attention.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::RaggedPagedAttention, TileSizes<16, 4, 32, 64>, TileSizes<1, 1, 1, 1>>(to);
});

}  // namespace tessera::cuda
