#pragma once

#include "kernels/entry.hpp"
#include "kernels/quantised_matmul.hpp"
#include "reference/quantised.hpp"

namespace tessera::kernels::entries {

template <class T>
reference::Expected quantised_oracle(const QuantisedMatmul<T>& k, const OracleInputs& in) {
  const auto group = static_cast<std::size_t>(k.group);
  const double roundoff = kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
  const reference::Quantised w =
      k.nf4 != 0 ? reference::nf4_weights(in["words"], in["scale"], group, roundoff)
                 : reference::affine_weights(in["words"], in["scale"], in["zero"], group, roundoff);
  return reference::quantised_matmul(in["x"], w);
}

constexpr auto quantised_matmul =
    entry<QuantisedMatmul>([](const auto& k, In in) { return quantised_oracle(k, in); });

}  // namespace tessera::kernels::entries
