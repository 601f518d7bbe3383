// Byte ranges: slices with steps, columns, bitcasts, squeezed dims.
#include "tests/hazards/twin.hpp"

namespace tessera::hazards::strided {
namespace {

/// o rows by a run, from x.
auto rows(auto array, auto run) { return array.slice(run, ds(0, kCols)); }

struct RowsInterleave : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto, auto sems, auto) const {
    const auto even = async_copy(part(x, 0), rows(o, ds(0, kRows, 2)), sems[0]);
    const auto odd = async_copy(part(x, 1), rows(o, ds(bad ? 2 : 1, kRows, 2)), sems[1]);
    even.wait();
    odd.wait();
  }
};
struct RowsMeetOnce : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto, auto sems, auto) const {
    // 0, 3, ..., 21 and 1 or 2 + 5 i: rows 12 and 2 + 2 * 5 are the same.
    const auto a = async_copy(part(x, 0), rows(o, ds(0, kRows, 3)), sems[0]);
    const auto b =
        async_copy(x.slice(ds(8, 2), ds(0, kCols)), rows(o, ds(2, 2, bad ? 10 : 9)), sems[1]);
    a.wait();
    b.wait();
  }
};
struct NeighbouringRows : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const auto copy = async_copy(x.slice(ds(0, 4), ds(0, kCols)),
                                 buf.slot(0).slice(ds(0, 4), ds(0, kCols)), sems[0]);
    *buf.slot(0).slice(ds(bad ? 3 : 4, 4), ds(0, kCols)) = 1.f;
    copy.wait();
  }
};
struct ColumnHalves : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto, auto buf, auto sems, auto) const {
    const auto copy = async_copy(x.slice(ds(0, kRows), ds(0, 128)),
                                 buf.slot(0).slice(ds(0, kRows), ds(0, 128)), sems[0]);
    *buf.slot(0).slice(ds(0, kRows), ds(bad ? 0 : 128, 128)) = 1.f;
    copy.wait();
  }
};
struct ColumnHalvesInHbm : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto, auto sems, auto) const {
    const auto left =
        async_copy(x.slice(ds(0, 16), ds(0, 128)), o.slice(ds(0, 16), ds(0, 128)), sems[0]);
    const auto right = async_copy(x.slice(ds(0, 16), ds(128, 128)),
                                  o.slice(ds(8, 16), ds(bad ? 0 : 128, 128)), sems[1]);
    left.wait();
    right.wait();
  }
};
struct BitcastSeesTheSameBytes : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto, auto sems, auto) const {
    const auto words =
        async_copy(x.slice(ds(0, 16), ds(0, 128)), o.slice(ds(0, 16), ds(0, 128)), sems[0]);
    // Columns [0, 128) of 32 bits are columns [0, 256) of 16.
    const auto halves =
        async_copy(x.template bitcast<bf16>().slice(ds(16, 16), ds(0, 128)),
                   o.template bitcast<bf16>().slice(ds(0, 16), ds(bad ? 128 : 256, 128)), sems[1]);
    words.wait();
    halves.wait();
  }
};
struct ReadAgainstStridedWrite : Local<> {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto buf, auto sems, auto) const {
    async_copy(x, o, sems[0]).wait();
    const auto write = async_copy(part(x, 0), rows(o, ds(1, kRows, 2)), sems[1]);
    async_copy(rows(o, ds(0, kRows, bad ? 5 : 2)), buf.slot(0), sems[2]).wait();
    write.wait();
  }
};

/// Three dims: pages of rows.
struct Paged : Program {
  auto spec() const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<float>("x", shape(4, kRows, kCols)),
                         hbm<float>("o", shape(4, kRows, kCols)),
                         vmem<float>("buf", 2, kRows, kCols), dma_sem("sems", 2));
  }
};
struct SamePage : Paged {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto, auto sems) const {
    const auto a = async_copy(x.at(0), o.at(2), sems[0]);
    const auto b = async_copy(x.at(1), o.at(bad ? 2 : 3), sems[1]);
    a.wait();
    b.wait();
  }
};
struct PageOfASteppedSlice : Paged {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto buf, auto sems) const {
    async_copy(x, o, sems[0]).wait();
    const auto whole = ds(0, kRows);
    const auto pages = o.slice(ds(1, 2, 2), whole, ds(0, kCols));  // pages 1 and 3
    const auto write = async_copy(x.slice(ds(0, 2), whole, ds(0, kCols)), pages, sems[0]);
    async_copy(o.at(bad ? 3 : 2), buf.slot(0), sems[1]).wait();
    use(env, buf.slot(0));
    write.wait();
  }
};
struct RowsOfOnePage : Paged {
  static constexpr const char* slug = "race";
  void operator()(auto&, auto x, auto o, auto, auto sems) const {
    const auto a = async_copy(x.at(0).slice(ds(0, 4), ds(0, kCols)),
                              o.at(1).slice(ds(0, 4), ds(0, kCols)), sems[0]);
    const auto b = async_copy(x.at(1).slice(ds(0, 4), ds(0, kCols)),
                              o.at(1).slice(ds(bad ? 2 : 4, 4), ds(0, kCols)), sems[1]);
    a.wait();
    b.wait();
  }
};

using Twins = std::tuple<RowsInterleave, RowsMeetOnce, NeighbouringRows, ColumnHalves,
                         ColumnHalvesInHbm, BitcastSeesTheSameBytes, ReadAgainstStridedWrite,
                         SamePage, PageOfASteppedSlice, RowsOfOnePage>;

TEMPLATE_LIST_TEST_CASE("a hazard of overlapping slices is found, its good twin is silent",
                        "[hazards][strided]", Twins) {
  check_twin<TestType>();
}

}  // namespace
}  // namespace tessera::hazards::strided
