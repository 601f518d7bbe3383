#pragma once

#include "kernels/entries/flash_attention_dq.hpp"
#include "kernels/flash_attention_dbias.hpp"

namespace tessera::kernels::entries {

constexpr auto flash_attention_dbias =
    entry<FlashAttentionDbias>([]<class T>(const FlashAttentionDbias<T>& k, In in) {
      return attention_gradients(k, kBytes<T> == 2, in, &in["bias"]).back();
    });

}  // namespace tessera::kernels::entries
