#include "triton/strided.hpp"

#include <algorithm>
#include <cstring>

namespace tessera::triton {

namespace {

constexpr std::int64_t kLine = 64;

/// As memcpy, of rows of tiles: some lines of a cache, where a call costs as much as the copy.
void copy_row(std::byte* to, const std::byte* from, std::int64_t bytes) {
  constexpr std::int64_t kMost = 512;
  if (bytes % kLine != 0 || bytes > kMost) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  for (std::int64_t i = 0; i < bytes; i += kLine) std::memcpy(to + i, from + i, kLine);
}

/// What follows a row of a tile is often the next tile's, and no row is long enough for the
/// processor to see that.
void prefetch_next(const std::byte* from, std::int64_t bytes) {
  constexpr std::int64_t kMost = 512;
  for (std::int64_t i = bytes; i < 2 * bytes && bytes <= kMost; i += kLine)
    __builtin_prefetch(from + i);
}

/// f(memory, tensor, n, bytes between in memory, lanes between in the tensor) for each innermost
/// row; offsets from the first lane.
template <class F>
void each_row(const Strided& s, F&& f) {
  if (s.lanes == 0) return;
  const std::size_t outer = s.rank == 0 ? 0 : s.rank - 1;
  const std::int64_t n = s.rank == 0 ? 1 : s.count[outer];
  const std::int64_t step = s.rank == 0 ? 0 : s.step[outer];
  const std::int64_t apart = s.rank == 0 ? 1 : s.apart[outer];
  std::array<std::int64_t, kRegularRank> at{};
  std::int64_t memory = 0;
  std::int64_t lane = s.lane;
  for (;;) {
    f(memory, lane, n, step, apart);
    std::size_t d = outer;
    for (; d > 0; --d) {
      memory += s.step[d - 1];
      lane += s.apart[d - 1];
      if (++at[d - 1] < s.count[d - 1]) break;
      memory -= s.step[d - 1] * s.count[d - 1];
      lane -= s.apart[d - 1] * s.count[d - 1];
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace

std::int64_t Strided::first() const {
  std::int64_t at = address;
  for (std::size_t d = 0; d < rank; ++d) at += std::min<std::int64_t>(0, step[d] * (count[d] - 1));
  return at;
}
std::int64_t Strided::end(std::int64_t width) const {
  std::int64_t at = address + width;
  for (std::size_t d = 0; d < rank; ++d) at += std::max<std::int64_t>(0, step[d] * (count[d] - 1));
  return at;
}

bool Strided::disjoint(std::int64_t width) const {
  const auto size = [&](std::size_t d) { return step[d] < 0 ? -step[d] : step[d]; };
  // From the smallest step on, each must reach over all that the smaller ones do.
  std::array<bool, kRegularRank> done{};
  std::int64_t reach = width;
  for (std::size_t i = 0; i < rank; ++i) {
    std::size_t next = rank;
    for (std::size_t d = 0; d < rank; ++d) {
      if (!done[d] && (next == rank || size(d) < size(next))) next = d;
    }
    done[next] = true;
    if (size(next) < reach) return false;
    reach += size(next) * (count[next] - 1);
  }
  return true;
}

Strided strided(const Regular& addresses, const Regular* box, const Shape& shape) {
  Strided s;
  s.address = addresses.base;
  const Shape strides = row_major_strides(shape);
  for (int d = 0; d < shape.rank; ++d) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t from = box == nullptr ? 0 : box->step[k];
    const std::int64_t count = (box == nullptr ? shape[d] : box->end[k]) - from;
    s.lanes *= count;
    s.address += addresses.step[k] * from;
    s.lane += strides[d] * from;
    if (count == 1) continue;
    const std::size_t last = s.rank - 1;
    if (s.rank > 0 && s.step[last] == addresses.step[k] * count &&
        s.apart[last] == strides[d] * count) {
      s.count[last] *= count;
      s.step[last] = addresses.step[k];
      s.apart[last] = strides[d];
      continue;
    }
    s.count[s.rank] = count;
    s.step[s.rank] = addresses.step[k];
    s.apart[s.rank++] = strides[d];
  }
  return s;
}

void load_strided(const Strided& s, std::int64_t width, const std::byte* memory,
                  std::byte* tensor) {
  with_width(width, [&]<class T>(T) {
    each_row(s, [&](std::int64_t at, std::int64_t lane, std::int64_t n, std::int64_t step,
                    std::int64_t apart) {
      const std::byte* from = memory + at;
      std::byte* to = tensor + lane * width;
      if (apart == 1 && step == width) {
        copy_row(to, from, n * width);
        if (s.rank > 1) prefetch_next(from, n * width);
        return;
      }
      // Addresses need not be multiples of the width.
      for (std::int64_t i = 0; i < n; ++i, from += step, to += apart * width)
        std::memcpy(to, from, sizeof(T));
    });
  });
}

void store_strided(const Strided& s, std::int64_t width, const std::byte* tensor,
                   std::byte* memory) {
  with_width(width, [&]<class T>(T) {
    each_row(s, [&](std::int64_t at, std::int64_t lane, std::int64_t n, std::int64_t step,
                    std::int64_t apart) {
      const std::byte* from = tensor + lane * width;
      std::byte* to = memory + at;
      if (apart == 1 && step == width) {
        copy_row(to, from, n * width);
        return;
      }
      for (std::int64_t i = 0; i < n; ++i, from += apart * width, to += step)
        std::memcpy(to, from, sizeof(T));
    });
  });
}

}  // namespace tessera::triton
