#pragma once

#include "kernels/entry.hpp"
#include "kernels/ring_attention.hpp"
#include "reference/ring_attention.hpp"

namespace tessera::kernels::entries {

constexpr auto ring_attention = entry<RingAttention>([]<class T>(const RingAttention<T>& k, In in) {
  reference::AttentionMask mask;
  mask.causal = k.causal != 0;
  mask.kv_lengths = {2 * k.devices * k.rows - k.missing};
  mask.probabilities_in_bf16 = kBytes<T> == 2;
  return reference::ring_attention(in["q"], in["k"], in["v"], k.devices, mask);
});

}  // namespace tessera::kernels::entries
