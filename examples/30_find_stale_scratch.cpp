// A kernel that is right on one core and wrong on two: find it on a laptop.
//
// The accumulator is cleared in the first step of the grid, not in the first step of each row of
// blocks.
#include <cstdio>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/run.hpp"

using namespace tessera;

struct RowSums {
  static constexpr KernelInfo info{
      .name = "row_sums", .summary = "", .math = "o[i] = sum_j x[i,j]"};
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  int m, n;

  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), arbitrary(ceil_div(n, bn)).as("j")),
        in<float>("x", shape(m, n), block(bm, bn), [](auto i, auto j) { return at(i, j); }).pad(0),
        out<float>("o", shape(m, 1), block(bm, 1), [](auto i, auto) { return at(i, 0); }),
        accum<float>("acc", bm, 1));
  }
  void operator()(auto& env, auto x, auto o, auto acc) const {
    if (env.first(0) && env.first(1)) *acc = 0.f;  // the bug: should be env.first(1)
    *acc += row_sum(*x);
    if (env.last(1)) *o = *acc;
  }
};

int main() {
  const Array x(DType::f32, {64, 300});
  const RunResult result = run(RowSums{64, 300}, tiles(16, 128), arrays(x));
  for (const auto& d : result.diagnostics) std::fputs(d.text().c_str(), stdout);
}
// clang-format off
/* expected output
error[parallel-dependence]: acc[0, 0] is read, but only another parallel cell has written it
  kernel  row_sums, grid (i=1, j=0)
  line    examples/30_find_stale_scratch.cpp:30  *acc += row_sum(*x);
  ref     acc: VMEM f32[16, 1], scratch
  bytes   [0, 4)
  help    cells of a parallel dimension may run on different cores, in any order: initialise scratch in every cell, or make the dimension arbitrary
*/
