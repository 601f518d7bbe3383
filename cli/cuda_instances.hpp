// Instances of CUDA kernels that nobody compiled ahead: nvcc makes one for tile sizes that the
// program's module has not, in seconds, and the user's cache keeps it for every later run.
//
// How is in lib<program>_cuda.recipe (cmake/tessera_cuda.cmake): nvcc and its flags, headers,
// sources. The name of a cached file has the hash of all that, contents and all.
#pragma once

#include <string>
#include <vector>

#include "cuda/backend.hpp"
#include "sim/body/cta.hpp"

namespace tessera::cli {

/// A module of one instance.
struct CudaModule {
  std::string path;
  bool cached = false;
  double seconds = 0;     ///< that nvcc took
  int registers = 0;      ///< of a thread
  int spilled_bytes = 0;  ///< of a thread, that find no register
};

/// An instance that is not linked: for what nvcc makes of it, where there is no GPU.
struct CudaCode {
  std::string cubin = {};  ///< for Hopper, the file's bytes
  int registers = 0;       ///< of a thread
  int stack_bytes = 0;     ///< of a thread: what finds no register lies there
};

/// A file that lies beside this program, or where a build or an installation puts it; else "".
std::string beside_program(const std::string& file);
/// The module at `path`. Throws InputError.
const cuda::Backend* load_cuda(const std::string& path);

/// A driver with a GPU: without one there is no use in compiling.
bool has_cuda_device();
/// Why this program cannot compile instances; "" if it can.
std::string why_makes_no_cuda();
bool makes_cuda();
/// What its module is built for, and instances are unless somebody asks for another.
const cta::Sm& cuda_target();
/// What code for a compute capability (ten times) is built for; throws InputError[no-backend].
/// `of`: whose it is.
const cta::Sm& cuda_target(int capability, const std::string& of);
/// Says on standard error that nvcc compiles, if it does. Throws InputError[no-backend], which says
/// what nvcc said.
CudaModule make_cuda(const std::string& kernel, DType dtype, const std::vector<int>& tiles,
                     const cta::Sm& target);
/// The same of its code alone.
CudaCode compile_cuda(const std::string& kernel, DType dtype, const std::vector<int>& tiles);
/// A hash of what instances of a kernel are compiled of, and how. Throws InputError.
std::string cuda_build_of(const std::string& kernel);

}  // namespace tessera::cli
