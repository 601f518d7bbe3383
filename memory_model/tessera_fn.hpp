// TESSERA_FN: the project's one macro. It marks what a CUDA build calls on the device; for a host
// compiler it is empty. nvcc needs the attribute on every function that device code reaches.
#pragma once

#if defined(__CUDACC__)
#define TESSERA_FN __host__ __device__ __forceinline__
#else
#define TESSERA_FN
#endif
