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
    Results from;
    for (const int v : op->reads) {
      const auto it = results_.find(v);
      if (it == results_.end()) continue;
      from.some = std::max(from.some, it->second.some);
      from.all = std::max(from.all, it->second.all);
    }
    const bool ends = ends_phase(program, *op);
    const bool multiplies = std::ranges::any_of(op->rows, [&](const auto& row) {
      return program.unit_rows[static_cast<std::size_t>(row.first)].starts_with("tpu.matmul pass");
    });
    of_.push_back(from.all);
    beside_.push_back(multiplies ? from.all : from.some);
    count_ = std::max(count_, from.all + 1);
    if (ends) from = {multiplies ? from.all : from.all + 1, from.all + 1};
    for (const int v : op->makes) results_[v] = from;
  }
}

}  // namespace tessera::program
