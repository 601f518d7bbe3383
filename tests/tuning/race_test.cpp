// Races between clocks that are made up: what is fastest is known.
#include "tuning/race.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace tessera::tuning;

namespace {

/// Times around a mean, of a shape of distribution.
enum class Noise { normal, skewed, spikes };

class Clocks {
 public:
  Clocks(std::vector<double> means, Noise noise, double spread, std::uint64_t seed)
      : means_(std::move(means)), noise_(noise), spread_(spread), draw_(seed) {}

  double operator()(std::size_t i) {
    ++timings;
    double t = means_[i] * drift;
    drift *= 1 + slowing;
    switch (noise_) {
      case Noise::normal:
        t *= 1 + spread_ * normal_(draw_);
        break;
      case Noise::skewed:  // of mean 1
        t *= std::exp(spread_ * normal_(draw_) - spread_ * spread_ / 2);
        break;
      case Noise::spikes:
        t *= 1 + spread_ * normal_(draw_) + (draw_() % 50 == 0 ? 0.5 : 0);
        break;
    }
    return step > 0 ? std::round(t / step) * step : t;
  }

  int timings = 0;
  double drift = 1;
  double slowing = 0;  ///< of a timing
  double step = 0;     ///< that it counts in

 private:
  std::vector<double> means_;
  Noise noise_;
  double spread_;
  std::mt19937_64 draw_;
  std::normal_distribution<double> normal_;
};

RaceResult raced(Clocks& clocks, std::size_t n, RaceOptions options, std::uint64_t seed) {
  options.seed = seed;
  return race(
      n, [&](std::size_t i) { return clocks(i); }, options);
}

constexpr std::uint64_t kRaces = 400;

}  // namespace

TEST_CASE("the fastest wins, in 95 of 100 races at least", "[tuning][race]") {
  for (const Noise noise : {Noise::normal, Noise::skewed, Noise::spikes}) {
    CAPTURE(static_cast<int>(noise));
    std::uint64_t right = 0;
    std::uint64_t claimed = 0;
    for (std::uint64_t seed = 0; seed < kRaces; ++seed) {
      Clocks clocks({1.03, 1.10, 1.00, 1.02, 1.5, 1.04, 1.03, 1.25}, noise, 0.01, seed);
      const RaceResult r = raced(clocks, 8, {.margin = 0}, seed);
      right += r.best == 2 ? 1 : 0;
      claimed += r.known && r.within == 0 ? 1 : 0;
    }
    CHECK(right >= kRaces * 95 / 100);
    CHECK(claimed >= kRaces / 2);  // far apart: it is also said
  }
}

TEST_CASE("of two that are equal neither is said to be the fastest", "[tuning][race]") {
  std::uint64_t claimed = 0;
  std::uint64_t claimed_apart = 0;
  for (std::uint64_t seed = 0; seed < kRaces; ++seed) {
    Clocks equal({1, 1}, Noise::normal, 0.01, seed);
    const RaceResult r = raced(equal, 2, {.margin = 0}, seed);
    claimed += r.within == 0 ? 1 : 0;
    if (r.within > 0) CHECK(r.rounds == 300);
    Clocks apart({1, 1.01}, Noise::normal, 0.01, seed);
    const RaceResult other = raced(apart, 2, {.margin = 0}, seed);
    claimed_apart += other.within == 0 && other.best == 0 ? 1 : 0;
  }
  CHECK(claimed <= kRaces * 5 / 100);
  CHECK(claimed_apart >= kRaces * 95 / 100);
}

TEST_CASE("what the leader may be behind by is an upper bound", "[tuning][race]") {
  const std::vector<double> means{1.004, 1.0, 1.002, 1.003};
  std::uint64_t wrong = 0;
  std::uint64_t early = 0;
  for (std::uint64_t seed = 0; seed < kRaces; ++seed) {
    Clocks clocks(means, Noise::normal, 0.01, seed);
    const RaceResult r = raced(clocks, 4, {.margin = 0.01}, seed);
    wrong += means[r.best] > 1 + r.within ? 1 : 0;
    early += r.within <= 0.01 && r.rounds < 300 ? 1 : 0;
  }
  CHECK(wrong <= kRaces * 5 / 100);
  CHECK(early >= kRaces * 9 / 10);
}

