// Kernels that GPUs are given in another's stead: of the same sizes, operands and bits, with some
// of the sizes known when they are compiled. A kernel lists them by tile sizes,
//
//   template <int kM, int kN>
//   using Builds = tessera::Builds<Kernel<T, 0>, Kernel<T, 1>>;
//   bool is_build() const { return kVariant == variant; }
//
// and the first whose is_build() holds is launched. Where it names itself alone it is as without.
#pragma once

namespace tessera {

template <class... K>
struct Builds {};

}  // namespace tessera
