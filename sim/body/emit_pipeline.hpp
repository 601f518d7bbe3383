// A pipeline inside a body: blocks of arrays in HBM through n slots each, as Pallas's
// emit_pipeline.
//
//   emit_pipeline(grid(arbitrary(ceil_div(rows, 8)).as("r")),
//                 [&](auto& ids, auto x, auto o) { *o = *x + *x; },
//                 pipeline_in(x_hbm, shape(rows, cols), xbuf, xsems, [](auto r) { return at(r, 0);
//                 }), pipeline_out(o_hbm, shape(rows, cols), obuf, osems, [](auto r) { return at(r,
//                 0); }));
//
// Written in the body language. The slots are vmem(name, slots, rows, cols) with as many DMA
// semaphores, operands of the kernel or made by run_scoped; slots are blocks. A block is fetched
// when its index changes, up to slots - 1 blocks ahead, and written back when its index is about to
// change; the inner body gets a ref to its slot. Arrays are 2-D, every dimension of the grid is
// arbitrary with constant bounds, at most kMaxPipelineSlots slots. The out-of-bounds part of a
// ragged input block is zero.
#pragma once

#include "sim/body/spec.hpp"

namespace tessera {

inline constexpr int kMaxPipelineSlots = 8;

template <bool kOut, class Ref, class Slots, class Sems, class Map>
struct PipelineOperand {
  Ref array;
  Shape extents;
  Slots buffer;
  Sems sems;
  Map map;
};
template <class Ref, class Slots, class Sems, class Map>
TESSERA_FN constexpr auto pipeline_in(Ref array, Shape extents, Slots slots, Sems sems, Map map) {
  return PipelineOperand<false, Ref, Slots, Sems, Map>{array, extents, slots, sems, map};
}
template <class Ref, class Slots, class Sems, class Map>
TESSERA_FN constexpr auto pipeline_out(Ref array, Shape extents, Slots slots, Sems sems, Map map) {
  return PipelineOperand<true, Ref, Slots, Sems, Map>{array, extents, slots, sems, map};
}

namespace detail {

/// Program ids of the inner grid, as its body sees them.
struct PipelineIds {
  int ids[kMaxGridRank] = {};
  int extents[kMaxGridRank] = {};
  TESSERA_FN int program_id(int d) const { return ids[d]; }
  TESSERA_FN int num_programs(int d) const { return extents[d]; }
  TESSERA_FN bool first(int d) const { return ids[d] == 0; }
  TESSERA_FN bool last(int d) const { return ids[d] == extents[d] - 1; }
};

template <class G>
TESSERA_FN void unravel_step(int step, const int* extents, int* ids) {
  for (int d = G::kRank - 1; d >= 0; --d) {
    ids[d] = step % extents[d];
    step /= extents[d];
  }
}

struct PipelineBlock {
  int row = -1;
  int col = -1;
  constexpr bool operator==(const PipelineBlock&) const = default;
};

/// One operand while the pipeline runs.
template <class G, class Op>
struct PipelineLane;
template <class G, bool kOut, class Ref, class Slots, class Sems, class Map>
struct PipelineLane<G, PipelineOperand<kOut, Ref, Slots, Sems, Map>> {
  PipelineOperand<kOut, Ref, Slots, Sems, Map> op;
  const int* extents;
  int steps;
  int next = 0;    ///< inputs: first step whose block has not been asked for
  int issued = 0;  ///< transfers started
  int used = 0;    ///< blocks that steps have begun to use
  PipelineBlock in_slot[kMaxPipelineSlots] = {};

