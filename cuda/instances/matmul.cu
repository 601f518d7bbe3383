#include "cuda/launch.hpp"
#include "kernels/matmul.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::Matmul, TileSizes<128, 128, 128>, TileSizes<8, 128, 128>,
                TileSizes<128, 128, 32>>(to);
  add_instance<kernels::Matmul<bf16>, bf16>(to, TileSizes<128, 256, 64>{});
#if defined(TESSERA_ONLY_BF16) && !defined(TESSERA_ONE_KERNEL)
  add_compiled<kernels::Matmul<float>, float>(to, TileSizes<128, 128, 128>{});  // tests call it
#endif
});

}  // namespace tessera::cuda
