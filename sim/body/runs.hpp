// A sum that is cut into runs: equal parts of a long k, say, which cores take side by side.
//
//   grid(parallel(...), runs(count).as("run"), arbitrary(lo, hi).as("k"))
//   ...
//   if (env.first(2)) *acc = 0.f;
//   *acc += dot(*x, *y);
//   if (env.last(2))
//     sum_runs(env, 1, total, acc, [&](const auto& sum, auto first) {
//       *o.col_range(first, sum.cols) = cast<T>(sum);
//     });
//
// The parts are added to 0 in the order of the runs: the same bits from every build, and none of
// them goes to HBM. Every run has a step; it finds no scratch of another's, and nothing but
// sum_runs() touches `total`. Who calls it includes sim/ops/add.hpp.
//
// On a GPU the runs of a cell may be groups of warps of one CTA (side_by_side() in
// sim/body/cta.hpp): each adds columns [first, first + sum.cols) of all parts and hands those to
// `use`. Elsewhere they take turns, and the last hands on all columns.
#pragma once

#include "sim/body/spec.hpp"

namespace tessera {

namespace detail {
TESSERA_FN constexpr int of_several(int runs, int extent) { return runs == 1 ? 1 : extent; }
template <int kRuns, int kExtent>
TESSERA_FN constexpr auto of_several(Int<kRuns>, Int<kExtent>) {
  return Int < kRuns == 1 ? 1 : kExtent > {};
}
template <class Ref>
inline constexpr bool kIsOne = std::is_same_v<std::remove_const_t<decltype(Ref::rows)>, Int<1>>&&
    std::is_same_v<std::remove_const_t<decltype(Ref::cols)>, Int<1>>;
}  // namespace detail

/// What the parts of several runs are added to; one element of a single run.
template <class T, class Runs, class R, class C>
TESSERA_FN constexpr auto total(Name name, Runs runs, R rows, C cols) {
  auto sum = accum<T>(name, detail::of_several(runs, rows), detail::of_several(runs, cols));
  sum.total = true;
  return sum;
}

/// Adds a run's part; use(sum, first) when all are.
template <class Env, class Total, class Part, class Use>
TESSERA_FN void sum_runs(Env& env, int dim, Total total, Part part, Use use) {
  if constexpr (requires { env.sum_of_groups(part, use); }) {
    env.sum_of_groups(part, use);
  } else {
    if constexpr (!detail::kIsOne<Total> || detail::kIsOne<Part>) {
      if (env.num_programs(dim) > 1) {
        if (env.first(dim)) *total = 0.f;
        *total += *part;
        if (env.last(dim)) use(*total, 0);
        return;
      }
    }
    use(*part, 0);
  }
}

}  // namespace tessera