  TESSERA_FN PipelineBlock block_of(int step) const {
    if (step < 0 || step >= steps) return {};
    int ids[kMaxGridRank] = {};
    unravel_step<G>(step, extents, ids);
    const auto index = with_ids<G, G::kRank>(op.map, ids);
    return {static_cast<int>(index.index[0]), static_cast<int>(index.index[1])};
  }
  /// The copy between the array and a slot of the part of a block that lies in the array.
  TESSERA_FN auto copy(PipelineBlock b, int slot) const {
    const auto whole = op.buffer.slot(slot);
    const int row = b.row * whole.rows;
    const int col = b.col * whole.cols;
    const auto rows = lesser(whole.rows, static_cast<int>(op.extents[0]) - row);
    const auto cols = lesser(whole.cols, static_cast<int>(op.extents[1]) - col);
    const auto part = op.array.slice(ds(row, rows), ds(col, cols));
    const auto place = whole.slice(ds(0, rows), ds(0, cols));
    if constexpr (kOut)
      return make_async_copy(place, part, op.sems[slot]);
    else
      return make_async_copy(part, place, op.sems[slot]);
  }
  TESSERA_FN bool ragged(PipelineBlock b) const {
    const auto whole = op.buffer.slot(0);
    return (b.row + 1) * whole.rows > static_cast<int>(op.extents[0]) ||
           (b.col + 1) * whole.cols > static_cast<int>(op.extents[1]);
  }
  TESSERA_FN int slots() const { return op.buffer.slots(); }

  TESSERA_FN void before(int step) {
    const bool fresh = step == 0 || !(block_of(step) == block_of(step - 1));
    if constexpr (kOut) {
      if (!fresh) return;
      const int slot = used % slots();
      if (used >= slots()) copy(in_slot[slot], slot).wait();
      in_slot[slot] = block_of(step);
      ++used;
    } else {
      for (; next < steps && next < step + slots(); ++next) {
        const PipelineBlock b = block_of(next);
        if (next > 0 && b == block_of(next - 1)) continue;
        // The block in use keeps its slot.
        const int held = fresh ? used : used - 1;
        if (issued - held >= slots()) break;
        const int slot = issued % slots();
        using T = typename Slots::Element;
        if (ragged(b)) *op.buffer.slot(slot) = T(0.f);
        copy(b, slot).start();
        in_slot[slot] = b;
        ++issued;
      }
      if (!fresh) return;
      const int slot = used % slots();
      copy(in_slot[slot], slot).wait();
      ++used;
    }
  }
  TESSERA_FN auto current() const { return op.buffer.slot((used - 1) % slots()); }
  TESSERA_FN void after(int step) {
    if constexpr (kOut) {
      if (step + 1 < steps && block_of(step + 1) == block_of(step)) return;
      const int slot = (used - 1) % slots();
      copy(in_slot[slot], slot).start();
      ++issued;
    }
  }
  TESSERA_FN void finish() {
    if constexpr (kOut) {
      for (int i = issued > slots() ? issued - slots() : 0; i < issued; ++i) {
        copy(in_slot[i % slots()], i % slots()).wait();
      }
    }
  }
};

template <class G, class Body, class... Lane>
TESSERA_FN void run_pipeline(PipelineIds& ids, int steps, Body& body, Lane... lanes) {
  for (int step = 0; step < steps; ++step) {
    unravel_step<G>(step, ids.extents, ids.ids);
    (lanes.before(step), ...);
    body(ids, lanes.current()...);
    (lanes.after(step), ...);
  }
  (lanes.finish(), ...);
}

}  // namespace detail

template <class... Dim, class Body, class... Op>
TESSERA_FN void emit_pipeline(Grid<Dim...> g, Body body, const Op&... ops) {
  using G = Grid<Dim...>;
  static_assert(G::kParallel == 0, "the dimensions of an inner grid are arbitrary");
  detail::PipelineIds ids;
  int steps = 1;
  int d = 0;
  std::apply(
      [&](const auto&... dim) {
        ((ids.extents[d++] = static_cast<int>(dim.hi), steps *= static_cast<int>(dim.hi)), ...);
      },
      g.dims);
  if (steps > 0) {
    detail::run_pipeline<G>(ids, steps, body,
                            detail::PipelineLane<G, Op>{ops, ids.extents, steps}...);
  }
}

}  // namespace tessera
