// The whole matmul kernel, accounting and checks on, against OpenBLAS on the same threads.
#include <omp.h>

#include "bench/blas.hpp"
#include "bench/side_by_side.hpp"
#include "kernels/matmul.hpp"
#include "sim/run.hpp"

namespace tessera::bench {
namespace {

void whole_matmul(benchmark::State& state) {
  constexpr int kN = 1024;
  const int threads = static_cast<int>(state.range(0)) == 0 ? omp_get_max_threads()
                                                            : static_cast<int>(state.range(0));
  openblas_set_num_threads(threads);
  Array x(DType::f32, {kN, kN});
  Array y(DType::f32, {kN, kN});
  for (int i = 0; i < kN * kN; ++i) {
    x.data<float>()[i] = static_cast<float>(i % 17 - 8) / 16.f;
    y.data<float>()[i] = static_cast<float>(i % 13 - 6) / 16.f;
  }
  std::vector<float, CacheAligned<float>> c(kN * kN);
  RunOptions options;
  options.threads = threads;
  side_by_side(
      state,
      [&] {
        benchmark::DoNotOptimize(
            run(kernels::Matmul<float>{kN, kN, kN}, tiles(128, 128, 128), arrays(x, y), options));
      },
      [&] { sgemm(kN, x.data<float>(), y.data<float>(), c.data()); }, 2. * kN * kN * kN);
  state.counters["threads"] = threads;
}
BENCHMARK(whole_matmul)
    ->Name("matmul 1024^3 f32, 128 tiles / sgemm")
    ->Arg(1)
    ->Arg(0)
    ->Iterations(15);

}  // namespace
}  // namespace tessera::bench
