// What a timeline's resources do over time: a server of requests, and when something is busy.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "predict/timeline.hpp"

namespace tessera::predict {

/// Seconds of being busy, in bins that widen with the time that they cover.
class Busy {
 public:
  /// `seconds` of work, spread over [begin, end).
  void add(double begin, double end, double seconds) {
    total_ += seconds;
    while (end >= width_ * kBins) widen();
    const auto first = static_cast<std::size_t>(begin / width_);
    const auto last = static_cast<std::size_t>(end / width_);
    if (first == last || end <= begin) {
      bins_[first] += seconds;
      return;
    }
    const double density = seconds / (end - begin);
    for (std::size_t b = first; b <= last; ++b) {
      const double from = std::max(begin, static_cast<double>(b) * width_);
      const double to = std::min(end, static_cast<double>(b + 1) * width_);
      bins_[b] += density * (to - from);
    }
  }
  double total() const { return total_; }
  /// The busy fraction of each of so many equal parts of [0, seconds).
  std::vector<double> over(double seconds, std::size_t parts) const {
    std::vector<double> fractions(parts, 0.);
    const double part = seconds / static_cast<double>(parts);
    for (std::size_t b = 0; b < kBins; ++b) {
      if (bins_[b] == 0) continue;
      const double begin = static_cast<double>(b) * width_;
      const double end = std::min(begin + width_, std::max(seconds, begin));
      if (end <= begin) {
        fractions.back() += bins_[b] / part;
        continue;
      }
      const double density = bins_[b] / (end - begin);
      for (auto p = static_cast<std::size_t>(begin / part); p < parts; ++p) {
        const double from = std::max(begin, static_cast<double>(p) * part);
        const double to = std::min(end, static_cast<double>(p + 1) * part);
        if (to <= from) break;
        fractions[p] += density * (to - from) / part;
      }
    }
    return fractions;
  }

 private:
  static constexpr std::size_t kBins = 512;
  void widen() {
    for (std::size_t b = 0; b < kBins / 2; ++b) bins_[b] = bins_[2 * b] + bins_[2 * b + 1];
    std::fill(bins_.begin() + kBins / 2, bins_.end(), 0.);
    width_ *= 2;
  }

  double total_ = 0;
  double width_ = 1e-9;
  std::array<double, kBins> bins_{};
};

/// What a timeline of `seconds` says of it.
inline Resource resource_of(const char* name, const Busy& busy, double seconds) {
  return {name, busy.total() / seconds, busy.over(seconds, Resource::kParts)};
}

/// Serves one request after the other, at a rate that whoever asks knows.
struct Server {
  double free = 0;  ///< when it has served all
  Busy busy;
  /// Until when `seconds` of work last that are asked for at `from`.
  double serve(double from, double seconds) {
    const double begin = std::max(free, from);
    free = begin + seconds;
    busy.add(begin, free, seconds);
    return free;
  }
};

}  // namespace tessera::predict
