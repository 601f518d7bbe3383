#include "program/unit_few_rows.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::program {

FewRows::FewRows(const Program& program, const std::vector<const UnitOp*>& ops,
                 const WindowArrays& arrays, const UnitCosts& costs)
    : program_(program) {
  for (std::size_t i = 0; i < arrays.few_rows.size() && i < program.operands.size(); ++i) {
    const Window& w = program.operands[i];
    const auto put = costs.rows.find("few rows b" + std::to_string(bit_width(w.type.dtype)));
    if (arrays.few_rows[i] > 0 && put != costs.rows.end())
      windows_[w.argument] = tiled(w, arrays.few_rows[i], put->second);
  }
  if (windows_.empty()) return;
  if (const auto put = costs.rows.find("few rows b16"); put != costs.rows.end())
    packed_ = &put->second;
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    const bool made_whole =
        std::ranges::any_of((*op)->makes, [&](int v) { return whole_.contains(v); });
    if (of(**op) != nullptr || packs(**op) || (element_by_element(**op) && !made_whole)) continue;
    whole_.insert((*op)->reads.begin(), (*op)->reads.end());
  }
  for (const UnitOp* const op : ops) {
    const Tiled* const w = of(*op);
    const double times = w != nullptr ? w->few / w->whole : element_by_element(*op) ? more(*op) : 0;
    if (times <= 0) continue;
    for (const int v : op->makes)
      if (!whole_.contains(v)) more_[v] = times;
  }
}

FewRows::Rows FewRows::rows(const UnitOp& op) const {
  constexpr double kRounding = 1e-9;
  double more = 0;
  if (const Tiled* const w = of(op)) more = w->few / w->whole;
  for (const int v : op.makes)
    if (const auto it = more_.find(v); it != more_.end()) more = it->second;
  Rows rows = op.rows;
  if (more <= 0) return rows;
  for (auto& [row, times] : rows)
    times = std::llround(std::ceil(static_cast<double>(times) * more - kRounding));
  return rows;
}

std::pair<const UnitCost*, std::int64_t> FewRows::together(const UnitOp& op) const {
  constexpr auto kStore = static_cast<std::size_t>(CoreUnit::store);
  if (packs(op)) {
    const double few = static_cast<double>(op.rows[0].second) * more(op);
    return {few > 0 ? packed_ : nullptr, std::llround(few)};
  }
  const Tiled* const w = of(op);
  const bool is_whole = std::ranges::any_of(op.makes, [&](int v) { return whole_.contains(v); });
  if (w == nullptr || !is_whole) return {nullptr, 0};
  // Through memory all of them, whatever is used.
  const double used = static_cast<double>(op.rows[0].second) * w->few / w->whole;
  return {w->together, std::llround(w->together->slots[kStore] > 0 ? w->few : used)};
}

FewRows::Tiled FewRows::tiled(const Window& w, std::int64_t rows_of_tile,
                              const UnitCost& together) {
  constexpr std::int64_t kRows = 8;
  constexpr std::int64_t kColumns = 128;
  const Shape& s = w.type.shape;
  if (s.rank < 2) return {1, 1, &together};
  const auto parts = [](std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; };
  const std::int64_t rows = s[s.rank - 2];
  const std::int64_t across = parts(s[s.rank - 1], kColumns);
  std::int64_t few = parts(rows, rows_of_tile);
  std::int64_t whole = parts(rows, kRows) * across;
  if (bit_width(w.type.dtype) == 16) {
    few *= across;
    whole = parts(rows, 2 * kRows) * across;
  } else {
    few *= across == 1 ? 0 : parts(across * rows_of_tile, kRows);
  }
  return {static_cast<double>(few), static_cast<double>(whole), &together};
}

const FewRows::Tiled* FewRows::of(const UnitOp& op) const {
  if (windows_.empty() || op.rows.empty()) return nullptr;
  const std::string& row = program_.unit_rows[static_cast<std::size_t>(op.rows[0].first)];
  if (!row.starts_with("load b") && !row.starts_with("store b")) return nullptr;
  for (const int v : op.reads)
    if (const auto it = windows_.find(v); it != windows_.end())
      return it->second.few > it->second.whole ? &it->second : nullptr;
  return nullptr;
}

double FewRows::more(const UnitOp& op) const {
  double most = 0;
  for (const int v : op.reads)
    if (const auto it = more_.find(v); it != more_.end()) most = std::max(most, it->second);
  return most;
}

bool FewRows::packs(const UnitOp& op) const {
  return packed_ != nullptr && !op.rows.empty() &&
         program_.unit_rows[static_cast<std::size_t>(op.rows[0].first)].starts_with(
             "arith.truncf f32 bf16");
}

bool FewRows::element_by_element(const UnitOp& op) const {
  return !packs(op) && std::ranges::all_of(op.rows, [&](const auto& row) {
    const std::string& name = program_.unit_rows[static_cast<std::size_t>(row.first)];
    return name.starts_with("arith.") || name.starts_with("math.");
  });
}

}  // namespace tessera::program
