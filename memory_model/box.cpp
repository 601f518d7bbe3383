#include "memory_model/box.hpp"

#include <algorithm>

namespace tessera {

bool Box::operator==(const Box& o) const {
  return rank == o.rank && std::equal(dims.begin(), dims.begin() + rank, o.dims.begin());
}

bool overlap(const Progression& a, const Progression& b) {
  if (a.count == 0 || b.count == 0) return false;
  if (a.start >= b.end() || b.start >= a.end()) return false;
  if (a.contiguous() && b.contiguous()) return true;
  if (b.count < a.count) return overlap(b, a);
  // The fewer runs of the two, each against the last run of the other that begins before its end.
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::int64_t begin = a.start + i * a.step;
    const std::int64_t before_end = begin + a.width - 1 - b.start;
    if (before_end < 0) continue;
    const std::int64_t j = std::min(before_end / b.step, b.count - 1);
    if (b.start + j * b.step + b.width > begin) return true;
  }
  return false;
}

bool overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (!overlap(a.dims[i], b.dims[i])) return false;
  }
  return true;
}

namespace {
bool covers(const Progression& outer, const Progression& inner) {
  if (outer == inner || inner.count == 0) return true;
  return outer.contiguous() && outer.start <= inner.start && inner.end() <= outer.end();
}
}  // namespace

bool covers(const Box& outer, const Box& inner) {
  for (int d = 0; d < outer.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (!covers(outer.dims[i], inner.dims[i])) return false;
  }
  return true;
}

}  // namespace tessera
