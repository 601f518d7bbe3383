// A program whose sum has runs, and its twin (tests/diagnostics/twins.hpp).
#pragma once

#include "sim/body/runs.hpp"
#include "tests/diagnostics/twins.hpp"

namespace tessera::twins {

template <bool kBad>
struct CarriedRun : Tile8x128 {
  static constexpr KernelInfo info{.name = "carried_run", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i"), runs(2).as("run"),
             arbitrary([](auto, auto run) { return run; }, [](auto, auto run) { return run + 1; })
                 .as("k")),
        in<float>("x", shape(kRows, kCols), block(bm, bn),
                  [](auto i, auto, auto k) { return at(i, k); }),
        out<float>("o", shape(kRows, 128), block(bm, bn),
                   [](auto i, auto, auto) { return at(i, 0); }),
        accum<float>("acc", bm, bn), total<float>("sum", 2, bm, bn));
  }
  void operator()(auto& env, auto x, auto o, auto acc, auto sum) const {
    if (env.first(2) && (!kBad || env.first(1))) *acc = 0.f;
    *acc += *x;
    if (env.last(2)) {
      sum_runs(env, 1, sum, acc,
               [&](const auto& all, auto first) { *o.col_range(first, all.cols) = all; });
    }
  }
};

}  // namespace tessera::twins
