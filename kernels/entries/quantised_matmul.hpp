#pragma once

#include "kernels/entry.hpp"
#include "kernels/quantised_matmul.hpp"
#include "reference/quantised.hpp"

namespace tessera::kernels::entries {

template <class T>
reference::Quantised stored_weights(const QuantisedProduct<T, std::int8_t>&, const OracleInputs& in,
                                    std::size_t group, double roundoff) {
  return reference::int8_weights(in["bytes"], in["scale"], group, roundoff);
}
template <class T>
reference::Quantised stored_weights(const QuantisedProduct<T, f8e4m3fn>& k, const OracleInputs& in,
                                    std::size_t group, double roundoff) {
  return k.format == QuantisedProduct<T, f8e4m3fn>::kMxfp8
             ? reference::mxfp8_weights(in["bytes"], in["exponent"], group, roundoff)
             : reference::nvfp8_weights(in["bytes"], in["scale8"], in["tensor_scale"], group,
                                        roundoff);
}
template <class T>
reference::Quantised stored_weights(const QuantisedProduct<T, std::uint32_t>& k,
                                    const OracleInputs& in, std::size_t group, double roundoff) {
  switch (k.format) {
    case QuantisedMatmul<T>::kNf4:
      return reference::nf4_weights(in["words"], in["scale"], group, roundoff);
    case QuantisedMatmul<T>::kMxfp4:
      return reference::mxfp4_weights(in["words"], in["exponent"], group, roundoff);
    case QuantisedMatmul<T>::kNvfp4:
      return reference::nvfp4_weights(in["words"], in["scale8"], in["tensor_scale"], group,
                                      roundoff);
    default:
      return reference::affine_weights(in["words"], in["scale"], in["zero"], group, roundoff);
  }
}

/// Of each of the kernels. The runs of rows of part s are those from s runs / splits on.
template <class T, class Stored>
reference::Expected quantised_oracle(const QuantisedProduct<T, Stored>& k, const OracleInputs& in) {
  const double roundoff = kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
  std::vector<std::size_t> begin;
  for (int s = 0; s <= k.splits; ++s) {
    const int runs = s * ((k.k + k.run - 1) / k.run) / k.splits;
    begin.push_back(static_cast<std::size_t>(runs * k.run < k.k ? runs * k.run : k.k));
  }
  return reference::quantised_matmul(
      in["x"], stored_weights(k, in, static_cast<std::size_t>(k.group), roundoff), begin);
}

constexpr auto quantised_matmul =
    entry<QuantisedMatmul>([](const auto& k, In in) { return quantised_oracle(k, in); });

}  // namespace tessera::kernels::entries
