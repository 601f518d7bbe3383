#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "memory_model/device_spec.hpp"
#include "predict/grid_bytes.hpp"
#include "predict/grid_time.hpp"
#include "predict/program_queue.hpp"

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
          .products = {{1024 * 64, rows, columns, (std::int64_t{1} << 19) / (rows * columns)}},
          .product_rows = rows,
          .accumulators = std::int64_t{rows} * columns,
          .operand_bytes = std::int64_t{rows + columns} * 128};
}

/// An attention as a Triton tutorial has it, of bf16, without a mask: heads x keys x depth.
GridWork attention(int heads, int keys, int depth, int rows, int cols, int warps, int stages) {
  const std::int64_t programs = std::int64_t{heads} * keys / rows;
  const std::int64_t turns = programs * keys / cols;
  const std::int64_t scores = std::int64_t{heads} * keys * keys;
  const std::int64_t product_flops = 4 * scores * depth;
  return {.programs = programs,
          .warps = warps,
          .stages = stages,
          .requested_bytes = turns * 4 * cols * depth + programs * 4 * rows * depth,
          .flops = product_flops + 4 * scores + turns * rows * depth,
          .product_flops = product_flops,
          .product_flops_per_second = 989e12,
          .functions = scores,
          .elements = 8 * scores + turns * rows * depth,
          .rounds = {{turns, true}},
          .products = {{turns, rows, cols, depth}, {turns, rows, depth, cols, 16, true}},
          .chained = true,
          .product_rows = rows,
          .accumulators = std::int64_t{rows} * (cols + depth),
          .operand_bytes = std::int64_t{4} * cols * depth,
          .kept_bytes = std::int64_t{2} * rows * depth,
          .held_bytes = std::int64_t{2} * rows * cols};
}

}  // namespace

TEST_CASE("what is read once comes from DRAM once, and what several programs read too") {
  const DeviceSpec h200 = load_device("h200");
  const GridTiles apart = tiles_of(4000, 4, 4096, 16000, [](int p, int i) { return 4 * p + i; });
  const GridBytes a = grid_bytes(h200, apart, {4});
  CHECK(a.dram_read == 16000. * 4096);
  CHECK(a.dram_written > 0);  // 82 MB crossed an L2 of 33
  CHECK(a.dram_written < 4000. * 4096);
  const GridTiles same = tiles_of(4000, 4, 4096, 4, [](int, int i) { return i; });
  CHECK(grid_bytes(h200, same, {4}).dram_read == 4. * 4096);
}

TEST_CASE("what does not fit is read again by programs that come later") {
  const DeviceSpec h200 = load_device("h200");
  // 64 MiB, read by each of 16 waves of 132 programs in turn.
  const auto turns = [](int p, int i) { return (p % 132 * 8 + i) % 1024; };
  const double read = grid_bytes(h200, tiles_of(132 * 16, 8, 65536, 1024, turns), {1}).dram_read;
  CHECK(read > 2. * 1024 * 65536);
  // 16 MiB stay.
  const auto fewer = [](int p, int i) { return (p % 132 * 2 + i) % 256; };
  // What is written pushes a little of it out.
  CHECK(grid_bytes(h200, tiles_of(132 * 16, 2, 65536, 256, fewer), {1}).dram_read <
        1.5 * 256 * 65536);
}

TEST_CASE("what programs take that were not written down is as what the last of the others took") {
  const DeviceSpec h200 = load_device("h200");
  const auto own = [](int p, int i) { return 2 * p + i; };
  const GridBytes whole = grid_bytes(h200, tiles_of(40000, 2, 4096, 80000, own), {8});
  GridTiles part = tiles_of(4000, 2, 4096, 8000, own);
  part.share = 10;
  const GridBytes extended = grid_bytes(h200, part, {8});
  CHECK(std::abs(extended.dram_read / whole.dram_read - 1) < 0.001);
  CHECK(std::abs(extended.dram_written / whole.dram_written - 1) < 0.1);
  // Rows that are read nine times, by programs that go in step.
  GridTiles again = tiles_of(4096, 9, 8192, 4096, [](int p, int) { return p; });
  again.share = 10;
  CHECK(std::abs(grid_bytes(h200, again, {6}).dram_read / (40960. * 8192) - 1) < 0.001);
}

