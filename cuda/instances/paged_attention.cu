#include "cuda/launch.hpp"
#include "kernels/paged_attention.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::PagedAttention, TileSizes<8, 64, 128>, TileSizes<4, 32, 64>,
                TileSizes<6, 16, 80>, TileSizes<1, 1, 1>>(to);
});

}  // namespace tessera::cuda
