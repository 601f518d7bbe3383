// The instances of bench/peers/decode_kernels.cuh that bench/peers/decode_kernels.py calls, through
// cuda/c_api.h.
#include "bench/peers/decode_kernels.cuh"
#include "kernels/flash_attention.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instance<decode::Split<bf16>, bf16>(to, TileSizes<8, 64, 128>{});
  add_instance<decode::Split<bf16>, bf16>(to, TileSizes<8, 128, 128>{});
  add_instance<decode::Merge<bf16>, bf16>(to, TileSizes<8, 64, 8>{});
  add_instance<decode::Merge<bf16>, bf16>(to, TileSizes<8, 128, 4>{});
  add_instance<kernels::FlashAttention<bf16>, bf16>(to, TileSizes<8, 64, 128, 0, 0, 0>{});
  add_instance<kernels::FlashAttention<bf16>, bf16>(to, TileSizes<8, 128, 128, 0, 0, 0>{});
});

}  // namespace tessera::cuda
