// Which bytes of an array a ref touches, exactly: a strided slice as one progression per dim.
//
// Units are elements of the array, and bits along the last dim, so that a bitcast ref and a ref of
// the array's own type compare. Two boxes compare only if they are of one array.
#pragma once

#include <array>
#include <cstdint>

#include "memory_model/layout.hpp"

namespace tessera {

/// The runs [start + i * step, start + i * step + width) for i in [0, count).
struct Progression {
  std::int64_t start = 0;
  std::int64_t count = 1;
  std::int64_t step = 1;
  std::int64_t width = 1;
  constexpr bool contiguous() const { return count == 1 || step == width; }
  constexpr std::int64_t end() const { return start + (count - 1) * step + width; }
  constexpr bool operator==(const Progression&) const = default;
};

struct Box {
  std::array<Progression, kMaxRank> dims{};
  int rank = 0;
  bool operator==(const Box& o) const;
};

/// True if some bit lies in both.
bool overlap(const Progression& a, const Progression& b);
bool overlap(const Box& a, const Box& b);

/// True if every bit of `inner` lies in `outer`. May say false of stepped boxes that differ.
bool covers(const Box& outer, const Box& inner);

}  // namespace tessera
