// What a grid step costs when its body does nothing: moving blocks, accounting, index maps.
#include "bench/side_by_side.hpp"
#include "sim/run.hpp"

namespace tessera::bench {
namespace {

/// One input and one output whose blocks move at every step, as small as a native tile.
template <bool kMoving>
struct EmptySteps {
  static constexpr KernelInfo info{.name = "empty_steps", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bn"));
  int steps;
  auto spec(auto bn) const {
    return tessera::spec(
        grid(parallel(1), arbitrary(steps)),
        in<float>("x", shape(8, 4 * bn), block(8, bn),
                  [](auto, auto i) {
                    if constexpr (kMoving)
                      return at(0, i % 4);
                    else
                      return at(0, i * 0);
                  }),
        in<float>("y", shape(8, bn), block(8, bn), [](auto, auto) { return at(0, 0); }));
  }
  void operator()(auto&, auto, auto) const {}
};

template <bool kMoving>
void empty_step(benchmark::State& state) {
  const auto steps = static_cast<int>(state.range(0));
  const Array x(DType::f32, {8, 512});
  const Array y(DType::f32, {8, 128});
  RunOptions options;
  options.threads = 1;
  std::vector<double> times;
  for (auto _ : state) {
    const RunResult r = run(EmptySteps<kMoving>{steps}, tiles(128), arrays(x, y), options);
    if (r.steps != steps) state.SkipWithError("steps are missing");
    times.push_back(r.seconds);
  }
  state.counters["ns_per_step"] = median(times) * 1e9 / steps;
}
BENCHMARK(empty_step<true>)
    ->Name("empty step, one block moving")
    ->Arg(1'000)
    ->Arg(100'000)
    ->Arg(10'000'000)
    ->Iterations(5);
BENCHMARK(empty_step<false>)
    ->Name("empty step, all blocks resident")
    ->Arg(100'000)
    ->Arg(10'000'000)
    ->Iterations(5);

}  // namespace
}  // namespace tessera::bench
