#include "memory_model/shadow.hpp"

namespace tessera {

void Shadow::materialise() {
  if (!pages_.empty()) return;
  pages_.resize(static_cast<std::size_t>((elems_ + kPage - 1) / kPage));
  for (Page& page : pages_) page.all = all_;
}

/// The page of element i, with a state per element.
Shadow::Page& Shadow::mixed_page(std::int64_t i) {
  Page& page = pages_[static_cast<std::size_t>(i / kPage)];
  if (page.states.empty()) {
    page.states.assign(static_cast<std::size_t>(page_elems(i)), page.all);
  }
  return page;
}

void Shadow::mark_run(std::int64_t first, std::int64_t last) {
  while (first < last) {
    const std::int64_t begin = first / kPage * kPage;
    const std::int64_t end = std::min(last, begin + page_elems(first));
    Page& page = pages_[static_cast<std::size_t>(first / kPage)];
    if (page.states.empty()) {
      if (page.all != init) {
        missing_ -= end - first;
        if (first == begin && end - begin == page_elems(first)) {
          page.all = init;
        } else {
          auto& states = mixed_page(first).states;
          std::fill(states.begin() + (first - begin), states.begin() + (end - begin), init);
        }
      }
    } else {
      const auto from = page.states.begin() + (first - begin);
      const auto to = page.states.begin() + (end - begin);
      missing_ -= end - first - std::count(from, to, init);
      std::fill(from, to, init);
    }
    first = end;
  }
}

void Shadow::mark_init(const Rect& r) {
  if (missing_ == 0) return;
  if (r.rows * r.cols == elems_) {
    fill(init);
    return;
  }
  materialise();
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const std::int64_t first = r.offset + row * r.stride;
    mark_run(first, first + r.cols);
  }
}

void Shadow::set(std::int64_t i, State state) {
  if (at(i) == state) return;
  materialise();
  State& s = mixed_page(i).states[static_cast<std::size_t>(i % kPage)];
  missing_ += (state == init ? 0 : 1) - (s == init ? 0 : 1);
  s = state;
}

std::int64_t Shadow::first_missing(const Rect& r) const {
  if (missing_ == 0) return -1;
  if (pages_.empty()) return all_ == init || r.rows * r.cols == 0 ? -1 : r.offset;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    std::int64_t i = r.offset + row * r.stride;
    const std::int64_t last = i + r.cols;
    while (i < last) {
      const Page& page = pages_[static_cast<std::size_t>(i / kPage)];
      const std::int64_t begin = i / kPage * kPage;
      const std::int64_t end = std::min(last, begin + kPage);
      if (page.states.empty()) {
        if (page.all != init) return i;
      } else {
        const auto to = page.states.begin() + (end - begin);
        const auto found =
            std::find_if(page.states.begin() + (i - begin), to, [](State s) { return s != init; });
        if (found != to) return begin + (found - page.states.begin());
      }
      i = end;
    }
  }
  return -1;
}

}  // namespace tessera
