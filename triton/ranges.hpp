// A set of bytes of a storage, as ranges that do not touch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace tessera::triton {

class Ranges {
 public:
  bool empty() const { return ends_.empty(); }
  /// [begin, end) belongs to it; does not.
  void add(std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin() && std::prev(it)->second >= begin) --it;
    while (it != ends_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ends_.erase(it);
    }
    ends_.emplace_hint(it, begin, end);
  }
  void remove(std::int64_t begin, std::int64_t end) {
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin()) --it;
    while (it != ends_.end() && it->first < end) {
      const auto [first, last] = *it;
      if (last <= begin) {
        ++it;
        continue;
      }
      it = ends_.erase(it);
      if (first < begin) ends_.emplace_hint(it, first, begin);
      if (last > end) ends_.emplace_hint(it, end, last);
    }
  }
  /// Some of [begin, end).
  bool touches(std::int64_t begin, std::int64_t end) const {
    const auto it = ends_.lower_bound(end);
    return it != ends_.begin() && std::prev(it)->second > begin;
  }

  /// By begin: its ends.
  const std::map<std::int64_t, std::int64_t>& all() const { return ends_; }

 private:
  std::map<std::int64_t, std::int64_t> ends_;  ///< by begin
};

}  // namespace tessera::triton
