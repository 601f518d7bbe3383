#pragma once

#include "kernels/embedding_rows.hpp"
#include "kernels/entry.hpp"
#include "reference/embedding.hpp"

namespace tessera::kernels::entries {

constexpr auto embedding_rows = entry<EmbeddingRows>([](const auto& k, In in) {
  const auto reals = [](const Smem<float>& a) {
    return std::vector<double>(a.data, a.data + a.size);
  };
  if (k.back != 0) {
    return reference::embedding_rows_grad(in["dy"], values_of(k.forward_ids),
                                          values_of(k.forward_starts), reals(k.forward_weights),
                                          static_cast<std::size_t>(k.n));
  }
  return reference::embedding_rows(in["table"], values_of(k.ids), values_of(k.starts),
                                   reals(k.weights));
});

}  // namespace tessera::kernels::entries
