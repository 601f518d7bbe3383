#include "predict/program_queue.hpp"

#include <algorithm>
#include <queue>
#include <vector>

namespace tessera::predict {

namespace {

struct Sm {
  double done = 0;           ///< units of each program that is there since the beginning
  double now = 0;            ///< seconds
  std::vector<double> ends;  ///< at which of `done` its programs end; the next one first
};
constexpr auto kLater = std::greater<>();

struct Event {
  double at;
  std::size_t sm;
  bool operator>(const Event& other) const {
    return at != other.at ? at > other.at : sm > other.sm;
  }
};

/// Programs of one length begin and end together.
double alike(std::int64_t programs, double length, std::int64_t sms,
             std::span<const double> seconds) {
  const std::int64_t wave = sms * static_cast<std::int64_t>(seconds.size());
  const std::int64_t rest = (programs % wave + sms - 1) / sms;
  const std::int64_t whole = programs / wave;
  double all = static_cast<double>(whole) * seconds.back();
  if (rest > 0) all += seconds[static_cast<std::size_t>(rest - 1)];
  return length * all;
}

}  // namespace

double queue_seconds(std::int64_t programs, std::span<const double> lengths, std::int64_t sms,
                     std::span<const double> seconds) {
  if (std::ranges::adjacent_find(lengths, std::ranges::not_equal_to()) == lengths.end())
    return alike(programs, lengths[0], sms, seconds);
  std::vector<Sm> all(static_cast<std::size_t>(sms));
  std::int64_t next = 0;
  const auto length_of_next = [&] {
    return lengths[static_cast<std::size_t>(next++) % lengths.size()];
  };
  for (std::size_t k = 0; k < seconds.size(); ++k) {
    for (Sm& sm : all) {
      if (next < programs) sm.ends.push_back(length_of_next());
    }
  }
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  const auto expect = [&](std::size_t s) {
    const Sm& sm = all[s];
    events.push({sm.now + (sm.ends.front() - sm.done) * seconds[sm.ends.size() - 1], s});
  };
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (all[s].ends.empty()) continue;
    std::ranges::make_heap(all[s].ends, kLater);
    expect(s);
  }
  double last = 0;
  while (!events.empty()) {
    const Event e = events.top();
    events.pop();
    Sm& sm = all[e.sm];
    last = sm.now = e.at;
    sm.done = sm.ends.front();
    std::ranges::pop_heap(sm.ends, kLater);
    sm.ends.pop_back();
    if (next < programs) {
      sm.ends.push_back(sm.done + length_of_next());
      std::ranges::push_heap(sm.ends, kLater);
    }
    if (!sm.ends.empty()) expect(e.sm);
  }
  return last;
}

}  // namespace tessera::predict
