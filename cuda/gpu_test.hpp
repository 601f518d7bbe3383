// What the tests of a GPU's arithmetic share: exit code 77 where there is none.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace tessera::cuda {

using Word = unsigned long long;  ///< what atomicAdd takes

/// A permutation of 2^64 (splitmix64).
__device__ inline Word permuted(Word n) {
  n += 0x9e3779b97f4a7c15;
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
  n = (n ^ n >> 27) * 0x94d049bb133111eb;
  return n ^ n >> 31;
}

inline void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

/// Ends the program unless there is a GPU.
inline void require_gpu() {
  constexpr int kSkipped = 77;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return;
  std::puts("skipped: no GPU");
  std::exit(kSkipped);
}

}  // namespace tessera::cuda
