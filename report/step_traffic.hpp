// The transfers of a trace, step by step: what the ledger sums up, for pictures.
#pragma once

#include "memory_model/ledger.hpp"
#include "sim/pipeline/core_cells.hpp"
#include "sim/pipeline/plan.hpp"
#include "sim/pipeline/step_trace.hpp"

namespace tessera::report {

/// Calls f(step, operand, block, Why, bytes) for each transfer of the pipeline in grid order, as
/// `cores` of a device make them.
template <class F>
void for_each_transfer(const Plan& plan, const StepTrace& trace, int cores, F&& f) {
  const bool keeps = plan.device.keeps_blocks_across_cells();
  const std::int64_t cells = trace.cells();
  const auto bytes_of = [&](const OperandPlan& op, std::int32_t block) {
    const Shape index = unravel(op.blocks, block);
    const Shape inside = op.in_bounds(index.dims.data());
    return inside == op.block ? op.full_bytes : packed_bytes(op.dtype, inside.elems());
  };
  int core = -1;
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    const std::int64_t first = trace.cell_begin[static_cast<std::size_t>(cell)];
    const std::int64_t last = trace.cell_begin[static_cast<std::size_t>(cell + 1)];
    bool fresh = !keeps;
    while (core + 1 < cores && cell == places_of(cells, core + 1, cores).first) {
      ++core;
      fresh = true;
    }
    for (std::int64_t step = first; step < last; ++step) {
      const auto s = static_cast<std::size_t>(step);
      for (std::size_t i = 0; i < plan.operands.size(); ++i) {
        const OperandPlan& op = plan.operands[i];
        if (!op.present || !op.pipelined()) continue;
        const std::int32_t block = trace.blocks[i][s];
        if (op.role == Role::in) {
          const bool begins = step == first && fresh;
          if (begins || step == 0 || trace.blocks[i][s - 1] != block)
            f(step, i, block, Why::fetch, bytes_of(op, block));
        } else if (step + 1 == last || trace.blocks[i][s + 1] != block) {
          f(step, i, block, Why::writeback, bytes_of(op, block));
        }
      }
    }
  }
}

/// Calls f(step, row of the ledger, bytes) for each copy that bodies make by themselves.
template <class F>
void for_each_copy(const StepTrace& trace, F&& f) {
  if (!trace.scripted()) return;
  for (std::int64_t step = 0; step < trace.steps; ++step) {
    const auto work = static_cast<std::size_t>(trace.work[static_cast<std::size_t>(step)]);
    for (const Act& act : trace.scripts[work]) {
      if (act.kind != Act::Kind::copy) continue;
      if (act.ref >= 0) f(step, act.ref, act.amount);
      if (act.to_ref >= 0 && act.to_ref != act.ref) f(step, act.to_ref, act.amount);
    }
  }
}

}  // namespace tessera::report
