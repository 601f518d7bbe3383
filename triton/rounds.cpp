#include "triton/rounds.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "program/group.hpp"
#include "program/step_slots.hpp"

namespace tessera::triton {

namespace {

/// Steps [begin, end] of a loop.
struct Loop {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Jumps back, the innermost loops first.
std::vector<Loop> loops_of(const Code& code) {
  std::vector<Loop> loops;
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    const auto& target = code.notes[i].target;
    if (target && *target <= i) loops.push_back({*target, i});
  }
  std::ranges::stable_sort(loops, {}, [](const Loop& l) { return l.end - l.begin; });
  return loops;
}

/// One that begins with zeros is preceded by a step of its own that makes them.
bool is_product(const Step& s) {
  return std::string_view(s.op).starts_with("tt.dot") && s.work.matrix_flops > 0;
}
bool reduces(const Step& s) {
  const std::string_view op = s.op;  // as combine.cpp writes them out
  return op == "tt.reduce.last" || op == "tt.scan.last" || op == "tt.histogram" ||
         op == "tt.gather";
}

/// Which steps made what a step reads.
class Makers {
 public:
  explicit Makers(const Code& code) : code_(code), makes_(code.steps.size()) {
    for (std::size_t i = 0; i < code.steps.size(); ++i) {
      for (const StepSlot& s : made_by(code, i)) {
        if (s.is_vector()) makes_[i].insert(s.slot);
      }
    }
  }
  /// The last one before `step`, or SIZE_MAX.
  std::size_t of(int vector, std::size_t step) const {
    while (step-- > 0) {
      if (makes_[step].contains(vector)) return step;
    }
    return SIZE_MAX;
  }
  /// Looks through what moves elements and changes none.
  std::size_t behind_moves(int vector, std::size_t step) const {
    for (;;) {
      step = of(vector, step);
      if (step == SIZE_MAX || code_.notes[step].group || is_product(code_.steps[step]) ||
          loads(step) || code_.steps[step].reads.size() != 1)
        return step;
      vector = code_.steps[step].reads[0];
    }
  }
  bool loads(std::size_t step) const {
    const std::string_view op = code_.steps[step].op;
    return op == "tt.load" || op.starts_with("tt.descriptor");
  }
  /// Whether it comes from a product of steps [begin, step).
  bool from_product(int vector, std::size_t step, std::size_t begin) const {
    std::set<std::pair<int, std::size_t>> seen;
    std::vector<std::pair<int, std::size_t>> open{{vector, step}};
    while (!open.empty()) {
      const auto [v, before] = open.back();
      open.pop_back();
      const std::size_t at = of(v, before);
      if (at == SIZE_MAX || at < begin || !seen.emplace(v, at).second) continue;
      if (is_product(code_.steps[at])) return true;
      for (const StepSlot& s : read_by(code_, at)) {
        if (s.is_vector()) open.emplace_back(s.slot, at);
      }
    }
    return false;
  }

