// Random bits that depend on a key and a counter alone: Philox-4x32-10 (Salmon, Moraes, Dror and
// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A backward pass that gives the key
// and the counters of a forward one has its bits again, whatever its blocks are. Made of other ops.
#pragma once

#include <cstdint>

#include "sim/ops/add.hpp"
#include "sim/ops/bitwise.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/mul_hi.hpp"

namespace tessera {

struct PhiloxKey {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
};

/// Four words for each element of the counters.
template <class Tile>
struct PhiloxWords {
  Tile word[4];
};

/// Counters are tiles of u32 of one shape. The key is two numbers, or two (1, 1) tiles of u32.
template <class Key, TileLike C>
requires(std::is_same_v<Key, std::uint32_t> || TileLike<Key>) TESSERA_FN
    auto philox(Key first, Key second, const C& c0, const C& c1, const C& c2, const C& c3) {
  static_assert(std::is_same_v<typename C::Element, std::uint32_t>, "counters are u32");
  constexpr std::uint32_t kFirst = 0xD2511F53;
  constexpr std::uint32_t kSecond = 0xCD9E8D57;
  using Backend = typename C::Backend;
  auto x0 = Backend::load(c0);
  auto x1 = Backend::load(c1);
  auto x2 = Backend::load(c2);
  auto x3 = Backend::load(c3);
  for (int round = 0; round < 10; ++round) {
    const auto high0 = Backend::load(mul_hi(x0, kFirst));
    const auto low0 = Backend::load(x0 * kFirst);
    const auto high1 = Backend::load(mul_hi(x2, kSecond));
    const auto low1 = Backend::load(x2 * kSecond);
    x0 = Backend::load(high1 ^ x1 ^ first);
    x1 = low1;
    x2 = Backend::load(high0 ^ x3 ^ second);
    x3 = low0;
    first = first + 0x9E3779B9U;
    second = second + 0xBB67AE85U;
  }
  return PhiloxWords<decltype(x0)>{{x0, x1, x2, x3}};
}
template <TileLike C>
TESSERA_FN auto philox(PhiloxKey key, const C& c0, const C& c1, const C& c2, const C& c3) {
  return philox(key.first, key.second, c0, c1, c2, c3);
}

/// 32 random bits for each element: the first word of counter (row, col, 0, 0). Rows and columns
/// are tiles of i32 or u32, counted in the array: random_bits(key, row_ids(*x) + i * x.rows, ...).
template <TileLike R, TileLike C>
TESSERA_FN auto random_bits(PhiloxKey key, const R& row, const C& col) {
  using Backend = typename R::Backend;
  const auto first = Backend::load(cast<std::uint32_t>(row));
  const auto second = Backend::load(cast<std::uint32_t>(col));
  const auto zero = zeros_like(first);
  return philox(key, first, second, zero, zero).word[0];
}

}  // namespace tessera
