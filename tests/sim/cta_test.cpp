// The launch that a spec gets on a GPU, by hand. tests/report holds it to launches that one
// reported.
#include "memory_model/device_spec.hpp"
#include "sim/body/cta_fall.hpp"
#include "sim/body/spread.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera::cta {

namespace {

/// Blocks of a matmul: x and w at every step, an accumulator, o.
struct Product {
  Operand x, w, o, sum;
  constexpr Product(DType dtype, int m, int n, int k)
      : x{Role::in, dtype, m, k},
        w{Role::in, dtype, k, n},
        o{Role::out, dtype, m, n},
        sum{Role::accum, DType::f32, m, n} {}
  constexpr Launch launch(bool peers = false) const {
    const Operand all[] = {x, w, o, sum};
    return launch_of({all, 4, true, peers}, kSm90);
  }
};

}  // namespace

TEST_CASE("a launch is a constant", "[sim][cta]") {
  constexpr Launch kLaunch = Product(DType::bf16, 128, 256, 64).launch();
  STATIC_REQUIRE(kLaunch.tensor_cores);
  STATIC_REQUIRE(kLaunch.warpgroups == 2);
  STATIC_REQUIRE(kLaunch.threads == 3 * 128);
  // Four times 16 KiB of x and 32 KiB of w; full and empty of each; the ring of cells.
  STATIC_REQUIRE(kLaunch.stages.of_step == 4);
  STATIC_REQUIRE(kLaunch.shared_bytes == 4 * (16 + 32) * 1024 + 8 * 2 * (4 + 4) + 64);
  // 168 registers to begin with, those of 128 threads down to 64.
  STATIC_REQUIRE(registers_of(2, kSm90).at_launch == 168);
  STATIC_REQUIRE(kLaunch.registers == 216);
  STATIC_REQUIRE(kLaunch.resident == 1);
}

TEST_CASE("a launch has the limits of the GPU that it is for", "[sim][cta]") {
  const auto built_for = [](int capability) {
    const Sm* const sm = sm_of(capability);
    return sm != nullptr ? sm->capability : 0;
  };
  CHECK(built_for(80) == 80);
  CHECK(built_for(87) == 86);
  CHECK(built_for(89) == 89);
  CHECK(built_for(90) == 90);
  CHECK(built_for(103) == 100);
  CHECK(built_for(121) == 120);
  CHECK(built_for(75) == 0);
  CHECK(built_for(110) == 0);

  // Slots of 16 KiB of x and 16 KiB of w in what a CTA may have, and what it asks for in all.
  struct Wanted {
    Sm sm;
    int slots;
    std::int64_t most;
  };
  constexpr Product kSquare{DType::bf16, 128, 128, 64};
  constexpr Operand kAll[] = {kSquare.x, kSquare.w, kSquare.o, kSquare.sum};
  for (const Wanted& w : {Wanted{kSm80, 5, 163}, Wanted{kSm86, 3, 99}, Wanted{kSm89, 3, 99},
                          Wanted{kSm90, 7, 227}, Wanted{kSm100, 7, 227}, Wanted{kSm120, 3, 99}}) {
    CAPTURE(w.sm.capability);
    const Launch l = launch_of({kAll, 4, true}, w.sm);
    CHECK(l.tensor_cores);
    CHECK(l.warpgroups == 2);
    CHECK(l.stages.of_step == w.slots);
    CHECK(l.shared_bytes + w.sm.left_out_bytes() <= w.most * 1024);
    // Without wgmma no register changes hands.
    CHECK(registers_of(l.warpgroups, w.sm).move == w.sm.hopper);
    CHECK(l.registers == (w.sm.hopper ? 216 : 168));
    CHECK(w.sm.threads >= 1536);
  }
  // Those of the device's file.
  for (const auto& name : device_names()) {
    CAPTURE(name);
    const DeviceSpec d = load_device(name);
    const Sm* const sm = sm_of(d.compute_capability);
    CHECK((sm != nullptr) == (d.kind == DeviceSpec::Kind::gpu));
    if (sm != nullptr) CHECK(sm->shared_bytes + sm->left_out_bytes() == d.vmem_bytes);
  }
  // Two CTAs side by side leave out a KiB each.
  constexpr Operand kFew[] = {{Role::in, DType::bf16, 8, 128},
                              {Role::in, DType::bf16, 128, 128},
                              {Role::out, DType::bf16, 8, 128},
                              {Role::accum, DType::f32, 8, 128}};
  for (const Sm& sm : {kSm80, kSm86, kSm90}) {
    CAPTURE(sm.capability);
    const Launch l = launch_of({kFew, 4, true}, sm);
    CHECK(l.resident == (sm.capability == 86 ? 1 : 2));  // 34 KiB a slot
    CHECK(l.resident * (l.shared_bytes + sm.reserved_bytes) <= sm.shared_bytes + sm.reserved_bytes);
  }
}

