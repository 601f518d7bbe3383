// The decoding step over a cache of int8: kernels/paged_attention.hpp has the body and the
// equation.
#pragma once

#include "kernels/paged_attention.hpp"

namespace tessera::kernels {

template <class T>
using PagedAttentionInt8 = PagedDecode<T, std::int8_t>;

}  // namespace tessera::kernels
