#pragma once

#include "kernels/entry.hpp"
#include "kernels/native_sparse_attention.hpp"
#include "reference/native_sparse.hpp"

namespace tessera::kernels::entries {

template <class T>
reference::Expected native_sparse_oracle(const NativeSparseAttention<T>& k,
                                         const OracleInputs& in) {
  reference::SparseBranches branches;
  branches.group = static_cast<std::size_t>(k.group);
  branches.share = static_cast<std::size_t>(k.share);
  branches.block = static_cast<std::size_t>(k.block_len);
  branches.top = static_cast<std::size_t>(k.top);
  branches.window = static_cast<std::size_t>(k.window);
  branches.part = k.compressed != 0 ? &in["part"] : nullptr;
  if (k.gated != 0) {
    branches.g_slc = &in["g_slc"];
    branches.g_win = k.window > 0 ? &in["g_win"] : nullptr;
    branches.g_cmp = k.compressed != 0 ? &in["g_cmp"] : nullptr;
  }
  branches.probabilities_in_bf16 = kBytes<T> == 2;
  return reference::native_sparse_attention(in["q"], in["k"], in["v"], values_of(k.ids), branches);
}

constexpr auto native_sparse_attention =
    entry<NativeSparseAttention>([](const auto& k, In in) { return native_sparse_oracle(k, in); });

}  // namespace tessera::kernels::entries
