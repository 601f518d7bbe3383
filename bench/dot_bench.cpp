// A 128 x 128 x 128 tile dot on one thread, against OpenBLAS's sgemm.
#include <utility>

#include "bench/blas.hpp"
#include "bench/side_by_side.hpp"
#include "memory_model/array.hpp"
#include "sim/numerics/dot.hpp"
#include "sim/numerics/op_state.hpp"

namespace tessera::bench {
namespace {

constexpr int kN = 128;

template <class T, Profile kProfile = Profile::exact>
void tile_dot(benchmark::State& state) {
  openblas_set_num_threads(1);
  std::vector<T, CacheAligned<T>> a(kN * kN);
  std::vector<T, CacheAligned<T>> b(kN * kN);
  std::vector<float, CacheAligned<float>> c(kN * kN);
  std::vector<float, CacheAligned<float>> fa(kN * kN);
  std::vector<float, CacheAligned<float>> fb(kN * kN);
  std::vector<float, CacheAligned<float>> fc(kN * kN);
  for (int i = 0; i < kN * kN; ++i) {
    const auto s = static_cast<std::size_t>(i);
    fa[s] = static_cast<float>(i % 17 - 8) / 16.f;
    fb[s] = static_cast<float>(i % 13 - 6) / 16.f;
    a[s] = convert<T>(fa[s]);
    b[s] = convert<T>(fb[s]);
  }
  constexpr int kRepeats = 20;
  const Profile before = std::exchange(op_state.profile, kProfile);
  side_by_side(
      state,
      [&] {
        for (int i = 0; i < kRepeats; ++i) {
          dot_accumulate<T>(c.data(), kN, {a.data(), kN, 1}, {b.data(), kN, 1}, kN, kN, kN);
        }
        benchmark::DoNotOptimize(c.data());
      },
      [&] {
        for (int i = 0; i < kRepeats; ++i) sgemm(kN, fa.data(), fb.data(), fc.data());
        benchmark::DoNotOptimize(fc.data());
      },
      2. * kN * kN * kN * kRepeats);
  op_state.profile = before;
}
BENCHMARK(tile_dot<float>)->Name("tile dot 128^3 f32 / sgemm, 1 thread")->Iterations(200);
BENCHMARK(tile_dot<bf16>)->Name("tile dot 128^3 bf16 / f32 sgemm, 1 thread")->Iterations(200);

BENCHMARK(tile_dot<bf16, Profile::tensorcore_hopper>)
    ->Name("tile dot 128^3 bf16 as tensorcore:hopper / f32 sgemm, 1 thread")
    ->Iterations(20);

void bf16_against_f32(benchmark::State& state) {
  std::vector<float, CacheAligned<float>> fa(kN * kN, 0.5f);
  std::vector<bf16, CacheAligned<bf16>> ha(kN * kN, bf16(0.5f));
  std::vector<float, CacheAligned<float>> c(kN * kN);
  constexpr int kRepeats = 20;
  side_by_side(
      state,
      [&] {
        for (int i = 0; i < kRepeats; ++i) {
          dot_accumulate<bf16>(c.data(), kN, {ha.data(), kN, 1}, {ha.data(), kN, 1}, kN, kN, kN);
        }
      },
      [&] {
        for (int i = 0; i < kRepeats; ++i) {
          dot_accumulate<float>(c.data(), kN, {fa.data(), kN, 1}, {fa.data(), kN, 1}, kN, kN, kN);
        }
      });
}
BENCHMARK(bf16_against_f32)->Name("tile dot 128^3 bf16 / f32, both ours")->Iterations(200);

}  // namespace
}  // namespace tessera::bench
