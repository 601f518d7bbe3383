#include "program/unit_costs.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "program/embedded_unit_costs.hpp"

namespace tessera::program {

namespace {

using Json = nlohmann::json;

UnitCosts read(std::string_view text) {
  const Json json = Json::parse(text);
  UnitCosts c;
  c.chip = json.at("chip");
  c.compiler = json.at("compiler");
  const auto slots = [](const Json& from) {
    std::array<double, kCoreUnits> all{};
    for (std::size_t u = 0; u < kCoreUnits; ++u) all[u] = from.value(kCoreUnitNames[u], 0.);
    return all;
  };
  c.capacity = slots(json.at("capacity"));
  for (const auto& [row, cost] : json.at("rows").items())
    c.rows.emplace(row, UnitCost{cost.value("latency", 0.), slots(cost)});
  const Json& fixed = json.at("cycles");
  c.launch = fixed.at("launch");
  c.operand = fixed.at("operand");
  c.step = fixed.at("step");
  c.grid = fixed.at("grid");
  c.window = fixed.at("window");
  c.dim = fixed.at("dim");
  c.map = fixed.at("map");
  c.map_op = fixed.at("map_op");
  c.block = fixed.at("block");
  c.jump = fixed.at("jump");
  c.product = fixed.at("product");
  c.rest = fixed.at("rest");
  const auto interval = [&](const char* of) {
    const Json& kept = json.at("held_out").at(of);
    return UnitCosts::Interval{kept.at("least"), kept.at("most")};
  };
  c.stretch = interval("stretch");
  c.module = interval("module");
  return c;
}

/// First steps of the stretches that run without a branch, the first of all among them.
std::set<std::size_t> beginnings(const Code& code) {
  std::set<std::size_t> first{0};
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    if (!code.notes[i].target) continue;
    first.insert(i + 1);
    first.insert(*code.notes[i].target);
  }
  return first;
}

/// Of one stretch.
struct Stretch {
  std::size_t begin = 0;
  bool branches = false;
  std::vector<const UnitOp*> ops;
  int branch_location = 0;
};

std::vector<Stretch> stretches(const Code& code) {
  const std::set<std::size_t> first = beginnings(code);
  std::vector<Stretch> all;
  for (const std::size_t begin : first) {
    if (begin < code.steps.size() || begin == 0) all.push_back({begin, false, {}, 0});
  }
  const auto of = [&](std::size_t step) -> Stretch& {
    const auto next = std::ranges::upper_bound(all, step, {}, &Stretch::begin);
    return *std::prev(next);
  };
  for (const UnitOp& op : code.units) of(op.step).ops.push_back(&op);
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    if (!code.notes[i].target) continue;
    of(i).branches = true;
    of(i).branch_location = code.steps[i].location;
  }
  return all;
}

/// What reads its result waits until all of it is there.
bool ends_phase(const std::string& row) {
  return row.starts_with("vector.multi_reduction") || row.starts_with("tpu.matmul pass") ||
         row.starts_with("tpu.transpose") || row.starts_with("tpu.reduce_index");
}

/// Ops of a stretch, by how many ends of phases are before them.
class Phases {
 public:
  Phases(const Program& program, const std::vector<const UnitOp*>& ops) {
    for (const UnitOp* op : ops) {
      std::size_t phase = 0;
      for (const int v : op->reads) {
        if (const auto it = after_.find(v); it != after_.end()) phase = std::max(phase, it->second);
      }
      const bool ends = std::ranges::any_of(op->rows, [&](const auto& row) {
        return ends_phase(program.unit_rows[static_cast<std::size_t>(row.first)]);
      });
      for (const int v : op->makes) after_[v] = phase + (ends ? 1 : 0);
      of_.push_back(phase);
      count_ = std::max(count_, phase + 1);
    }
  }
  std::size_t count() const { return count_; }
  std::size_t of(std::size_t op) const { return of_[op]; }

 private:
  std::unordered_map<int, std::size_t> after_;
  std::vector<std::size_t> of_;
  std::size_t count_ = 0;
};

/// Slots of each unit in a phase, and the cycles of all together.
struct UnitWork {
  std::array<double, kCoreUnits> slots{};
  std::array<double, kCoreUnits> weight{};  ///< cycles of a slot
  double cycles = 0;

