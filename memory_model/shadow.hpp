// Which elements of a buffer hold a value: a byte of state per element, but pages of one state for
// free.
//
// A rectangle is `rows` runs of `cols` elements, `stride` elements apart, from element `offset`.
// `stale` marks what an earlier parallel cell left behind: undefined for this one, and worth its
// own message. States above `init` mark undefined values that were written, and say where they come
// from. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memory_model/undefined.hpp"

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
  static State undefined(Origin o) { return static_cast<State>(init + o); }
  /// Of an undefined value that was written; else 0.
  static Origin origin(State s) { return s > init ? static_cast<Origin>(s - init) : Origin{0}; }

  Shadow() = default;
  Shadow(std::int64_t elems, State state)
      : elems_(elems), missing_(state == init ? 0 : elems), all_(state) {}

  std::int64_t elems() const { return elems_; }
  /// True if every element is init. Constant time.
  bool all_init() const { return missing_ == 0; }
  void fill(State state) {
    all_ = state;
    pages_.clear();
    missing_ = state == init ? 0 : elems_;
  }
  State at(std::int64_t i) const {
    if (pages_.empty()) return all_;
    const Page& page = pages_[static_cast<std::size_t>(i / kPage)];
    return page.states.empty() ? page.all : page.states[static_cast<std::size_t>(i % kPage)];
  }

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
  static constexpr std::int64_t kPage = 4096;
  struct Page {
    State all = uninit;
    std::vector<State> states;  ///< empty: all of one state
  };

  void materialise();
  Page& mixed_page(std::int64_t i);
  void mark_run(std::int64_t first, std::int64_t last);
  std::int64_t page_elems(std::int64_t i) const {
    return std::min(kPage, elems_ - i / kPage * kPage);
  }

  std::int64_t elems_ = 0;
  std::int64_t missing_ = 0;
  State all_ = uninit;
  std::vector<Page> pages_;  ///< empty: all of one state
};

}  // namespace tessera
