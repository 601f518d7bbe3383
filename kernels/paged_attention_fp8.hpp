// The decoding step over a cache of fp8: kernels/paged_attention.hpp has the body and the equation.
#pragma once

#include "kernels/paged_attention.hpp"

namespace tessera::kernels {

template <class T>
using PagedAttentionFp8 = PagedDecode<T, f8e4m3fn>;

}  // namespace tessera::kernels
