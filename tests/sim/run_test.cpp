// What a run does: grids, elision, scratch, prefetched scalars, batching, accounting.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/matmul.hpp"
#include "kernels/softmax_rows.hpp"
#include "sim/body/batched.hpp"
#include "sim/body/runs.hpp"
#include "sim/ops/all.hpp"
#include "sim/run.hpp"
#include "tests/sim/counting.hpp"

using namespace tessera;

namespace {

/// o[i] = sum over the blocks j in [lo(i), hi(i)) of x[i, j]: an arbitrary dimension that shrinks.
struct ShrinkingSum {
  static constexpr KernelInfo info{.name = "shrinking_sum", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  int m = 0;
  int n = 0;
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"),
             arbitrary([](auto i) { return i / 2; }, [](auto i) { return i + 1; }).as("j")),
        in<float>("x", shape(m, n), block(bm, bn), [](auto i, auto j) { return at(i, j); }),
        out<float>("o", shape(m, 1), block(bm, Int<1>{}), [](auto i, auto) { return at(i, 0); }),
        accum<float>("acc", bm, Int<1>{}));
  }
  void operator()(auto& env, auto x, auto o, auto acc) const {
    if (env.first(1)) *acc = 0.f;
    *acc += row_sum(*x);
    if (env.last(1)) *o = *acc;
  }
};

/// o[i] = the sums of runs of x[i, :] and of a row that all share, added in their order.
struct SumOfRuns {
  static constexpr KernelInfo info{.name = "sum_of_runs", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("runs"));
  int m = 0;
  int n = 0;
  auto spec(auto bm, auto bn, auto of_cell) const {
    const int blocks = ceil_div(n, bn);
    const int parts = of_cell;
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), runs(of_cell).as("run"),
             arbitrary([=](auto, auto run) { return run * blocks / parts; },
                       [=](auto, auto run) { return (run + 1) * blocks / parts; })
                 .as("j")),
        in<float>("x", shape(m, n), block(bm, bn), [](auto i, auto, auto j) { return at(i, j); }),
        in<float>("y", shape(1, 1), block(Int<1>{}, Int<1>{}),
                  [](auto, auto, auto) { return at(0, 0); }),
        out<float>("o", shape(m, 1), block(bm, Int<1>{}),
                   [](auto i, auto, auto) { return at(i, 0); }),
        accum<float>("acc", bm, Int<1>{}), total<float>("sum", of_cell, bm, Int<1>{}));
  }
  void operator()(auto& env, auto x, auto y, auto o, auto acc, auto sum) const {
    if (env.first(2)) *acc = 0.f;
    *acc += row_sum(*x) + *y;
    if (env.last(2)) {
      sum_runs(env, 1, sum, acc,
               [&](const auto& all, auto first) { *o.col_range(first, all.cols) = all; });
    }
  }
};

/// More scratch than a GPU has shared memory.
struct LargeScratch {
  static constexpr KernelInfo info{.name = "large_scratch", .summary = "", .math = ""};
  static constexpr auto tiles = kNoTiles;
  auto spec() const {
    return tessera::spec(
        grid(arbitrary(1)),
        out<float>("o", shape(8, 128), block(Int<8>{}, Int<128>{}), [](auto) { return at(0, 0); }),
        vmem<float>("buf", Int<512>{}, Int<128>{}));
  }
  void operator()(auto&, auto o, auto buf) const {
    *buf = 1.f;
    *o = 0.f;
  }
};
struct LargeScratchOfPeers : LargeScratch {
  int devices = 1;
};

