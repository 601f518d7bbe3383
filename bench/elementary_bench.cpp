// Elementary functions of a tile, on one thread: ours, correctly rounded, against libm's f64
// function and a rounding, one element after the other.
#include <cmath>
#include <random>
#include <string>

#include "bench/side_by_side.hpp"
#include "sim/ops/all.hpp"
#include "sim/tiles/tile.hpp"

namespace tessera::bench {
namespace {

double logistic(double a) { return 1 / (1 + std::exp(-a)); }
double rsqrt(double a) { return 1 / std::sqrt(a); }

/// Of 65,536 elements, in the caches. Counter ns_each: ours, per element.
template <class Op>
void against_libm(benchmark::State& state, double (*libm)(double)) {
  constexpr int kRows = 64;
  constexpr int kCols = 1024;
  constexpr int kElems = kRows * kCols;
  FreshTile<float> fresh(kRows, kCols);
  FreshTile<float> peer(kRows, kCols);
  std::mt19937 rng(1);
  const std::string name = Op::info.name;
  const bool positive = name.starts_with("log") || name == "sqrt" || name == "rsqrt";
  std::uniform_real_distribution<float> any(positive ? 0.01f : -10.f, 10.f);
  for (int i = 0; i < kElems; ++i) fresh.data()[i] = any(rng);
  const Tile<float> x = std::move(fresh).finish();
  side_by_side(
      state,
      [&] {
        const Tile<float> y = Interpreter::map<Op>(x);
        benchmark::DoNotOptimize(y.data());
      },
      [&] {
        for (int i = 0; i < kElems; ++i)
          peer.data()[i] = static_cast<float>(libm(static_cast<double>(x.data()[i])));
        benchmark::DoNotOptimize(peer.data());
      });
  state.counters["ns_each"] = state.counters["ours_us"] * 1e3 / kElems;
}

template <class Op>
bool offer(double (*libm)(double)) {
  benchmark::RegisterBenchmark((std::string("elementary ") + Op::info.name + " / libm").c_str(),
                               against_libm<Op>, libm)
      ->Iterations(60);
  return true;
}
const bool kRegistered =
    offer<Cos>(std::cos) && offer<Erf>(std::erf) && offer<Exp>(std::exp) &&
    offer<Exp2>(std::exp2) && offer<Expm1>(std::expm1) && offer<Log>(std::log) &&
    offer<Log1p>(std::log1p) && offer<Log2>(std::log2) && offer<Logistic>(logistic) &&
    offer<Rsqrt>(rsqrt) && offer<Sin>(std::sin) && offer<Sqrt>(std::sqrt) && offer<Tanh>(std::tanh);

}  // namespace
}  // namespace tessera::bench
