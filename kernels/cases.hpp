// Cases of kernels that are one body with policies.
#pragma once

namespace tessera::kernels {

/// The cases of a body that has others by its type: the first, or the second.
template <bool kFirst, class First, class Second>
constexpr auto cases_of(const First& first, const Second& second) {
  if constexpr (kFirst)
    return first;
  else
    return second;
}

}  // namespace tessera::kernels
