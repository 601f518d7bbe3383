// Accounting without a run: index maps of every kind against the interpreter's ledger.
#include <catch2/catch.hpp>

#include "memory_model/array.hpp"
#include "sim/ops/all.hpp"
#include "sim/run.hpp"

using namespace tessera;

namespace {

/// Copies blocks that `map` picks to the grid's own.
template <class Map>
struct Pick {
  static constexpr KernelInfo info{.name = "pick", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("unused"));
  int rows = 1;
  int cols = 1;
  int from_rows = 1;
  int from_cols = 1;
  Map map;

  TESSERA_FN auto spec(auto) const {
    return tessera::spec(
        grid(parallel(rows).as("i"), parallel(cols).as("j")),
        in<float>("x", shape(from_rows, from_cols), block(Int<8>{}, Int<128>{}), map).pad(0),
        out<float>("o", shape(8 * rows, 128 * cols), block(Int<8>{}, Int<128>{}),
                   [](auto i, auto j) { return at(i, j); }));
  }
  TESSERA_FN void operator()(auto&, auto x, auto o) const { *o = *x + 0.f; }
};

/// The same blocks along an arbitrary dimension.
template <class Map>
struct Sum {
  static constexpr KernelInfo info{.name = "sum", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("unused"));
  int rows = 1;
  int steps = 1;
  int from_rows = 1;
  int from_cols = 1;
  Map map;

  TESSERA_FN auto spec(auto) const {
    const int most = steps;
    return tessera::spec(
        grid(parallel(rows).as("i"),
             arbitrary([](auto i) { return i % 2; }, [most](auto i) { return lesser(i + 1, most); })
                 .as("k")),
        in<float>("x", shape(from_rows, from_cols), block(Int<8>{}, Int<128>{}), map).pad(0),
        out<float>("o", shape(8 * rows, 128), block(Int<8>{}, Int<128>{}),
                   [](auto i, auto) { return at(i, 0); }),
        accum<float>("acc", Int<8>{}, Int<128>{}));
  }
  TESSERA_FN void operator()(auto& env, auto x, auto o, auto acc) const {
    if (env.first(1)) *acc = 0.f;
    *acc = *acc + *x;
    if (env.last(1)) *o = *acc;
  }
};

DeviceSpec roomy(const char* device) {
  DeviceSpec d = load_device(device);
  d.vmem_bytes = std::int64_t{1} << 30;
  return d;
}

template <class K>
void check_counts(const K& kernel) {
  Array x(DType::f32, {kernel.from_rows, kernel.from_cols});
  for (const char* device : {"tpu-v5e", "h100"}) {
    for (const int cores : {1, 2, 3}) {
      CAPTURE(device, cores);
      RunOptions options{.device = roomy(device), .cores = cores};
      const RunResult full = run(kernel, tiles(1), arrays(x), options);
      options.dry = true;
      const RunResult dry = run(kernel, tiles(1), {}, options);
      for (const auto& d : full.diagnostics) FAIL_CHECK(d.text());
      for (const auto& d : dry.diagnostics) FAIL_CHECK(d.text());
      REQUIRE(full.ok());
      REQUIRE(dry.ok());
      CHECK(dry.steps == full.steps);
      CHECK(dry.grid == full.grid);
      for (std::size_t i = 0; i < full.ledger().refs().size(); ++i) {
        for (const auto count : Ledger::kCounts)
          CHECK(dry.ledger().refs()[i].*count == full.ledger().refs()[i].*count);
      }
    }
  }
}

template <class Map>
void check_pick(Map map) {
  check_counts(Pick<Map>{.rows = 5, .cols = 7, .from_rows = 53, .from_cols = 1700, .map = map});
}

}  // namespace

TEST_CASE("a dry run counts along affine maps, ragged edges included", "[sim][dry]") {
  check_pick([](auto i, auto j) { return at(i, j); });
  check_pick([](auto i, auto j) { return at(j, i); });
  check_pick([](auto i, auto j) { return at(6 - j, i + j); });
  check_pick([](auto i, auto) { return at(i, 0); });
  check_pick([](auto, auto j) { return at(0, 2 * j + 1); });
  check_pick([](auto, auto) { return at(6, 13); });
  check_pick([](auto i, auto j) { return at(i * 1 + j * 0, 12 - 2 * j); });
}

