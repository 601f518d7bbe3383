#include "program/unit_few_rows.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::program {

FewRows::FewRows(const Program& program, const std::vector<const UnitOp*>& ops,
                 const WindowArrays& arrays, const UnitCosts& costs)
    : program_(program) {
  if (const auto part = costs.rows.find("few rows b16 parted"); part != costs.rows.end())
    parted_ = &part->second;
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
    Times times;
    if (w != nullptr)
      times = {w->loads / w->whole, w->words / w->whole_words};
    else if (element_by_element(*op))
      times = more(*op);
    if (times.words <= 0) continue;
    for (const int v : op->makes)
      if (!whole_.contains(v)) more_[v] = times;
  }
}

FewRows::Rows FewRows::rows(const UnitOp& op) const {
  constexpr double kRounding = 1e-9;
  Times more;
  if (const Tiled* const w = of(op)) {
    const double moved = (stores(op) ? w->stores : w->loads) / w->whole;
    more = {moved, moved};
  }
  for (const int v : op.makes)
    if (const auto it = more_.find(v); it != more_.end()) more = it->second;
  Rows rows = op.rows;
  for (auto& row : rows) {
    const double times = name(row).find("32") != std::string::npos ? more.words : more.own;
    if (times > 0)
      row.second = std::llround(std::ceil(static_cast<double>(row.second) * times - kRounding));
  }
  return rows;
}

FewRows::Together FewRows::together(const UnitOp& op) const {
  constexpr auto kStore = static_cast<std::size_t>(CoreUnit::store);
  if (packs(op)) {
    const double few = static_cast<double>(op.rows[0].second) * more(op).words;
    constexpr double kOfAStage = 4;  // of two rows each
    return {few > 0 ? packed_ : nullptr, std::llround(few), op.rows[0].second,
            std::llround(std::ceil(few / kOfAStage))};
  }
  const Tiled* const w = of(op);
  if (w == nullptr) return {};
  if (stores(op)) {
    const bool is_few = std::ranges::any_of(op.reads, [&](int v) { return more_.contains(v); });
    const std::int64_t parts = std::llround(w->parts);
    return {is_few ? nullptr : w->parted, parts, parts, parts};
  }
  if (std::ranges::none_of(op.makes, [&](int v) { return whole_.contains(v); })) return {};
  // Through memory all of them, whatever is used.
  const double used = static_cast<double>(op.rows[0].second) * w->loads / w->whole;
  return {w->together, std::llround(w->together->slots[kStore] > 0 ? w->words : used),
          std::llround(w->whole_words), w->stages};
}

FewRows::Tiled FewRows::tiled(const Window& w, std::int64_t rows_of_tile,
                              const UnitCost& together) const {
  constexpr std::int64_t kRows = 8;
  constexpr std::int64_t kColumns = 128;
  const Shape& s = w.type.shape;
  if (s.rank < 2) return {1, 1, 1, 1, 1, 0, 1, &together, nullptr};
  const auto parts = [](std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; };
  const std::int64_t rows = s[s.rank - 2];
  const std::int64_t across = parts(s[s.rank - 1], kColumns);
  const std::int64_t down = parts(rows, rows_of_tile);
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  if (bit_width(w.type.dtype) != 16) {
    const std::int64_t few = across == 1 ? 0 : down * parts(across * rows_of_tile, kRows);
    const double whole = number(parts(rows, kRows) * across);
    return {number(few), number(few),        number(few), whole,  whole,
            0,           parts(rows, kRows), &together,   nullptr};
  }
  // Two rows of 16 bits are a row of words. Cast to words a row of tiles has registers of its own,
  // of which two are loaded together where it fills one.
  const std::int64_t words = down * parts(across * rows_of_tile, kRows);
  const std::int64_t loads =
      across * rows_of_tile % kRows == 0 ? words / 2 : std::max(down, words / 2);
  const std::int64_t stores = down * parts(across * rows_of_tile, 2 * kRows);
  return {number(loads),
          number(words),
          number(stores),
          number(parts(rows, 2 * kRows) * across),
          number(parts(rows, kRows) * across),
          number(down * across) / kRows,
          parts(rows, kRows),
          &together,
          parted_};
}

const FewRows::Tiled* FewRows::of(const UnitOp& op) const {
  if (windows_.empty() || op.rows.empty()) return nullptr;
  if (!name(op.rows[0]).starts_with("load b") && !stores(op)) return nullptr;
  for (const int v : op.reads)
    if (const auto it = windows_.find(v); it != windows_.end())
      return it->second.parts > 0 || it->second.loads > it->second.whole ? &it->second : nullptr;
  return nullptr;
}

FewRows::Times FewRows::more(const UnitOp& op) const {
  Times most;
  for (const int v : op.reads) {
    const auto it = more_.find(v);
    if (it == more_.end()) continue;
    most = {std::max(most.own, it->second.own), std::max(most.words, it->second.words)};
  }
  return most;
}

const std::string& FewRows::name(const std::pair<int, std::int64_t>& row) const {
  return program_.unit_rows[static_cast<std::size_t>(row.first)];
}

bool FewRows::stores(const UnitOp& op) const {
  return !op.rows.empty() && name(op.rows[0]).starts_with("store b");
}

bool FewRows::packs(const UnitOp& op) const {
  return packed_ != nullptr && !op.rows.empty() &&
         name(op.rows[0]).starts_with("arith.truncf f32 bf16");
}

bool FewRows::element_by_element(const UnitOp& op) const {
  return !packs(op) && std::ranges::all_of(op.rows, [&](const auto& row) {
    return name(row).starts_with("arith.") || name(row).starts_with("math.");
  });
}

}  // namespace tessera::program
