// Oracle of ring_attention: the sequence put together, attention over it, and taken apart again.
#pragma once

#include "reference/attention.hpp"

namespace tessera::reference {

/// Of 2n blocks of a sequence device d of n has blocks d and 2n - 1 - d. q (n kv_heads, 2 group,
/// rows, d): of each key head its query heads, of each those two blocks; k and v (n kv_heads, 2
/// rows, d). Gives o as q, and the log-sum-exp (n kv_heads, 2 group, rows, 1).
std::vector<Expected> ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, int devices,
                                     const AttentionMask& mask);

}  // namespace tessera::reference