TEST_CASE("wgmma multiplies what lies in panels, in whole warpgroups", "[sim][cta]") {
  const auto tensor = [](Product p) {
    const Launch l = p.launch();
    return l.tensor_cores && !l.mma_sync;
  };
  CHECK(tensor({DType::bf16, 64, 64, 64}));
  CHECK(tensor({DType::f16, 64, 64, 64}));
  CHECK_FALSE(tensor({DType::f32, 64, 64, 64}));
  CHECK_FALSE(tensor({DType::bf16, 48, 64, 64}));  // rows of a sum
  CHECK_FALSE(tensor({DType::bf16, 64, 96, 64}));  // its columns
  CHECK_FALSE(tensor({DType::bf16, 64, 64, 24}));  // 48 bytes in a row of x
  CHECK_FALSE(tensor({DType::f8e4m3fn, 128, 128, 128}));
  Product narrow{DType::bf16, 64, 64, 64};
  narrow.sum.cols = 32;
  CHECK_FALSE(tensor(narrow));
  Product shallow{DType::bf16, 64, 64, 64};
  shallow.w.rows = 24;
  CHECK_FALSE(tensor(shallow));
  // On several devices SIMT lanes multiply.
  CHECK_FALSE(Product(DType::bf16, 64, 64, 64).launch(true).tensor_cores);
}

TEST_CASE("mma.sync multiplies few rows, and any 8 columns", "[sim][cta]") {
  struct Wanted {
    int m, n, k;
    bool mma_sync;
    int warpgroups, resident;
  };
  for (const Wanted w : {Wanted{8, 128, 128, true, 1, 2}, Wanted{16, 256, 64, true, 1, 2},
                         Wanted{32, 128, 128, true, 1, 2}, Wanted{32, 256, 64, true, 1, 1},
                         Wanted{48, 64, 64, true, 1, 2}, Wanted{64, 96, 64, true, 1, 1},
                         Wanted{128, 72, 64, true, 2, 1}, Wanted{64, 64, 24, true, 1, 2},
                         Wanted{12, 128, 128, false, 1, 1}, Wanted{8, 100, 128, false, 1, 1},
                         Wanted{8, 2048, 64, false, 2, 1}, Wanted{64, 64, 64, false, 1, 1}}) {
    CAPTURE(w.m, w.n, w.k);
    const Launch l = Product(DType::bf16, w.m, w.n, w.k).launch();
    CHECK(l.mma_sync == w.mma_sync);
    if (!w.mma_sync) continue;
    CHECK(l.tensor_cores);
    CHECK(l.fast_functions);
    CHECK(l.warpgroups == w.warpgroups);
    CHECK(l.resident == w.resident);
    CHECK(l.stages.of_step > 1);
  }
  CHECK_FALSE(Product(DType::f32, 8, 128, 128).launch().tensor_cores);
  CHECK_FALSE(Product(DType::f8e4m3fn, 8, 128, 128).launch().tensor_cores);
  CHECK_FALSE(Product(DType::bf16, 8, 128, 128).launch(true).tensor_cores);
  // 8 KiB of left operands and the lanes of 8 rows, behind the ring of cells.
  const Product few{DType::bf16, 8, 128, 128};
  const Operand all[] = {few.x, few.w, few.o, few.sum};
  const Operands operands{all, 4, true};
  const std::int64_t ring = operands.cell_ring_at({1, 1});
  CHECK(operands.chunks_at({1, 1}) == round_up(ring + kCellRing, 16));
  CHECK(operands.shared_bytes({1, 1}) == operands.chunks_at({1, 1}) + 8192 + 8 * 40 * 4);
}

