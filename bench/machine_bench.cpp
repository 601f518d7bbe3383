// The asynchronous machine: what looking for races costs, what a switch between cores costs, how
// long a large mesh takes.
#include <malloc.h>

#include "bench/side_by_side.hpp"
#include "kernels/dma_matmul.hpp"
#include "kernels/flash_attention.hpp"
#include "kernels/matmul.hpp"
#include "kernels/ring_all_gather.hpp"
#include "sim/run.hpp"

namespace tessera::bench {
namespace {

Array ramp(Shape shape) {
  Array a(DType::f32, shape);
  for (std::int64_t i = 0; i < a.elems(); ++i) a.data<float>()[i] = static_cast<float>(i % 61) / 61;
  return a;
}

/// One kernel on the machine with and without race checks, in turns.
template <class K>
void with_and_without(benchmark::State& state, const K& kernel, Tiles t, const Inputs& inputs,
                      std::int64_t steps) {
  RunOptions options;
  options.schedule = Schedule{};
  const auto timed = [&](bool races) {
    options.find_races = races;
    const RunResult r = run(kernel, t, inputs, options);
    if (!r.ok()) state.SkipWithError(r.diagnostics[0].text().c_str());
    if (r.steps != steps) state.SkipWithError("steps are missing");
    return r.seconds;
  };
  std::vector<double> on;
  std::vector<double> off;
  timed(true);
  for (auto _ : state) {
    on.push_back(timed(true));
    off.push_back(timed(false));
  }
  state.counters["ratio"] = median(on) / median(off);
  state.counters["us_per_step"] = median(on) * 1e6 / static_cast<double>(steps);
}

/// (rows / 8) x 32 x 4 steps of 8 x 128 x 128: what a step finds in the caches is alike in every
/// size.
template <template <class> class K>
void product(benchmark::State& state) {
  const std::int64_t steps = state.range(0);
  constexpr int kDepth = 4 * 128;
  constexpr int kColumns = 32 * 128;
  const auto rows = static_cast<int>(steps / (4 * 32) * 8);
  const Array x = ramp({rows, kDepth});
  const Array y = ramp({kDepth, kColumns});
  with_and_without(state, K<float>{rows, kColumns, kDepth}, tiles(8, 128, 128), arrays(x, y),
                   steps);
}
BENCHMARK_TEMPLATE(product, kernels::Matmul)
    ->Name("matmul, race checks on / off")
    ->Arg(512)
    ->Arg(8192)
    ->Arg(131072)
    ->Iterations(7);
BENCHMARK_TEMPLATE(product, kernels::DmaMatmul)
    ->Name("dma_matmul, race checks on / off")
    ->Arg(512)
    ->Arg(8192)
    ->Arg(131072)
    ->Iterations(7);

void attention(benchmark::State& state) {
  const std::int64_t steps = state.range(0);
  constexpr int kBlock = 128;
  constexpr int kSteps = 4;  // kv steps of a block of queries
  const auto queries = static_cast<int>(steps / kSteps * 8);
  kernels::FlashAttention<float> kernel;
  kernel.batch = 1;
  kernel.heads = 1;
  kernel.kv_heads = 1;
  kernel.q_len = queries;
  kernel.kv_len = kSteps * kBlock;
  kernel.head_dim = kBlock;
  const int lengths[] = {kernel.kv_len};
  kernel.kv_lengths = {lengths, 1, "kv_lengths"};
  const Array q = ramp({1, 1, queries, kBlock});
  const Array kv = ramp({1, 1, kernel.kv_len, kBlock});
  with_and_without(state, kernel, tiles(8, kBlock, kBlock), arrays(q, kv, kv), steps);
}
BENCHMARK(attention)
    ->Name("flash_attention, race checks on / off")
    ->Arg(512)
    ->Arg(8192)
    ->Arg(131072)
    ->Iterations(5);

void fiber_switch(benchmark::State& state) {
  bool more = true;
  Fiber* self = nullptr;
  Fiber fiber([&] {
    while (more) self->suspend();
  });
  self = &fiber;
  for (auto _ : state) fiber.resume();  // there and back
  more = false;
  fiber.resume();
  state.counters["ns_per_switch"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 2 * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(fiber_switch)->Name("switch of stacks");

/// Two cores that signal each other in turns: a signal, a wait and a switch each time.
void ping_pong(benchmark::State& state) {
  constexpr int kRounds = 100'000;
  std::vector<double> times;
  for (auto _ : state) {
    Machine machine({1}, 2, Schedule{}, true);
    Semaphore first("first", Semaphore::Kind::regular, 0);
    Semaphore second("second", Semaphore::Kind::regular, 1);
    machine.place(first);
    machine.place(second);
    times.push_back(seconds_of([&] {
      machine.run([&](MachineCore& c) {
        Semaphore& mine = c.id == 0 ? first : second;
        Semaphore& other = c.id == 0 ? second : first;
        const Site site = site_of(c, {});
        for (int i = 0; i < kRounds; ++i) {
          if (c.id == 1) machine.wait(c, mine, 1, site);
          machine.signal(c, other, 1, site);
          if (c.id == 0) machine.wait(c, mine, 1, site);
        }
      });
    }));
  }
  state.counters["ns_per_switch"] = median(times) * 1e9 / (2. * kRounds);
}
BENCHMARK(ping_pong)->Name("two cores signal in turns")->Iterations(9);

void gather(benchmark::State& state) {
  const auto devices = static_cast<int>(state.range(0));
  const auto shard_kib = static_cast<int>(state.range(1));
  constexpr int kCols = 1024;
  const int rows = shard_kib * 1024 / (kCols * 4);
  const Array x = ramp({devices * rows, kCols});
  RunOptions options;
  options.mesh = {devices};
  // Memory that was used before is used again: the system's first touches are a figure of their
  // own.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  std::vector<double> times;
  for (auto _ : state) {
    const RunResult r =
        run(kernels::RingAllGather<float>{devices, rows, kCols}, tiles(), arrays(x), options);
    if (!r.ok()) state.SkipWithError(r.diagnostics[0].text().c_str());
    times.push_back(r.seconds);
  }
  state.counters["first_seconds"] = times.front();
  state.counters["seconds"] = *std::min_element(times.begin(), times.end());
}
BENCHMARK(gather)
    ->Name("ring_all_gather, devices / KiB of a shard")
    ->Args({64, 16})
    ->Args({64, 1024})
    ->Iterations(5);

}  // namespace
}  // namespace tessera::bench
