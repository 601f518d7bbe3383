// Which elements of a buffer hold a value: one byte of state per element, uniform buffers for free.
//
// A rectangle is `rows` runs of `cols` elements, `stride` elements apart, from element `offset`.
// `stale` marks what an earlier parallel cell left behind: undefined for this one, and worth its
// own message. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

struct Rect {
  std::int64_t offset = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

class Shadow {
 public:
  enum State : std::uint8_t { uninit = 0, stale = 1, init = 2 };

  Shadow() = default;
  Shadow(std::int64_t elems, State state)
      : elems_(elems), missing_(state == init ? 0 : elems), all_(state) {}

  std::int64_t elems() const { return elems_; }
  /// True if every element is init. Constant time.
  bool all_init() const { return missing_ == 0; }
  void fill(State state) {
    all_ = state;
    mixed_ = false;
    missing_ = state == init ? 0 : elems_;
  }
  State at(std::int64_t i) const { return mixed_ ? states_[static_cast<std::size_t>(i)] : all_; }

  void mark_init(const Rect& r);
  /// Sets one element to any state.
  void set(std::int64_t i, State state);
  /// Marks one element.
  void mark_init(std::int64_t i) { mark_init(Rect{i, 1, 1, 1}); }

  /// First element of `r` that is not init, or -1.
  std::int64_t first_missing(const Rect& r) const;
  /// First element that is not init, or -1.
  std::int64_t first_missing() const { return first_missing({0, 1, elems_, elems_}); }
  std::int64_t missing() const { return missing_; }

 private:
  void materialise();

  std::int64_t elems_ = 0;
  std::int64_t missing_ = 0;
  State all_ = uninit;
  bool mixed_ = false;
  std::vector<State> states_;
};

}  // namespace tessera
