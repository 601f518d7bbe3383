// Look inside a body: print tiles, check what should hold, name regions and see where the work is.
#include <cstdio>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/run.hpp"

using namespace tessera;

struct Softmax {
  static constexpr KernelInfo info{.name = "softmax", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  int m, n;

  auto spec(auto bm, auto bn) const {
    auto row_block = [](auto i) { return at(i, 0); };
    return tessera::spec(grid(parallel(ceil_div(m, bm)).as("i")),
                         in<float>("x", shape(m, n), block(bm, bn), row_block),
                         out<float>("y", shape(m, n), block(bm, bn), row_block));
  }
  void operator()(auto& env, auto x, auto y) const {
    auto shifted = *x - row_max(*x);
    {
      auto region = env.scope("exponentials");
      *y = exp(shifted);
    }
    auto region = env.scope("normalise");
    auto sum = row_sum(*y);
    env.check(sum(0, 0) >= 1.f, "the largest element contributes exp(0)");
    if (env.first(0)) env.print("row sums at step", env.program_id(0), sum);
    *y = *y / sum;
  }
};

int main() {
  Array x(DType::f32, {16, 128});
  for (int i = 0; i < 16 * 128; ++i) x.data<float>()[i] = static_cast<float>(i % 7);
  const RunResult result = run(Softmax{16, 128}, tiles(8, 128), arrays(x));
  for (const auto& d : result.diagnostics) std::fputs(d.text().c_str(), stdout);
  for (const auto& [region, totals] : result.scopes) {
    std::printf("%s: entered %lld times, %lld flop, %lld transcendental\n", region.c_str(),
                static_cast<long long>(totals.entries), static_cast<long long>(totals.flops),
                static_cast<long long>(totals.transcendentals));
  }
}
/* expected output
row sums at step 0 f32(8, 1)
  28.4588
  28.5177
  28.9528
  29.4521
  28.4747
  28.6347
  29.8175
  28.4588
exponentials: entered 2 times, 2048 flop, 2048 transcendental
normalise: entered 2 times, 4096 flop, 0 transcendental
*/
