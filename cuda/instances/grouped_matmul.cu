#include "cuda/launch.hpp"
#include "kernels/grouped_matmul.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<
      kernels::GroupedMatmul, TileSizes<128, 128, 128, 0, 0>, TileSizes<64, 128, 128, 0, 0>,
      TileSizes<64, 128, 128, 0, 3>, TileSizes<64, 128, 128, 0, 17>, TileSizes<64, 128, 128, 0, 24>,
      TileSizes<64, 128, 128, 1, 0>, TileSizes<64, 128, 128, 2, 0>, TileSizes<8, 128, 128, 0, 0>>(
      to);
  add_instance<kernels::GroupedMatmul<bf16>, bf16>(to, TileSizes<128, 256, 64, 0, 0>{});
});

}  // namespace tessera::cuda
