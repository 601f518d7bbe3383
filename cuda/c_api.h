/* Kernels of a module that tessera compiled (libtessera_cuda.so, or what `tessera build KERNEL
 * --target cuda` makes), for programs in any language: on the caller's device memory and stream,
 * without copies. After a kernel's first call on a stream nothing is allocated, and CUDA graphs may
 * capture the calls; a graph has what the first call on its capturing stream made, so that it does
 * not run beside other calls of that kernel on that stream. Calls on several streams may overlap.
 *
 * Where something fails a function gives 0 or a value that is not 0, as said at each, and
 * tessera_cuda_error() the words, until the thread's next call. */
#ifndef TESSERA_CUDA_C_API_H_
#define TESSERA_CUDA_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tessera_cuda_kernel tessera_cuda_kernel;

/* What prepare() of a kernel asks for, in host memory: scalars by their names. */
typedef struct tessera_cuda_prefetched {
  const char* name;
  const void* data;
  size_t bytes;
} tessera_cuda_prefetched;

/* An array that every call takes: row after row, no gaps. */
typedef struct tessera_cuda_array {
  const char* name;
  const char* dtype; /* "f32", "bf16", ... */
  const int64_t* shape;
  int rank;
  int read;
  int written;
} tessera_cuda_array;

/* A kernel in one element type with its tiles and sizes, each in the order in which the kernel
 * declares them. Needs no GPU. NULL: it failed. */
tessera_cuda_kernel* tessera_cuda_bind(const char* kernel, const char* dtype, const int* tiles,
                                       int tile_count, const double* sizes, int size_count,
                                       const tessera_cuda_prefetched* given, int given_count);
void tessera_cuda_release(tessera_cuda_kernel* kernel);

/* The arrays that it takes; they live as long as it. */
int tessera_cuda_array_count(const tessera_cuda_kernel* kernel);
const tessera_cuda_array* tessera_cuda_arrays(const tessera_cuda_kernel* kernel);

/* Starts it on a stream (a cudaStream_t) of the current device, on these arrays. 0: well. */
int tessera_cuda_call(tessera_cuda_kernel* kernel, void* const* arrays, void* stream);

/* Until the stream's calls have ended. 0: well. */
int tessera_cuda_wait(void* stream);

/* Of this thread's last call that failed. */
const char* tessera_cuda_error(void);

#ifdef __cplusplus
}
#endif

#endif
