// What many copies cost.
#include <sys/resource.h>

#include <chrono>

#include "tests/hazards/twin.hpp"

namespace tessera::hazards::many_copies {
namespace {

/// n copies of rows of x under way at once, then n waits.
struct AllOnOneSemaphore : Program {
  int n = 4000;
  auto spec() const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<float>("x", shape(8 * n, 128)),
                         hbm<float>("o", shape(8 * n, 128)), dma_sem("s", 1));
  }
  void operator()(auto&, auto x, auto o, auto s) const {
    const auto rows = [](auto array, int i) { return array.slice(ds(8 * i, 8), ds(0, 128)); };
    for (int i = 0; i < n; ++i) async_copy(rows(x, i), rows(o, i), s[0]);
    for (int i = 0; i < n; ++i) make_async_copy(rows(x, i), rows(o, i), s[0]).wait();
  }
};

/// One copy after the other.
struct LoopOfCopies : Program {
  int n = 200'000;
  auto spec() const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<float>("x", shape(8, 128)),
                         hbm<float>("o", shape(8, 128)), dma_sem("s", 1));
  }
  void operator()(auto&, auto x, auto o, auto s) const {
    for (int i = 0; i < n; ++i) async_copy(x, o, s[0]).wait();
  }
};

RunResult run_rows(const auto& kernel, int rows, RunOptions options) {
  const Array x(DType::f32, {rows, 128});
  return run(kernel, tiles(), arrays(x), options);
}

long peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

TEST_CASE("four thousand copies on one semaphore take no more than their number",
          "[hazards][many]") {
  for (const char* schedule : {"eager", "on_wait", "adversarial", "random:1"}) {
    RunOptions options;
    options.schedule = parse_schedule(schedule);
    const RunResult r = run_rows(AllOnOneSemaphore{}, 8 * 4000, options);
    INFO(first_text(r));
    CHECK(r.ok());
    // Alone 0.1 s; it was 40 and more.
    CHECK(r.seconds < 10);
  }
}

TEST_CASE("a loop of copies does not grow, whether or not it is written down", "[hazards][many]") {
  const long before = peak_megabytes();
  for (const std::int64_t trace_steps : {0, 100}) {
    RunOptions options;
    options.trace_steps = trace_steps;
    const RunResult r = run_rows(LoopOfCopies{}, 8, options);
    CHECK(r.ok());
  }
#if !defined(__SANITIZE_ADDRESS__)  // which keeps what was freed for a while
  CHECK(peak_megabytes() - before < 250);
#else
  CHECK(before > 0);
#endif
}

}  // namespace
}  // namespace tessera::hazards::many_copies