TEST_CASE("programs of an SM that are apart read again what those in step find in the L2") {
  const DeviceSpec h100 = load_device("h100");
  // Two waves whose programs of an SM read the same 128 tiles of 8 KiB: 132 MiB in all.
  const auto beside = [](int p, int i) { return p % 132 * 128 + i; };
  const GridTiles tiles = tiles_of(132 * 4, 128, 8192, 132 * 128, beside);
  const double once = 132. * 128 * 8192;
  const auto read = [&](double kept_up) {
    return grid_bytes(h100, tiles, {.resident = 2, .kept_up = kept_up}).dram_read;
  };
  CHECK(read(2) < 2.1 * once);
  CHECK(read(1.95) < 2.2 * once);  // a little later it is still there
  CHECK(read(0.5) > 3.5 * once);
}

TEST_CASE("programs of a busy SM fall behind each other, and those that wait for loads do not") {
  const DeviceSpec h100 = load_device("h100");
  // Experts of seed 909 of predict/triton_launches.py: 8192 x 4480 x 4352.
  const auto kept_up = [&](int rows, int cols, int depth, int warps, int stages) {
    const std::int64_t programs = 8192 / rows * (4480 / cols);
    const std::int64_t turns = programs * 4352 / depth;
    const std::int64_t operands = std::int64_t{2} * depth * (rows + cols);
    const std::int64_t flops = std::int64_t{2} * 8192 * 4480 * 4352;
    const GridWork w{.programs = programs,
                     .warps = warps,
                     .stages = stages,
                     .requested_bytes = turns * operands,
                     .flops = flops,
                     .product_flops = flops,
                     .product_flops_per_second = 989e12,
                     .rounds = {{turns, true}},
                     .products = {{turns, rows, cols, depth}},
                     .product_rows = rows,
                     .accumulators = std::int64_t{rows} * cols,
                     .operand_bytes = operands};
    const SideBySide how = side_by_side(h100, w);
    return how.kept_up / how.resident;
  };
  CHECK(kept_up(128, 64, 32, 4, 2) > 0.9);
  CHECK(kept_up(128, 64, 32, 4, 4) < 0.5);  // read 4.6 GB, 1.2 in step
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

TEST_CASE("products that follow each other: programs side by side hide what one computes between") {
  const DeviceSpec h200 = load_device("h200");
  // What ptxas gave: 16 KiB of q and two stages of k and v; 110, 195 and 238 registers.
  CHECK(resident_programs(h200, attention(32, 4096, 64, 64, 64, 4, 2)) == 4);
  CHECK(resident_programs(h200, attention(32, 4096, 64, 128, 64, 4, 2)) == 2);
  CHECK(resident_programs(h200, attention(32, 4096, 64, 128, 128, 4, 2)) == 2);
  CHECK(resident_programs(h200, attention(32, 4096, 64, 128, 128, 8, 2)) == 1);
  CHECK(resident_programs(h200, attention(32, 3072, 128, 64, 128, 4, 3)) == 1);  // 208 KiB
  const auto us = [&](const GridWork& w) { return 1e6 * grid_time(h200, w, 1e8).seconds; };
  // Measured (predict/measured/h200_triton_202.jsonl): two of 4 warps, one of 8.
  const double two = us(attention(32, 3072, 128, 128, 64, 4, 2));
  const double one = us(attention(32, 3072, 128, 128, 64, 8, 2));
  CHECK(std::abs(two / 315 - 1) < 0.2);
  CHECK(std::abs(one / 480 - 1) < 0.2);
  // A stage more: 387 and 371, with one program fewer on an SM; 954 and 737 with as many.
  CHECK(std::abs(us(attention(32, 3072, 128, 64, 32, 4, 2)) / 387 - 1) < 0.2);
  CHECK(std::abs(us(attention(32, 3072, 128, 64, 32, 4, 3)) / 371 - 1) < 0.2);
  CHECK(us(attention(32, 5504, 64, 128, 32, 8, 2)) >
        1.15 * us(attention(32, 5504, 64, 128, 32, 8, 3)));
  // 378 registers a thread are wanted: 1,609 with 12 spilled, of a grid that took 1,000 otherwise.
  GridWork spilled = attention(64, 3968, 128, 128, 128, 4, 3);
  GridWork enough = spilled;
  enough.held_bytes = 0;
  CHECK(us(spilled) > 1.2 * us(enough));
  CHECK(std::abs(us(spilled) / 1609 - 1) < 0.25);
  // The compiler gave all that there are, and what it lacks is not told; or fewer.
  GridWork asked = spilled;
  asked.registers = 255;
  CHECK(us(asked) == us(spilled));
  asked.registers = 248;
  CHECK(us(asked) < us(spilled) / 1.2);
}

namespace {

/// The same, in steps of time that are as small as they need to be.
double queue_by_steps(std::int64_t programs, const std::vector<double>& lengths, int sms,
                      const std::vector<double>& seconds) {
  std::vector<std::vector<double>> left(static_cast<std::size_t>(sms));
  std::int64_t next = 0;
  const auto length = [&] { return lengths[static_cast<std::size_t>(next++) % lengths.size()]; };
  for (std::size_t k = 0; k < seconds.size(); ++k) {
    for (auto& sm : left) {
      if (next < programs) sm.push_back(length());
    }
  }
  double now = 0;
  for (;;) {
    double step = INFINITY;
    for (const auto& sm : left) {
      for (const double l : sm) step = std::min(step, l * seconds[sm.size() - 1]);
    }
    if (step == INFINITY) return now;
    now += step;
    for (auto& sm : left) {
      const double units = sm.empty() ? 0 : step / seconds[sm.size() - 1];
      for (double& l : sm) l -= units;
    }
    for (auto& sm : left) {
      for (std::size_t i = 0; i < sm.size();) {
        if (sm[i] > 1e-9)
          ++i;
        else if (next < programs)
          sm[i++] = length();
        else
          sm.erase(sm.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
}

}  // namespace

TEST_CASE("programs queue for SMs as step by step") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> any(0.5, 4);
  for (int round = 0; round < 40; ++round) {
    const int sms = 1 + round % 5;
    std::vector<double> seconds{any(random)};
    for (int k = 0; k < round % 3; ++k) seconds.push_back(seconds.back() * (1 + any(random) / 8));
    // Either all alike, in whole waves, or no two: of those that are done at the same time it is a
    // matter of taste who is followed first.
    const bool alike = round % 4 == 0;
    const int programs =
        alike ? sms * static_cast<int>(seconds.size()) * (1 + round % 3) : 1 + round * 3;
    std::vector<double> lengths;
    for (int k = 0; k < (alike ? 1 : programs); ++k) lengths.push_back(any(random));
    const double expected = queue_by_steps(programs, lengths, sms, seconds);
    CHECK(queue_seconds(programs, lengths, sms, seconds) == Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("the last programs of a causal attention are waited for") {
  const DeviceSpec h200 = load_device("h200");
  GridWork even = attention(4, 8192, 128, 64, 64, 4, 3);
  GridWork uneven = even;
  for (int p = 0; p < 128; ++p) uneven.turns.push_back(p + 0.5);  // 64 on average
  even.turns.assign(128, 64);
  CHECK(grid_time(h200, uneven, 1e7).seconds > 1.2 * grid_time(h200, even, 1e7).seconds);
}

TEST_CASE("few warps keep an SM less busy, and elements one by one take longer") {
  const DeviceSpec h200 = load_device("h200");
  // A softmax of rows of 5,320 by one program on each SM (measured: 503, 292 and 226 us).
  const auto us = [&](int warps, int width) {
    GridWork w{
        .programs = 132,
        .warps = warps,
        .requested_bytes = std::int64_t{11181} * 5320 * 4,
        .flops = std::int64_t{11181} * 8192 * 5,
        .functions = std::int64_t{11181} * 8192,
        .elements = std::int64_t{11181} * 8192 * 9,
        .reductions = 2 * 11181,
        .rounds = {{11181, false}},
        .accesses = {{.times = 11181, .elements = 8192, .width = width, .bytes = 2},
                     {.times = 11181, .elements = 8192, .width = width, .bytes = 2, .write = true}},
        .written_bytes = std::int64_t{11181} * 5320 * 2,
        .tile_elements = 8192};
    return 1e6 * grid_time(h200, w, 2e8).seconds;
  };
  CHECK(us(2, 1) > 1.4 * us(4, 1));
  CHECK(us(4, 1) > 1.2 * us(8, 1));
  CHECK(std::abs(us(2, 1) / 503 - 1) < 0.2);
  CHECK(us(4, 8) < 0.9 * us(4, 1));
}

TEST_CASE("of what programs read again the L2 has less, the more all that run hold") {
  const DeviceSpec h100 = load_device("h100");
  const auto gone = [&](std::int64_t row, int resident) {
    GridWork w{.programs = 100000,
               .warps = 64 / resident,
               .registers = 32,
               .requested_bytes = 200000 * row};
    w.reads.bytes = {0.5, 0, 0.5};
    const SideBySide how = side_by_side(h100, w);
    CHECK(how.resident == resident);
    CHECK(how.kept_up > how.resident);
    return how.gone.value();
  };
  // Counted: nothing of 9 MB, 0.42 to 0.67 of 35 MB, 0.93 of 78 MB.
  CHECK(gone(8192, 8) == 0);
  CHECK(std::abs(gone(8192, 32) - 0.55) < 0.12);
  CHECK(gone(18272, 32) == 1);
  const GridTiles twice = tiles_of(4096, 2, 8192, 4096, [](int p, int) { return p; });
  CHECK(grid_bytes(h100, twice, {8, 0.}).dram_read == 4096. * 8192);
  CHECK(grid_bytes(h100, twice, {8, 0.5}).dram_read == 1.5 * 4096 * 8192);
}

TEST_CASE("loads that are copied turns ahead are waited for by what turns leave of them") {
  const DeviceSpec h100 = load_device("h100");
  constexpr std::int64_t kTurns = 100000;
  const auto seconds = [&](int stages, std::int64_t elements) {
    GridWork w{.programs = 132, .warps = 4, .elements = kTurns * elements, .tile_elements = 1024};
    w.rounds = {{.times = kTurns, .stages = stages, .turn_bytes = 2048}};
    w.reads.accesses.first = 1;
    return grid_time(h100, w, 1).seconds;
  };
  // Of two stages a copy starts when the one before it has been read.
  CHECK(seconds(2, 8192) == seconds(1, 8192));
  CHECK(seconds(3, 8192) < seconds(2, 8192));
  // Turns that take longer than loads: one turn ahead is all that it takes.
  CHECK(seconds(3, 1 << 20) == seconds(4, 1 << 20));
  CHECK(seconds(3, 1 << 20) < seconds(1, 1 << 20));
  // What is copied takes room: 48 KiB a stage leave room for four programs, two or one.
  const auto resident = [&](int stages) {
    GridWork w{.programs = 1000, .warps = 4};
    w.rounds = {{.times = 1, .stages = stages, .turn_bytes = 48 << 10}};
    return resident_programs(h100, w);
  };
  CHECK(resident(1) == 16);
  CHECK(resident(2) == 4);
  CHECK(resident(3) == 2);
  CHECK(resident(4) == 1);
}

TEST_CASE("loads one by one take longer where a thread's elements lie side by side") {
  const DeviceSpec h100 = load_device("h100");
  const auto seconds = [&](int run) {
    constexpr std::int64_t kPrograms = 100000;
    GridWork w{.programs = kPrograms, .warps = 4, .requested_bytes = kPrograms * 8192};
    w.accesses = {{.times = 4 * kPrograms, .elements = 1024, .run = run, .bytes = 2}};
    return grid_time(h100, w, 1).seconds;
  };
  CHECK(seconds(8) > 1.5 * seconds(1));
}

TEST_CASE("how often a loop's turn waits depends on what a thread loads in it") {
  const DeviceSpec h100 = load_device("h100");
  // Sums of columns: a program of four warps on each of few SMs, and nothing else.
  const auto seconds = [&](std::int64_t elements, int width, int bytes, bool stores) {
    constexpr std::int64_t kTurns = 1000;
    constexpr std::int64_t kPrograms = 64;
    GridWork w{.programs = kPrograms, .warps = 4, .tile_elements = elements};
    w.rounds = {{kPrograms * kTurns, false, 1, elements, width, bytes, stores}};
    w.reads.accesses.first = 1;
    return grid_time(h100, w, 1).seconds;
  };
  // Four turns are unrolled, and wait twice or three times; then one wait; then several.
  const double four = seconds(4 * 128, 4, 2, false);
  const double eight = seconds(8 * 128, 8, 2, false);
  const double sixteen = seconds(16 * 128, 8, 2, false);
  const double many = seconds(32 * 128, 8, 2, false);
  CHECK(four < 0.8 * eight);
  CHECK(eight < 0.9 * sixteen);
  CHECK(many > 2 * sixteen);
  CHECK(seconds(16 * 128, 4, 4, false) > 1.5 * sixteen);
  // What a turn stores keeps no sum waiting; elements one by one are loaded as they come.
  CHECK(seconds(32 * 128, 8, 2, true) < 0.8 * many);
  CHECK(seconds(32 * 128, 1, 2, false) == sixteen);
}

TEST_CASE("what a program reads again is its own") {
  GridTiles t = tiles_of(4, 3, 4096, 5, [](int p, int i) { return i < 2 ? p : 4; });
  const GridReads reads = grid_reads(t);
  // 4 rows, each twice, and one tile for all: 5 first, 4 again, 3 that another program brought.
  CHECK(reads.accesses.first == Approx(5. / 12));
  CHECK(reads.accesses.own == Approx(4. / 12));
  CHECK(reads.bytes.others == Approx(3. / 12));
}
