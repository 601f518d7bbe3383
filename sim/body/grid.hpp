// Grids: `parallel` dimensions, whose cells are independent, then `arbitrary` ones, which run in
// order.
//
//   grid(parallel(ceil_div(m, bm)).as("i"), arbitrary(ceil_div(k, bk)).as("k"))
//
// The last dimension runs fastest. An arbitrary dimension may take its bounds from the ids before
// it (grid shrinking): arbitrary(lo, hi), each a number or a callable of the outer ids. Parallel
// dimensions come first; at most kMaxGridRank in all. The first arbitrary one may be of runs(n), of
// one sum (sim/body/runs.hpp).
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sim/body/extent.hpp"

namespace tessera {

inline constexpr int kMaxGridRank = 8;

struct Parallel {
  static constexpr bool kArbitraryDim = false;
  static constexpr bool kRunsDim = false;
  int count = 0;
  const char* label = "";
  TESSERA_FN constexpr Parallel as(const char* name) const { return {count, name}; }
};

/// kRuns: its steps are runs of a sum (sim/body/runs.hpp).
template <class Lo, class Hi, bool kRuns = false>
struct Arbitrary {
  static constexpr bool kArbitraryDim = true;
  static constexpr bool kRunsDim = kRuns;
  Lo lo;
  Hi hi;
  const char* label = "";
  TESSERA_FN constexpr Arbitrary as(const char* name) const { return {lo, hi, name}; }
};

TESSERA_FN constexpr Parallel parallel(int count) { return {count}; }
template <class Lo, class Hi>
TESSERA_FN constexpr auto arbitrary(Lo lo, Hi hi) {
  return Arbitrary<Lo, Hi>{lo, hi};
}
TESSERA_FN constexpr auto arbitrary(int count) { return arbitrary(0, count); }
template <class Count>
TESSERA_FN constexpr auto runs(Count count) {
  return Arbitrary<Int<0>, Count, true>{{}, count};
}

template <class... Dim>
struct Grid {
  static constexpr int kRank = sizeof...(Dim);
  static constexpr int kParallel = (0 + ... + (Dim::kArbitraryDim ? 0 : 1));
  static constexpr bool kArbitraryDim[sizeof...(Dim)] = {Dim::kArbitraryDim...};
  /// One that is the first arbitrary one.
  static constexpr bool kHasRuns = (false || ... || Dim::kRunsDim);
  std::tuple<Dim...> dims;
};

template <class... Dim>
TESSERA_FN constexpr auto grid(Dim... dims) {
  using G = Grid<Dim...>;
  static_assert(G::kRank >= 1 && G::kRank <= kMaxGridRank, "a grid has 1 to 8 dimensions");
  constexpr bool kOrdered = [] {
    for (int i = 0; i < G::kParallel; ++i) {
      if (G::kArbitraryDim[i]) return false;
    }
    return true;
  }();
  static_assert(kOrdered, "parallel dimensions come before arbitrary ones");
  constexpr bool kRunsFirst = [] {
    constexpr bool kRuns[] = {Dim::kRunsDim...};
    for (int i = 0; i < G::kRank; ++i) {
      if (kRuns[i] && (i != G::kParallel || i + 1 == G::kRank)) return false;
    }
    return true;
  }();
  static_assert(kRunsFirst, "runs are the first arbitrary dimension, and others are behind it");
  return G{{dims...}};
}

/// Steps of the parallel dimensions.
template <class... Dim>
std::int64_t cell_count(const Grid<Dim...>& g) {
  std::int64_t cells = 1;
  std::apply(
      [&](const auto&... dim) {
        const auto count = [&](const auto& d) {
          if constexpr (!std::remove_cvref_t<decltype(d)>::kArbitraryDim) cells *= d.count;
        };
        (count(dim), ...);
      },
      g.dims);
  return cells;
}

/// Calls f with the first `kCount` program ids, each typed by its dimension.
template <class G, int kCount, class F, class Ids>
TESSERA_FN constexpr decltype(auto) with_ids(F&& f, const Ids& ids) {
  return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return f(Id<G::kArbitraryDim[I]>{static_cast<int>(ids[I])}...);
  }
  (std::make_index_sequence<static_cast<std::size_t>(kCount)>{});
}

/// A bound of an arbitrary dimension: a number, or a callable of the ids before it.
template <class G, int kDim, class Bound, class Ids>
TESSERA_FN constexpr int bound_at(const Bound& bound, const Ids& ids) {
  if constexpr (std::is_convertible_v<Bound, int>)
    return static_cast<int>(bound);
  else
    return static_cast<int>(with_ids<G, kDim>(bound, ids));
}

}  // namespace tessera
