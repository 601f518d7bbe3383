// Manual double and triple buffering over the steps of a grid.
#include "tests/hazards/twin.hpp"

namespace tessera::hazards::buffering {
namespace {

constexpr int kSteps = 6;
using Steps = Local<kSteps>;

struct PrefetchesIntoTheSlotInUse : Steps {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    if (env.first(0)) async_copy(part(x, i), buf.slot(0), sems[0]);
    make_async_copy(part(x, i), buf.slot(i % 2), sems[i % 2]).wait();
    const int next = bad ? i % 2 : (i + 1) % 2;
    if (!env.last(0)) async_copy(part(x, i + 1), buf.slot(next), sems[(i + 1) % 2]);
    use(env, buf.slot(i % 2));
  }
};
struct TwoAheadInTwoSlots : Steps {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    const int slots = bad ? 2 : 3;
    const auto copy = [&](int k) {
      return make_async_copy(part(x, k), buf.slot(k % slots), sems[k % slots]);
    };
    if (env.first(0)) {
      copy(0).start();
      copy(1).start();
    }
    if (i + 2 < kSteps) copy(i + 2).start();
    copy(i).wait();
    use(env, buf.slot(i % slots));
  }
};
struct ThreeAheadInThreeSlots : Steps {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    const int ahead = bad ? 3 : 2;
    const auto copy = [&](int k) {
      return make_async_copy(part(x, k), buf.slot(k % 3), sems[k % 3]);
    };
    if (env.first(0)) {
      for (int k = 0; k < ahead; ++k) copy(k).start();
    }
    if (i + ahead < kSteps) copy(i + ahead).start();
    copy(i).wait();
    use(env, buf.slot(i % 3));
  }
};
struct PrefetchesPastTheEnd : Steps {
  static constexpr const char* slug = "dma-not-awaited";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    if (env.first(0)) async_copy(part(x, 0), buf.slot(0), sems[0]);
    if (bad || !env.last(0)) async_copy(part(x, i + 1), buf.slot((i + 1) % 2), sems[(i + 1) % 2]);
    make_async_copy(part(x, i), buf.slot(i % 2), sems[i % 2]).wait();
    use(env, buf.slot(i % 2));
  }
};
struct ForgetsTheFirst : Steps {
  static constexpr const char* slug = "deadlock";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    if (!bad && env.first(0)) async_copy(part(x, 0), buf.slot(0), sems[0]);
    if (!env.last(0)) async_copy(part(x, i + 1), buf.slot((i + 1) % 2), sems[(i + 1) % 2]);
    make_async_copy(part(x, i), buf.slot(i % 2), sems[i % 2]).wait();
    use(env, buf.slot(i % 2));
  }
};
struct WaitsForTheNextSlot : Steps {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    if (env.first(0)) async_copy(part(x, 0), buf.slot(0), sems[0]);
    if (!env.last(0)) async_copy(part(x, i + 1), buf.slot((i + 1) % 2), sems[(i + 1) % 2]);
    const int waited = bad && !env.last(0) ? (i + 1) % 2 : i % 2;
    make_async_copy(part(x, i), buf.slot(i % 2), sems[waited]).wait();
    use(env, buf.slot(i % 2));
  }
};
struct OneSemaphoreForBothSlots : Steps {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    const auto sem_of = [&](int k) { return bad ? 0 : k % 2; };
    if (env.first(0)) async_copy(part(x, 0), buf.slot(0), sems[0]);
    if (!env.last(0)) {
      async_copy(part(x, i + 1), buf.slot((i + 1) % 2), sems[sem_of(i + 1)]);
    }
    make_async_copy(part(x, i), buf.slot(i % 2), sems[sem_of(i)]).wait();
    use(env, buf.slot(i % 2));
  }
};
struct OverwritesWhatLeaves : Steps {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto, auto o, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    const auto copy = [&](int k) {
      return make_async_copy(buf.slot(k % 2), part(o, k), sems[k % 2]);
    };
    if (!bad && i >= 2) copy(i - 2).wait();
    *buf.slot(i % 2) = static_cast<float>(i);
    if (bad && i >= 2) copy(i - 2).wait();
    copy(i).start();
    if (env.last(0)) {
      copy(i - 1).wait();
      copy(i).wait();
    }
  }
};
struct DoesNotDrain : Steps {
  static constexpr const char* slug = "dma-not-awaited";
  void operator()(auto& env, auto, auto o, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    const auto copy = [&](int k) {
      return make_async_copy(buf.slot(k % 2), part(o, k), sems[k % 2]);
    };
    if (i >= 2) copy(i - 2).wait();
    *buf.slot(i % 2) = static_cast<float>(i);
    copy(i).start();
    if (env.last(0)) {
      copy(i - 1).wait();
      if (!bad) copy(i).wait();
    }
  }
};
struct WritesBackToOnePlace : Steps {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto, auto o, auto buf, auto sems, auto) const {
    const int i = env.program_id(0);
    const auto copy = [&](int k) {
      return make_async_copy(buf.slot(k % 2), part(o, bad ? 0 : k), sems[k % 2]);
    };
    if (i >= 2) copy(i - 2).wait();
    *buf.slot(i % 2) = static_cast<float>(i);
    copy(i).start();
    if (env.last(0)) {
      copy(i - 1).wait();
      copy(i).wait();
    }
  }
};

using Twins =
    std::tuple<PrefetchesIntoTheSlotInUse, TwoAheadInTwoSlots, ThreeAheadInThreeSlots,
               PrefetchesPastTheEnd, ForgetsTheFirst, WaitsForTheNextSlot, OneSemaphoreForBothSlots,
               OverwritesWhatLeaves, DoesNotDrain, WritesBackToOnePlace>;

TEMPLATE_LIST_TEST_CASE("a hazard of manual buffering is found, its good twin is silent",
                        "[hazards][buffering]", Twins) {
  check_twin<TestType>();
}

}  // namespace
}  // namespace tessera::hazards::buffering
