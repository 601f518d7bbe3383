#include "cuda/launch.hpp"
#include "kernels/native_sparse_attention.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::NativeSparseAttention, TileSizes<64, 64, 64>, TileSizes<32, 16, 64>,
                TileSizes<16, 16, 64>, TileSizes<1, 1, 1>>(to);
});

}  // namespace tessera::cuda
