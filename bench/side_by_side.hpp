// Ours and the peer, in turns, within one benchmark: machines drift, ratios hold.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace tessera::bench {

template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Counters ours_us, peer_us, and `ratio`: our rate over the peer's, each from the median of the
/// rounds.
template <class Ours, class Peer>
void side_by_side(benchmark::State& state, Ours&& ours, Peer&& peer, double flops = 0) {
  std::vector<double> our_times;
  std::vector<double> peer_times;
  ours();
  peer();
  for (auto _ : state) {
    our_times.push_back(seconds_of(ours));
    peer_times.push_back(seconds_of(peer));
  }
  const double o = median(our_times);
  const double p = median(peer_times);
  state.counters["ours_us"] = o * 1e6;
  state.counters["peer_us"] = p * 1e6;
  state.counters["ratio"] = p / o;
  if (flops > 0) {
    state.counters["ours_GFLOPs"] = flops / o * 1e-9;
    state.counters["peer_GFLOPs"] = flops / p * 1e-9;
  }
}

}  // namespace tessera::bench
