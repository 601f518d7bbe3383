#include "memory_model/dma.hpp"

#include <unordered_map>

namespace tessera {

namespace {

bool same_place(const Ref::View& a, const Ref::View& b) {
  return a.dtype == b.dtype && a.unit_bits == b.unit_bits && a.offset == b.offset &&
         a.extents == b.extents && a.strides == b.strides && a.pack == 1 && b.pack == 1 &&
         a.cut == 1 && b.cut == 1;
}

/// A byte of a buffer: what is written there, and how far it is defined.
struct Written {
  std::byte value;
  Shadow::State state;
};
Written written(const Staged& s, std::size_t i) {
  return {s.bytes[i], s.states.empty() ? Shadow::init : s.states[i]};
}

/// f(byte of the buffer, byte of what is written), for all of them.
template <class F>
void for_each_byte(const Ref& to, F&& f) {
  const std::int64_t width = to.view().unit_bits / 8;
  std::size_t next = 0;
  for_each_unit(to, [&](std::int64_t at) {
    for (std::int64_t b = 0; b < width; ++b) f(at * width + b, next++);
  });
}

}  // namespace

bool write_the_same(const Transfer& a, const Transfer& b) {
  if (!a.writes || !b.writes) return false;
  if (same_place(a.to.view(), b.to.view()))
    return a.writes->bytes == b.writes->bytes && a.writes->states == b.writes->states;
  std::unordered_map<std::int64_t, std::size_t> of_a;
  for_each_byte(a.to, [&](std::int64_t at, std::size_t i) { of_a[at] = i; });
  bool same = true;
  for_each_byte(b.to, [&](std::int64_t at, std::size_t i) {
    const auto found = of_a.find(at);
    if (found == of_a.end()) return;
    const Written one = written(*a.writes, found->second);
    const Written other = written(*b.writes, i);
    same = same && one.value == other.value && one.state == other.state;
  });
  return same;
}

}  // namespace tessera
