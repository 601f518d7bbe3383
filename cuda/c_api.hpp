// The functions of cuda/c_api.h, over the instances of a module: included where those are
// (cuda/backend.cu).
#pragma once

#include "cuda/backend.hpp"
#include "cuda/c_api.h"

namespace tessera::cuda {

/// What goes to C: arrays as it sees them, pointing into those of `bound`.
struct BoundForC {
  std::unique_ptr<Bound> bound;
  std::vector<tessera_cuda_array> arrays;
};
inline BoundForC* for_c(std::unique_ptr<Bound> bound) {
  auto made = std::make_unique<BoundForC>();
  for (const BoundArray& a : bound->arrays()) {
    const int read = a.read ? 1 : 0;
    const int written = a.written ? 1 : 0;
    made->arrays.push_back(
        {a.name.c_str(), name(a.dtype), a.shape.dims.data(), a.shape.rank, read, written});
  }
  made->bound = std::move(bound);
  return made.release();
}

inline std::string& error_of_thread() {
  static thread_local std::string words;
  return words;
}
/// What f gives, or `failed`, when it throws.
template <class F, class R>
R noting_errors(F f, R failed) {
  try {
    return f();
  } catch (const std::exception& e) {
    error_of_thread() = e.what();
    return failed;
  }
}

inline BoundForC* bind_instance(const std::vector<Instance>& instances, const char* kernel,
                                const char* dtype, const std::vector<int>& tiles,
                                const Launch& given) {
  for (const Instance& i : instances) {
    if (i.kernel != kernel || std::string(name(i.dtype)) != dtype || i.tiles != tiles) continue;
    if (!i.bind)
      throw CudaError(i.kernel + " runs on several devices: the program tessera runs it");
    return for_c(i.bind(given));
  }
  throw CudaError(std::string("this module has no ") + kernel + " in " + dtype +
                  " with these tiles: tessera build " + kernel + " --target cuda compiles it");
}

}  // namespace tessera::cuda
