#include "tests/hazards/twin.hpp"

namespace tessera::hazards::local_dma {
namespace {

struct LoadBeforeWait : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const auto copy = async_copy(part(x, 0), buf.slot(0), sems[0]);
    if (!bad) copy.wait();
    use(env, buf.slot(0));
    if (bad) copy.wait();
  }
};
struct StoreWhileLanding : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const auto copy = async_copy(part(x, 0), buf.slot(0), sems[0]);
    *buf.slot(bad ? 0 : 1) = 1.f;
    copy.wait();
  }
};
struct StoreToSource : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto, auto o, auto buf, auto sems, auto) const {
    *buf.slot(0) = 1.f;
    const auto copy = async_copy(buf.slot(0), part(o, 0), sems[0]);
    if (!bad) copy.wait();
    *buf.slot(0) = 2.f;
    if (bad) copy.wait();
  }
};
struct WriteNotReadSource : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto, auto o, auto buf, auto sems, auto) const {
    *buf.slot(0) = 1.f;
    const auto copy = async_copy(buf.slot(0), part(o, 0), sems[0]);
    use(env, buf.slot(0));  // reading what a copy reads is fine
    if (bad) *buf.slot(0) += 1.f;
    copy.wait();
  }
};
struct TwoCopiesOneSlot : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const auto first = async_copy(part(x, 0), buf.slot(0), sems[0]);
    const auto second = async_copy(part(x, 1), buf.slot(bad ? 0 : 1), sems[1]);
    first.wait();
    second.wait();
  }
};
struct ForwardBeforeLanding : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto buf, auto sems, auto) const {
    const auto in = async_copy(part(x, 0), buf.slot(0), sems[0]);
    if (!bad) in.wait();
    const auto out = async_copy(buf.slot(0), part(o, 0), sems[1]);
    if (bad) in.wait();
    out.wait();
  }
};
struct HbmRoundTrip : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto buf, auto sems, auto) const {
    const auto there = async_copy(part(x, 0), part(o, 0), sems[0]);
    if (!bad) there.wait();
    async_copy(part(o, 0), buf.slot(0), sems[1]).wait();
    if (bad) there.wait();
    use(env, buf.slot(0));
  }
};
struct WaitsForTheOther : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const auto a = async_copy(part(x, 0), buf.slot(0), sems[0]);
    const auto b = async_copy(part(x, 1), buf.slot(1), sems[1]);
    (bad ? b : a).wait();
    use(env, buf.slot(0));
    (bad ? a : b).wait();
  }
};
struct SharedSemaphore : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const auto a = async_copy(part(x, 0), buf.slot(0), sems[0]);
    const auto b = async_copy(part(x, 1), buf.slot(1), sems[bad ? 0 : 1]);
    a.wait();
    use(env, buf.slot(0));
    b.wait();
  }
};
struct SharedSemaphoreOfTwoSizes : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    const auto half = async_copy(x.slice(ds(0, 4), ds(0, kCols)),
                                 buf.slot(0).slice(ds(0, 4), ds(0, kCols)), sems[0]);
    const auto whole = async_copy(part(x, 1), buf.slot(1), sems[bad ? 0 : 1]);
    half.wait();
    use(env, buf.slot(0).slice(ds(0, 4), ds(0, kCols)));
    whole.wait();
  }
};
struct AllWaitsThenUse : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    // One semaphore for three copies is right if all three are waited for first.
    for (int i = 0; i < 3; ++i) async_copy(part(x, i), buf.slot(i), sems[0]);
    for (int i = 0; i < 2; ++i) make_async_copy(part(x, i), buf.slot(i), sems[0]).wait();
    if (bad) use(env, buf.slot(0));
    make_async_copy(part(x, 2), buf.slot(2), sems[0]).wait();
    use(env, buf.slot(0));
  }
};
struct WrongSemaphore : Local<> {
  static constexpr const char* slug = "deadlock";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    async_copy(part(x, 0), buf.slot(0), sems[0]);
    make_async_copy(part(x, 0), buf.slot(0), sems[bad ? 1 : 0]).wait();
  }
};
struct NeverStarted : Local<> {
  static constexpr const char* slug = "deadlock";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const auto copy = make_async_copy(part(x, 0), buf.slot(0), sems[0]);
    if (!bad) copy.start();
    copy.wait();
  }
};
struct WaitedTwice : Local<> {
  static constexpr const char* slug = "deadlock";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const auto copy = async_copy(part(x, 0), buf.slot(0), sems[0]);
    copy.wait();
    if (bad) copy.wait();
  }
};
struct NotAwaited : Local<> {
  static constexpr const char* slug = "dma-not-awaited";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const auto copy = async_copy(part(x, 0), buf.slot(0), sems[0]);
    if (!bad) copy.wait();
  }
};
struct OneOfTwoAwaited : Local<> {
  static constexpr const char* slug = "dma-not-awaited";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const auto a = async_copy(part(x, 0), buf.slot(0), sems[0]);
    const auto b = async_copy(part(x, 1), buf.slot(1), sems[0]);
    a.wait();
    if (!bad) b.wait();
  }
};
struct WaitsForLess : Local<> {
  static constexpr const char* slug = "dma-size-mismatch";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    async_copy(part(x, 0), buf.slot(0), sems[0]);
    const int rows = bad ? 4 : kRows;
    make_async_copy(x.slice(ds(0, rows), ds(0, kCols)),
                    buf.slot(0).slice(ds(0, rows), ds(0, kCols)), sems[0])
        .wait();
  }
};
struct WaitsForMore : Local<> {
  static constexpr const char* slug = "dma-size-mismatch";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const int rows = bad ? 4 : kRows;
    async_copy(x.slice(ds(0, rows), ds(0, kCols)), buf.slot(0).slice(ds(0, rows), ds(0, kCols)),
               sems[0]);
    make_async_copy(part(x, 0), buf.slot(0), sems[0]).wait();
  }
};
struct ExtentsDiffer : Local<> {
  static constexpr const char* slug = "dma-size-mismatch";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const int rows = bad ? 16 : kRows;
    async_copy(x.slice(ds(0, rows), ds(0, kCols)), buf.slot(0), sems[0]).wait();
  }
};
struct TypesDiffer : Local<> {
  static constexpr const char* slug = "dma-size-mismatch";
  void operator()(auto&, auto x, auto o, auto, auto sems, auto) const {
    if (bad)
      async_copy(part(x, 0).template bitcast<std::int32_t>(), part(o, 0), sems[0]).wait();
    else
      async_copy(part(x, 0), part(o, 0), sems[0]).wait();
  }
};
struct RowsOutside : Local<> {
  static constexpr const char* slug = "oob-index";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    async_copy(x.slice(ds(bad ? 60 : 56, kRows), ds(0, kCols)), buf.slot(0), sems[0]).wait();
  }
};
struct StepsOutside : Local<> {
  static constexpr const char* slug = "oob-index";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    async_copy(x.slice(ds(bad ? 8 : 7, kRows, 8), ds(0, kCols)), buf.slot(0), sems[0]).wait();
  }
};
struct SlotOutside : Local<> {
  static constexpr const char* slug = "oob-index";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    async_copy(part(x, 0), buf.slot(bad ? 4 : 3), sems[0]).wait();
  }
};
struct SemaphoreOutside : Local<> {
  static constexpr const char* slug = "oob-index";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    async_copy(part(x, 0), buf.slot(0), sems[bad ? 4 : 3]).wait();
  }
};
struct ColumnsMisaligned : Local<> {
  static constexpr const char* slug = "misaligned-slice";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const int from = bad ? 64 : 128;
    async_copy(x.slice(ds(0, kRows), ds(from, 128)), buf.slot(0).slice(ds(0, kRows), ds(128, 128)),
               sems[0])
        .wait();
  }
};
struct CopiesUndefined : Local<> {
  static constexpr const char* slug = "uninit-read";
  void operator()(auto& env, auto, auto o, auto buf, auto sems, auto) const {
    if (!bad) *buf.slot(0) = 1.f;
    async_copy(buf.slot(0), part(o, 0), sems[0]).wait();
    async_copy(part(o, 0), buf.slot(1), sems[1]).wait();
    use(env, buf.slot(1));
  }
};
struct ReadsOtherSlot : Local<> {
  static constexpr const char* slug = "uninit-read";
  void operator()(auto& env, auto x, auto, auto buf, auto sems, auto) const {
    async_copy(part(x, 0), buf.slot(0), sems[0]).wait();
    use(env, buf.slot(bad ? 1 : 0));
  }
};
struct SignalLeft : Local<> {
  static constexpr const char* slug = "semaphore-leak";
  void operator()(auto&, auto, auto, auto, auto, auto s) const {
    semaphore_signal(s[0]);
    if (!bad) semaphore_wait(s[0]);
  }
};
struct SignalsMoreThanWaits : Local<> {
  static constexpr const char* slug = "semaphore-leak";
  void operator()(auto&, auto, auto, auto, auto, auto s) const {
    semaphore_signal(s[0], bad ? 3 : 2);
    semaphore_wait(s[0], 2);
  }
};
struct WaitsWithoutSignal : Local<> {
  static constexpr const char* slug = "deadlock";
  void operator()(auto&, auto, auto, auto, auto, auto s) const {
    if (!bad) semaphore_signal(s[0]);
    semaphore_wait(s[0]);
  }
};
struct SignalsTheOther : Local<> {
  static constexpr const char* slug = "deadlock";
  void operator()(auto&, auto, auto, auto, auto, auto s) const {
    semaphore_signal(s[bad ? 1 : 0]);
    semaphore_wait(s[0]);
  }
};
struct SignalsBelowZero : Local<> {
  static constexpr const char* slug = "semaphore-underflow";
  void operator()(auto&, auto, auto, auto, auto, auto s) const {
    semaphore_signal(s[0], bad ? -1 : 1);
    semaphore_wait(s[0]);
  }
};
struct WaitsForNothing : Local<> {
  static constexpr const char* slug = "semaphore-underflow";
  void operator()(auto&, auto, auto, auto, auto, auto s) const {
    semaphore_signal(s[0]);
    semaphore_wait(s[0], bad ? 0 : 1);
  }
};
struct SpinsForever : Local<> {
  static constexpr const char* slug = "deadlock";
  void operator()(auto&, auto, auto, auto, auto, auto s) const {
    if (!bad) semaphore_signal(s[0]);
    while (semaphore_read(s[0]) == 0) {
    }
    semaphore_wait(s[0]);
  }
};

using Twins =
    std::tuple<LoadBeforeWait, StoreWhileLanding, StoreToSource, WriteNotReadSource,
               TwoCopiesOneSlot, ForwardBeforeLanding, HbmRoundTrip, WaitsForTheOther,
               SharedSemaphore, SharedSemaphoreOfTwoSizes, AllWaitsThenUse, WrongSemaphore,
               NeverStarted, WaitedTwice, NotAwaited, OneOfTwoAwaited, WaitsForLess, WaitsForMore,
               ExtentsDiffer, TypesDiffer, RowsOutside, StepsOutside, SlotOutside, SemaphoreOutside,
               ColumnsMisaligned, CopiesUndefined, ReadsOtherSlot, SignalLeft, SignalsMoreThanWaits,
               WaitsWithoutSignal, SignalsTheOther, SignalsBelowZero, WaitsForNothing,
               SpinsForever>;

TEMPLATE_LIST_TEST_CASE("a hazard of local copies is found, its good twin is silent",
                        "[hazards][local]", Twins) {
  check_twin<TestType>();
}

}  // namespace
}  // namespace tessera::hazards::local_dma
