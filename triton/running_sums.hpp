// Products that wait for the next ones, before a kernel is planned.
//
// Of a loop that adds products of tiles which lie in the caller's memory (lent.hpp) to a sum that
// nobody else looks at, one turn after the other is one product of more k, in the same order: tiles
// that continue each other along k are multiplied together, a sum's registers loaded once. What
// waits is multiplied when a turn does not continue it, and behind the loop, by an op that no
// module has:
//
//   tt.settle   the loop's result: nothing of it waits any longer
#pragma once

#include <vector>

#include "program/ir.hpp"
#include "program/product.hpp"

namespace tessera::triton {

using namespace program;

struct RunningSums {
  int count = 0;
  std::vector<int> of;  ///< by value, of the products and of what tt.settle takes: which; -1: none
};

/// `lent`: the tiles that may be lent.
RunningSums running_sums(Module& module, Function& kernel, const std::vector<bool>& lent);

/// A product of tiles that lie from here on; of k 0 nothing waits.
struct WaitingProduct {
  Product product = {};
  const std::byte* left = nullptr;
  const std::byte* right = nullptr;
};

}  // namespace tessera::triton
