#include "program/unit_phases.hpp"

#include <algorithm>

namespace tessera::program {

bool ends_phase(const std::string& row) {
  return row.starts_with("vector.multi_reduction") || row.starts_with("tpu.matmul pass") ||
         row.starts_with("tpu.transpose") || row.starts_with("tpu.reduce_index");
}

bool ends_phase(const Program& program, const UnitOp& op) {
  return std::ranges::any_of(op.rows, [&](const auto& row) {
    return ends_phase(program.unit_rows[static_cast<std::size_t>(row.first)]);
  });
}

Phases::Phases(const Program& program, const std::vector<const UnitOp*>& ops) {
  for (const UnitOp* op : ops) {
    std::size_t phase = 0;
    for (const int v : op->reads) {
      if (const auto it = after_.find(v); it != after_.end()) phase = std::max(phase, it->second);
    }
    const std::size_t after = phase + (ends_phase(program, *op) ? 1 : 0);
    for (const int v : op->makes) after_[v] = after;
    of_.push_back(phase);
    count_ = std::max(count_, phase + 1);
  }
}

}  // namespace tessera::program
