// Inner pipelines and scoped scratch.
#include "tests/hazards/twin.hpp"

namespace tessera::hazards::nested {
namespace {

constexpr auto kByRow = [](auto i) { return at(i, 0); };

/// Two slots and their semaphores for each operand of an inner pipeline.
void with_slots(auto& env, auto body) {
  env.run_scoped(body, vmem<float>("in_slots", 2, kRows, kCols), dma_sem("in_sems", 2),
                 vmem<float>("out_slots", 2, kRows, kCols), dma_sem("out_sems", 2));
}

struct PipelineReadsWhatLands : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto, auto sems, auto) const {
    const auto all = shape(kParts * kRows, kCols);
    async_copy(x, o, sems[0]).wait();
    const auto again = async_copy(part(x, 3), part(o, 3), sems[1]);
    if (!bad) again.wait();
    with_slots(env, [&](auto in, auto in_sems, auto, auto) {
      emit_pipeline(
          grid(arbitrary(kParts)), [&](auto&, auto block) { use(env, block); },
          pipeline_in(o, all, in, in_sems, kByRow));
    });
    if (bad) again.wait();
  }
};
struct PipelineWritesWhatIsRead : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto buf, auto sems, auto) const {
    const auto all = shape(kParts * kRows, kCols);
    async_copy(x, o, sems[0]).wait();
    const auto read = async_copy(part(o, 5), buf.slot(0), sems[1]);
    if (!bad) read.wait();
    with_slots(env, [&](auto, auto, auto out, auto out_sems) {
      emit_pipeline(
          grid(arbitrary(kParts)), [&](auto&, auto block) { *block = 1.f; },
          pipeline_out(o, all, out, out_sems, kByRow));
    });
    if (bad) read.wait();
  }
};
struct PipelineAccumulatesFromNothing : Local<> {
  static constexpr const char* slug = "uninit-read";
  void operator()(auto& env, auto x, auto o, auto, auto, auto) const {
    const auto all = shape(kParts * kRows, kCols);
    with_slots(env, [&](auto in, auto in_sems, auto out, auto out_sems) {
      emit_pipeline(
          grid(arbitrary(2), arbitrary(4)),
          [&](auto& ids, auto block, auto sum) {
            if (!bad && ids.first(1)) *sum = 0.f;
            *sum += *block;
          },
          pipeline_in(x, all, in, in_sems, [](auto i, auto k) { return at(i * 4 + k, 0); }),
          pipeline_out(o, all, out, out_sems, [](auto i, auto) { return at(i, 0); }));
    });
  }
};
struct SharedSlotsOfTwoOperands : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto, auto, auto) const {
    const auto all = shape(kParts * kRows, kCols);
    with_slots(env, [&](auto in, auto in_sems, auto other, auto other_sems) {
      emit_pipeline(
          grid(arbitrary(4)), [&](auto&, auto a, auto b) { use(env, a), use(env, b); },
          pipeline_in(x, all, in, in_sems, kByRow),
          pipeline_in(x, all, bad ? in : other, other_sems, [](auto i) { return at(i + 4, 0); }));
    });
  }
};
struct RefLeavesItsScope : Local<> {
  static constexpr const char* slug = "use-after-scope";
  void operator()(auto& env, auto, auto, auto, auto, auto) const {
    std::function<void()> later;
    env.run_scoped(
        [&](auto t) {
          later = [t] { *t = 1.f; };
          if (!bad) later();
        },
        vmem<float>("t", 8, 128));
    if (bad) later();
  }
};
struct SemaphoreLeavesItsScope : Local<> {
  static constexpr const char* slug = "use-after-scope";
  void operator()(auto& env, auto, auto, auto, auto, auto) const {
    std::function<void()> later;
    env.run_scoped(
        [&](auto t) {
          later = [t] { semaphore_signal(t), semaphore_wait(t); };
          if (!bad) later();
        },
        sem("t"));
    if (bad) later();
  }
};
struct ScopeReused : Local<> {
  static constexpr const char* slug = "use-after-scope";
  void operator()(auto& env, auto, auto, auto, auto, auto) const {
    std::function<void()> store;
    for (int i = 0; i < 2; ++i) {
      env.run_scoped(
          [&](auto t) {
            if (!bad || i == 0) store = [t] { *t = 1.f; };
            store();
          },
          vmem<float>("t", 8, 128));
    }
  }
};
struct CopyOutlivesItsScope : Local<> {
  static constexpr const char* slug = "dma-not-awaited";
  void operator()(auto& env, auto x, auto, auto, auto sems, auto) const {
    env.run_scoped(
        [&](auto t) {
          const auto copy = async_copy(part(x, 0), t, sems[0]);
          if (!bad) copy.wait();
        },
        vmem<float>("t", kRows, kCols));
  }
};
struct ScopedSemaphoreLeft : Local<> {
  static constexpr const char* slug = "semaphore-leak";
  void operator()(auto& env, auto, auto, auto, auto, auto) const {
    env.run_scoped(
        [&](auto t) {
          semaphore_signal(t);
          if (!bad) semaphore_wait(t);
        },
        sem("t"));
  }
};
struct ScopedCopyOnScopedSemaphore : Local<> {
  static constexpr const char* slug = "dma-not-awaited";
  void operator()(auto& env, auto x, auto, auto buf, auto, auto) const {
    env.run_scoped(
        [&](auto t) {
          const auto copy = async_copy(part(x, 0), buf.slot(0), t);
          if (!bad) copy.wait();
        },
        dma_sem("t"));
  }
};
struct ScopeTooLarge : Local<> {
  static constexpr const char* slug = "vmem-capacity";
  void operator()(auto& env, auto, auto, auto, auto, auto) const {
    env.run_scoped([](auto t) { *t = 0.f; }, vmem<float>("t", bad ? 300000 : 8, 128));
  }
};
struct ScopedUndefined : Local<> {
  static constexpr const char* slug = "uninit-read";
  void operator()(auto& env, auto, auto, auto, auto, auto) const {
    for (int i = 0; i < 2; ++i) {
      env.run_scoped(
          [&](auto t) {
            if (!bad || i == 0) *t = 1.f;  // what the last scope left is not this one's
            use(env, t);
          },
          vmem<float>("t", 8, 128));
    }
  }
};
/// The neighbour may not have entered its scope yet: the signal waits for it there.
struct SignalMeetsNoScope : Mesh {
  static constexpr const char* slug = "use-after-scope";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto) const {
    if (bad && env.device_id() == 1) return;
    env.run_scoped(
        [&](auto t) {
          if (env.device_id() == 0) semaphore_signal(t, 1, 1);
          if (env.device_id() == 1) semaphore_wait(t);
        },
        sem("t"));
  }
};