  void add(const UnitCost& cost, std::int64_t times) {
    for (std::size_t u = 0; u < kCoreUnits; ++u)
      slots[u] += static_cast<double>(times) * cost.slots[u];
  }
  void close(const UnitCosts& costs) {
    constexpr auto kMatrix = static_cast<std::size_t>(CoreUnit::mxu);
    std::size_t most = 1;
    const auto takes = [&](std::size_t u) {
      return costs.capacity[u] > 0 ? slots[u] / costs.capacity[u] : 0;
    };
    for (std::size_t u = 1; u < kCoreUnits; ++u) {
      if (takes(u) > takes(most)) most = u;
    }
    const bool products = takes(kMatrix) > takes(most);
    for (std::size_t u = 0; u < kCoreUnits; ++u) {
      if (costs.capacity[u] <= 0) continue;
      const double factor = u == kMatrix ? (products ? 1 : costs.product)
                            : u == most  ? (products ? costs.product : 1)
                                         : costs.rest;
      weight[u] = factor / costs.capacity[u];
      cycles += weight[u] * slots[u];
    }
  }
  double share(const UnitCost& cost, std::int64_t times) const {
    double sum = 0;
    for (std::size_t u = 0; u < kCoreUnits; ++u)
      sum += static_cast<double>(times) * cost.slots[u] * weight[u];
    return sum;
  }
};

/// The chain of operations that takes longest, each after what it reads.
class Chain {
 public:
  /// The next op of the stretch.
  void add(const UnitOp& op, double latency) {
    Link link{latency, latency, -1, op.location};
    for (const int v : op.reads) {
      const auto it = made_by_.find(v);
      if (it == made_by_.end()) continue;
      const double done = links_[static_cast<std::size_t>(it->second)].done;
      if (link.after >= 0 && done + latency <= link.done) continue;
      link.done = done + latency;
      link.after = it->second;
    }
    const int here = static_cast<int>(links_.size());
    for (const int v : op.makes) made_by_[v] = here;
    if (last_ < 0 || link.done > links_[static_cast<std::size_t>(last_)].done) last_ = here;
    links_.push_back(link);
  }
  double cycles() const { return last_ < 0 ? 0 : links_[static_cast<std::size_t>(last_)].done; }
  /// Calls f(location, latency) of each operation in it.
  template <class F>
  void for_each(F&& f) const {
    for (int i = last_; i >= 0; i = links_[static_cast<std::size_t>(i)].after)
      f(links_[static_cast<std::size_t>(i)].location, links_[static_cast<std::size_t>(i)].latency);
  }

 private:
  struct Link {
    double latency;
    double done;  ///< when its results are there
    int after;    ///< the one that it waits for longest; -1: none
    int location;
  };
  std::vector<Link> links_;
  std::unordered_map<int, int> made_by_;
  int last_ = -1;
};

}  // namespace

const UnitCosts* unit_costs(const std::string& chip) {
  static const std::map<std::string, UnitCosts> all = [] {
    std::map<std::string, UnitCosts> read_ones;
    for (const EmbeddedUnitCosts& e : embedded_unit_costs()) {
      UnitCosts c = read(e.json);
      const std::string name = c.chip;
      read_ones.emplace(name, std::move(c));
    }
    return read_ones;
  }();
  const auto it = all.find(chip);
  return it == all.end() ? nullptr : &it->second;
}

