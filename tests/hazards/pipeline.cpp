// Copies beside the automatic pipeline, scalar prefetch, aliased arrays.
#include <cstdint>

#include "tests/hazards/twin.hpp"

namespace tessera::hazards::pipeline {
namespace {

constexpr int kSteps = 6;

/// Blocks of x and o by the automatic pipeline, scratch and semaphores for copies of the body's.
struct Blocks : Program {
  auto spec() const {
    const auto by_step = [](auto i) { return at(i, 0); };
    return tessera::spec(
        grid(arbitrary(kSteps).as("i")),
        in<float>("x", shape(kSteps * kRows, kCols), block(kRows, kCols), by_step),
        out<float>("o", shape(kSteps * kRows, kCols), block(kRows, kCols), by_step),
        hbm<float>("log", shape(kSteps * kRows, kCols)), vmem<float>("buf", 2, kRows, kCols),
        dma_sem("sems", 2));
  }
};

struct OutputBlockLeavesLate : Blocks {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto log, auto, auto sems) const {
    const int i = env.program_id(0);
    const auto copy = [&](int k) { return make_async_copy(o, part(log, k), sems[0]); };
    if (bad && i > 0) copy(i - 1).wait();
    *o = load(*x);
    copy(i).start();
    if (!bad || env.last(0)) copy(i).wait();
  }
};
struct InputBlockReplaced : Blocks {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto log, auto, auto sems) const {
    const int i = env.program_id(0);
    const auto copy = [&](int k) { return make_async_copy(x, part(log, k), sems[0]); };
    *o = load(*x);
    if (bad && i > 0) copy(i - 1).wait();
    copy(i).start();
    if (!bad || env.last(0)) copy(i).wait();
  }
};
struct LandsInWhatIsWrittenBack : Blocks {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto, auto buf, auto sems) const {
    const int i = env.program_id(0);
    *buf.slot(0) = load(*x);
    const auto copy = make_async_copy(buf.slot(0), o, sems[0]);
    if (bad && i > 0) copy.wait();
    copy.start();
    if (!bad || env.last(0)) copy.wait();
  }
};
struct LandsInWhatIsComputed : Blocks {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto, auto buf, auto sems) const {
    *buf.slot(0) = load(*x);
    const auto copy = async_copy(buf.slot(0), o, sems[0]);
    if (!bad) copy.wait();
    *o += *x;
    if (bad) copy.wait();
  }
};

/// Pages by a table that was prefetched to SMEM.
struct Pages : Program {
  static constexpr int kPages = 4;
  Smem<int> table;
  auto spec() const {
    return tessera::spec(grid(arbitrary(1)), scalars("table", table),
                         hbm_in<float>("x", shape(kParts * kRows, kCols)),
                         hbm<float>("o", shape(kParts * kRows, kCols)),
                         vmem<float>("buf", kPages, kRows, kCols), dma_sem("sems", kPages));
  }
};
constexpr int kDistinct[] = {5, 0, 3, 7};
constexpr int kTwice[] = {5, 0, 5, 7};
constexpr int kBeyond[] = {5, 0, 3, 8};

struct OnePageTwice : Pages {
  static constexpr const char* slug = "race";
  void prepare() { table = {bad ? kTwice : kDistinct, kPages, "table"}; }
  void operator()(auto&, auto x, auto o, auto, auto sems) const {
    for (int i = 0; i < kPages; ++i) async_copy(part(x, i), part(o, table[i]), sems[i]);
    for (int i = 0; i < kPages; ++i) make_async_copy(part(x, i), part(o, table[i]), sems[i]).wait();
  }
};
struct PageOutside : Pages {
  static constexpr const char* slug = "oob-index";
  void prepare() { table = {bad ? kBeyond : kDistinct, kPages, "table"}; }
  void operator()(auto&, auto x, auto, auto buf, auto sems) const {
    for (int i = 0; i < kPages; ++i) async_copy(part(x, table[i]), buf.slot(i), sems[i]).wait();
  }
};
struct TableTooShort : Pages {
  static constexpr const char* slug = "oob-index";
  void prepare() { table = {kDistinct, kPages, "table"}; }
  void operator()(auto&, auto x, auto, auto buf, auto sems) const {
    for (int i = 0; i < kPages + (bad ? 1 : 0); ++i) {
      async_copy(part(x, table[i]), buf.slot(i % kPages), sems[0]).wait();
    }
  }
};
struct PageUsedBeforeItLands : Pages {
  static constexpr const char* slug = "race";
  void prepare() { table = {kDistinct, kPages, "table"}; }
  void operator()(auto& env, auto x, auto, auto buf, auto sems) const {
    const auto page = [&](int i) {
      return make_async_copy(part(x, table[i]), buf.slot(i), sems[i]);
    };
    for (int i = 0; i < kPages; ++i) page(i).start();
    for (int i = 0; i < kPages; ++i) {
      page(bad ? kPages - 1 - i : i).wait();
      use(env, buf.slot(i));
    }
  }
};

