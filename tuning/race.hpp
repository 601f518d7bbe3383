// Which of several contenders is the fastest, by timing them in turns until that is known.
//
// Every round times each contender that is still in once, in an order that is drawn anew: what
// drifts (clocks, heat, other work) falls on all alike. Differences within rounds are compared, by
// a paired t-test against the leader, after 5, 8, 12, 18, ... rounds: who is slower is out
// (successive elimination: Even-Dar, Mannor & Mansour, JMLR 7, 2006). All tests of a race share
// 1 - confidence (Bonferroni, over looks and contenders): that the fastest goes out, or is further
// ahead than `within` says, is no more probable than that.
//
// The race ends when one is left, when the leader is no more than `margin` slower than any other,
// after so many rounds, or when it is told to. Left out: times of a contender that depend on its
// time in the round before, which the test takes for independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::tuning {

struct RaceOptions {
  double confidence = 0.95;
  double margin = 0.005;  ///< of the leader's time; 0: until one is left
  int first_look = 5;     ///< after so many rounds, at least 2
  int most_rounds = 300;
  double resolution = 0;   ///< of the clock, in seconds: times no further apart may be equal
  std::uint64_t seed = 1;  ///< of the order in a round
  /// Asked before each timing, with the round (from 0) and how many are in; false ends the race.
  std::function<bool(int round, std::size_t in)> goes_on = {};
};

struct Standing {
  double seconds = 0;   ///< mean; of one that is out: the leader's, times how it did in its rounds
  double interval = 0;  ///< half the width of the confidence interval of its mean, in seconds
  int rounds = 0;
  bool out = false;  ///< slower than another, with the race's confidence
};

struct RaceResult {
  std::vector<Standing> standings;
  std::size_t best = 0;
  int rounds = 0;      ///< that were run to their end
  bool known = false;  ///< whether anything is: a look was taken
  /// With the race's confidence the best is no more than this part slower than the fastest; 0: it
  /// is the fastest.
  double within = 0;
};

/// `time`: seconds of one run of a contender. `out`: told of each that goes out, as it does.
RaceResult race(std::size_t contenders, const std::function<double(std::size_t)>& time,
                const RaceOptions& options = {},
                const std::function<void(std::size_t, const Standing&)>& out = {});

}  // namespace tessera::tuning
