#pragma once

#include "kernels/embedding_rows.hpp"
#include "kernels/entry.hpp"
#include "reference/embedding.hpp"

namespace tessera::kernels::entries {

constexpr auto embedding_rows = entry<EmbeddingRows>([](const auto& k, In in) {
  return reference::embedding_rows(
      in["table"], values_of(k.ids), values_of(k.starts),
      std::vector<double>(k.weights.data, k.weights.data + k.weights.size));
});

}  // namespace tessera::kernels::entries
