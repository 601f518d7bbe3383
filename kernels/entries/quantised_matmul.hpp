#pragma once

#include "kernels/entry.hpp"
#include "kernels/quantised_matmul.hpp"
#include "reference/quantised.hpp"

namespace tessera::kernels::entries {

template <class T>
reference::Expected quantised_oracle(const QuantisedMatmul<T>& k, const OracleInputs& in) {
  const auto group = static_cast<std::size_t>(k.group);
  const double roundoff = kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
  const auto weights = [&] {
    switch (k.format) {
      case QuantisedMatmul<T>::kNf4:
        return reference::nf4_weights(in["words"], in["scale"], group, roundoff);
      case QuantisedMatmul<T>::kInt8:
        return reference::int8_weights(in["bytes"], in["scale"], group, roundoff);
      case QuantisedMatmul<T>::kMxfp4:
        return reference::mxfp4_weights(in["words"], in["exponent"], group, roundoff);
      default:
        return reference::affine_weights(in["words"], in["scale"], in["zero"], group, roundoff);
    }
  };
  return reference::quantised_matmul(in["x"], weights());
}

constexpr auto quantised_matmul =
    entry<QuantisedMatmul>([](const auto& k, In in) { return quantised_oracle(k, in); });

}  // namespace tessera::kernels::entries
