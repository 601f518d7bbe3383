// Kernels that keep and move things otherwise than by blocks: arrays in HBM of three dims, scratch
// of a scope, outputs in the place of inputs, two blocks of one input, scalars in SMEM, semaphores.
// Each with its plain loops: the same for the interpreter and the TPU build
// (tests/language/language_test.cpp) and for the GPU (tests/language/language_test.cu).
#pragma once

#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/runs.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/mul.hpp"

namespace tessera::language {

/// What the cases share: arrays of blocks of 8 x 128, one step a block.
struct BlocksOf8 {
  static constexpr auto tiles = kNoTiles;
  static constexpr int kRows = 8;
  static constexpr int kCols = 128;
  static constexpr int kBlock = kRows * kCols;
  TESSERA_FN static auto one_block() { return block(Int<kRows>{}, Int<kCols>{}); }
  struct ByRows {
    TESSERA_FN constexpr auto operator()(auto i) const { return at(i, 0); }
  };
  static constexpr ByRows by_rows{};
};

/// An array of a case: an input, or what an output should be.
struct Plain {
  const char* name;
  Shape shape;
  std::vector<float> elems;
};

/// Through an array in HBM and scratch of a scope.
struct Detour : BlocksOf8 {
  static constexpr KernelInfo info{.name = "detour", .summary = "", .math = ""};
  static constexpr std::array<SizeParam<Detour>, 0> sizes{};
  static constexpr int scope_bytes = 4096;
  static constexpr int kSteps = 3;
  TESSERA_FN auto spec() const {
    const Shape all = shape(kSteps * kRows, kCols);
    return tessera::spec(grid(arbitrary(kSteps)),
                         in<float>("x", all, one_block(), by_rows).evict_first(),
                         out<float>("o", all, one_block(), by_rows),
                         hbm<float>("spare", shape(2, kRows, kCols)), dma_sem("there"));
  }
  TESSERA_FN void operator()(auto& env, auto x, auto o, auto spare, auto there) const {
    const auto step = env.program_id(0);
    async_copy(x, spare.at(step % 2), there).wait();
    env.run_scoped(
        [&](auto t, auto back) {
          async_copy(spare.at(step % 2), t, back).wait();
          if (step > 0) *t *= 2.f;
          *o = *t + *x;
        },
        vmem<float>("t", Int<kRows>{}, Int<kCols>{}), dma_sem("back"));
  }
  static void fill_shapes(std::vector<Plain>& inputs) {
    inputs.push_back({"x", Shape{kSteps * kRows, kCols}, {}});
  }
  static std::vector<Plain> wanted(const std::vector<Plain>& inputs) {
    Plain o{"o", inputs[0].shape, inputs[0].elems};
    for (std::size_t i = 0; i < o.elems.size(); ++i)
      o.elems[i] = i < kBlock ? o.elems[i] + o.elems[i] : o.elems[i] * 2 + o.elems[i];
    return {o};
  }
};

/// Pages of a cache, written in its place; beside it a block in the place of another.
struct InPlace : BlocksOf8 {
  static constexpr KernelInfo info{.name = "in_place", .summary = "", .math = ""};
  static constexpr std::array<SizeParam<InPlace>, 0> sizes{};
  static constexpr int kPages = 5;
  static constexpr int kSteps = 2;
  TESSERA_FN auto spec() const {
    const Shape all = shape(kSteps * kRows, kCols);
    const Shape pages = shape(kPages, kRows, kCols);
    return tessera::spec(grid(arbitrary(kSteps)), in<float>("x", all, one_block(), by_rows),
                         hbm_in<float>("cache", pages),
                         out<float>("o", all, one_block(), by_rows).aliases("x"),
                         hbm_out<float>("updated", pages).aliases("cache"),
                         vmem<float>("t", Int<kRows>{}, Int<kCols>{}), dma_sem("sems", Int<2>{}));
  }
  TESSERA_FN void operator()(auto& env, auto x, auto cache, auto o, auto updated, auto t,
                             auto sems) const {
    const auto step = env.program_id(0);
    const auto page = step * 2 + 1;
    async_copy(cache.at(page), t, sems[0]).wait();
    *t += *x;
    async_copy(t, updated.slice(ds(page, Int<1>{}), ds(0, Int<kRows>{}), ds(0, Int<kCols>{})).at(0),
               sems[1])
        .wait();
    *o = *x * 3.f;
  }
  static void fill_shapes(std::vector<Plain>& inputs) {
    inputs.push_back({"x", Shape{kSteps * kRows, kCols}, {}});
    inputs.push_back({"cache", Shape{kPages, kRows, kCols}, {}});
  }
  static std::vector<Plain> wanted(const std::vector<Plain>& inputs) {
    Plain o{"o", inputs[0].shape, inputs[0].elems};
    Plain updated{"updated", inputs[1].shape, inputs[1].elems};
    for (std::size_t i = 0; i < o.elems.size(); ++i) {
      const std::size_t step = i / kBlock;
      updated.elems[(step * 2 + 1) * kBlock + i % kBlock] += o.elems[i];
      o.elems[i] *= 3;
    }
    return {o, updated};
  }
};

/// Scalars in SMEM and counts of semaphores, from step to step.
struct Counters : BlocksOf8 {
  static constexpr KernelInfo info{.name = "counters", .summary = "", .math = ""};
  static constexpr std::array<SizeParam<Counters>, 0> sizes{};
  static constexpr int kSteps = 4;
  TESSERA_FN auto spec() const {
    const Shape all = shape(kSteps * kRows, kCols);
    return tessera::spec(grid(arbitrary(kSteps)), in<float>("x", all, one_block(), by_rows),
                         out<float>("o", all, one_block(), by_rows),
                         smem<std::int32_t>("n", Int<2>{}), sem("s", Int<2>{}));
  }
  TESSERA_FN void operator()(auto& env, auto x, auto o, auto n, auto s) const {
    const auto step = env.program_id(0);
    if (env.first(0)) n[1] = 5;
    n[step % 2] = n[1] + step;
    semaphore_signal(s[0], 3);
    semaphore_signal(s[1], 1);
    semaphore_wait(s[0], 2);
    *o = n[step % 2] * *x + semaphore_read(s[0]);
    if (env.last(0)) {
      semaphore_wait(s[0], kSteps);
      semaphore_wait(s[1], kSteps);
    }
  }
  static void fill_shapes(std::vector<Plain>& inputs) {
    inputs.push_back({"x", Shape{kSteps * kRows, kCols}, {}});
  }
  static std::vector<Plain> wanted(const std::vector<Plain>& inputs) {
    Plain o{"o", inputs[0].shape, inputs[0].elems};
    int n[2] = {0, 5};
    for (int step = 0; step < kSteps; ++step) {
      n[step % 2] = n[1] + step;
      for (int i = 0; i < kBlock; ++i) {
        float& e = o.elems[static_cast<std::size_t>(step * kBlock + i)];
        e = e * static_cast<float>(n[step % 2]) + static_cast<float>(step + 1);
      }
    }
    return {o};
  }
};

/// Scalars of the host of two types, and slots of scratch by at().
struct Scaled : BlocksOf8 {
  static constexpr KernelInfo info{.name = "scaled", .summary = "", .math = ""};
  static constexpr std::array<SizeParam<Scaled>, 0> sizes{};
  static constexpr int kSteps = 4;
  static constexpr float kScales[] = {0.5f, -3.f, 1.25f};
  static constexpr int kWhich[] = {2, 0, 1, 2};
  Smem<float> scales;
  Smem<int> which;
  void prepare(auto& host, Tiles) {
    scales = host.scalars("scales", std::vector<float>(kScales, kScales + 3));
    which = host.keep("which", std::vector<int>(kWhich, kWhich + kSteps));
  }
  TESSERA_FN auto spec() const {
    const Shape all = shape(kSteps * kRows, kCols);
    return tessera::spec(grid(arbitrary(kSteps)), scalars("scales", scales),
                         scalars("which", which), in<float>("x", all, one_block(), by_rows),
                         out<float>("o", all, one_block(), by_rows),
                         vmem<float>("s", Int<2>{}, Int<kRows>{}, Int<kCols>{}));
  }
  TESSERA_FN void operator()(auto& env, auto x, auto o, auto s) const {
    const auto step = env.program_id(0);
    *s.at(step % 2) = *x * scales[which[step]];
    *o = *s.at(step % 2) + scales[0];
  }
  static void fill_shapes(std::vector<Plain>& inputs) {
    inputs.push_back({"x", Shape{kSteps * kRows, kCols}, {}});
  }
  static std::vector<Plain> wanted(const std::vector<Plain>& inputs) {
    Plain o{"o", inputs[0].shape, inputs[0].elems};
    for (std::size_t i = 0; i < o.elems.size(); ++i)
      o.elems[i] = o.elems[i] * kScales[kWhich[i / kBlock]] + kScales[0];
    return {o};
  }
};

/// Places that take what places of their own type hold: parts of scratch, scratch, accumulators and
/// scalars.
struct Handed : BlocksOf8 {
  static constexpr KernelInfo info{.name = "handed", .summary = "", .math = ""};
  static constexpr std::array<SizeParam<Handed>, 0> sizes{};
  static constexpr int kSteps = 5;
  TESSERA_FN auto spec() const {
    const Shape all = shape(kSteps * kRows, kCols);
    return tessera::spec(grid(arbitrary(kSteps)), in<float>("x", all, one_block(), by_rows),
                         out<float>("o", all, one_block(), by_rows),
                         vmem<float>("both", Int<2 * kRows>{}, Int<kCols>{}),
                         vmem<float>("now", Int<kRows>{}, Int<kCols>{}),
                         vmem<float>("before", Int<kRows>{}, Int<kCols>{}),
                         accum<float>("sum", Int<kRows>{}, Int<kCols>{}),
                         accum<float>("sum_before", Int<kRows>{}, Int<kCols>{}),
                         smem<std::int32_t>("n", Int<2>{}),
                         vmem<float>("odd", Int<kRows>{}, Int<kCols>{}));
  }
  template <class Env, class X, class O, class Both, class Now, class Before, class Sum,
            class SumBefore, class N, class Odd>
  TESSERA_FN void operator()(Env& env, X x, O o, Both both, Now now, Before before, Sum sum,
                             SumBefore sum_before, N n, Odd odd) const {
    const auto upper = both.row_range(0, Int<kRows>{});
    const auto lower = both.row_range(kRows, Int<kRows>{});
    if (env.first(0)) {
      *upper = 0.f;
      *now = 0.f;
      *sum = 0.f;
      n[0] = 1;
    }
    n[1] = n[0];
    n[0] = n[1] + 2;
    *odd = n[1];
    *before = *now;
    *now = *x;
    *sum_before = *sum;
    *sum += *x;
    *lower = *x;
    *o = (*upper + *before * 2.f + *sum_before) * *odd;
    *upper = *lower;
  }
  static void fill_shapes(std::vector<Plain>& inputs) {
    inputs.push_back({"x", Shape{kSteps * kRows, kCols}, {}});
  }
  static std::vector<Plain> wanted(const std::vector<Plain>& inputs) {
    Plain o{"o", inputs[0].shape, inputs[0].elems};
    const std::vector<float>& x = inputs[0].elems;
    std::vector<float> sums(kBlock, 0.f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float last = i < kBlock ? 0.f : x[i - kBlock];
      float& sum = sums[i % kBlock];
      o.elems[i] = (last + last * 2 + sum) * static_cast<float>(1 + 2 * (i / kBlock));
      sum += x[i];
    }
    return {o};
  }
};

/// Two parts of one array.
struct Halves : BlocksOf8 {
  static constexpr KernelInfo info{.name = "halves", .summary = "", .math = ""};
  static constexpr std::array<SizeParam<Halves>, 0> sizes{};
  static constexpr int kSteps = 3;
  TESSERA_FN auto spec() const {
    const Shape both = shape(kSteps * kRows, 2 * kCols);
    const auto right = [](auto i) { return at(i, 1); };
    return tessera::spec(grid(parallel(kSteps)), in<float>("left", both, one_block(), by_rows),
                         in<float>("right", both, one_block(), right).same_as("left"),
                         out<float>("o", shape(kSteps * kRows, kCols), one_block(), by_rows));
  }
  TESSERA_FN void operator()(auto&, auto left, auto right, auto o) const { *o = *left * *right; }
  static void fill_shapes(std::vector<Plain>& inputs) {
    inputs.push_back({"left", Shape{kSteps * kRows, 2 * kCols}, {}});
  }
  static std::vector<Plain> wanted(const std::vector<Plain>& inputs) {
    Plain o{"o", Shape{kSteps * kRows, kCols}, {}};
    for (int r = 0; r < kSteps * kRows; ++r) {
      const float* const row = inputs[0].elems.data() + r * 2 * kCols;
      for (int c = 0; c < kCols; ++c) o.elems.push_back(row[c] * row[kCols + c]);
    }
    return {o};
  }
};

/// A row of scratch copied to SMEM, and its scalars.
struct RowToSmem : BlocksOf8 {
  static constexpr KernelInfo info{.name = "row_to_smem", .summary = "", .math = ""};
  static constexpr std::array<SizeParam<RowToSmem>, 0> sizes{};
  static constexpr int kSteps = 3;
  TESSERA_FN auto spec() const {
    const Shape all = shape(kSteps * kRows, kCols);
    return tessera::spec(grid(arbitrary(kSteps)), in<float>("x", all, one_block(), by_rows),
                         out<float>("o", all, one_block(), by_rows),
                         vmem<std::int32_t>("t", Int<kRows>{}, Int<kCols>{}),
                         smem<std::int32_t>("n", Int<kCols>{}), dma_sem("sem"));
  }
  TESSERA_FN void operator()(auto& env, auto x, auto o, auto t, auto n, auto sem) const {
    *t = cast<std::int32_t>(*x * 8.f);
    async_copy(t.row(env.program_id(0)), n, sem).wait();
    *o = *x + (n[5] + n[127]);
  }
  static void fill_shapes(std::vector<Plain>& inputs) {
    inputs.push_back({"x", Shape{kSteps * kRows, kCols}, {}});
  }
  static std::vector<Plain> wanted(const std::vector<Plain>& inputs) {
    Plain o{"o", inputs[0].shape, inputs[0].elems};
    for (int step = 0; step < kSteps; ++step) {
      const float* const row = inputs[0].elems.data() + step * kBlock + step * kCols;
      const int n = static_cast<int>(row[5] * 8) + static_cast<int>(row[127] * 8);
      for (int i = 0; i < kBlock; ++i)
        o.elems[static_cast<std::size_t>(step * kBlock + i)] += static_cast<float>(n);
    }
    return {o};
  }
};

/// Runs of a sum, of one step and of two, each with scratch of its own: on a GPU by groups of warps
/// side by side.
struct RunsOfSum : BlocksOf8 {
  static constexpr KernelInfo info{.name = "runs_of_sum", .summary = "", .math = ""};
  static constexpr std::array<SizeParam<RunsOfSum>, 0> sizes{};
  static constexpr bool exchanges = true;
  static constexpr int kCells = 3;
  static constexpr int kRuns = 4;
  static constexpr int kSteps = 7;
  struct Begin {
    TESSERA_FN constexpr auto operator()(auto, auto run) const { return run * kSteps / kRuns; }
  };
  struct End {
    TESSERA_FN constexpr auto operator()(auto, auto run) const {
      return (run + 1) * kSteps / kRuns;
    }
  };
  struct OfCell {
    TESSERA_FN constexpr auto operator()(auto i, auto, auto) const { return at(i, 0); }
  };
  TESSERA_FN auto spec() const {
    const Shape of_cells = shape(kCells * kRows, kCols);
    return tessera::spec(grid(parallel(kCells), runs(Int<kRuns>{}), arbitrary(Begin{}, End{})),
                         in<float>("x", shape(kCells * kRows, kSteps * kCols), one_block(),
                                   [](auto i, auto, auto k) { return at(i, k); }),
                         in<float>("y", of_cells, one_block(), OfCell{}),
                         out<float>("o", of_cells, one_block(), OfCell{}),
                         vmem<bf16>("t", Int<kRows>{}, Int<kCols>{}),
                         accum<float>("acc", Int<kRows>{}, Int<kCols>{}),
                         total<float>("total", Int<kRuns>{}, Int<kRows>{}, Int<kCols>{}));
  }
  TESSERA_FN void operator()(auto& env, auto x, auto y, auto o, auto t, auto acc,
                             auto total) const {
    if (env.first(2)) *acc = 0.f;
    *t = cast<bf16>(*x);
    *acc += cast<float>(*t) * *y;
    if (env.last(2)) {
      sum_runs(env, 1, total, acc,
               [&](const auto& sum, auto first) { *o.col_range(first, sum.cols) = sum; });
    }
  }
  static void fill_shapes(std::vector<Plain>& inputs) {
    inputs.push_back({"x", Shape{kCells * kRows, kSteps * kCols}, {}});
    inputs.push_back({"y", Shape{kCells * kRows, kCols}, {}});
  }
  static std::vector<Plain> wanted(const std::vector<Plain>& inputs) {
    Plain o{"o", inputs[1].shape, inputs[1].elems};
    for (std::size_t i = 0; i < o.elems.size(); ++i) {
      const std::size_t row = i / kCols;
      float all = 0;
      std::size_t k = 0;
      for (const int steps : {1, 2, 2, 2}) {
        float sum = 0;
        for (int s = 0; s < steps; ++s, ++k)
          sum += static_cast<float>(bf16(inputs[0].elems[(row * kSteps + k) * kCols + i % kCols])) *
                 inputs[1].elems[i];
        all += sum;
      }
      o.elems[i] = all;
    }
    return {o};
  }
};

using MemoryCases =
    std::tuple<Detour, InPlace, Counters, Scaled, Handed, Halves, RowToSmem, RunsOfSum>;

}  // namespace tessera::language