/// Core 0 copies on a semaphore of a scope, which ends; core 1 reads what came, told or untold.
struct CopyOfAnEarlierScope : Program {
  static constexpr const char* slug = "race";
  static int cores() { return 2; }
  auto spec() const {
    return tessera::spec(grid(parallel(2).as("c")), hbm_in<float>("x", shape(kRows, kCols)),
                         hbm<float>("o", shape(kRows, kCols)), vmem<float>("buf", kRows, kCols),
                         dma_sem("mine", 1), sem("here", 1), sem("there", 1));
  }
  void operator()(auto& env, auto x, auto o, auto buf, auto mine, auto here, auto there) const {
    if (env.program_id(0) == 0) {
      env.run_scoped([&](auto s) { async_copy(x, o, s).wait(); }, dma_sem("of_the_scope"));
      env.run_scoped([&](auto s) { async_copy(x, buf, s).wait(); }, dma_sem("of_another"));
      if (!bad) semaphore_signal(here, 1, 0, 1);
      semaphore_signal(there, 1, 0, 1);
    } else {
      // In time, but not because of the copy: what it waits for may come first.
      if (!bad) semaphore_wait(here);
      async_copy(o, buf, mine[0]).wait();
      semaphore_wait(there);
    }
  }
};

using Twins =
    std::tuple<PipelineReadsWhatLands, PipelineWritesWhatIsRead, PipelineAccumulatesFromNothing,
               SharedSlotsOfTwoOperands, RefLeavesItsScope, CopyOfAnEarlierScope,
               SemaphoreLeavesItsScope, ScopeReused, CopyOutlivesItsScope, ScopedSemaphoreLeft,
               ScopedCopyOnScopedSemaphore, ScopeTooLarge, ScopedUndefined, SignalMeetsNoScope>;

TEMPLATE_LIST_TEST_CASE("a hazard of scopes is found, its good twin is silent", "[hazards][nested]",
                        Twins) {
  check_twin<TestType>();
}

}  // namespace
}  // namespace tessera::hazards::nested
