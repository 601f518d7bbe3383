// A GPU's own functions (sim/numerics/mufu.hpp), on one thread, each beside its neighbour rcp in
// turns: on a machine with other load the ratio says more than the time. Counter million_a_second.
#include <random>
#include <string>
#include <vector>

#include "bench/side_by_side.hpp"
#include "sim/numerics/mufu.hpp"

namespace tessera::bench {
namespace {

using Function = float (*)(float);

void beside_rcp(benchmark::State& state, Function function, float least) {
  constexpr int kElems = 1 << 16;
  std::vector<float> x(kElems);
  std::vector<float> y(kElems);
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> any(least, 10.f);
  for (float& each : x) each = any(rng);
  const auto all = [&](Function f) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = f(x[i]);
    benchmark::DoNotOptimize(y.data());
  };
  side_by_side(
      state, [&] { all(function); }, [&] { all(mufu::rcp); });
  state.counters["million_a_second"] = kElems / state.counters["ours_us"];
}

bool offer(const char* name, Function function, float least = -10.f) {
  benchmark::RegisterBenchmark((std::string("gpu ") + name + " / rcp").c_str(), beside_rcp,
                               function, least)
      ->Iterations(60);
  return true;
}
constexpr float kPositive = 0.01f;
const bool kRegistered = offer("cos", mufu::cos) && offer("ex2", mufu::ex2) &&
                         offer("lg2", mufu::lg2, kPositive) &&
                         offer("rsqrt", mufu::rsqrt, kPositive) && offer("sin", mufu::sin) &&
                         offer("sqrt", mufu::sqrt, kPositive) && offer("tanh", mufu::tanh);

}  // namespace
}  // namespace tessera::bench
