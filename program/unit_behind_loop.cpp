#include "program/unit_behind_loop.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "program/unit_phases.hpp"
#include "program/unit_work.hpp"

namespace tessera::program {

namespace {

bool stores(const UnitOp& op) { return op.makes.empty() && op.reads.size() > 1; }

/// What an op that stores something writes.
int written_by(const UnitOp& op) { return op.reads[1]; }

template <class F>
bool any_row(const Program& program, const UnitOp& op, const F& f) {
  return std::ranges::any_of(op.rows, [&](const auto& row) {
    return f(program.unit_rows[static_cast<std::size_t>(row.first)]);
  });
}

bool multiplies(const std::string& row) { return row.starts_with("tpu.matmul pass"); }

bool is_outside(const std::string& row) {
  return row == "tpu.wait_dma2" || row == "tpu.sem_wait" || row == "tpu.enqueue_dma";
}

}  // namespace

bool is_whole_loop(const Code& code, const std::vector<Stretch>& all, std::size_t number) {
  if (number + 1 >= all.size() || all[number].ops.empty()) return false;
  const std::size_t end = all[number + 1].begin;
  if (end == 0 || end > code.notes.size()) return false;
  const StepNote& last = code.notes[end - 1];
  if (!last.target || last.decided || *last.target > all[number].begin) return false;
  for (std::size_t i = number; i-- > 0 && all[i].begin >= *last.target;)
    if (!all[i].ops.empty()) return false;
  return true;
}

double begun_in_loop(const Program& program, const Stretch& loop, const Stretch& next,
                     const std::vector<const UnitCost*>& rows, const UnitCosts& costs) {
  const auto any = [&](const auto& f) {
    return std::ranges::any_of(loop.ops,
                               [&](const UnitOp* op) { return any_row(program, *op, f); });
  };
  if (!costs.schedules || !any(multiplies) || any(is_outside)) return 0;
  std::set<int> later;  // values and arrays
  for (const UnitOp* op : loop.ops) {
    later.insert(op->makes.begin(), op->makes.end());
    if (stores(*op)) later.insert(written_by(*op));
  }
  UnitWork work;
  for (const UnitOp* op : next.ops) {
    const bool follows = std::ranges::any_of(op->reads, [&](int v) { return later.contains(v); });
    if (any_row(program, *op, is_outside)) break;
    if (!follows) {
      for (const auto& [row, times] : op->rows)
        if (const UnitCost* cost = rows[static_cast<std::size_t>(row)]) work.add(*cost, times);
    }
    if (follows || ends_phase(program, *op)) {
      later.insert(op->makes.begin(), op->makes.end());
      if (stores(*op)) later.insert(written_by(*op));
    }
  }
  work.close(costs, std::max(1., costs.capacity[static_cast<std::size_t>(CoreUnit::mxu)]));
  // Passes and what masks are made of are left, or lie beside the loop's own.
  constexpr double kBegins = 0.5;
  return std::min(kBegins * work.cycles, costs.schedules->behind_loop);
}

}  // namespace tessera::program