CountedCode counted(const Program& program, const Code& code, const UnitCosts& costs) {
  std::vector<const UnitCost*> rows;
  CountedCode c;
  for (const std::string& row : program.unit_rows) {
    const auto it = costs.rows.find(row);
    rows.push_back(it == costs.rows.end() ? nullptr : &it->second);
    if (it == costs.rows.end()) c.unmeasured.push_back(row);
  }
  c.at.resize(code.steps.size());
  for (const Stretch& s : stretches(code)) {
    if (s.begin >= c.at.size()) continue;
    const Phases phases(program, s.ops);
    std::vector<UnitWork> works(phases.count());
    Chain chain;
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      double latency = 0;
      for (const auto& [row, times] : s.ops[i]->rows) {
        const UnitCost* cost = rows[static_cast<std::size_t>(row)];
        if (cost == nullptr) continue;
        latency += cost->latency;
        works[phases.of(i)].add(*cost, times);
      }
      chain.add(*s.ops[i], latency);
    }
    std::array<double, kCoreUnits> slots{};
    double of_units = 0;
    for (UnitWork& w : works) {
      w.close(costs);
      of_units += w.cycles;
      for (std::size_t u = 0; u < kCoreUnits; ++u) slots[u] += w.slots[u];
    }
    double cycles = of_units + chain.cycles() + (s.branches ? costs.jump : 0);
    if (!s.ops.empty()) cycles += costs.block;
    CoreUse& use = c.at[s.begin];
    use.cycles = std::llround(cycles);
    for (std::size_t u = 0; u < kCoreUnits; ++u) use.slots[u] = std::llround(slots[u]);
    if (use.cycles <= 0) continue;

    std::map<int, double> by_location;
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      double& share = by_location[s.ops[i]->location];
      for (const auto& [row, times] : s.ops[i]->rows) {
        const UnitCost* cost = rows[static_cast<std::size_t>(row)];
        if (cost != nullptr) share += works[phases.of(i)].share(*cost, times);
      }
    }
    chain.for_each([&](int location, double latency) { by_location[location] += latency; });
    if (s.branches) by_location[s.branch_location] += costs.jump;
    if (!s.ops.empty()) by_location[s.ops.front()->location] += costs.block;
    const double whole = static_cast<double>(use.cycles) / cycles;
    for (const auto& [location, share] : by_location) {
      const Location& at = program.locations[static_cast<std::size_t>(location)];
      if (share > 0) c.lines.push_back({s.begin, {at.file.c_str(), at.line}, whole * share});
    }
  }
  return c;
}

namespace {

/// Of windows that the pipeline brings: how many, how many of them move, the dims of those, what
/// their index maps load and do besides.
struct Windows {
  std::int64_t all = 0;
  std::int64_t moving = 0;
  std::int64_t dims = 0;
  std::int64_t map_loads = 0;
  std::int64_t map_ops = 0;
};

Windows windows_of(const Program& program) {
  Windows found;
  for (const Window& w : program.operands) {
    if (w.any || w.smem || w.semaphores) continue;
    ++found.all;
    if (w.whole || std::ranges::count(w.uses, true) == 0) continue;
    ++found.moving;
    found.dims += static_cast<std::int64_t>(w.bounds.size());
    for (const UnitOp& op : w.transform.units) {
      for (const auto& [row, times] : op.rows) {
        const bool loads = program.unit_rows[static_cast<std::size_t>(row)] == "memref.load";
        (loads ? found.map_loads : found.map_ops) += times;
      }
    }
  }
  return found;
}

}  // namespace

PipelineCycles pipeline_cycles(const Program& program, std::int64_t steps, const UnitCosts& costs) {
  const Windows w = windows_of(program);
  const auto times = [](std::int64_t n, double each) { return static_cast<double>(n) * each; };
  if (steps <= 1) return {std::llround(costs.launch + times(w.all, costs.operand)), 0};
  const double step = costs.step + times(std::ssize(program.grid), costs.grid) +
                      times(w.moving, costs.window) + times(w.dims, costs.dim) +
                      times(w.map_loads, costs.map) + times(w.map_ops, costs.map_op);
  return {std::llround(costs.launch + 2 * step), std::llround(step)};
}

UnitCosts::Interval interval_of(const Program& program, std::int64_t steps,
                                const UnitCosts& costs) {
  return steps <= 1 && stretches(program.main).size() == 1 ? costs.stretch : costs.module;
}

std::string units_json(const Program& program) {
  Json blocks = Json::array();
  for (const Stretch& s : stretches(program.main)) {
    Json ops = Json::array();
    for (const UnitOp* op : s.ops) {
      Json rows = Json::array();
      for (const auto& [row, times] : op->rows) rows.push_back({row, times});
      ops.push_back({{"reads", op->reads}, {"makes", op->makes}, {"rows", rows}});
    }
    blocks.push_back({{"step", s.begin}, {"branches", s.branches}, {"ops", ops}});
  }
  const Windows w = windows_of(program);
  return Json{{"kernel", program.name}, {"grid", program.grid},
              {"windows", w.all},       {"moving", w.moving},
              {"dims", w.dims},         {"map_loads", w.map_loads},
              {"map_ops", w.map_ops},   {"rows", program.unit_rows},
              {"blocks", blocks}}
             .dump() +
         "\n";
}

}  // namespace tessera::program
