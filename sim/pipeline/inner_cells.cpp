#include "sim/pipeline/inner_cells.hpp"

namespace tessera {

InnerCells::InnerCells(const Plan& plan) : plan_(plan), cells_(plan.inner_cells()) {}

std::int64_t InnerCells::number_of(const int* ids) const {
  std::int64_t n = 0;
  for (int d = plan_.parallel_rank; d < plan_.grid_rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (plan_.inner_parallel[i] && plan_.bounds[i]) n = n * plan_.bounds[i]->hi + ids[d];
  }
  return n;
}

void InnerCells::enter(const int* ids, const std::vector<Block*>& blocks) {
  const std::int64_t next = number_of(ids);
  if (next == now_) return;
  const auto before = static_cast<std::int32_t>(now_ + 1);
  const auto after = static_cast<std::int32_t>(next + 1);
  now_ = next;
  for (Block* const block : blocks) {
    if (block == nullptr || block->plan->role == Role::in || !block->plan->present) continue;
    if (block->plan->returns == OperandPlan::Returns::restored) continue;  // comes as it left
    Shadow& shadow = block->shadow;
    Written& w = written_[block];
    w.by.resize(static_cast<std::size_t>(shadow.elems()));
    w.state.resize(w.by.size());
    for (std::int64_t e = 0; e < shadow.elems(); ++e) {
      const auto i = static_cast<std::size_t>(e);
      const Shadow::State s = shadow.at(e);
      if (s != Shadow::uninit && s != Shadow::stale) {
        w.by[i] = before;
        w.state[i] = s;
      }
      if (w.by[i] != 0) shadow.set(e, w.by[i] == after ? w.state[i] : Shadow::stale);
    }
  }
}

}  // namespace tessera
