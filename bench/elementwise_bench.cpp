// An elementwise chain and a copy of tiles, against memcpy of as many bytes.
#include <cstring>

#include "bench/side_by_side.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/run.hpp"

namespace tessera::bench {
namespace {

template <bool kChain>
struct Elementwise {
  static constexpr KernelInfo info{.name = "elementwise", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  int m, n;
  auto spec(auto bm, auto bn) const {
    auto tile_block = [](auto i, auto j) { return at(i, j); };
    return tessera::spec(grid(parallel(ceil_div(m, bm)), parallel(ceil_div(n, bn))),
                         in<float>("x", shape(m, n), block(bm, bn), tile_block),
                         out<float>("o", shape(m, n), block(bm, bn), tile_block));
  }
  void operator()(auto&, auto x, auto o) const {
    if constexpr (kChain)
      *o = max(*x * 1.5f + 0.25f, 0.f);
    else
      *o = *x;
  }
};

template <bool kChain>
void against_memcpy(benchmark::State& state) {
  constexpr int kSize = 2048;  // 16 MiB each way
  const Array x(DType::f32, {kSize, kSize});
  Array copy(DType::f32, {kSize, kSize});
  RunOptions options;
  options.threads = 1;
  double ours = 0;
  std::vector<double> times;
  side_by_side(
      state,
      [&] {
        const RunResult r =
            run(Elementwise<kChain>{kSize, kSize}, tiles(128, 256), arrays(x), options);
        ours = r.seconds;
        times.push_back(ours);
      },
      [&] {
        std::memcpy(copy.bytes(), x.bytes(), static_cast<std::size_t>(x.size_bytes()));
        benchmark::DoNotOptimize(copy.bytes());
      });
  state.counters["ours_GBps"] = 2e-9 * static_cast<double>(x.size_bytes()) / median(times);
}
BENCHMARK(against_memcpy<true>)
    ->Name("chain max(x * a + b, 0), 16 MiB / memcpy, 1 thread")
    ->Iterations(30);
BENCHMARK(against_memcpy<false>)->Name("copy kernel, 16 MiB / memcpy, 1 thread")->Iterations(30);

}  // namespace
}  // namespace tessera::bench
