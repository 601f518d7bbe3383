#include "cuda/launch.hpp"
#include "kernels/native_sparse_select.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::NativeSparseSelect, TileSizes<32, 8, 64, 4>, TileSizes<32, 5, 64, 3>,
                TileSizes<16, 3, 64, 2>, TileSizes<1, 1, 1, 1>>(to);
});

}  // namespace tessera::cuda
