#include "triton/rounds.hpp"

#include <algorithm>
#include <map>
#include <string_view>

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

bool is_product(const Step& s) { return std::string_view(s.op).starts_with("tt.dot"); }
bool reduces(const Step& s) {
  const std::string_view op = s.op;
  return op == "tt.reduce" || op == "tt.scan" || op == "tt.histogram" || op == "tt.gather";
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
    work.tile_elements = std::max(work.tile_elements, site.elements);
  }
  std::vector<bool> multiplies(loops.size() + 1, false);
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    const Step& step = code.steps[i];
    const std::size_t at = loop_at(i);
    if (reduces(step)) work.reductions += turns[at];
    if (!is_product(step)) continue;
    multiplies[at] = true;
    work.product_flops += turns[at] * step.work.flops;
    for (const StepNote::Slot& made : code.notes[i].makes) {
      if (made.shape.rank < 2) continue;
      const std::int64_t rows = made.shape[made.shape.rank - 2];
      work.product_rows = work.product_rows == 0 ? rows : std::min(work.product_rows, rows);
      work.accumulators += made.shape.elems();
    }
  }
  for (const auto& [at, r] : rounds) {
    Round& round = work.rounds.emplace_back(r);
    round.products = at.first < loops.size() && multiplies[at.first];
    if (round.products && r.times > 0) work.operand_bytes += r.bytes / r.times;
  }
  return work;
}

}  // namespace tessera::triton
