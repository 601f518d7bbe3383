// Scalar-prefetched arrays: copied to SMEM before the first grid step, read by index maps, grid
// bounds and bodies. A kernel holds them as members; its spec lists them with scalars("name",
// member).
// Elements are of any type but packed ones; a module holds i32 and f32.
//
// Does not own its data. Indexing checks bounds in the interpreter (oob-index) and not under nvcc.
#pragma once

#include "memory_model/here.hpp"
#include "sim/body/extent.hpp"

namespace tessera {

#if !defined(__CUDACC__)
/// Raises oob-index (sim/diagnostics/oob_index.cpp).
[[noreturn]] void fail_scalar_index(const char* name, long long index, long long size);
#endif

template <class T>
struct Smem {
  const T* data = nullptr;
  int size = 0;
  const char* name = "";

  template <class I>
  TESSERA_FN constexpr auto operator[](I i) const {
    if constexpr (requires { i.element_of(*this); }) {
      return i.element_of(*this);  // a number of a traced body (mosaic/number.hpp)
    } else {
      const int at = static_cast<int>(i);
#if !defined(__CUDACC__)
      if (at < 0 || at >= size) fail_scalar_index(name, at, size);
#endif
#if defined(__CUDA_ARCH__)
      const T value = [&] {
        if constexpr (std::is_arithmetic_v<T>)
          return __ldg(data + at);  // nothing writes it while a kernel runs
        else
          return data[at];
      }();
#else
      const T value = data[at];
#endif
      if constexpr (kIsId<I> && std::is_integral_v<T>)
        return I{static_cast<int>(value)};
      else
        return value;
    }
  }
};

}  // namespace tessera
