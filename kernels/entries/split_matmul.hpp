#pragma once

#include "kernels/entry.hpp"
#include "kernels/split_matmul.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto split_matmul = entry<SplitMatmul>([](const auto& k, In in) {
  std::vector<int> begin;
  for (int s = 0; s <= k.splits; ++s)
    begin.push_back(std::min(k.k, s * ((k.k + k.block_k - 1) / k.block_k) / k.splits * k.block_k));
  return reference::split_matmul(in["x"], in["y"], begin);
});

}  // namespace tessera::kernels::entries
