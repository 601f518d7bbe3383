#include "program/unit_few_rows.hpp"

#include <algorithm>
#include <cmath>

#include "program/unit_shapes.hpp"

namespace tessera::program {

namespace {

constexpr auto kStoreUnit = static_cast<std::size_t>(CoreUnit::store);

bool goes_through_memory(const UnitCost& each) { return each.slots[kStoreUnit] > 0; }

}  // namespace

FewRows::FewRows(const Program& program, const std::vector<const UnitOp*>& ops,
                 const WindowArrays& arrays, const UnitCosts& costs)
    : program_(program), costs_(costs) {
  if (const auto part = costs.rows.find("few rows b32 parted"); part != costs.rows.end())
    parted_words_ = &part->second;
  if (costs.schedules) places_of_words_ = costs.schedules->places;
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
  numbered_ = numbered_masks(ops);
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    const auto is_whole = [&](int v) { return whole_.contains(v) || numbered_.contains(v); };
    const bool made_whole =
        std::ranges::any_of((*op)->makes, is_whole) || std::ranges::any_of((*op)->reads, is_whole);
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

/// Masks of what no memory has: of iotas, which lie in whole registers.
std::set<int> FewRows::numbered_masks(const std::vector<const UnitOp*>& ops) const {
  std::set<int> numbers;  // and what is computed of them alone
  std::set<int> masks;
  for (const UnitOp* const op : ops) {
    if (op->makes.empty() || !element_by_element(*op)) {
      if (op->reads.empty()) numbers.insert(op->makes.begin(), op->makes.end());
      continue;
    }
    if (!std::ranges::all_of(op->reads, [&](int v) { return numbers.contains(v); })) continue;
    numbers.insert(op->makes.begin(), op->makes.end());
    if (!op->rows.empty() &&
        (name(op->rows[0]).starts_with("arith.cmp") || name(op->rows[0]).ends_with(" bool")))
      masks.insert(op->makes.begin(), op->makes.end());
  }
  return masks;
}

FewRows::Rows FewRows::rows(const UnitOp& op) const {
  Times more;
  if (const Tiled* const w = of(op)) {
    const double moved = (stores(op) ? w->stores : w->loads) / w->whole;
    more = {moved, moved};
  }
  for (const int v : op.makes)
    if (const auto it = more_.find(v); it != more_.end()) more = it->second;
  Rows rows = op.rows;
  if (const Tiled* const w = of(op); w != nullptr && puts_through_memory(op, *w)) {
    rows[0].second = std::llround(w->loads);  // all of them, whatever is used
    return rows;
  }
  for (auto& row : rows) {
    const double times = name(row).find("32") != std::string::npos ? more.words : more.own;
    if (times > 0) row.second = share_of(row.second, times);
  }
  return rows;
}

UnitCost FewRows::Together::all() const {
  UnitCost sum = *each;
  for (std::size_t u = 0; u < kCoreUnits; ++u) {
    const bool of_whole = goes_through_memory(*each) && u != kStoreUnit;
    sum.slots[u] *= static_cast<double>(of_whole ? whole : times);
    if (has_halves && u == static_cast<std::size_t>(CoreUnit::load)) sum.slots[u] /= 2;
  }
  return sum;
}

FewRows::Together FewRows::together(const UnitOp& op) const {
  if (packs(op)) {
    const double few = static_cast<double>(op.rows[0].second) * more(op).words;
    if (few <= 0) return {};
    constexpr double kOfAStage = 4;  // of two rows each
    const std::int64_t n = std::llround(few);
    return {.each = packed_,
            .times = n,
            .whole = op.rows[0].second,
            .stages = std::llround(std::ceil(few / kOfAStage)),
            .places = places_of_words_,
            .computed = n};
  }
  const Tiled* const w = of(op);
  if (w == nullptr) return {};
  if (stores(op)) {
    const bool is_few = std::ranges::any_of(op.reads, [&](int v) { return more_.contains(v); });
    if (is_few || w->parted == nullptr) return {};
    const std::int64_t computed = share_of(w->packed, op.computed);
    // A mask of what is stored is parted, too.
    const bool masked = std::ranges::any_of(op.reads, [&](int v) { return numbered_.contains(v); });
    const std::int64_t n = masked ? 2 : 1;
    // Of those who compute no constants anew.
    if (!goes_through_memory(*w->parted))
      return {.each = w->parted,
              .times = n * computed,
              .whole = n * computed,
              .computed = n * computed};
    constexpr std::int64_t kBeside = 2;  // registers of halves, in whose place are four
    return {.each = w->parted,
            .times = n * w->packed,
            .whole = n * w->halves,
            .stages = n * w->stages,
            .places = w->parted == parted_ ? 2 : 1,
            .computed = n * computed,
            .has_halves = w->packed <= kBeside * w->stages};
  }
  if (std::ranges::none_of(op.makes, [&](int v) { return whole_.contains(v); })) return {};
  const double used = static_cast<double>(op.rows[0].second) / w->whole;
  if (!puts_through_memory(op, *w)) {
    const std::int64_t n = std::llround(w->loads * used);
    return {.each = w->together,
            .times = n,
            .whole = std::llround(w->whole_words),
            .stages = w->stages,
            .computed = n};
  }
  const std::int64_t n = std::llround(w->words);
  return {.each = w->together,
          .times = n,
          .whole = share_of(std::llround(w->whole_words), used),
          .stages = w->stages,
          .computed = n};
}

FewRows::Stored FewRows::stored(const UnitOp& op) const {
  const Tiled* const w = stores(op) ? of(op) : nullptr;
  if (w == nullptr) return {};
  const std::string& row = name(op.rows[0]);
  const auto cost = costs_.rows.find(row.substr(0, row.find(" masked")));
  if (cost == costs_.rows.end()) return {};
  const std::int64_t times = std::llround(w->stores);
  constexpr std::int64_t kShuffled = 4;  // of registers across every other one is
  const bool shuffles = w->parted != nullptr && w->parted == parted_ &&
                        !goes_through_memory(*w->parted) && w->across <= kShuffled;
  const Together put = together(op);  // constants are loaded there, too
  const bool loaded = put.each != nullptr && goes_through_memory(*put.each);
  const bool masked = std::ranges::any_of(op.reads, [&](int v) { return numbered_.contains(v); });
  return {&cost->second, times, loaded ? times : share_of(times, op.computed),
          masked     ? times
          : shuffles ? times / 2
                     : 0};
}

FewRows::Tiled FewRows::tiled(const Window& w, std::int64_t rows_of_tile,
                              const UnitCost& together) const {
  const Shape& s = w.type.shape;
  Tiled found{.loads = 1,
              .words = 1,
              .stores = 1,
              .whole = 1,
              .whole_words = 1,
              .packed = 0,
              .halves = 0,
              .across = 1,
              .stages = 1,
              .together = &together,
              .parted = nullptr};
  if (s.rank < 2) return found;
  const std::int64_t rows = s[s.rank - 2];
  const std::int64_t across = ceil_to(s[s.rank - 1], kLanes);
  const std::int64_t down = ceil_to(rows, rows_of_tile);
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  found.across = across;
  found.stages = ceil_to(rows, kSublanes);
  found.whole_words = number(found.stages * across);
  if (bit_width(w.type.dtype) != 16) {
    found.loads = number(across == 1 ? 0 : down * ceil_to(across * rows_of_tile, kSublanes));
    found.words = found.stores = found.loads;
    found.whole = found.whole_words;
    found.packed = across == 1 ? 0 : found.stages * across;
    found.halves = std::llround(found.loads);
    found.parted = bit_width(w.type.dtype) == 32 ? parted_words_ : nullptr;
    return found;
  }
  // Two rows of 16 bits are a row of words. Cast to words a row of tiles has registers of its own,
  // of which two are loaded together where it fills one.
  const std::int64_t words = down * ceil_to(across * rows_of_tile, kSublanes);
  found.words = number(words);
  found.loads =
      number(across * rows_of_tile % kSublanes == 0 ? words / 2 : std::max(down, words / 2));
  found.stores = number(down * ceil_to(across * rows_of_tile, 2 * kSublanes));
  found.whole = number(ceil_to(rows, 2 * kSublanes) * across);
  found.packed = ceil_to(2 * found.stages * ceil_to(across, 2), rows_of_tile);
  found.halves = std::llround(found.stores);
  found.parted = parted_;
  return found;
}

const FewRows::Tiled* FewRows::of(const UnitOp& op) const {
  if (windows_.empty() || op.rows.empty()) return nullptr;
  if (!name(op.rows[0]).starts_with("load b") && !stores(op)) return nullptr;
  for (const int v : op.reads)
    if (const auto it = windows_.find(v); it != windows_.end())
      return it->second.packed > 0 || it->second.loads > it->second.whole ? &it->second : nullptr;
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

bool FewRows::puts_through_memory(const UnitOp& op, const Tiled& w) const {
  return !stores(op) && goes_through_memory(*w.together) &&
         std::ranges::any_of(op.makes, [&](int v) { return whole_.contains(v); });
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