/// Rows of x picked by a prefetched table; scratch counts in SMEM.
struct Gather {
  static constexpr KernelInfo info{.name = "gather", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bn"));
  Smem<int> table;
  int rows = 0;
  int n = 0;
  auto spec(auto bn) const {
    const auto t = table;
    return tessera::spec(grid(parallel(1), arbitrary(t.size).as("i")), scalars("table", t),
                         in<float>("x", shape(rows, n), block(squeezed, bn),
                                   [t](auto, auto i) { return at(t[i], 0); }),
                         out<float>("o", shape(t.size, n), block(squeezed, bn),
                                    [](auto, auto i) { return at(i, 0); }),
                         smem<int>("count", 1));
  }
  void operator()(auto& env, auto x, auto o, auto count) const {
    if (env.first(1)) count[0] = 0;
    count[0] = count[0] + 1;
    *o = *x + static_cast<float>(count[0]);
  }
};

/// One output block that stays while the grid accumulates into it; x has three dims and a middle
/// squeeze.
struct Columns {
  static constexpr KernelInfo info{.name = "columns", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bm"));
  int m = 0;
  auto spec(auto bm) const {
    return tessera::spec(grid(parallel(3).as("h"), arbitrary(ceil_div(m, bm)).as("i")),
                         in<float>("x", shape(m, 3, 128), block(bm, squeezed, 128),
                                   [](auto h, auto i) { return at(i, h, 0); })
                             .pad(0),
                         out<float>("o", shape(3, 1, 128), block(squeezed, 1, 128),
                                    [](auto h, auto) { return at(h, 0, 0); }),
                         vmem<float>("ones", 1, bm));
  }
  void operator()(auto& env, auto x, auto o, auto ones) const {
    if (env.first(1)) {
      *ones = 1.f;
      *o = 0.f;
    }
    *o += dot(*ones, *x);
  }
};

/// An empty step, for counting.
struct Empty {
  static constexpr KernelInfo info{.name = "empty", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("unused"));
  int cells = 0;
  int steps = 0;
  auto spec(auto) const {
    return tessera::spec(
        grid(parallel(cells), arbitrary(steps)),
        in<float>("x", shape(8, 128), block(8, 128), [](auto, auto) { return at(0, 0); }));
  }
  void operator()(auto&, auto) const {}
};

/// Slots of a pipelined block: what they cost.
struct Slots {
  static constexpr KernelInfo info{.name = "slots", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bn"));
  int slots = 2;
  auto spec(auto bn) const {
    auto map = [](auto i) { return at(0, i); };
    return tessera::spec(grid(parallel(4)),
                         in<float>("x", shape(8, 4 * bn), block(8, bn), map).buffered(slots),
                         out<float>("o", shape(8, 4 * bn), block(8, bn), map));
  }
  void operator()(auto&, auto x, auto o) const { *o = *x; }
};

}  // namespace

TEST_CASE("an arbitrary dimension's bounds depend on the outer ids", "[sim][grid]") {
  const int m = 5 * 8;
  const int n = 5 * 128;
  const Array x = counting({m, n});
  const auto result = run(ShrinkingSum{m, n}, tiles(8, 128), arrays(x));
  REQUIRE(result.ok());
  std::int64_t steps = 0;
  for (int i = 0; i < 5; ++i) steps += i + 1 - i / 2;
  CHECK(result.steps == steps);
  CHECK(result.ledger().hbm_read_bytes() == steps * 8 * 128 * 4);
  for (int r = 0; r < m; ++r) {
    double sum = 0;
    for (int c = r / 8 / 2 * 128; c < (r / 8 + 1) * 128; ++c) sum += x.at(r * n + c);
    CHECK(result.outputs[0].at(r) == Approx(sum));
  }
}

TEST_CASE("runs of a sum are added in their order", "[sim][run]") {
  const int m = 16;
  const int n = 1024;
  Array x(DType::f32, {m, n});
  for (std::int64_t i = 0; i < x.elems(); ++i)
    x.data<float>()[i] =
        std::ldexp(static_cast<float>(i * 7 % 31 - 15), static_cast<int>(i / 128 % 8) * 5);
  const Array y = counting({1, 1});
  for (const int each : {1, 3, 8}) {
    CAPTURE(each);
    // What each run gives, by a launch whose cell has that run's columns alone.
    std::vector<float> wanted(m, 0.f);
    for (int part = 0; part < each; ++part) {
      const int begin = part * 8 / each * 128;
      const int end = (part + 1) * 8 / each * 128;
      Array of_run(DType::f32, {m, end - begin});
      for (int r = 0; r < m; ++r) {
        for (int c = begin; c < end; ++c)
          of_run.data<float>()[r * (end - begin) + c - begin] = x.data<float>()[r * n + c];
      }
      const auto alone = run(SumOfRuns{m, end - begin}, tiles(8, 128, 1), arrays(of_run, y));
      REQUIRE(alone.ok());
      for (int r = 0; r < m; ++r)
        wanted[static_cast<std::size_t>(r)] += alone.outputs[0].data<float>()[r];
    }
    for (const char* device : {"tpu-v5e", "h100", "a100"}) {
      CAPTURE(device);
      const RunOptions options{.device = load_device(device)};
      const auto result = run(SumOfRuns{m, n}, tiles(8, 128, each), arrays(x, y), options);
      for (const auto& d : result.diagnostics) FAIL(d.text());
      for (int r = 0; r < m; ++r)
        CHECK(result.outputs[0].data<float>()[r] == wanted[static_cast<std::size_t>(r)]);
      CHECK(result.ledger().refs()[0].bytes == m * n * 4);
      CHECK(result.ledger().refs()[1].bytes == (std::string_view(device) == "tpu-v5e" ? 4 : 8));
      CHECK(result.ledger().refs()[2].bytes == m * 4);
    }
    Array of_batch(DType::f32, {2, m / 2, n});
    std::copy_n(x.data<float>(), x.elems(), of_batch.data<float>());
    const Array of_each(DType::f32, {2, 1, 1});
    CHECK(y.data<float>()[0] == 0.f);
    const auto batch =
        run(batched(SumOfRuns{m / 2, n}, 2), tiles(8, 128, each), arrays(of_batch, of_each));
    REQUIRE(batch.ok());
    for (int r = 0; r < m; ++r)
      CHECK(batch.outputs[0].data<float>()[r] == wanted[static_cast<std::size_t>(r)]);
  }
}

TEST_CASE("prefetched scalars drive an index map, and a repeated block is elided",
          "[sim][scalars]") {
  const std::vector<int> table{3, 3, 0, 4, 4, 4};
  const Array x = counting({5, 128});
  Gather kernel{{table.data(), static_cast<int>(table.size()), "table"}, 5, 128};
  DeviceSpec any = load_device("h100");
  const auto result = run(kernel, tiles(128), arrays(x), {.device = any});
  REQUIRE(result.ok());
  for (int i = 0; i < 6; ++i) {
    for (int c = 0; c < 128; ++c) {
      CHECK(result.outputs[0].at(i * 128 + c) ==
            x.at(table[static_cast<std::size_t>(i)] * 128 + c) + i + 1);
    }
  }
  const auto& refs = result.ledger().refs();
  CHECK(refs[0].transfers == 3);
  CHECK(refs[0].elided == 3);
  CHECK(refs[0].bytes == 3 * 128 * 4);
  CHECK(refs[2].name == "table");
  CHECK(refs[2].bytes == 6 * 4);
}

TEST_CASE("a squeezed middle dim gives a strided block, ragged ones their pad", "[sim][blocks]") {
  const int m = 20;
  const Array x = counting({m, 3, 128});
  const auto result = run(Columns{m}, tiles(8), arrays(x), {.device = load_device("h100")});
  REQUIRE(result.ok());
  for (int h = 0; h < 3; ++h) {
    for (int c = 0; c < 128; ++c) {
      double sum = 0;
      for (int i = 0; i < m; ++i) sum += x.at((i * 3 + h) * 128 + c);
      CHECK(result.outputs[0].at(h * 128 + c) == Approx(sum));
    }
  }
  CHECK(result.ledger().refs()[1].transfers == 3);  // the output block stayed for three steps
}

TEST_CASE("block sizes do not change the bits of a product", "[sim][dot]") {
  const Array x = counting({64, 512});
  const Array y = counting({512, 256}, 777);
  const kernels::Matmul<float> kernel{64, 256, 512};
  const auto whole = run(kernel, tiles(64, 256, 512), arrays(x, y));
  for (const auto t : {tiles(8, 128, 128), tiles(64, 128, 256), tiles(16, 256, 384)}) {
    CHECK(same_bits(whole.outputs[0], run(kernel, t, arrays(x, y)).outputs[0]));
  }
}

TEST_CASE("a TPU core keeps its blocks between cells and a CTA starts empty", "[sim][accounting]") {
  const Array x = counting({8, 128});
  const auto tpu = run(Empty{6, 4}, tiles(1), arrays(x), {.device = load_device("tpu-v5e")});
  const auto gpu = run(Empty{6, 4}, tiles(1), arrays(x), {.device = load_device("h100")});
  CHECK(tpu.ledger().refs()[0].transfers == 1);
  CHECK(tpu.ledger().refs()[0].elided == 23);
  CHECK(gpu.ledger().refs()[0].transfers == 6);
  CHECK(gpu.ledger().refs()[0].elided == 18);
}

TEST_CASE("kept movements add up to the totals", "[sim][accounting]") {
  const Array x = counting({200, 260});
  const Array y = counting({260, 300});
  const auto result = run(kernels::Matmul<float>{200, 300, 260}, tiles(64, 128, 128), arrays(x, y),
                          {.keep_movements = true});
  std::int64_t read = 0;
  std::int64_t write = 0;
  std::int64_t padded = 0;
  std::int64_t last_step = 0;
  for (const auto& m : result.ledger().movements()) {
    (m.from == Space::hbm ? read : write) += m.bytes;
    padded += m.padded_bytes;
    CHECK(m.step >= last_step);
    last_step = m.step;
  }
  CHECK(read == result.ledger().hbm_read_bytes());
  CHECK(write == result.ledger().hbm_write_bytes());
  CHECK(padded ==
        result.ledger().padded_hbm_read_bytes() + result.ledger().padded_hbm_write_bytes());
}

TEST_CASE("more buffers cost VMEM and no bytes", "[sim][accounting]") {
  const Array x = counting({8, 512});
  const std::int64_t block = 8 * 128 * 4;
  for (const int slots : {1, 2, 3}) {
    const auto result = run(Slots{slots}, tiles(128), arrays(x));
    REQUIRE(result.ok());
    CHECK(result.plan.vmem_bytes() == (slots + 2) * block);
    CHECK(result.ledger().hbm_read_bytes() == 4 * block);
  }
  // The CUDA build takes as many slots as fit, eight at most, and writes outputs from registers.
  const auto on_gpu = run(Slots{3}, tiles(128), arrays(x), {.device = load_device("h100")});
  CHECK(on_gpu.plan.vmem_bytes() == 8 * block);
}

TEST_CASE("scratch that peers reach takes device memory on a GPU", "[sim][accounting]") {
  const auto run_on = [](const auto& kernel, const char* device) {
    return run(kernel, tiles(), {}, {.device = load_device(device)});
  };
  const RunResult alone = run_on(LargeScratch{}, "h200");
  REQUIRE(alone.diagnostics.size() == 1);
  CHECK(alone.diagnostics[0].slug == std::string("vmem-capacity"));
  const RunResult peer = run_on(LargeScratchOfPeers{}, "h200");
  for (const auto& d : peer.diagnostics) FAIL_CHECK(d.text());
  CHECK(peer.plan.vmem_bytes() == 0);
  CHECK(bytes_in(peer.plan.allocations, Space::hbm) == 512 * 128 * 4);
  // It is a body's own memory all the same: not in the traffic.
  CHECK(peer.ledger().hbm_read_bytes() == 0);
  CHECK(peer.ledger().hbm_write_bytes() == 8 * 128 * 4);
  // A TPU's peers copy into VMEM.
  const RunResult tpu = run_on(LargeScratchOfPeers{}, "tpu-v5e");
  CHECK(tpu.plan.vmem_bytes() == 512 * 128 * 4 + 2 * 8 * 128 * 4);
  CHECK(bytes_in(tpu.plan.allocations, Space::hbm) == 0);
}

TEST_CASE("a batched kernel is the kernel on every slice", "[sim][batched]") {
  const int n = 3;
  const Array x = counting({n, 40, 260});
  const Array y = counting({n, 260, 140}, 777);
  const kernels::Matmul<float> kernel{40, 140, 260};
  const auto all = run(batched(kernel, n), tiles(16, 128, 128), arrays(x, y));
  REQUIRE(all.ok());
  std::int64_t bytes = 0;
  for (int b = 0; b < n; ++b) {
    Array xb(DType::f32, {40, 260});
    Array yb(DType::f32, {260, 140});
    std::memcpy(xb.bytes(), x.bytes() + b * xb.size_bytes(),
                static_cast<std::size_t>(xb.size_bytes()));
    std::memcpy(yb.bytes(), y.bytes() + b * yb.size_bytes(),
                static_cast<std::size_t>(yb.size_bytes()));
    const auto one = run(kernel, tiles(16, 128, 128), arrays(xb, yb));
    CHECK(std::memcmp(all.outputs[0].bytes() + b * one.outputs[0].size_bytes(),
                      one.outputs[0].bytes(),
                      static_cast<std::size_t>(one.outputs[0].size_bytes())) == 0);
    bytes += one.ledger().hbm_read_bytes();
  }
  CHECK(all.ledger().hbm_read_bytes() == bytes);
  CHECK(all.steps == n * 3 * 2 * 3);
}

TEST_CASE("a batched kernel may shrink its grid", "[sim][batched]") {
  const Array x = counting({2, 40, 640});
  const auto result = run(batched(ShrinkingSum{40, 640}, 2), tiles(8, 128), arrays(x));
  REQUIRE(result.ok());
  CHECK(result.steps == 2 * (1 + 2 + 2 + 3 + 3));
}

TEST_CASE("a watched step shows its blocks", "[sim][env]") {
  const Array x = counting({200, 260});
  const Array y = counting({260, 300});
  std::string seen;
  RunOptions options;
  options.at = {1, 0, 1};
  options.on_step = [&](const std::string& s) { seen += s; };
  const auto result =
      run(kernels::Matmul<float>{200, 300, 260}, tiles(128, 128, 128), arrays(x, y), options);
  REQUIRE(result.ok());
  CHECK_THAT(seen, Catch::Matchers::Contains("x_ref: VMEM f32[128, 128] <- x: HBM f32[200, 260]"));
  CHECK_THAT(seen, Catch::Matchers::Contains("undefined so far"));  // o, before its last step
}

TEST_CASE("inputs of the wrong number, shape or type are bad input", "[sim][input]") {
  const Array x = counting({200, 260});
  const kernels::Matmul<float> kernel{200, 300, 260};
  CHECK_THROWS_WITH(run(kernel, tiles(128, 128, 128), arrays(x)),
                    Catch::Matchers::Contains("takes 2 inputs, got 1"));
  CHECK_THROWS_WITH(
      run(kernel, tiles(128, 128, 128), arrays(x, x)),
      Catch::Matchers::Contains("y is f32[200, 260]; the kernel takes f32[260, 300]"));
  const Array half(DType::bf16, {260, 300});
  CHECK_THROWS_WITH(run(kernel, tiles(128, 128, 128), arrays(x, half)),
                    Catch::Matchers::Contains("y is bf16[260, 300]"));
}

TEST_CASE("ten million steps count exactly", "[sim][steps]") {
  const Array x = counting({8, 128});
  const int steps = 10'000'000;
  const auto result = run(Empty{1, steps}, tiles(1), arrays(x));
  CHECK(result.steps == steps);
  CHECK(result.ledger().refs()[0].elided == steps - 1);
}

TEST_CASE("cores, threads and grids that no machine ends with are refused", "[sim][input]") {
  const Array x = counting({16, 16});
  const ShrinkingSum kernel{.m = 16, .n = 16};
  RunOptions options;
  for (const int cores : {-1, 0, 1'000'000'000}) {
    options.cores = cores;
    CHECK_THROWS_AS(run(kernel, tiles(8, 128), arrays(x), options), InputError);
  }
  options = {};
  options.threads = -5;
  CHECK_THROWS_AS(run(kernel, tiles(8, 128), arrays(x), options), InputError);
  options = {};
  options.mesh = {1 << 20, 1 << 20};
  CHECK_THROWS_AS(run(kernel, tiles(8, 128), arrays(x), options), InputError);
  Plan plan;
  plan.grid_rank = 3;
  for (std::size_t d = 0; d < 3; ++d) plan.bounds[d] = Range{0, 1 << 15};
  CHECK_THROWS_AS(check_grid(plan, false), KernelError);
  CHECK_NOTHROW(check_grid(plan, true));
}

TEST_CASE("a run ends when its flag is set, and says where it was", "[sim][stop]") {
  const Array x = counting({64, 64});
  const ShrinkingSum kernel{.m = 64, .n = 64};
  const StopFlag flag = Stop::interrupted;
  for (const int threads : {1, 3}) {
    for (const bool dry : {false, true}) {
      RunOptions options;
      options.threads = threads;
      options.dry = dry;
      options.stop = &flag;
      const RunResult r = run(kernel, tiles(8, 128), dry ? Inputs{} : arrays(x), options);
      REQUIRE(r.diagnostics.size() == 1);
      CHECK(r.diagnostics[0].slug == "interrupted");
      CHECK(r.diagnostics[0].text().find("shrinking_sum, grid (i=") != std::string::npos);
      const bool line = r.diagnostics[0].text().find("run_test.cpp:") != std::string::npos;
      CHECK((dry || line));
    }
  }
}