TEST_CASE("a dry run asks maps that are not affine at every step", "[sim][dry]") {
  check_pick([](auto i, auto j) { return at(i, j / 2); });
  check_pick([](auto i, auto j) { return at((i + j) % 7, lesser(j, 3)); });
  check_pick([](auto i, auto j) { return at(j * j % 7, i); });
  check_pick([](int i, int j) { return at(i, j > 3 ? 1 : 0); });
  static constexpr int kTable[] = {3, 3, 0, 6, 6, 6, 1};
  const Smem<int> table{kTable, 7, "table"};
  check_pick([table](auto i, auto j) { return at(table[j], i); });
  check_pick([table](auto i, auto j) { return at(table[i], j); });
}

TEST_CASE("a dry run walks arbitrary dimensions whose bounds depend on others", "[sim][dry]") {
  const auto check = [](auto map) {
    using Map = decltype(map);
    check_counts(Sum<Map>{.rows = 6, .steps = 4, .from_rows = 53, .from_cols = 1100, .map = map});
  };
  check([](auto i, auto k) { return at(i, k); });
  check([](auto, auto k) { return at(k, 8 - 2 * k); });
  check([](auto i, auto) { return at(i, 8); });
  check([](auto i, auto k) { return at(i, k / 2); });
}

TEST_CASE("a dry run names the step whose block there is not", "[sim][dry]") {
  const auto map = [](auto i, auto j) { return at(i, 3 * j); };
  const Pick<decltype(map)> kernel{
      .rows = 2, .cols = 6, .from_rows = 16, .from_cols = 1664, .map = map};
  RunOptions options{.device = roomy("tpu-v5e"), .command = "tessera run pick"};
  const RunResult full = run(kernel, tiles(1), arrays(Array(DType::f32, {16, 1664})), options);
  options.dry = true;
  const RunResult dry = run(kernel, tiles(1), {}, options);
  REQUIRE(full.diagnostics.size() == 1);
  REQUIRE(dry.diagnostics.size() == 1);
  CHECK(dry.diagnostics[0].text() == full.diagnostics[0].text());
}

namespace {

/// Writes what it has read of itself: nothing that is counted without data can know it.
struct ByValue {
  static constexpr KernelInfo info{.name = "by_value", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("unused"));

  TESSERA_FN auto spec(auto) const {
    return tessera::spec(grid(parallel(2).as("i")),
                         in<float>("x", shape(16, 128), block(Int<8>{}, Int<128>{}),
                                   [](auto i) { return at(i, 0); }),
                         out<float>("o", shape(16, 128), block(Int<8>{}, Int<128>{}),
                                    [](auto i) { return at(i, 0); }));
  }
  TESSERA_FN void operator()(auto&, auto x, auto o) const {
    const auto v = load(*x);
    if (v(0, 0) > 0)
      *o = v + 1.f;
    else
      *o = v + 0.f;
  }
};

/// Reads a semaphore before it copies.
struct ReadsSemaphore {
  static constexpr KernelInfo info{.name = "reads_semaphore", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("unused"));

  TESSERA_FN auto spec(auto) const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<float>("x", shape(8, 128)),
                         hbm_out<float>("o", shape(8, 128)), dma_sem("copied"), sem("ready"));
  }
  TESSERA_FN void operator()(auto&, auto x, auto o, auto copied, auto ready) const {
    semaphore_signal(ready, 1);
    if (semaphore_read(ready) == 1) async_copy(x, o, copied).wait();
    semaphore_wait(ready, 1);
  }
};

}  // namespace

TEST_CASE("a body that decides by values has its bytes counted, not its work", "[sim][dry]") {
  const RunResult dry = run(ByValue{}, tiles(1), {}, {.dry = true, .trace_steps = 100});
  REQUIRE(dry.ok());
  CHECK(dry.ledger().hbm_read_bytes() == 16 * 128 * 4);
  CHECK(dry.no_work == "its body decides by values");
  CHECK(dry.trace.steps == 2);
  CHECK(dry.trace.work.empty());
}

TEST_CASE("a body that decides by values what it copies runs, and is refused without data",
          "[sim][dry]") {
  const Array x(DType::f32, {8, 128});
  const RunResult full = run(ReadsSemaphore{}, tiles(1), arrays(x), {.trace_steps = 100});
  for (const auto& d : full.diagnostics) FAIL_CHECK(d.text());
  CHECK(full.trace.steps == 0);
  const RunResult dry = run(ReadsSemaphore{}, tiles(1), {}, {.dry = true});
  REQUIRE(dry.diagnostics.size() == 1);
  CHECK(dry.diagnostics[0].slug == "unsupported");
}
