// TESSERA_FN: the project's one macro. It marks what a CUDA build calls on the device, which nvcc
// needs on every function that device code reaches; for a host compiler it is inline.
#pragma once

#if defined(__CUDACC__)
#define TESSERA_FN __host__ __device__ __forceinline__
#else
#define TESSERA_FN inline
#endif