TEST_CASE("those that are far behind cost five timings", "[tuning][race]") {
  std::vector<double> means(20, 2.);
  means[7] = 1;
  means[8] = 1.003;
  Clocks clocks(means, Noise::normal, 0.005, 1);
  std::vector<std::size_t> out;
  const RaceResult r = race(
      20, [&](std::size_t i) { return clocks(i); }, {.margin = 0},
      [&](std::size_t i, const Standing& s) {
        CHECK(s.rounds >= 5);
        CHECK(s.seconds == Approx(means[i]).epsilon(0.02));
        out.push_back(i);
      });
  CHECK(r.best == 7);
  CHECK(clocks.timings == 20 * 5 + 2 * (r.rounds - 5));
  std::size_t out_now = 0;
  for (const Standing& s : r.standings) out_now += s.out ? 1 : 0;
  CHECK(out.size() == out_now);
  CHECK(r.standings[7].interval < 0.01);
}

TEST_CASE("a clock that slows down is every contender's", "[tuning][race]") {
  // By a tenth from the first timing to the 200th: one after the other the first would win.
  std::uint64_t right = 0;
  for (std::uint64_t seed = 0; seed < kRaces; ++seed) {
    Clocks clocks({1.01, 1.02, 1.0}, Noise::normal, 0.002, seed);
    clocks.slowing = 5e-4;
    const RaceResult r = raced(clocks, 3, {.margin = 0}, seed);
    right += r.best == 2 ? 1 : 0;
    for (const Standing& s : r.standings)  // as timed when the best was
      REQUIRE(s.seconds >= r.standings[r.best].seconds);
  }
  CHECK(right >= kRaces * 95 / 100);
}

TEST_CASE("a clock that counts in steps tells no less than a step apart", "[tuning][race]") {
  for (const double resolution : {0., 0.01}) {
    std::uint64_t claimed = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Clocks clocks({1.0049, 1.0051}, Noise::normal, 0, seed);  // a step of the clock apart, or not
      clocks.step = 0.01;
      RaceOptions options{.margin = 0};
      options.resolution = resolution;
      options.most_rounds = 12;
      claimed += raced(clocks, 2, options, seed).within == 0 ? 1 : 0;
    }
    CHECK(claimed == (resolution > 0 ? 0U : 20U));
  }
}

TEST_CASE("a race that is told to end says what it knows", "[tuning][race]") {
  Clocks clocks({1, 1.001}, Noise::normal, 0.01, 1);
  int most = 3;
  RaceOptions options{.margin = 0};
  options.goes_on = [&](int round, std::size_t in) {
    CHECK(in == 2);
    return round < most;
  };
  const RaceResult none = raced(clocks, 2, options, 1);
  CHECK_FALSE(none.known);
  CHECK(none.rounds == 3);
  CHECK(none.standings[0].rounds == 3);
  most = 30;
  const RaceResult some = raced(clocks, 2, options, 1);
  CHECK(some.known);
  CHECK(some.within > 0);
  CHECK(some.rounds == 30);
  CHECK_THROWS_AS(race(0, [](std::size_t) { return 1.; }), std::invalid_argument);
}

TEST_CASE("one alone is timed for its time", "[tuning][race]") {
  Clocks clocks({3}, Noise::normal, 0.01, 1);
  const RaceResult r = raced(clocks, 1, {}, 1);
  CHECK(r.rounds == 5);
  CHECK(r.within == 0);
  CHECK(r.standings[0].seconds == Approx(3).epsilon(0.02));
}

TEST_CASE("as many rounds as are asked for, nobody goes out before", "[tuning][race]") {
  Clocks clocks({1, 2, 3}, Noise::normal, 0.01, 1);
  const RaceResult r = raced(clocks, 3, {.first_look = 40, .most_rounds = 40}, 1);
  CHECK(r.rounds == 40);
  CHECK(clocks.timings == 120);
  CHECK(r.best == 0);
}
