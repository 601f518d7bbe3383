// The instances that bench/peers/split_kernels.py calls, through cuda/c_api.h.
#include "cuda/launch.hpp"
#include "kernels/quantised_matmul.hpp"
#include "kernels/split_matmul.hpp"
#include "kernels/split_sum.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instance<kernels::QuantisedMatmul<bf16>, bf16>(to, TileSizes<16, 256, 16, 1, 1>{});
  add_instance<kernels::QuantisedMatmul<bf16>, bf16>(to, TileSizes<16, 64, 16, 1, 8>{});
  add_instance<kernels::SplitMatmul<bf16>, bf16>(to, TileSizes<16, 128, 128>{});
  add_instance<kernels::SplitMatmul<bf16>, bf16>(to, TileSizes<16, 64, 128>{});
  add_instance<kernels::SplitMatmul<bf16>, bf16>(to, TileSizes<64, 128, 64>{});
  add_instance<kernels::SplitMatmul<bf16>, bf16>(to, TileSizes<64, 64, 128>{});
  add_instance<kernels::SplitMatmul<bf16>, bf16>(to, TileSizes<128, 128, 64>{});
  add_instance<kernels::SplitMatmul<bf16>, bf16>(to, TileSizes<128, 64, 64>{});
  add_instance<kernels::SplitSum<bf16>, bf16>(to, TileSizes<8, 64>{});
});

}  // namespace tessera::cuda
