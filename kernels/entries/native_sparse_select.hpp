#pragma once

#include "kernels/entry.hpp"
#include "kernels/native_sparse_select.hpp"
#include "reference/native_sparse.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> native_sparse_select_oracle(const NativeSparseSelect<T>& k,
                                                             const OracleInputs& in) {
  reference::SparseBranches branches;
  branches.group = static_cast<std::size_t>(k.group);
  branches.share = static_cast<std::size_t>(k.share);
  branches.block = static_cast<std::size_t>(k.block_len);
  branches.top = static_cast<std::size_t>(k.top);
  branches.probabilities_in_bf16 = kBytes<T> == 2;
  return reference::native_sparse_select(in["q"], in["k_cmp"], in["v_cmp"], branches);
}

constexpr auto native_sparse_select = entry<NativeSparseSelect>(
    [](const auto& k, In in) { return native_sparse_select_oracle(k, in); });

}  // namespace tessera::kernels::entries
