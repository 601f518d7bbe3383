#include "memory_model/shadow.hpp"

#include <algorithm>

namespace tessera {

void Shadow::materialise() {
  if (mixed_) return;
  states_.assign(static_cast<std::size_t>(elems_), all_);
  mixed_ = true;
}

void Shadow::mark_init(const Rect& r) {
  if (missing_ == 0) return;
  if (r.rows * r.cols == elems_) {
    fill(init);
    return;
  }
  materialise();
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const auto first = states_.begin() + (r.offset + row * r.stride);
    const auto last = first + r.cols;
    missing_ -= r.cols - std::count(first, last, init);
    std::fill(first, last, init);
  }
}

void Shadow::set(std::int64_t i, State state) {
  if (at(i) == state) return;
  materialise();
  State& s = states_[static_cast<std::size_t>(i)];
  missing_ += (state == init ? 0 : 1) - (s == init ? 0 : 1);
  s = state;
}

std::int64_t Shadow::first_missing(const Rect& r) const {
  if (missing_ == 0) return -1;
  if (!mixed_) return all_ == init || r.rows * r.cols == 0 ? -1 : r.offset;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const auto first = states_.begin() + (r.offset + row * r.stride);
    const auto last = first + r.cols;
    const auto found = std::find_if(first, last, [](State s) { return s != init; });
    if (found != last) return found - states_.begin();
  }
  return -1;
}

}  // namespace tessera
