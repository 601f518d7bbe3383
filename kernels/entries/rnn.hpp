#pragma once

#include "kernels/entry.hpp"
#include "kernels/rnn.hpp"
#include "reference/rnn.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> rnn_oracle(const Rnn<T>& k, const OracleInputs& in) {
  const double roundoff = kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
  const reference::Tensor* h0 = k.stateful != 0 ? &in["h0"] : nullptr;
  if (k.gates == 1) return reference::rnn(in["x"], in["w"], h0, roundoff);
  if (k.gates == Rnn<T>::kGru) return reference::gru(in["x"], in["w"], in["bias"], h0, roundoff);
  return reference::lstm(in["x"], in["w"], h0, k.stateful != 0 ? &in["c0"] : nullptr, roundoff);
}

constexpr auto rnn = entry<Rnn>([](const auto& k, In in) { return rnn_oracle(k, in); });

}  // namespace tessera::kernels::entries