/// o overwrites x; the body adds one. `from`: which block of x a step reads.
template <int kBad, int kGood>
struct Aliased : Program {
  auto spec() const {
    const int back = bad ? kBad : kGood;
    return tessera::spec(
        grid(arbitrary(kSteps).as("i")),
        in<float>("x", shape(kSteps * kRows, kCols), block(kRows, kCols),
                  [back](auto i) { return at(lesser(greater(i - back, 0), kSteps - 1), 0); }),
        out<float>("o", shape(kSteps * kRows, kCols), block(kRows, kCols), [](auto i) {
          return at(i, 0);
        }).aliases("x"));
  }
  void operator()(auto&, auto x, auto o) const { *o = *x + 1.f; }
};
struct ReadsTheBlockBefore : Aliased<1, 0> {
  static constexpr const char* slug = "alias-hazard";
};
struct ReadsTwoBlocksBack : Aliased<2, 3> {
  static constexpr const char* slug = "alias-hazard";
};
/// Blocks written ahead of where they are read: step i writes block i + 1.
struct WritesAhead : Program {
  static constexpr const char* slug = "alias-hazard";
  auto spec() const {
    const int ahead = bad ? 1 : 0;
    return tessera::spec(
        grid(arbitrary(kSteps).as("i")),
        in<float>("x", shape((kSteps + 1) * kRows, kCols), block(kRows, kCols),
                  [](auto i) { return at(i, 0); }),
        out<float>("o", shape((kSteps + 1) * kRows, kCols), block(kRows, kCols), [ahead](auto i) {
          return at(i + ahead, 0);
        }).aliases("x"));
  }
  void operator()(auto&, auto x, auto o) const { *o = *x + 1.f; }
};
/// The body copies into the array whose blocks the pipeline prefetches.
struct CopiesUnderThePrefetch : Program {
  static constexpr const char* slug = "race";
  auto spec() const {
    return tessera::spec(grid(arbitrary(kSteps).as("i")),
                         in<float>("x", shape(kSteps * kRows, kCols), block(kRows, kCols),
                                   [](auto i) { return at(i, 0); }),
                         hbm_out<float>("o", shape(kSteps * kRows, kCols)).aliases("x"),
                         vmem<float>("buf", 1, kRows, kCols), dma_sem("sem"));
  }
  void operator()(auto& env, auto x, auto o, auto buf, auto sem) const {
    const int i = env.program_id(0);
    *buf.slot(0) = *x + 1.f;
    const int to = bad ? lesser(i + 1, kSteps - 1) : i;
    async_copy(buf.slot(0), part(o, to), sem).wait();
  }
};

using Twins = std::tuple<OutputBlockLeavesLate, InputBlockReplaced, LandsInWhatIsWrittenBack,
                         LandsInWhatIsComputed, OnePageTwice, PageOutside, TableTooShort,
                         PageUsedBeforeItLands, ReadsTheBlockBefore, ReadsTwoBlocksBack,
                         WritesAhead, CopiesUnderThePrefetch>;

TEMPLATE_LIST_TEST_CASE("a hazard beside the automatic pipeline is found, its good twin is silent",
                        "[hazards][pipeline]", Twins) {
  check_twin<TestType>();
}

}  // namespace
}  // namespace tessera::hazards::pipeline
