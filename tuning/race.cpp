#include "tuning/race.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

namespace tessera::tuning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The next look comes half as many rounds later.
int look_after(int rounds) { return rounds + (rounds + 1) / 2; }

/// Looks of a race that runs to its last round.
int looks_in(const RaceOptions& options) {
  int looks = 1;
  for (int r = options.first_look; r < options.most_rounds; r = look_after(r)) ++looks;
  return looks;
}

/// Mean and variance of a row of numbers.
struct Sample {
  double mean = 0;
  double variance = 0;
  int n = 0;

  template <class At>
  Sample(int count, const At& at, double resolution) : n(count) {
    for (int i = 0; i < n; ++i) mean += at(i) / n;
    for (int i = 0; i < n; ++i) variance += (at(i) - mean) * (at(i) - mean) / (n - 1);
    // A clock that counts in steps: what it rounds away is spread over one of them.
    constexpr double kOfAStep = 12;
    variance = std::max(variance, resolution * resolution / kOfAStep);
  }
  /// Half the width of the interval that the mean lies out of with probability `error`.
  double half_width(double error) const {
    if (variance <= 0) return 0;
    const boost::math::students_t distribution(n - 1);
    return quantile(complement(distribution, error / 2)) * std::sqrt(variance / n);
  }
};

class Race {
 public:
  Race(std::size_t contenders, const RaceOptions& options)
      : options_(options), times_(contenders), draw_(options.seed) {
    result_.standings.resize(contenders);
    in_.resize(contenders);
    std::iota(in_.begin(), in_.end(), std::size_t{0});
    const double tests =
        static_cast<double>(std::max<std::size_t>(contenders, 2) - 1) * looks_in(options);
    error_ = (1 - options.confidence) / tests;
  }

  RaceResult run(const std::function<double(std::size_t)>& time,
                 const std::function<void(std::size_t, const Standing&)>& out) {
    int next = options_.first_look;
    while (result_.rounds < options_.most_rounds && round(time)) {
      ++result_.rounds;
      if (result_.rounds < next) continue;
      next = look_after(next);
      look(out);
      if (in_.size() == 1 || result_.within <= options_.margin) break;
    }
    if (!result_.known && result_.rounds > 1) estimate();
    scale();
    return std::move(result_);
  }

 private:
  /// False if it was told to end in the middle: the round does not count.
  bool round(const std::function<double(std::size_t)>& time) {
    std::vector<std::size_t> order = in_;
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw_() % i]);
    std::vector<double> seconds(times_.size());
    for (const std::size_t i : order) {
      if (options_.goes_on && !options_.goes_on(result_.rounds, in_.size())) return false;
      seconds[i] = time(i);
    }
    for (const std::size_t i : in_) times_[i].push_back(seconds[i]);
    return true;
  }
  double mean(std::size_t i, std::size_t rounds) const {
    double sum = 0;
    for (std::size_t r = 0; r < rounds; ++r) sum += times_[i][r];
    return sum / static_cast<double>(rounds);
  }
  /// Of who is in: means, and who leads.
  void estimate() {
    result_.best = *std::ranges::min_element(
        in_, {}, [this](std::size_t i) { return mean(i, times_[i].size()); });
    for (const std::size_t i : in_) {
      const std::vector<double>& t = times_[i];
      const Sample sample(
          static_cast<int>(t.size()), [&t](int r) { return t[static_cast<std::size_t>(r)]; },
          options_.resolution);
      result_.standings[i] = {sample.mean, sample.half_width(1 - options_.confidence), sample.n,
                              false};
    }
  }
  void look(const std::function<void(std::size_t, const Standing&)>& out) {
    estimate();
    result_.known = true;
    result_.within = 0;
    std::vector<std::size_t> left;
    const std::vector<double>& first = times_[result_.best];
    for (const std::size_t i : in_) {
      if (i == result_.best) {
        left.push_back(i);
        continue;
      }
      const std::vector<double>& t = times_[i];
      const Sample behind(
          result_.rounds,
          [&](int r) {
            return t[static_cast<std::size_t>(r)] - first[static_cast<std::size_t>(r)];
          },
          options_.resolution);
      // What a clock rounds away it may round alike in every round.
      const double width = behind.half_width(error_) + options_.resolution;
      if (behind.mean > width) {
        result_.standings[i].out = true;
        if (out) out(i, result_.standings[i]);
        continue;
      }
      left.push_back(i);
      const double ahead = width - behind.mean;  // of the leader, at most
      const double its = result_.standings[result_.best].seconds - ahead;
      result_.within = std::max(result_.within, its > 0 ? ahead / its : kInfinity);
    }
    in_ = std::move(left);
  }
  /// Those that went out early were timed when clocks may have been others.
  void scale() {
    const Standing& best = result_.standings[result_.best];
    for (std::size_t i = 0; i < times_.size(); ++i) {
      Standing& s = result_.standings[i];
      if (!s.out) continue;
      const double factor = best.seconds / mean(result_.best, times_[i].size());
      // It went out against who led then: it is slower, whatever the best's first rounds were.
      s.seconds = std::max(s.seconds * factor, std::nextafter(best.seconds, kInfinity));
      s.interval *= factor;
    }
  }

  const RaceOptions& options_;
  std::vector<std::vector<double>> times_;  ///< of each contender, by round
  std::vector<std::size_t> in_;
  std::mt19937_64 draw_;
  double error_ = 0;  ///< that a test may make
  RaceResult result_;
};

}  // namespace

RaceResult race(std::size_t contenders, const std::function<double(std::size_t)>& time,
                const RaceOptions& options,
                const std::function<void(std::size_t, const Standing&)>& out) {
  if (contenders == 0 || options.first_look < 2)
    throw std::invalid_argument("a race has contenders, and two rounds before it looks");
  return Race(contenders, options).run(time, out);
}

}  // namespace tessera::tuning