TEST_CASE("runs of a sum of few rows are groups of warps side by side, where there is room",
          "[sim][cta]") {
  struct Wanted {
    int rows, cols, runs;
    int groups, across;
  };
  for (const Wanted w :
       {Wanted{16, 64, 8, 8, 2}, Wanted{16, 64, 4, 4, 2}, Wanted{8, 128, 4, 4, 4},
        Wanted{16, 256, 2, 2, 4}, Wanted{16, 64, 16, 1, 4},  // two slots of each run
        Wanted{16, 64, 2, 2, 2}, Wanted{16, 96, 3, 3, 4}, Wanted{16, 64, 1, 1, 4},
        Wanted{16, 64, 3, 1, 4},  // shares of columns
        Wanted{16, 64, 32, 1, 4}, Wanted{32, 64, 4, 1, 4}}) {
    CAPTURE(w.rows, w.cols, w.runs);
    const Operand all[] = {
        {Role::in, DType::bf16, w.rows, 128},     {Role::in, DType::u32, 16, w.cols},
        {Role::in, DType::f32, 1, w.cols},        {Role::in, DType::f32, 1, 1, 1, true},
        {Role::out, DType::bf16, w.rows, w.cols}, {Role::accum, DType::f32, w.rows, w.cols}};
    Operands operands{all, 6, true, false, true, 0, true, w.runs};
    const Launch l = launch_of(operands, kSm90);
    CHECK(l.groups == w.groups);
    CHECK(l.across == w.across);
    CHECK(l.stages.of_step > 1);
    CHECK(l.stages.groups == w.groups);
    CHECK(all[0].slots(l.stages) == l.stages.of_step * w.groups);
    CHECK(all[3].slots(l.stages) == l.stages.of_cell);
    if (w.groups == 1) continue;
    CHECK(l.threads == w.groups * w.across * 32 + kProducers);
    CHECK(l.resident == 1);
    operands.exchanges = false;  // parts have nowhere to be handed over
    CHECK(launch_of(operands, kSm90).groups == 1);
  }
  const Operand bytes[] = {{Role::in, DType::bf16, 16, 128},
                           {Role::in, DType::i8, 128, 64},
                           {Role::out, DType::bf16, 16, 64},
                           {Role::accum, DType::f32, 16, 64}};
  CHECK(launch_of(Operands{bytes, 4, true, false, true, 0, true, 4}, kSm90).groups == 1);
  // 9 KiB a slot, two of each run.
  const Operand all[] = {{Role::in, DType::bf16, 16, 128},
                         {Role::in, DType::u32, 16, 64},
                         {Role::out, DType::bf16, 16, 64},
                         {Role::accum, DType::f32, 16, 64}};
  const Operands operands{all, 4, true, false, true, 0, true, 8};
  CHECK(launch_of(operands, kSm80).groups == 8);
  CHECK(launch_of(operands, kSm86).groups == 1);
}

TEST_CASE("a fall from tensor cores has a reason", "[sim][cta]") {
  const auto fall = [](Product p, bool peers = false) {
    const Operand all[] = {p.x, p.w, p.o, p.sum};
    const Fall found = fall_from_tensor_cores({all, 4, true, peers});
    return std::pair(std::string(found.why == nullptr ? "" : found.why), found.operand);
  };
  using Said = std::pair<std::string, int>;
  CHECK(fall({DType::bf16, 8, 128, 128}) == Said("", -1));
  CHECK(fall({DType::bf16, 64, 64, 64}) == Said("", -1));
  CHECK(fall({DType::f32, 12, 128, 128}) == Said("", -1));  // nothing to fall from
  CHECK(fall({DType::bf16, 12, 128, 128}) == Said("its rows are no multiple of 8", 3));
  CHECK(fall({DType::bf16, 8, 100, 128}) == Said("its columns are no multiple of 8", 3));
  CHECK(fall({DType::bf16, 8, 2048, 64}).first ==
        "a thread would hold more than 96 elements of a tile");
  CHECK(fall({DType::bf16, 256, 256, 64}) == Said("", -1));
  CHECK(fall({DType::bf16, 256, 256, 32}) ==
        Said("its rows are no multiple of 64 elements, which wgmma takes, and by mma.sync a thread "
             "would hold more than 96 elements of a tile",
             0));
  CHECK(fall({DType::bf16, 8, 128, 128}, true).first == "devices of a mesh multiply by FMA chains");
  Product mixed{DType::bf16, 8, 128, 128};
  mixed.w.dtype = DType::f8e5m2;
  CHECK(fall(mixed) == Said("its elements are narrower than 16 bits", 1));
}

