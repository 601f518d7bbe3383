#include <catch2/catch.hpp>
#include <cmath>

#include "memory_model/device_spec.hpp"
#include "predict/grid_bytes.hpp"
#include "predict/grid_time.hpp"

using namespace tessera;
using namespace tessera::predict;

namespace {

/// So many programs, each of which reads `reads` tiles of which `number(program, i)` says which,
/// and writes one of its own.
GridTiles tiles_of(int programs, int reads, std::int64_t bytes, int distinct, auto&& number) {
  GridTiles t;
  t.tiles.assign(static_cast<std::size_t>(distinct + programs), {bytes, bytes});
  for (int p = 0; p < programs; ++p) {
    t.begins.push_back(t.accesses.size());
    for (int i = 0; i < reads; ++i) t.accesses.push_back({number(p, i), false});
    t.accesses.push_back({distinct + p, true});
  }
  return t;
}

GridWork product(int rows, int columns, int stages) {
  return {.programs = 1024,
          .warps = 4,
          .stages = stages,
          .flops = std::int64_t{1} << 36,
          .product_flops = std::int64_t{1} << 36,
          .product_flops_per_second = 989e12,
          .rounds = {{1024 * 64, true}},
          .product_rows = rows,
          .accumulators = std::int64_t{rows} * columns,
          .operand_bytes = std::int64_t{rows + columns} * 128};
}

}  // namespace

TEST_CASE("what is read once comes from DRAM once, and what several programs read too") {
  const DeviceSpec h200 = load_device("h200");
  const GridTiles apart = tiles_of(4000, 4, 4096, 16000, [](int p, int i) { return 4 * p + i; });
  const GridBytes a = grid_bytes(h200, apart, 4);
  CHECK(a.dram_read == 16000. * 4096);
  CHECK(a.dram_written > 0);  // 82 MB crossed an L2 of 33
  CHECK(a.dram_written < 4000. * 4096);
  const GridTiles same = tiles_of(4000, 4, 4096, 4, [](int, int i) { return i; });
  CHECK(grid_bytes(h200, same, 4).dram_read == 4. * 4096);
}

TEST_CASE("what does not fit is read again by programs that come later") {
  const DeviceSpec h200 = load_device("h200");
  // 64 MiB, read by each of 16 waves of 132 programs in turn.
  const auto turns = [](int p, int i) { return (p % 132 * 8 + i) % 1024; };
  const double read = grid_bytes(h200, tiles_of(132 * 16, 8, 65536, 1024, turns), 1).dram_read;
  CHECK(read > 2. * 1024 * 65536);
  // 16 MiB stay.
  const auto fewer = [](int p, int i) { return (p % 132 * 2 + i) % 256; };
  // What is written pushes a little of it out.
  CHECK(grid_bytes(h200, tiles_of(132 * 16, 2, 65536, 256, fewer), 1).dram_read <
        1.5 * 256 * 65536);
}

TEST_CASE("what programs take that were not written down is as what the last of the others took") {
  const DeviceSpec h200 = load_device("h200");
  const auto own = [](int p, int i) { return 2 * p + i; };
  const GridBytes whole = grid_bytes(h200, tiles_of(40000, 2, 4096, 80000, own), 8);
  GridTiles part = tiles_of(4000, 2, 4096, 8000, own);
  part.share = 10;
  const GridBytes extended = grid_bytes(h200, part, 8);
  CHECK(std::abs(extended.dram_read / whole.dram_read - 1) < 0.001);
  CHECK(std::abs(extended.dram_written / whole.dram_written - 1) < 0.1);
  // Rows that are read nine times, by programs that go in step.
  GridTiles again = tiles_of(4096, 9, 8192, 4096, [](int p, int) { return p; });
  again.share = 10;
  CHECK(std::abs(grid_bytes(h200, again, 6).dram_read / (40960. * 8192) - 1) < 0.001);
}

TEST_CASE("programs share an SM as warps, registers and shared memory allow") {
  const DeviceSpec h200 = load_device("h200");
  CHECK(resident_programs(h200, {.programs = 1000, .warps = 8, .registers = 32}) == 8);
  CHECK(resident_programs(h200, {.programs = 1000, .warps = 8, .registers = 128}) == 2);
  CHECK(resident_programs(h200, {.programs = 1000, .warps = 1, .registers = 16}) == 32);
  // 228 KiB of an SM, 1 KiB of each program reserved.
  CHECK(resident_programs(
            h200, {.programs = 1000, .warps = 4, .registers = 32, .shared_bytes = 75 * 1024}) == 3);
  CHECK(resident_programs(
            h200, {.programs = 1000, .warps = 4, .registers = 32, .shared_bytes = 76 * 1024}) == 2);
  CHECK(resident_programs(h200, {.programs = 1, .warps = 32, .registers = 255}) == 1);
}

TEST_CASE("time rises with what binds, and is not known without a rate") {
  const DeviceSpec h200 = load_device("h200");
  GridWork copies{.programs = 100000, .requested_bytes = std::int64_t{1} << 30};
  const GridTime once = grid_time(h200, copies, std::pow(2., 30));
  CHECK(once.binds == "DRAM");
  CHECK(grid_time(h200, copies, std::pow(2., 31)).seconds > 1.7 * once.seconds);
  // wgmma takes 64 rows.
  CHECK(grid_time(h200, product(32, 128, 3), 1e6).seconds >
        1.5 * grid_time(h200, product(64, 128, 3), 1e6).seconds);
  // One stage more hides more of the loads of programs that are alone on their SM.
  GridWork few = product(64, 128, 2);
  few.rounds = {{1024 * 512, true}};
  few.registers = 255;
  few.shared_bytes = 200 * 1024;
  GridWork ahead = few;
  ahead.stages = 4;
  CHECK(grid_time(h200, few, 1e6).seconds > grid_time(h200, ahead, 1e6).seconds);
  few.product_flops_per_second = 0;
  CHECK(grid_time(h200, few, 1e6).seconds == 0);
}
