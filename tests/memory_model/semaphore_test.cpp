// What waits on a semaphore prove, held to the definition; and what many of them cost.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "memory_model/dma.hpp"

using namespace tessera;

namespace {

/// As memory_model/semaphore.hpp defines it, signal by signal.
struct Defined {
  struct Signal {
    std::int64_t amount;
    Clock clock;
    int half;     // -1: none
    int landing;  // of a transfer's reading: the half that proves it; -1: none
  };
  std::vector<Signal> open;
  std::int64_t settled = 0;
  std::int64_t issued = 0;
  std::int64_t waited = 0;

  void issue(const Signal& s) {
    issued += s.amount;
    open.push_back(s);
  }
  std::vector<int> take(std::int64_t amount, Clock& waiter) {
    waited += amount;
    const std::int64_t need = waited - settled;
    const std::int64_t total = issued - settled;
    std::vector<int> complete;
    if (need <= 0) return complete;
    for (int c = 0; c < waiter.cores(); ++c) {
      std::vector<std::pair<Time, std::int64_t>> by_time;
      for (const auto& s : open) by_time.emplace_back(s.clock[c], s.amount);
      std::sort(by_time.begin(), by_time.end());
      std::int64_t sum = 0;
      for (const auto& [time, value] : by_time) {
        sum += value;
        if (sum < need) continue;
        waiter[c] = std::max(waiter[c], time);
        break;
      }
    }
    std::vector<Signal> still;
    const std::vector<Signal> before = open;
    for (const auto& s : before) {
      std::int64_t without = total - s.amount;
      for (const auto& o : before) {
        if (s.landing >= 0 && o.half == s.landing) without -= o.amount;
      }
      if (without < need || (s.half < 0 && s.clock.known_to(waiter))) {
        settled += s.amount;
        if (s.half >= 0) complete.push_back(s.half);
      } else {
        still.push_back(s);
      }
    }
    open = still;
    return complete;
  }
};

}  // namespace

TEST_CASE("a wait proves what its definition says, signal by signal", "[memory_model][semaphore]") {
  int partial = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<int>(random() % n); };
    constexpr int kCores = 3;
    Semaphore semaphore("s", Semaphore::Kind::dma, 0);
    Defined defined;
    std::vector<Clock> clocks(kCores, Clock(kCores));
    for (int c = 0; c < kCores; ++c) clocks[static_cast<std::size_t>(c)][c] = 1;
    std::vector<std::shared_ptr<TransferHalf>> halves;
    for (int step = 0; step < 60; ++step) {
      const int core = below(kCores);
      Clock& clock = clocks[static_cast<std::size_t>(core)];
      Site site;
      site.core = core;
      const int what = below(5);
      if (what == 0) {  // knows more
        clock.join(clocks[static_cast<std::size_t>(below(kCores))]);
      } else if (what < 3) {
        const std::int64_t amount = 1 + below(3);
        const int kind = below(3);  // a signal, a transfer's end, both ends of one
        if (kind == 0) {
          semaphore.issue(amount, clock, nullptr, site);
          defined.issue({amount, clock, -1, -1});
        }
        const int ends = kind;
        for (int e = 0; e < ends; ++e) halves.push_back(std::make_shared<TransferHalf>());
        const int last = static_cast<int>(halves.size()) - 1;
        if (ends == 2) halves[halves.size() - 2]->after = halves.back().get();
        for (int e = ends - 1; e >= 0; --e) {
          semaphore.issue(amount, clock, halves[static_cast<std::size_t>(last - e)], site);
          defined.issue({amount, clock, last - e, e == 1 ? last : -1});
        }
        ++clock[core];
      } else if (semaphore.outstanding() > 0) {
        const std::int64_t amount =
            1 +
            below(static_cast<std::uint32_t>(std::min<std::int64_t>(4, semaphore.outstanding())));
        semaphore.land(amount);
        Clock waiter = clocks[0];
        const auto complete = semaphore.take(amount, clocks[0], {0, clocks[0][0]});
        const std::vector<int> wanted = defined.take(amount, waiter);
        INFO("seed " << seed << ", step " << step);
        REQUIRE(clocks[0].times() == waiter.times());
        REQUIRE(complete.size() == wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i)
          REQUIRE(complete[i] == halves[static_cast<std::size_t>(wanted[i])]);
        REQUIRE(semaphore.open().size() == defined.open.size());
        partial += defined.open.empty() ? 0 : 1;
      }
    }
  }
  CHECK(partial > 1000);
}

TEST_CASE("many signals on one semaphore cost as many steps, not squares",
          "[memory_model][semaphore]") {
  constexpr int kMany = 100'000;
  const auto start = std::chrono::steady_clock::now();
  for (const bool one_by_one : {false, true}) {
    for (const int sender : {0, 1}) {
      Semaphore semaphore("s", Semaphore::Kind::dma, 0);
      Clock waiter(2);
      waiter[0] = 1;
      Clock clock = sender == 0 ? waiter : Clock(2);
      Site site;
      site.core = sender;
      std::vector<std::shared_ptr<TransferHalf>> halves;
      for (int i = 0; i < kMany; ++i) {
        ++clock[sender];
        halves.push_back(std::make_shared<TransferHalf>());
        // Of sizes that differ, one is certain after the other.
        semaphore.issue(one_by_one ? 1 + i : 64, clock, halves.back(), site);
      }
      for (int i = 0; i < kMany; ++i) {
        const std::int64_t amount = one_by_one ? kMany - i : 64;
        semaphore.land(amount);
        semaphore.take(amount, waiter, {0, 1});
      }
      CHECK(semaphore.outstanding() == 0);
      CHECK(semaphore.open().empty());
    }
  }
  // Squares would take hours.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}
