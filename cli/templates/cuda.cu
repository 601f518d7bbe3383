// The body compiled for CUDA: the tile sizes to compile, each in f32 and bf16. The first that the
// sizes of a run allow is taken if it asks for none.
#include "cuda/launch.hpp"
#include "my_kernel.hpp"

using tessera::cuda::TileSizes;

static const tessera::cuda::Adds added([](std::vector<tessera::cuda::Instance>& to) {
  tessera::cuda::add_instances<MyKernel, TileSizes<128, 128>, TileSizes<16, 128>,
                               TileSizes<8, 128>>(to);
});