 private:
  const Code& code_;
  std::vector<std::set<int>> makes_;
};

/// Elements of a step's groups that a mask of a vector chooses.
std::int64_t masked(const Code& code, std::size_t step) {
  std::int64_t elements = 0;
  if (const Group* const g = code.notes[step].group.get()) {
    for (const Group::Member& m : g->members) {
      const bool by_mask = std::ranges::any_of(m.operands, [&](int lane) {
        const Lane& l = g->lanes[static_cast<std::size_t>(lane)];
        return l.dtype == DType::boolean && l.kind != Lane::Kind::splat;
      });
      if (by_mask && m.operands.size() == 3) elements += m.shape.elems();
    }
  }
  return elements;
}

/// Copies are of four bytes and more; a scalar is loaded.
int stages_of(const Site& s) {
  constexpr int kLeastBytes = 4;
  return s.elements > 1 && s.width * s.bytes >= kLeastBytes ? std::max(1, s.stages) : 1;
}

/// As far as what its programs accessed was written down: as many turns as they accessed more than
/// the accesses around the loop.
std::vector<double> turns_of_programs(const Kernel& kernel, const LaunchResult& result) {
  const GridTiles& tiles = result.tiles;
  std::vector<double> all;
  std::vector<std::int64_t> times(kernel.sites.size());
  for (const LineTraffic& l : result.lines) times[l.site] += l.requested.times;
  std::int64_t around = 0;
  std::int64_t inside = 0;
  for (const std::int64_t n : times) {
    around += n == result.run.steps ? 1 : 0;
    inside += n > result.run.steps ? 1 : 0;
  }
  if (inside == 0) return all;
  for (std::size_t p = 0; p < tiles.begins.size(); ++p) {
    const std::size_t end =
        p + 1 < tiles.begins.size() ? tiles.begins[p + 1] : tiles.accesses.size();
    const auto accesses = static_cast<std::int64_t>(end - tiles.begins[p]);
    all.push_back(static_cast<double>(std::max<std::int64_t>(0, accesses - around)));
  }
  if (std::ranges::adjacent_find(all, std::ranges::not_equal_to()) == all.end()) return {};
  double mean = 0;
  for (const double n : all) mean += n / static_cast<double>(all.size());
  const auto most = static_cast<double>(*std::ranges::max_element(times));
  for (double& n : all) n *= most / static_cast<double>(result.run.steps) / mean;
  return all;
}

}  // namespace

LaunchWork work_of(const Kernel& kernel, const LaunchResult& result) {
  const Code& code = kernel.program.main;
  const std::vector<Loop> loops = loops_of(code);
  const auto loop_at = [&](std::size_t step) {
    const auto it = std::ranges::find_if(
        loops, [&](const Loop& l) { return l.begin <= step && step <= l.end; });
    return static_cast<std::size_t>(it - loops.begin());
  };
  std::vector<std::int64_t> times(kernel.sites.size());
  std::vector<std::int64_t> bytes(kernel.sites.size());
  for (const LineTraffic& l : result.lines) {
    times[l.site] += l.requested.times;
    bytes[l.site] += l.requested.read_bytes;
  }
  LaunchWork work;
  // How often each loop turns, as far as its accesses say; what is in none runs once a program.
  std::vector<std::int64_t> turns(loops.size() + 1, 0);
  turns.back() = result.run.steps;
  std::map<std::pair<std::size_t, bool>, Round> rounds;  // by loop; whether it decides an address
  for (std::size_t s = 0; s < kernel.sites.size(); ++s) {
    const Site& site = kernel.sites[s];
    const std::size_t at = site.step == SIZE_MAX ? loops.size() : loop_at(site.step);
    if (at < loops.size()) turns[at] = std::max(turns[at], times[s]);
    if (bytes[s] == 0) continue;
    Round& r = rounds[{at, site.wanted}];
    r.times = std::max(r.times, times[s]);
    r.bytes += bytes[s];
    r.stages = r.sites == 0 ? stages_of(site) : std::min(r.stages, stages_of(site));
    r.turn_bytes += site.elements * site.bytes;
    ++r.sites;
    if (site.elements > r.elements) {
      r.elements = site.elements;
      r.width = site.width;
      r.element_bytes = site.bytes;
    }
    work.tile_elements = std::max(work.tile_elements, site.elements);
  }
  std::vector<bool> stores(loops.size() + 1, false);
  for (std::size_t s = 0; s < kernel.sites.size(); ++s) {
    const Site& site = kernel.sites[s];
    if (site.kind != Site::Kind::load && site.step != SIZE_MAX) stores[loop_at(site.step)] = true;
  }
  std::vector<bool> reduces_rows(loops.size() + 1, false);
  std::vector<bool> multiplies(loops.size() + 1, false);
  const Makers makers(code);
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    const Step& step = code.steps[i];
    const std::size_t at = loop_at(i);
    work.elements += turns[at] * step.work.elements;
    if (reduces(step) && !code.notes[i].makes.empty()) {
      work.reductions += turns[at];
      reduces_rows[at] = true;
    }
    if (!is_product(step)) continue;
    multiplies[at] = true;
    work.product_flops += turns[at] * step.work.flops;
    for (const StepNote::Slot& made : code.notes[i].makes) {
      if (made.shape.rank < 2) continue;
      const std::int64_t rows = made.shape[made.shape.rank - 2];
      work.product_rows = work.product_rows == 0 ? rows : std::min(work.product_rows, rows);
      work.accumulators += made.shape.elems();
      if (step.reads.size() < 2 || code.notes[i].reads.size() < 2) continue;
      const std::int64_t elems = made.shape.elems();
      LoopProduct p{.times = turns[at],
                    .rows = rows,
                    .cols = made.shape[made.shape.rank - 1],
                    .depth = step.work.flops / (2 * elems),
                    .bits = bit_width(code.notes[i].reads[0].dtype)};
      p.times *= elems / (p.rows * p.cols);
      if (at == loops.size()) {
        work.products.push_back(p);
        continue;
      }
      const std::size_t begin = loops[at].begin;
      for (std::size_t side = 0; side < 2; ++side) {
        const std::size_t maker = makers.behind_moves(step.reads[side], i);
        const std::int64_t size = (side == 0 ? p.rows : p.cols) * p.depth * p.bits / 8;
        const bool loaded = maker != SIZE_MAX && makers.loads(maker);
        if (loaded && maker < begin) work.kept_bytes += size;
        if (loaded || side > 0) continue;
        p.left_computed = true;
        work.held_bytes += size;
        work.chained = work.chained || makers.from_product(step.reads[side], i, begin);
      }
      work.products.push_back(p);
    }
  }
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    const std::size_t at = loop_at(i);
    if (at < loops.size() && multiplies[at]) work.masked_elements += turns[at] * masked(code, i);
  }
  if (work.product_flops > 0) work.turns = turns_of_programs(kernel, result);
  for (const auto& [at, r] : rounds) {
    Round& round = work.rounds.emplace_back(r);
    round.products = at.first < loops.size() && multiplies[at.first];
    if (at.first < loops.size()) {
      round.turn = reduces_rows[at.first] ? Round::Turn::reduces
                   : stores[at.first]     ? Round::Turn::stores
                                          : Round::Turn::gathers;
    }
    if (round.products && r.times > 0) work.operand_bytes += r.bytes / r.times;
  }
  return work;
}

}  // namespace tessera::triton