TEST_CASE("scratch of run_scoped lies behind what threads exchange", "[sim][cta]") {
  const Operand x{Role::in, DType::f32, 8, 128};
  const Operands neither{&x, 1};
  const Operands both{&x, 1, false, false, true, 4096};
  const Stages one;
  CHECK(neither.shared_bytes(one) == 4096 + 2 * 8 + 64);
  CHECK(both.exchange_at(one) == 5 * 1024);
  CHECK(both.scope_at(one) == (5 + 16) * 1024);
  CHECK(both.shared_bytes(one) == (5 + 16 + 4) * 1024);
}

TEST_CASE("as few warpgroups as hold a sum, as many SIMT threads as hold a tile", "[sim][cta]") {
  const auto groups = [](DType d, int m, int n) {
    return Product(d, m, n, 64).launch().warpgroups;
  };
  CHECK(groups(DType::bf16, 64, 128) == 1);
  CHECK(groups(DType::bf16, 128, 64) == 2);
  CHECK(groups(DType::bf16, 192, 256) == 3);
  CHECK(groups(DType::bf16, 256, 256) == 4);
  CHECK(groups(DType::f32, 8, 128) == 1);
  CHECK(groups(DType::f32, 64, 128) == 1);
  CHECK(groups(DType::f32, 72, 128) == 2);
  CHECK(groups(DType::f32, 512, 512) == 4);
  // Scores of 64 rows by the 128 of k, beside their maxima.
  const Operand q{Role::in, DType::f32, 64, 64};
  const Operand k{Role::in, DType::f32, 128, 64};
  const Operand sum{Role::accum, DType::f32, 64, 64};
  const Operand attention[] = {q, k, sum, {Role::accum, DType::f32, 64, 1}};
  CHECK(computing_of({attention, 3, true}).warpgroups == 1);
  CHECK(computing_of({attention, 4, true}).warpgroups == 1);
  const Operand long_attention[] = {q, {Role::in, DType::f32, 256, 64}, sum, attention[3]};
  CHECK(computing_of({long_attention, 3, true}).warpgroups == 1);
  CHECK(computing_of({long_attention, 4, true}).warpgroups == 2);
}

TEST_CASE("a tile lies in panels of 128 bytes if its rows are made of them", "[sim][cta]") {
  const Tile rows = tile_of(100, 300, DType::f32);
  CHECK_FALSE(rows.panelled);
  CHECK(rows.bytes == 120064);  // 120,000 in lines of 128
  const Tile panels = tile_of(100, 128, DType::bf16);
  CHECK(panels.panelled);
  CHECK(panels.panels == 2);
  CHECK(panels.panel_cols == 64);
  CHECK(panels.bytes == 26 * 1024);  // 104 rows of 256 bytes
  CHECK(panels.align == 1024);       // where a swizzle repeats
  CHECK(tile_of(12, 64, DType::bf16).bytes == 2048);
  CHECK_FALSE(tile_of(1, 128, DType::bf16).panelled);
  CHECK(tile_of(16, 256, DType::f4e2m1fn).bytes == 4096);  // a byte each
}

TEST_CASE("half a warp has a chunk of a long row, and CTAs hide what each waits for",
          "[sim][cta]") {
  const auto launch = [](int rows, int cols, DType dtype, int rows_of_weights = 1) {
    const Operand all[] = {{Role::in, dtype, rows, cols, 1, true},
                           {Role::in, dtype, rows_of_weights, cols, 1, true},
                           {Role::out, dtype, rows, cols}};
    const Launch l = launch_of({all, 3}, kSm90);
    CHECK(l.resident * (l.shared_bytes + kSm90.reserved_bytes) <=
          kSm90.shared_bytes + kSm90.reserved_bytes);
    return l;
  };
  const struct {
    int rows, cols, half_warps, warpgroups, resident;
  } wanted[] = {{4, 1024, 2, 1, 3},  {16, 1024, 2, 4, 1},  {3, 700, 2, 1, 3},   {1, 4096, 8, 1, 3},
                {1, 8192, 16, 2, 1}, {1, 16384, 32, 4, 1}, {1, 20000, 32, 4, 1}};
  for (const auto& w : wanted) {
    CAPTURE(w.rows, w.cols);
    const Launch l = launch(w.rows, w.cols, DType::f32);
    CHECK(l.half_warps == w.half_warps);
    CHECK(l.warpgroups == w.warpgroups);
    CHECK(l.resident == w.resident);
    CHECK_FALSE(l.fast_functions);
    CHECK(launch(w.rows, w.cols, DType::bf16).fast_functions);
  }
  // Of one chunk, and beside blocks of other rows, threads stand as ever.
  CHECK(launch(16, 512, DType::f32).half_warps == 1);
  CHECK(launch(16, 1024, DType::f32, 8).half_warps == 1);
}

