// Lanes of an access whose addresses are regular (program/regular.hpp): rows of lanes in a
// row-major tensor, at addresses that have one step per dim.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "program/regular.hpp"

namespace tessera::triton {

using namespace program;

struct Strided {
  std::int64_t address = 0;  ///< of the first lane
  std::int64_t lane = 0;     ///< the first one, in row-major order
  std::int64_t lanes = 1;    ///< how many
  /// Dims with more than one lane, outer ones first; those that continue one another are one.
  std::size_t rank = 0;
  std::array<std::int64_t, kRegularRank> count{};
  std::array<std::int64_t, kRegularRank> step{};   ///< bytes from lane to lane
  std::array<std::int64_t, kRegularRank> apart{};  ///< lanes between them, in row-major order

  /// Bytes [first, end) have all that is accessed.
  std::int64_t first() const;
  std::int64_t end(std::int64_t width) const;
  /// No byte belongs to two lanes. False if that is not plain.
  bool disjoint(std::int64_t width) const;

  /// f(address, lane, lanes) for each run, in row-major order: lanes that follow one another at
  /// addresses that do.
  template <class F>
  void each_run(std::int64_t width, F&& f) const {
    if (lanes == 0) return;
    const bool rows = rank > 0 && step[rank - 1] == width && apart[rank - 1] == 1;
    const std::size_t outer = rows ? rank - 1 : rank;
    const std::int64_t n = rows ? count[rank - 1] : 1;
    std::array<std::int64_t, kRegularRank> at{};
    std::int64_t a = address;
    std::int64_t l = lane;
    for (;;) {
      f(a, l, n);
      std::size_t d = outer;
      for (; d > 0; --d) {
        a += step[d - 1];
        l += apart[d - 1];
        if (++at[d - 1] < count[d - 1]) break;
        a -= step[d - 1] * count[d - 1];
        l -= apart[d - 1] * count[d - 1];
        at[d - 1] = 0;
      }
      if (d == 0) return;
    }
  }
};

/// `box`: the lanes that are accessed; null: all.
Strided strided(const Regular& addresses, const Regular* box, const Shape& shape);
/// Copies lanes of `width` bytes between memory and a tensor. `memory`: where `address` lies.
void load_strided(const Strided& s, std::int64_t width, const std::byte* memory, std::byte* tensor);
void store_strided(const Strided& s, std::int64_t width, const std::byte* tensor,
                   std::byte* memory);

}  // namespace tessera::triton
