// Numbers by their places in a small table, as those of NF4 and of other codebooks. Made of other
// ops: a choice per entry, by one bit of the code after the other.
#pragma once

#include "sim/ops/bitwise.hpp"
#include "sim/ops/not_equal.hpp"
#include "sim/ops/where.hpp"

namespace tessera {

template <int kSize>
struct LookupTable {
  static_assert(kSize >= 2 && kSize <= 256 && (kSize & (kSize - 1)) == 0,
                "a table has a power of two of entries, up to 256");
  float entries[kSize];
};
/// lookup_table(-1.f, -0.5f, 0.f, 1.f)
template <class... T>
TESSERA_FN constexpr auto lookup_table(T... entries) {
  static_assert((std::is_same_v<T, float> && ...), "a table holds f32");
  return LookupTable<sizeof...(T)>{{entries...}};
}

namespace detail {
/// `bits`: of the codes, each as a tile of truths, the lowest first.
template <int kFirst, int kCount, int kSize, class... Bit>
TESSERA_FN auto entry_by(const LookupTable<kSize>& table, const std::tuple<Bit...>& bits) {
  constexpr int kHalf = kCount / 2;
  if constexpr (kHalf == 1) {
    return where(std::get<0>(bits), table.entries[kFirst + 1], table.entries[kFirst]);
  } else {
    constexpr std::size_t kBit = std::bit_width(static_cast<unsigned>(kHalf)) - 1;
    return where(std::get<kBit>(bits), entry_by<kFirst + kHalf, kHalf>(table, bits),
                 entry_by<kFirst, kHalf>(table, bits));
  }
}
template <int kSize, class A, std::size_t... I>
TESSERA_FN auto lookup_by(const A& codes, const LookupTable<kSize>& table,
                          std::index_sequence<I...>) {
  const std::tuple bits{A::Backend::load((codes & (1 << I)) != 0)...};
  return A::Backend::load(entry_by<0, kSize>(table, bits));
}
}  // namespace detail

/// table[code], f32, of integers; of a code that is not in the table its low bits count.
template <TileLike A, int kSize>
TESSERA_FN auto lookup(const A& codes, const LookupTable<kSize>& table) {
  detail::check_integers<A>();
  if constexpr (requires { A::Backend::lookup(codes, table); }) {
    return A::Backend::lookup(codes, table);
  } else {
    constexpr auto kBits = static_cast<std::size_t>(std::bit_width(unsigned{kSize}) - 1);
    return detail::lookup_by(codes, table, std::make_index_sequence<kBits>{});
  }
}

}  // namespace tessera