TEST_CASE("registers are kept for as many CTAs of rows as a thread's elements leave room for",
          "[sim][cta]") {
  const struct {
    int rows, cols, resident;
  } wanted[] = {{8, 64, 4},   {2, 128, 4},  {1, 192, 3},  {8, 512, 3}, {16, 256, 3},
                {16, 320, 2}, {16, 512, 2}, {64, 128, 2}, {32, 512, 1}};
  for (const auto& w : wanted) {
    CAPTURE(w.rows, w.cols);
    const Operand all[] = {{Role::in, DType::f32, w.rows, w.cols, 1, true},
                           {Role::out, DType::f32, w.rows, w.cols}};
    const Launch l = launch_of({all, 2}, kSm90);
    CHECK(l.resident == w.resident);
    CHECK(l.at_least == w.resident);
    CHECK(l.stages.of_step > 1);
    CHECK(l.resident * (l.shared_bytes + kSm90.reserved_bytes) <=
          kSm90.shared_bytes + kSm90.reserved_bytes);
    // The portable build moves no registers.
    CHECK(launch_of({all, 2}, kSm80).at_least == 1);
  }
  const Operand block{Role::in, DType::f32, 8, 128, 1, true};
  const Operand sum{Role::accum, DType::f32, 8, 128};
  const Operand all[] = {block, {Role::out, DType::f32, 8, 128}, sum};
  Operands sums{all, 3};
  sums.multiplies = false;
  CHECK(launch_of(sums, kSm90).at_least == 2);
}

TEST_CASE("accumulators of a kernel that does not multiply are rows", "[sim][cta]") {
  const Operand block{Role::in, DType::bf16, 8, 1024};
  const Operand sum{Role::accum, DType::f32, 8, 1024};
  const Operand all[] = {block, block, {Role::out, DType::bf16, 8, 1024}, sum, sum};
  Operands operands{all, 5, true};
  CHECK(launch_of(operands, kSm90).mma_sync);
  CHECK(spreads(operands));
  operands.multiplies = false;
  const Launch l = launch_of(operands, kSm90);
  CHECK_FALSE(l.tensor_cores);
  CHECK((l.half_warps == 2 && l.warpgroups == 2));
  // Two sums take registers of what would be a second CTA's.
  CHECK(l.at_least == 1);
  operands.size = 4;
  CHECK(launch_of(operands, kSm90).at_least == 2);
  CHECK_FALSE(spreads(operands));
  CHECK(fall_from_tensor_cores(operands).why == nullptr);
}

TEST_CASE("rows that the copy engine does not take are spread for products", "[sim][cta]") {
  const Shape odd{40, 2001};
  CHECK_FALSE(is_mappable(odd, DType::bf16));
  CHECK(spread_of(odd, DType::bf16) == Shape{40, 2008});
  CHECK(is_mappable(spread_of(odd, DType::bf16), DType::bf16));
  const Operand sum[] = {{Role::in, DType::bf16, 64, 64}, {Role::accum, DType::f32, 64, 64}};
  const Operand statistic[] = {{Role::in, DType::bf16, 64, 64}, {Role::accum, DType::f32, 64, 1}};
  CHECK(spreads({sum, 2}));
  CHECK_FALSE(spreads({statistic, 2}));
}

TEST_CASE("tiles, barriers and the ring of cells do not overlap", "[sim][cta]") {
  for (const int cols : {24, 100, 128}) {
    const Operand all[] = {{Role::in, DType::f32, 24, cols, 1, true},
                           {Role::accum, DType::f32, 24, cols},
                           {Role::vmem, DType::bf16, 2 * 40, 64, 2},
                           {Role::dma_sem, DType::i32, 1, 1, 3},
                           {Role::in, DType::f32, 1, cols}};
    const Operands operands{all, 5, true};
    const Stages stages = stages_of(operands, kSm90);
    CAPTURE(cols, stages.of_step, stages.of_cell);
    std::int64_t end = 0;
    for (int i = 0; i < 5; ++i) {
      const std::int64_t bytes = operands.bytes(all[i], stages);
      if (bytes == 0) continue;
      CHECK(operands.tiles_at(i, stages) >= end);
      CHECK(operands.tiles_at(i, stages) % all[i].tile().align == 0);
      CHECK(bytes >=
            all[i].slots(stages) * packed_bytes(all[i].dtype, all[i].elems() / all[i].count));
      end = operands.tiles_at(i, stages) + bytes;
    }
    for (int i = 0; i < 5; ++i) {
      CHECK(operands.barriers_at(i, stages) >= end);
      end = operands.barriers_at(i, stages) + kBarrierBytes * operands.barriers(all[i], stages);
    }
    CHECK(operands.cell_ring_at(stages) == end);
    CHECK(operands.shared_bytes(stages) <= kSm90.shared_bytes);
  }
}

