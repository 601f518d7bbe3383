// A linear scan of a block's rows that a size, not a type, turns round: all rows at once, in passes
// s = 1, 2, 4, ... (Blelloch, CMU-CS-90-190): h += a h[t - s], a *= a[t - s].
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/greater_equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

/// The place of each row in the order in which steps go.
template <class A>
TESSERA_FN auto order_of_rows(const A& like, bool back) {
  return load(back ? row_ids(like) * -1 + (like.rows - 1) : row_ids(like) * 1 + 0);
}
/// h[i] = decay[i] h[i - 1] + x[i] of rows in their order, or from the last to the first, as
/// linear_scan_rows makes it.
template <class A, class B>
TESSERA_FN auto scan_either_way(const A& decay, const B& x, bool back) {
  auto product = decay;
  auto state = x;
  const auto order = order_of_rows(state, back);
  for (int apart = 1; apart < x.rows; apart *= 2) {
    const auto inside = load(order >= apart);
    const int by = back ? -apart : apart;
    const auto before = roll_rows(state, by);
    const auto decayed = roll_rows(product, by);
    state = load(where(inside, product * before + state, state));
    product = load(where(inside, product * decayed, product));
  }
  return state;
}

}  // namespace tessera::kernels
