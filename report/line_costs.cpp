#include "report/line_costs.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "report/step_traffic.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::report {

namespace {

class Costs {
 public:
  LineCost& at(const std::string& file, int line) { return lines_[{line == 0 ? "" : file, line}]; }
  LineCost& at(const Here& here) { return at(here.file, here.line); }

  std::vector<LineCost> sorted() {
    std::vector<LineCost> all;
    for (auto& [place, cost] : lines_) {
      cost.line = place.second;
      if (cost.line > 0) name(place.first, cost);
      std::ranges::stable_sort(cost.stalls, std::greater{}, &predict::Stall::seconds);
      all.push_back(std::move(cost));
    }
    const auto weight = [](const LineCost& c) {
      return std::tuple(c.compute_seconds + c.stalled_seconds(),
                        c.read_bytes + c.write_bytes + c.remote_bytes);
    };
    std::ranges::stable_sort(all, std::greater{}, weight);
    return all;
  }

 private:
  /// As messages show it.
  static void name(const std::string& file, LineCost& cost) {
    const std::string excerpt = source_excerpt({file.c_str(), cost.line});
    const std::string number = ":" + std::to_string(cost.line);
    const std::size_t text = excerpt.find("  ");
    const std::string place = excerpt.substr(0, text);
    cost.file = place.substr(0, place.size() - number.size());
    if (text != std::string::npos) cost.text = excerpt.substr(text + 2);
  }
  std::map<std::pair<std::string, int>, LineCost> lines_;
};

Here line_of(const OperandPlan& op) { return op.used_at.line > 0 ? op.used_at : op.at; }

Here line_of_ref(const Plan& plan, int ref) {
  for (const OperandPlan& op : plan.operands)
    if (op.present && op.pipelined() && op.ledger_ref == ref) return line_of(op);
  return {};
}

void add_copies(const StepTrace& trace, Costs& costs) {
  for (std::int64_t step = 0; trace.scripted() && step < trace.steps; ++step) {
    const auto work = static_cast<std::size_t>(trace.work[static_cast<std::size_t>(step)]);
    for (const Act& act : trace.scripts[work]) {
      if (act.kind != Act::Kind::copy) continue;
      LineCost& cost = costs.at(act.at);
      if (act.from == Space::hbm) cost.read_bytes += act.amount;
      if (act.remote)
        cost.remote_bytes += act.amount;
      else if (act.to == Space::hbm)
        cost.write_bytes += act.amount;
    }
  }
}

}  // namespace

double LineCost::stalled_seconds() const {
  double all = 0;
  for (const predict::Stall& s : stalls) all += s.seconds;
  return all;
}

std::vector<LineCost> line_costs(const RunResult& result, const predict::Timeline& timeline,
                                 int cores) {
  if (!result.trace.complete || result.trace.steps == 0) return {};
  Costs costs;
  for_each_transfer(result.plan, result.trace, cores,
                    [&](std::int64_t, std::size_t i, std::int32_t, Why why, std::int64_t bytes) {
                      LineCost& cost = costs.at(line_of(result.plan.operands[i]));
                      (why == Why::fetch ? cost.read_bytes : cost.write_bytes) += bytes;
                    });
  add_copies(result.trace, costs);
  for (const predict::LineTime& l : timeline.lines)
    costs.at(l.file, l.line).compute_seconds += l.seconds;
  if (timeline.pipeline_seconds > 0) costs.at("", 0).compute_seconds += timeline.pipeline_seconds;
  for (const predict::Stall& s : timeline.stalls) {
    LineCost& cost =
        s.line > 0 ? costs.at(s.file, s.line) : costs.at(line_of_ref(result.plan, s.ref));
    cost.stalls.push_back(s);
  }
  return costs.sorted();
}

}  // namespace tessera::report
