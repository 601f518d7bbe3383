// Runs of a sum (sim/body/runs.hpp) by groups of warps of a CTA, one per run.
//
// Groups put what their runs give where threads exchange elements, as many of them as fit there at
// a time; each adds a share of the columns of all, in the order of the runs.
#pragma once

#include "cuda/cell.hpp"
#include "cuda/exchange.hpp"
#include "cuda/tile.hpp"

namespace tessera::cuda {

/// kAt: where in shared memory groups exchange.
template <class G, class Th, int kScope, int kAt>
struct RunsEnv : Env<G, Th, kScope> {
  template <class Part, class Use>
  __device__ __forceinline__ void sum_of_groups(const Part& part, Use use) const {
    using T = typename Part::Element;
    constexpr int kR = Part::rows;
    constexpr int kC = Part::cols;
    constexpr int kAll = Th::kThreads * Th::kGroups;
    constexpr int kShare = kC / Th::kGroups;
    constexpr int kFit = cta::kExchangeBytes / (kR * kC * static_cast<int>(sizeof(T)));
    static_assert(kC % (2 * Th::kGroups) == 0 && kFit > 0, "side_by_side() in sim/body/cta.hpp");
    // [run][row][column]: four rows of 8 neighbours share no bank.
    T* const parts = static_cast<T*>(pointer_to(kAt));
    const auto pair = [&](int run, int r, int c) {
      return parts + (run * kR + r) * kC + (c ^ (r & 3) << 3);
    };
    const int group = Th::group();
    RegTile<Th, T, kR, kShare> sum;
    Cta<Th>::assign(sum, T{});
#pragma unroll
    for (int first = 0; first < Th::kGroups; first += kFit) {
      if (group >= first && group < first + kFit) {
#pragma unroll
        for (int i = 0; i < part.sum->kHeldRows; ++i) {
#pragma unroll
          for (int j = 0; j < part.sum->kHeldCols; j += 2) {
            const int r = Th::template row<kR>(i);
            const int c = Th::template col<kC>(j);
            if (inside<Th, kR, kC>(r, c))
              write<2, true>(pair(group - first, r, c), {part.sum->v[i][j], part.sum->v[i][j + 1]});
          }
        }
      }
      meet<kAll>();
#pragma unroll
      for (int i = 0; i < sum.kHeldRows; ++i) {
#pragma unroll
        for (int j = 0; j < sum.kHeldCols; j += 2) {
          const int r = Th::template row<kR>(i);
          const int c = Th::template col<kShare>(j);
          if (!inside<Th, kR, kShare>(r, c)) continue;
#pragma unroll
          for (int run = 0; run < kFit && first + run < Th::kGroups; ++run) {
            T two[2];
            read<2, true>(pair(run, r, group * kShare + c), two);
            sum.v[i][j] += two[0];
            sum.v[i][j + 1] += two[1];
          }
        }
      }
      meet<kAll>();
    }
    use(sum, group * kShare);
  }
};

}  // namespace tessera::cuda
