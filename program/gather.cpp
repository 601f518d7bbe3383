#include "program/gather.hpp"

namespace tessera::program {

namespace {

template <class T>
void gather_as(T* to, const T* from, const Shape& extents, const Shape& strides) {
  if (extents.elems() == 0) return;
  const int last = extents.rank - 1;
  const std::int64_t n = last < 0 ? 1 : extents[last];
  const std::int64_t step = last < 0 ? 1 : strides[last];
  Shape at = extents;
  for (int d = 0; d < at.rank; ++d) at[d] = 0;
  std::int64_t place = 0;
  for (;;) {
    const T* const row = from + place;
    if (step == 1)
      std::copy_n(row, n, to);
    else
      for (std::int64_t i = 0; i < n; ++i) to[i] = row[i * step];
    to += n;
    int d = last - 1;
    for (; d >= 0; --d) {
      place += strides[d];
      if (++at[d] < extents[d]) break;
      place -= strides[d] * extents[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

void gather_strided(std::byte* to, const std::byte* from, std::int64_t width, const Shape& extents,
                    const Shape& strides) {
  with_width(width, [&]<class T>(T) {
    gather_as(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), extents, strides);
  });
}

}  // namespace tessera::program
