// Sum of two matrices through a pipeline that the body runs itself, with as many slots as asked
// for.
//
//   o = x + y
//
// The arrays stay in HBM; emit_pipeline brings blocks into `buffers` slots per operand, so that
// with two or more of them the next block is on its way while this one is added.
#pragma once

#include "sim/body/emit_pipeline.hpp"
#include "sim/body/kernel.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"

namespace tessera::kernels {

template <class T>
struct PipelinedAdd {
  static constexpr KernelInfo info{.name = "pipelined_add",
                                   .summary = "matrix sum, n-buffered by the body itself",
                                   .math = "o[i,j] = x[i,j] + y[i,j]"};

  int rows = 0;
  int cols = 0;

  static constexpr auto sizes = params(size("rows", &PipelinedAdd::rows, "rows"),
                                       size("cols", &PipelinedAdd::cols, "columns"));
  static constexpr auto tiles = tile_names(tile("br"), tile("bc"), tile("buffers"));
  static constexpr std::array cases{Case{"aligned", {512, 1024}, {128, 256, 2}},
                                    Case{"triple buffers", {512, 1024}, {64, 256, 3}},
                                    Case{"single buffer", {128, 512}, {64, 256, 1}},
                                    Case{"ragged", {200, 300}, {64, 128, 2}},
                                    Case{"degenerate", {1, 1}, {16, 128, 4}}};

  const char* valid(Tiles t) const {
    return t[2] > kMaxPipelineSlots ? "buffers is at most 8" : nullptr;
  }

  TESSERA_FN auto spec(auto br, auto bc, auto buffers) const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<T>("x", shape(rows, cols)),
                         hbm_in<T>("y", shape(rows, cols)), hbm_out<T>("o", shape(rows, cols)),
                         vmem<T>("xbuf", buffers, br, bc), vmem<T>("ybuf", buffers, br, bc),
                         vmem<T>("obuf", buffers, br, bc), dma_sem("xsem", buffers),
                         dma_sem("ysem", buffers), dma_sem("osem", buffers));
  }

  /// Every block once: x and y in, o out.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t bytes = std::int64_t{rows} * cols * kBytes<T>;
    return {2 * bytes, bytes};
  }

  // nvcc 13.0 crashes on ten `auto` parameters.
  template <class In, class Out, class Slots, class Sems>
  TESSERA_FN void operator()(auto&, In x, In y, Out o, Slots xbuf, Slots ybuf, Slots obuf,
                             Sems xsem, Sems ysem, Sems osem) const {
    const auto all = shape(rows, cols);
    const auto map = [](auto i, auto j) { return at(i, j); };
    const auto block = obuf.slot(0);
    emit_pipeline(
        grid(arbitrary(ceil_div(rows, block.rows)).as("i"),
             arbitrary(ceil_div(cols, block.cols)).as("j")),
        [](auto&, auto a, auto b, auto sum) {
          *sum = cast<T>(cast<float>(*a) + cast<float>(*b));  // (br, bc) T
        },
        pipeline_in(x, all, xbuf, xsem, map), pipeline_in(y, all, ybuf, ysem, map),
        pipeline_out(o, all, obuf, osem, map));
  }
};

}  // namespace tessera::kernels
