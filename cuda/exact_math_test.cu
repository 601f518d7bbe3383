// Every f32: the quick exp and exp2 of the exact profile (cuda/exact_math.hpp) against the ops
// themselves on the GPU, and 2^32 quotients of random patterns. Exit code 77: no GPU.
#include <cstdio>
#include <cstdlib>

#include "cuda/exact_math.hpp"

namespace tessera::cuda {

template <class Op>
__global__ void compare_all(unsigned long long* wrong, unsigned long long* unsure,
                            unsigned* example) {
  constexpr unsigned long long kPatterns = 1ull << 32;
  const unsigned long long threads = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long n = blockIdx.x * blockDim.x + threadIdx.x; n < kPatterns; n += threads) {
    const float x = __uint_as_float(static_cast<unsigned>(n));
    bool sure = true;
    const float ours = Attempt<Op>::apply(x, sure);
    if (!sure) {
      atomicAdd(unsure, 1ull);
      continue;
    }
    const float theirs = Op::apply(x);
    const bool same =
        __float_as_uint(ours) == __float_as_uint(theirs) || (ours != ours && theirs != theirs);
    if (same) continue;
    atomicAdd(wrong, 1ull);
    *example = static_cast<unsigned>(n);
  }
}

/// A permutation of 2^64 (splitmix64).
__device__ unsigned long long mixed(unsigned long long n) {
  n += 0x9e3779b97f4a7c15;
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
  n = (n ^ n >> 27) * 0x94d049bb133111eb;
  return n ^ n >> 31;
}
__global__ void compare_quotients(unsigned long long* wrong, unsigned long long*,
                                  unsigned* example) {
  const unsigned long long threads = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long n = blockIdx.x * blockDim.x + threadIdx.x; n < 1ull << 32; n += threads) {
    const unsigned long long bits = mixed(n);
    const float a = __uint_as_float(static_cast<unsigned>(bits));
    // A third of the divisors is near a, so that quotients near 1 and subnormal ones are frequent.
    const float b = n % 3 == 0 ? __uint_as_float(static_cast<unsigned>(bits) ^ (bits >> 44))
                               : __uint_as_float(static_cast<unsigned>(bits >> 32));
    const float ours = quotient(a, 1.0 / static_cast<double>(b));
    const float theirs = a / b;
    if (__float_as_uint(ours) == __float_as_uint(theirs) || (ours != ours && theirs != theirs))
      continue;
    atomicAdd(wrong, 1ull);
    *example = static_cast<unsigned>(n);
  }
}

using Compare = void (*)(unsigned long long*, unsigned long long*, unsigned*);

bool all_same(const char* name, Compare compare) {
  unsigned long long* wrong = nullptr;
  unsigned long long* unsure = nullptr;
  unsigned* example = nullptr;
  cudaMallocManaged(&wrong, sizeof *wrong);
  cudaMallocManaged(&unsure, sizeof *unsure);
  cudaMallocManaged(&example, sizeof *example);
  *wrong = 0;
  *unsure = 0;
  compare<<<1056, 256>>>(wrong, unsure, example);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::printf("%s: %s\n", name, cudaGetErrorString(error));
    return false;
  }
  std::printf("%s: %llu of 2^32 inputs differ, %llu are left to the op", name, *wrong, *unsure);
  if (*wrong != 0) std::printf(", one is %08x", *example);
  std::printf("\n");
  return *wrong == 0;
}

}  // namespace tessera::cuda

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no GPU");
    return 77;
  }
  using namespace tessera::cuda;
  const bool exp = all_same("exp", compare_all<tessera::Exp>);
  const bool exp2 = all_same("exp2", compare_all<tessera::Exp2>);
  const bool quotients = all_same("quotients", compare_quotients);
  return exp && exp2 && quotients ? EXIT_SUCCESS : EXIT_FAILURE;
}
