// Running sums, in the order of a scan (sim/ops/scan.hpp): pass s adds x[i - s] to x[i], rounded
// once.
#pragma once

#include "sim/ops/scan.hpp"

namespace tessera {

/// Along each row: y[i,j] = x[i,0] + ... + x[i,j].
template <TileLike A>
TESSERA_FN auto cumsum_cols(const A& a) {
  static_assert(!kIsSmallFloat<typename A::Element>, "sum in f32: cumsum_cols(cast<float>(x))");
  return scan_cols(a, [](const auto& earlier, const auto& later) { return later + earlier; });
}
/// Down each column: y[i,j] = x[0,j] + ... + x[i,j].
template <TileLike A>
TESSERA_FN auto cumsum_rows(const A& a) {
  static_assert(!kIsSmallFloat<typename A::Element>, "sum in f32: cumsum_rows(cast<float>(x))");
  if constexpr (requires { A::Backend::cumsum_rows(a); })
    return A::Backend::cumsum_rows(a);
  else
    return scan_rows(a, [](const auto& earlier, const auto& later) { return later + earlier; });
}

}  // namespace tessera
