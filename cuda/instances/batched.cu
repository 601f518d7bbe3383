// batched(kernel, n) compiles for a device as the kernel does. Nothing launches it.
#include "sim/body/batched.hpp"

#include "cuda/launch.hpp"
#include "kernels/matmul.hpp"

namespace tessera::cuda {

using BatchedMatmul = Batched<kernels::Matmul<float>>;
template __global__ void run_cells<BatchedMatmul, 4, 4, 128, 128, 32>(
    const __grid_constant__ BatchedMatmul, const __grid_constant__ Arguments<4, 4>);

}  // namespace tessera::cuda