TEST_CASE("slots are as many as fit: two of a cell's blocks, then as many steps' as can be",
          "[sim][cta]") {
  const auto stages = [](int cell_rows, int step_rows, bool has_steps = true) {
    const Operand all[] = {{Role::in, DType::f32, cell_rows, 256, 1, true},
                           {Role::in, DType::f32, step_rows, 256}};
    return stages_of({all, 2, has_steps}, kSm90);
  };
  CHECK(stages(8, 8).of_step == 8);
  CHECK(stages(8, 8).of_cell == 2);
  CHECK(stages(64, 32).of_step == 3);  // 2 x 64 KiB and 3 x 32 KiB
  CHECK(stages(64, 32).of_cell == 2);
  CHECK(stages(128, 32).of_step == 3);  // one of 128 KiB
  CHECK(stages(128, 32).of_cell == 1);
  CHECK(stages(256, 8).of_step == 1);        // does not fit at all
  CHECK(stages(16, 8, false).of_cell == 8);  // every cell is a step
}

TEST_CASE("scratch that peers reach takes no shared memory", "[sim][cta]") {
  const Operand all[] = {{Role::in, DType::f32, 128, 128, 1, true},
                         {Role::vmem, DType::f32, 2 * 256, 128, 2},
                         {Role::dma_sem, DType::i32, 1, 1, 4}};
  const Operands alone{all, 3, true};
  CHECK(alone.shared_bytes({1, 1}) == (64 + 256) * 1024 + 8 * (2 + 4) + 64);
  const Operands peers{all, 3, true, true};
  CHECK(peers.shared_bytes({1, 1}) == 64 * 1024 + 8 * 2 + 64);
  CHECK(stages_of(peers, kSm90).of_cell == 2);
  // Its slots are tiles that threads hold: 256 x 128 elements.
  CHECK(computing_of(peers).warpgroups == 4);
}

TEST_CASE("bands of cells visit every cell of a plane once", "[sim][cta]") {
  CHECK(band_rows(2) == 16);
  CHECK(band_rows(3) == 8);
  for (const int rows : {1, 7, 8, 37}) {
    for (const int columns : {1, 5}) {
      std::set<std::pair<int, int>> seen;
      for (int n = 0; n < rows * columns; ++n) {
        const auto at = place_in_bands(n, rows, columns, 8);
        CHECK((at.row >= 0 && at.row < rows && at.column >= 0 && at.column < columns));
        CHECK(at.row / 8 == n / (8 * columns));
        seen.emplace(at.row, at.column);
      }
      CHECK(static_cast<int>(seen.size()) == rows * columns);
    }
  }
}

TEST_CASE("the copy engine takes boxes of at most 256, in rows of 16 bytes", "[sim][cta]") {
  const auto boxed = [](Shape block, int rows, int cols, DType d) {
    return is_box(box_of(block, tile_of(rows, cols, d)), false, d);
  };
  CHECK(boxed({128, 512}, 128, 512, DType::f32));  // 16 panels
  CHECK(boxed({128, 100}, 128, 100, DType::f32));
  CHECK_FALSE(boxed({128, 300}, 128, 300, DType::f32));  // no panels
  CHECK_FALSE(boxed({128, 99}, 128, 99, DType::f32));
  CHECK_FALSE(boxed({257, 32}, 257, 32, DType::f32));
  CHECK_FALSE(boxed({128}, 1, 128, DType::f32));
  CHECK_FALSE(is_box({128, 128}, true, DType::f32));
  CHECK(is_mappable({1000, 100}, DType::f32));
  CHECK_FALSE(is_mappable({1000, 99}, DType::f32));
  CHECK_FALSE(is_mappable({1000, 0}, DType::f32));
}

}  // namespace tessera::cta
