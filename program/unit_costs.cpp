#include "program/unit_costs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "memory_model/file.hpp"
#include "program/embedded_unit_costs.hpp"
#include "program/unit_carried.hpp"
#include "program/unit_choices.hpp"
#include "program/unit_few_rows.hpp"
#include "program/unit_phases.hpp"
#include "program/unit_placement.hpp"
#include "program/unit_pressure.hpp"
#include "program/unit_schedule.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::program {

namespace {

using Json = nlohmann::json;

/// What is hardest to predict of what a program does.
constexpr std::array kKinds{"copies", "products", "moves", "plain"};

UnitCosts read(std::string_view text) {
  const Json json = Json::parse(text);
  UnitCosts c;
  c.chip = json.at("chip");
  c.compiler = json.at("compiler");
  c.knows_narrow_masks = json.at("knows_narrow_masks");
  const auto slots = [](const Json& from) {
    std::array<double, kCoreUnits> all{};
    for (std::size_t u = 0; u < kCoreUnits; ++u) all[u] = from.value(kCoreUnitNames[u], 0.);
    return all;
  };
  c.capacity = slots(json.at("capacity"));
  for (const auto& [row, cost] : json.at("rows").items()) {
    UnitCost& of = c.rows[row];
    of = {cost.value("latency", 0.),  slots(cost),           cost.value("alone", 0.),
          cost.value("multiply", 0.), cost.value("add", 0.), {}};
    if (cost.contains("operations")) of.operations = cost.at("operations");
  }
  const Json& fixed = json.at("cycles");
  c.launch = fixed.at("launch");
  c.semaphore = fixed.at("semaphore");
  c.operand = fixed.at("operand");
  c.step = fixed.at("step");
  c.window = fixed.at("window");
  c.check = fixed.at("check");
  c.skip = fixed.at("skip");
  c.still = fixed.at("still");
  c.dim = fixed.at("dim");
  c.index = fixed.at("index");
  c.carried = fixed.at("carried");
  c.kept = fixed.at("kept");
  c.map = fixed.at("map");
  c.map_op = fixed.at("map_op");
  c.map_again = fixed.at("map_again");
  c.chosen = fixed.at("chosen");
  c.ragged = fixed.at("ragged");
  c.block = fixed.at("block");
  c.jump = fixed.at("jump");
  c.product = fixed.at("product");
  c.rest = fixed.at("rest");
  c.spill = fixed.at("spill");
  const Json& schedule = json.at("schedule");
  UnitSchedules& to = c.schedules.emplace();
  to.eup = schedule.at("eup");
  to.eup_every = schedule.at("eup_every");
  to.reduce = schedule.at("reduce");
  to.permute = schedule.at("permute");
  to.push_words = schedule.value("push_words", to.push_words);
  to.push_words_turned = schedule.value("push_words_turned", to.push_words_turned);
  to.memory = schedule.at("memory");
  for (const auto& [of, kept] : json.at("held_out").items())
    c.held_out[of] = {kept.at("least"), kept.at("most")};
  for (const auto& [of, kept] : json.at("whole").items())
    c.whole[of] = {kept.at("least"), kept.at("most")};
  for (const char* const kind : kKinds) {
    for (const char* const size : {"stretch ", "module "})
      for (const char* const interval : {"held_out", "whole"})
        json.at(interval).at(std::string(size) + kind);
  }
  return c;
}

/// Somebody's table, which may be of another version of this format, or none at all.
UnitCosts read_tried(const std::string& file) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 20;
  const std::string is = "TESSERA_UNIT_COSTS=" + file;
  try {
    UnitCosts c = read(read_file(file, kMostBytes));
    c.tried = file;
    return c;
  } catch (const FileError& e) {
    throw InputError("bad-unit-costs", is + " cannot be read: " + e.what(),
                     "unset TESSERA_UNIT_COSTS for tessera's own costs");
  } catch (const Json::exception& e) {
    const std::string text = e.what();
    throw InputError(
        "bad-unit-costs",
        is + " is no table of costs of this tessera: " + text.substr(text.find("] ") + 2),
        "change a copy of a table of this version (program/unit_costs), or make one with "
        "tpu_compiler/unit_costs.py fit; unset TESSERA_UNIT_COSTS for tessera's own");
  }
}

/// First steps of the stretches that run without a branch, the first of all among them.
std::set<std::size_t> beginnings(const Code& code, const std::vector<const Choice*>& both_ways) {
  std::set<std::size_t> first{0};
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    const auto covers = [&](const Choice* c) { return i >= c->begin && i < c->end; };
    const StepNote& note = code.notes[i];
    if (!note.target || note.decided || std::ranges::any_of(both_ways, covers)) continue;
    first.insert(i + 1);
    first.insert(*note.target);
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

std::vector<Stretch> stretches(const Code& code, bool knows_narrow_masks,
                               const std::vector<const Choice*>& both_ways) {
  const std::set<std::size_t> first = beginnings(code, both_ways);
  std::vector<Stretch> all;
  for (const std::size_t begin : first) {
    if (begin < code.steps.size() || begin == 0) all.push_back({begin, false, {}, 0});
  }
  const auto of = [&](std::size_t step) -> Stretch& {
    const auto next = std::ranges::upper_bound(all, step, {}, &Stretch::begin);
    return *std::prev(next);
  };
  auto choice = both_ways.begin();
  const auto select_before = [&](std::size_t step) {
    for (; choice != both_ways.end() && (*choice)->end <= step; ++choice)
      for (const UnitOp& op : (*choice)->selects) of((*choice)->begin).ops.push_back(&op);
  };
  for (const UnitOp& op : ops_of(code, knows_narrow_masks)) {
    select_before(op.step);
    of(op.step).ops.push_back(&op);
  }
  select_before(code.steps.size());
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    const auto covers = [&](const Choice* c) { return i >= c->begin && i < c->end; };
    const StepNote& note = code.notes[i];
    if (!note.target || note.decided || std::ranges::any_of(both_ways, covers)) continue;
    of(i).branches = true;
    of(i).branch_location = code.steps[i].location;
  }
  return all;
}

/// Of a stretch's products the one that both matrix units share: of an odd number of them the last
/// that is one tile of weights. -1: none.
std::ptrdiff_t shared_product(const Program& program, const std::vector<const UnitOp*>& ops) {
  const auto times = [&](const UnitOp& op, const auto& is) {
    std::int64_t sum = 0;
    for (const auto& [row, n] : op.rows)
      sum += is(program.unit_rows[static_cast<std::size_t>(row)]) ? n : 0;
    return sum;
  };
  const auto begins = [](std::string_view prefix) {
    return [prefix](const std::string& row) { return row.starts_with(prefix); };
  };
  const auto pushed = [](const std::string& row) { return row.find(" wide") != row.npos; };
  const auto weights = begins("tpu.matmul weights f32 highest");
  std::int64_t products = 0;
  std::ptrdiff_t last = -1;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (times(*ops[i], begins("tpu.matmul sum")) == 0) continue;
    ++products;
    // What is pushed in pairs is half as much.
    const auto is_pushed = [&](const std::string& row) { return weights(row) && pushed(row); };
    const std::int64_t all = times(*ops[i], weights);
    if (all > 0 && all == 2 * times(*ops[i], is_pushed)) last = static_cast<std::ptrdiff_t>(i);
  }
  return products % 2 == 1 ? last : -1;
}

/// Of a product of tiles of bf16, or of f32 as bf16: how many, and registers of each to push.
struct TilesOfWeights {
  std::int64_t tiles = 0;
  std::int64_t registers = 0;
  bool of_words = false;
};
TilesOfWeights tiles_of_weights(const Program& program, const UnitOp& op) {
  TilesOfWeights found;
  std::int64_t pairs = 0;
  for (const auto& [row, n] : op.rows) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
    for (const std::string kind : {" bf16", " f32"}) {
      const std::string weights = "tpu.matmul weights" + kind;
      if (name == weights || name == weights + " transposed")
        found.tiles += n;
      else if (name == weights + " wide" || name == weights + " wide transposed")
        pairs += n;
      else
        continue;
      found.of_words = kind == " f32";
    }
  }
  const std::int64_t most = found.of_words ? 16 : 8;  // of 8 rows, or of 16
  if (found.tiles > 0)
    found.registers = std::min(most, (pairs + (found.tiles + 1) / 2 - 1) / ((found.tiles + 1) / 2));
  return found;
}

bool multiplies_matrices(const Program& program, const UnitOp& op) {
  return std::ranges::any_of(op.rows, [&](const auto& row) {
    return program.unit_rows[static_cast<std::size_t>(row.first)].starts_with("tpu.matmul");
  });
}

/// Matrix units that a phase's products take, of products beside one another: one for each tile, or
/// as many as a stretch has for each of all its tiles. What one product of one tile reads comes
/// register after register, so that its time lies beside what makes them: it is as if all were its.
double units_of_tiles(std::int64_t of_phase, std::int64_t of_stretch, double units) {
  if (of_phase < 2 || of_stretch < 1) return units;
  const double each = std::max(1., std::floor(units / static_cast<double>(of_stretch)));
  return std::min(units, each * static_cast<double>(of_phase));
}

/// Slots of each unit in a phase, and the cycles of all together.
struct UnitWork {
  std::array<double, kCoreUnits> slots{};
  std::array<double, kCoreUnits> weight{};  ///< cycles of a slot
  double multiply = 0;
  double add_or_shift = 0;
  double weight_of_multiply = 0;
  double weight_of_add = 0;
  double cycles = 0;
  MatrixUnits passes{};  ///< of MXU's slots, where it matters on which unit they are

  void add_passes(const UnitCost& cost, std::int64_t times, const MatrixUnits& on) {
    const double all =
        static_cast<double>(times) * cost.slots[static_cast<std::size_t>(CoreUnit::mxu)];
    for (std::size_t u = 0; u < passes.size(); ++u) passes[u] += all * on[u];
  }
  void add(const UnitCost& cost, std::int64_t n, double share = 1) {
    const double times = share * static_cast<double>(n);
    cycles += times * cost.alone;
    for (std::size_t u = 0; u < kCoreUnits; ++u) slots[u] += times * cost.slots[u];
    multiply += times * cost.multiply;
    add_or_shift += times * cost.add;
  }
  /// Stores and loads of registers that do not fit, and of masks, which become vectors for that.
  void spill(const std::array<double, kCoreUnits>& of) {
    for (std::size_t u = 0; u < kCoreUnits; ++u) slots[u] += of[u];
  }
  double share_of_spill(const std::array<double, kCoreUnits>& of) const {
    double sum = 0;
    for (std::size_t u = 0; u < kCoreUnits; ++u) sum += of[u] * weight[u];
    return sum;
  }
  /// `matrix_units`: of these so many have something to do.
  void close(const UnitCosts& costs, double matrix_units) {
    constexpr auto kMatrix = static_cast<std::size_t>(CoreUnit::mxu);
    constexpr auto kVector = static_cast<std::size_t>(CoreUnit::valu);
    std::size_t most = 1;
    // The matrix unit that has more passes is done last.
    const double uneven = std::abs(passes[0] - passes[1]);
    const auto units = [&](std::size_t u) {
      return u == kMatrix ? matrix_units : costs.capacity[u];
    };
    const auto by_slots = [&](std::size_t u) {
      if (costs.capacity[u] <= 0) return 0.;
      return (slots[u] + (u == kMatrix ? uneven : 0)) / units(u);
    };
    const double by_place = std::max(multiply, add_or_shift);
    const bool one_place = by_place > by_slots(kVector);
    const auto takes = [&](std::size_t u) {
      return u == kVector && one_place ? by_place : by_slots(u);
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
      cycles += factor * takes(u);
      if (u == kVector && one_place)
        (multiply > add_or_shift ? weight_of_multiply : weight_of_add) = factor;
      else
        weight[u] = factor / units(u);
      if (u == kMatrix && slots[u] > 0) weight[u] *= 1 + uneven / slots[u];
    }
  }
  double share(const UnitCost& cost, std::int64_t times) const {
    double sum = cost.alone + weight_of_multiply * cost.multiply + weight_of_add * cost.add;
    for (std::size_t u = 0; u < kCoreUnits; ++u) sum += cost.slots[u] * weight[u];
    return static_cast<double>(times) * sum;
  }
};

/// Nothing that follows begins before it, nothing before it is left.
bool waits(const std::string& row) { return row == "tpu.wait_dma2" || row == "tpu.sem_wait"; }

/// Of each op what it shares units with: ops of its phase between the same waits.
std::vector<std::size_t> parts_by_waits(const Program& program,
                                        const std::vector<const UnitOp*>& ops,
                                        const Phases& phases) {
  std::vector<std::size_t> parts;
  std::size_t before = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool is_wait = std::ranges::any_of(ops[i]->rows, [&](const auto& row) {
      return waits(program.unit_rows[static_cast<std::size_t>(row.first)]);
    });
    if (is_wait) before += phases.count();
    parts.push_back(before + phases.of(i));
  }
  return parts;
}

/// Of an op that follows from products, what of its work runs beside them, and where that is.
struct Beside {
  std::size_t part = 0;
  double share = 0;
};

/// Each register of a product is popped while others pass, and worked on: all that is behind the
/// first ones. `products_take`: bundles, by part.
std::vector<Beside> beside_products(const std::vector<std::size_t>& parts, const Phases& phases,
                                    const std::vector<double>& products_take) {
  constexpr double kFirst = 100;  // bundles in which weights are pushed, and until a pop
  std::vector<Beside> found;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t part = parts[i] - phases.of(i) + phases.beside(i);
    const bool hides = part != parts[i] && products_take[part] > kFirst;
    found.push_back({part, hides ? 1 - kFirst / products_take[part] : 0});
  }
  return found;
}

/// The chain of operations that takes longest, each after what it reads and after the last wait.
class Chain {
 public:
  /// The next op of the stretch.
  void add(const UnitOp& op, double latency, bool is_wait) {
    Link link{latency, latency, -1};
    const auto follow = [&](int before) {
      if (before < 0) return;
      const double done = links_[static_cast<std::size_t>(before)].done;
      if (link.after >= 0 && done + latency <= link.done) return;
      link.done = done + latency;
      link.after = before;
    };
    follow(is_wait ? last_ : wait_);
    for (const int v : op.reads) {
      const auto it = made_by_.find(v);
      if (it != made_by_.end()) follow(it->second);
    }
    const int here = static_cast<int>(links_.size());
    if (is_wait) wait_ = here;
    for (const int v : op.makes) made_by_[v] = here;
    if (last_ < 0 || link.done > links_[static_cast<std::size_t>(last_)].done) last_ = here;
    links_.push_back(link);
  }
  /// Calls f(number, latency) of each operation in it.
  template <class F>
  void for_each(F&& f) const {
    for (int i = last_; i >= 0; i = links_[static_cast<std::size_t>(i)].after)
      f(static_cast<std::size_t>(i), links_[static_cast<std::size_t>(i)].latency);
  }

 private:
  struct Link {
    double latency;
    double done;  ///< when its results are there
    int after;    ///< the one that it waits for longest; -1: none
  };
  std::vector<Link> links_;
  std::unordered_map<int, int> made_by_;
  int last_ = -1;
  int wait_ = -1;
};

}  // namespace

const UnitCosts* unit_costs(const std::string& chip) {
  static const std::map<std::string, UnitCosts> all = [] {
    std::map<std::string, UnitCosts> read_ones;
    if (const char* const tried = std::getenv("TESSERA_UNIT_COSTS")) {
      UnitCosts c = read_tried(tried);
      const std::string name = c.chip;
      read_ones.emplace(name, std::move(c));
    }
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

namespace {

/// Of a stretch what is done behind one wait and before the next one.
struct BetweenWaits {
  std::size_t step = 0;  ///< where it begins
  std::size_t ops = 0;
  std::array<double, kCoreUnits> slots{};
  std::map<int, double> lines;  ///< cycles by location
};

/// Of an op what a schedule of registers begins with: rows and times, or what its matrix unit
/// takes.
struct Scheduled {
  std::vector<std::pair<int, std::int64_t>> rows;
  const UnitCost* put = nullptr;  ///< and so many times
  std::int64_t times = 0;
  double product = 0;
  std::optional<UnitSchedule::Product> tiles;  ///< instead
  double alone = 0;
  bool copies = false;  ///< or waits for what does
};

/// Where a core has four matrix units, and products of bf16 in a stretch have so many tiles.
std::optional<UnitSchedule::Product> product_of_tiles(const Program& program, const UnitOp& op,
                                                      const std::vector<const UnitCost*>& rows,
                                                      std::int64_t all_tiles,
                                                      const UnitCosts& costs) {
  constexpr auto kMatrix = static_cast<std::size_t>(CoreUnit::mxu);
  constexpr std::int64_t kUnits = 4;
  const TilesOfWeights of = tiles_of_weights(program, op);
  if (!costs.schedules || costs.capacity[kMatrix] != kUnits) return std::nullopt;
  if (all_tiles == 0 || of.tiles == 0) return std::nullopt;
  std::int64_t passes = 0;
  std::int64_t sums = 0;
  double slots = 0;
  bool turned = false;
  for (const auto& [row, n] : op.rows) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
    const UnitCost* cost = rows[static_cast<std::size_t>(row)];
    const double mxu = cost == nullptr ? 0 : cost->slots[kMatrix] * static_cast<double>(n);
    const std::string kind = of.of_words ? " f32" : " bf16";
    turned = turned || name == "tpu.matmul weights" + kind + " transposed";
    if (name == "tpu.matmul pass" + kind) passes += n;
    if (name == "tpu.matmul sum" + kind) sums += n;
    if (!name.starts_with("tpu.matmul weights")) slots += mxu;
  }
  if (passes == 0 || sums == 0) return std::nullopt;
  // Bundles from one push to the next of the same unit, by listings.
  const double plain = of.of_words ? costs.schedules->push_words : 4;
  const double as_turned = of.of_words ? costs.schedules->push_words_turned : 8;
  return UnitSchedule::Product{.tiles = of.tiles,
                               .deep = passes / sums,
                               .results = sums,
                               .pushed = of.registers,
                               .units = std::max<std::int64_t>(1, kUnits / all_tiles),
                               .push = turned ? as_turned : plain,
                               .pass = slots / static_cast<double>(passes)};
}

/// Where a stretch does little between two waits, what a schedule of its registers takes; the more
/// it does the less so. Copies are scalars' work.
template <class WaitsBefore>
void schedule_few(const Program& program, const std::vector<const UnitCost*>& rows,
                  const std::vector<const UnitOp*>& ops, const std::vector<Scheduled>& scheduled,
                  const WaitsBefore& waits_before, const UnitCosts& costs,
                  std::vector<BetweenWaits>& between, std::size_t phases_of_products) {
  if (!costs.schedules) return;
  // Bundles from which on units' slots decide too, and alone; of products of one pass after one
  // another each phase is little code, also where all are much.
  constexpr double kOfPhase = 110;
  const double most = std::max(300., kOfPhase * static_cast<double>(phases_of_products));
  const double least = most / 3;
  for (std::size_t b = 0; b < between.size(); ++b) {
    double by_slots = 0;
    for (const auto& [location, share] : between[b].lines) by_slots += share;
    if (by_slots >= most || by_slots <= 0) continue;
    UnitSchedule schedule(costs);
    double alone = 0;
    bool copies = false;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (waits_before(i) != b) continue;
      const Scheduled& op = scheduled[i];
      copies = copies || op.copies;
      alone += op.alone;
      if (op.tiles) {
        for (const auto& [row, times] : op.rows)
          schedule.add(program.unit_rows[static_cast<std::size_t>(row)],
                       *rows[static_cast<std::size_t>(row)], times);
        schedule.multiply(*ops[i], *op.tiles);
        continue;
      }
      schedule.add_serial(std::llround(op.product));
      for (const auto& [row, times] : op.rows) {
        const auto r = static_cast<std::size_t>(row);
        if (rows[r] != nullptr) schedule.add(program.unit_rows[r], *rows[r], times);
      }
      if (op.put != nullptr) schedule.add("few rows", *op.put, op.times);
      schedule.end(*ops[i]);
    }
    const std::optional<std::int64_t> bundles = copies ? std::nullopt : schedule.bundles();
    if (!bundles) continue;
    const double part = std::clamp((most - by_slots) / (most - least), 0., 1.);
    const double now = by_slots + part * (static_cast<double>(*bundles) + alone - by_slots);
    for (auto& [location, share] : between[b].lines) share *= now / by_slots;
  }
}

/// Cycles are whole numbers, and of a stretch as many as of all together.
void note_between_waits(const Program& program, const std::vector<BetweenWaits>& all,
                        CountedCode& c) {
  double cycles = 0;
  for (const BetweenWaits& b : all) {
    if (b.lines.empty()) continue;
    const double before = cycles;
    for (const auto& [location, share] : b.lines) cycles += share;
    const std::int64_t rounded = std::llround(cycles) - std::llround(before);
    CoreUse& use = c.at[b.step];
    use.cycles += rounded;
    for (std::size_t u = 0; u < kCoreUnits; ++u) use.slots[u] += std::llround(b.slots[u]);
    if (rounded <= 0) continue;
    const double whole = static_cast<double>(rounded) / (cycles - before);
    for (const auto& [location, share] : b.lines) {
      const Location& at = program.locations[static_cast<std::size_t>(location)];
      if (share > 0) c.lines.push_back({b.step, {at.file.c_str(), at.line}, whole * share});
    }
  }
}

}  // namespace

CountedCode counted(const Program& program, const Code& code, const UnitCosts& costs,
                    const WindowArrays& arrays) {
  std::vector<const UnitCost*> rows;
  std::vector<const UnitCost*> rows_of_shared;
  CountedCode c;
  for (const std::string& row : program.unit_rows) {
    const auto it = costs.rows.find(row);
    rows.push_back(it == costs.rows.end() ? nullptr : &it->second);
    if (it == costs.rows.end()) c.unmeasured.push_back(row);
    const auto shared = costs.rows.find(row + " shared");
    rows_of_shared.push_back(shared == costs.rows.end() ? rows.back() : &shared->second);
  }
  c.at.resize(code.steps.size());
  const std::vector<const Choice*> both_ways = taken_both_ways(program, code, costs);
  // What is behind a wait that may be passed over is done where both ways meet.
  const auto always_run = [&](std::size_t step) {
    for (const Choice* way : both_ways)
      if (step > way->begin && step < way->end) step = way->end;
    return step;
  };
  for (const Stretch& s : stretches(code, costs.knows_narrow_masks, both_ways)) {
    if (s.begin >= c.at.size()) continue;
    const Phases phases(program, s.ops);
    const std::ptrdiff_t shared = shared_product(program, s.ops);
    const auto cost_of = [&](std::size_t op, int row) {
      const auto& of = static_cast<std::ptrdiff_t>(op) == shared ? rows_of_shared : rows;
      return of[static_cast<std::size_t>(row)];
    };
    const FewRows few(program, s.ops, arrays, costs);
    // Of each phase, before and behind each wait.
    const std::vector<std::size_t> part = parts_by_waits(program, s.ops, phases);
    std::vector<UnitWork> works(part.empty() ? 1 : std::ranges::max(part) + 1);
    const Pressure pressure(program, s.ops, phases, pushes_of(s.ops, rows, costs));
    const auto spilled = [&](std::size_t op) {
      // By listings a mask is made a vector, which is compared again two to three times.
      constexpr double kMaskOps = 3.5;
      constexpr double kMaskLoads = 2.5;
      const Pressure::TooMany& n = pressure.too_many(op);
      const double vectors =
          costs.spill * static_cast<double>(n.behind) + static_cast<double>(n.at_once);
      const auto masks = static_cast<double>(n.masks);
      std::array<double, kCoreUnits> of{};
      of[static_cast<std::size_t>(CoreUnit::store)] = vectors + masks;
      of[static_cast<std::size_t>(CoreUnit::load)] = vectors + kMaskLoads * masks;
      of[static_cast<std::size_t>(CoreUnit::valu)] = kMaskOps * masks;
      return of;
    };
    constexpr auto kMatrix = static_cast<std::size_t>(CoreUnit::mxu);
    const double matrix_units = costs.capacity[kMatrix];
    const bool two_units = matrix_units == 2;
    const std::vector<MatrixUnits> units =
        two_units ? placed(program, s.ops) : std::vector<MatrixUnits>{};
    Chain chain;
    std::int64_t products = 0;
    std::int64_t all_tiles = 0;
    std::vector<std::int64_t> tiles_of(works.size());
    bool all_counted = true;  // products of other types have none
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      const std::int64_t tiles = tiles_of_weights(program, *s.ops[i]).tiles;
      products += tiles > 0 ? 1 : 0;
      all_tiles += tiles;
      tiles_of[part[i]] += tiles;
      all_counted = all_counted && (tiles > 0 || !multiplies_matrices(program, *s.ops[i]));
    }
    if (products < 2) all_tiles = 0;
    std::vector<Scheduled> scheduled(s.ops.size());
    std::vector<double> products_take(works.size());
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      for (const auto& [row, times] : few.rows(*s.ops[i]))
        if (const UnitCost* cost = cost_of(i, row))
          products_take[part[i]] += cost->slots[kMatrix] * static_cast<double>(times) /
                                    std::max(1., costs.capacity[kMatrix]);
    }
    const std::vector<Beside> beside = beside_products(part, phases, products_take);
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      works[part[i]].spill(spilled(i));
      double latency = 0;
      bool is_wait = false;
      bool multiplies = false;
      UnitWork own;
      if (const auto& [put, n] = few.together(*s.ops[i]); put != nullptr) {
        works[part[i]].add(*put, n);
        latency += put->latency;
      }
      for (const auto& [row, times] : few.rows(*s.ops[i])) {
        const UnitCost* cost = cost_of(i, row);
        const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
        is_wait = is_wait || waits(name);
        scheduled[i].copies = scheduled[i].copies || waits(name) || name == "tpu.enqueue_dma";
        if (cost == nullptr) continue;
        latency += cost->latency;
        works[part[i]].add(*cost, times, 1 - beside[i].share);
        works[beside[i].part].add(*cost, times, beside[i].share);
        multiplies = multiplies || name.starts_with("tpu.matmul");
        own.add(*cost, times);
        if (two_units && name.starts_with("tpu.matmul pass"))
          for (UnitWork* w : {&works[part[i]], &own}) w->add_passes(*cost, times, units[i]);
        scheduled[i].alone += cost->alone * static_cast<double>(times);
      }
      if (multiplies) {
        own.close(costs, matrix_units);
        scheduled[i].product = own.cycles + latency;
        scheduled[i].tiles = product_of_tiles(program, *s.ops[i], rows, all_tiles, costs);
        if (scheduled[i].tiles) {
          for (const auto& [row, times] : s.ops[i]->rows)
            if (const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
                cost_of(i, row) != nullptr && (name == "tpu.matmul left bf16 transposed" ||
                                               name == "tpu.matmul left f32 transposed"))
              scheduled[i].rows.emplace_back(row, times);
        }
      } else {
        scheduled[i].rows = few.rows(*s.ops[i]);
        std::tie(scheduled[i].put, scheduled[i].times) = few.together(*s.ops[i]);
      }
      chain.add(*s.ops[i], latency, is_wait);
    }
    for (std::size_t p = 0; p < works.size(); ++p)
      works[p].close(costs, all_counted && !two_units
                                ? units_of_tiles(tiles_of[p], all_tiles, matrix_units)
                                : matrix_units);

    // What lies behind a wait is done there: by that, and by line.
    const std::size_t of_a_wait = std::max<std::size_t>(1, phases.count());
    std::vector<BetweenWaits> between((works.size() - 1) / of_a_wait + 1);
    between[0].step = s.begin;
    const auto waits_before = [&](std::size_t op) { return part[op] / of_a_wait; };
    for (std::size_t p = 0; p < works.size(); ++p) {
      for (std::size_t u = 0; u < kCoreUnits; ++u)
        between[p / of_a_wait].slots[u] += works[p].slots[u];
    }
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      BetweenWaits& b = between[waits_before(i)];
      if (b.ops++ < 2 && waits_before(i) > 0)
        b.step = always_run(s.ops[i]->step);  // the first one behind it
      double share = works[part[i]].share_of_spill(spilled(i));
      if (const auto& [put, n] = few.together(*s.ops[i]); put != nullptr)
        share += works[part[i]].share(*put, n);
      for (const auto& [row, times] : few.rows(*s.ops[i])) {
        const UnitCost* cost = cost_of(i, row);
        if (cost == nullptr) continue;
        share += (1 - beside[i].share) * works[part[i]].share(*cost, times) +
                 beside[i].share * works[beside[i].part].share(*cost, times);
      }
      b.lines[s.ops[i]->location] += share;
    }
    chain.for_each([&](std::size_t op, double latency) {
      between[waits_before(op)].lines[s.ops[op]->location] += latency;
    });
    schedule_few(program, rows, s.ops, scheduled, waits_before, costs, between,
                 all_counted && products > 1 ? phases.count() : 0);
    if (s.branches) between.back().lines[s.branch_location] += costs.jump;
    if (!s.ops.empty()) between[0].lines[s.ops.front()->location] += costs.block;
    note_between_waits(program, between, c);
  }
  return c;
}

namespace {

/// Of windows that the pipeline brings: how many, how many of them move, and what the numbers of
/// these are that say where to: of all windows together, those that are the same once.
struct Windows {
  std::int64_t all = 0;
  std::int64_t in_registers = 0;  ///< no others are
  std::int64_t moving = 0;
  /// Of these those whose block ends beyond its array: their copies are branched over where they
  /// stay.
  std::int64_t skipping = 0;
  double copies = 0;          ///< of those at each step
  std::vector<bool> checked;  ///< by operand: where it moves to is
  std::int64_t checks = 0;    ///< of moving ones at each step
  double skipping_checks = 0;
  double ragged = 0;          ///< dims along which these end beyond their arrays
  std::vector<double> rates;  ///< of each operand at how many steps it moves; 0: at none
  std::int64_t still = 0;
  std::int64_t dims = 0;     ///< of the moving ones, those along which they move
  std::int64_t indices = 0;  ///< different ones
  std::int64_t words = 0;    ///< that a turn carries to the next one
  /// Of those read where a word, or a grid's extent at run time, says; no end of an array is in the
  /// way of theirs.
  std::int64_t choices = 0;
  std::vector<bool> chosen;  ///< by operand
  /// By each window anew, and what says where to load once: of more numbers than one each.
  std::int64_t map_loads = 0;
  std::map<std::string, std::int64_t> map_ops;    ///< rows and times
  std::map<std::string, std::int64_t> map_again;  ///< of what follows from loads, by each window
  std::vector<bool> stays;                        ///< by operand
};

/// `of_cores`: the dim of which each core has one step, so that its id says which core it is; -1.
Windows windows_of(const Program& program, const WindowArrays& arrays, int of_cores) {
  Windows found;
  const std::vector<bool>& in_registers = arrays.in_registers;
  found.checked = known_ranges(program);
  found.checked.flip();
  const auto moves_at = [&](std::size_t operand, double rate) {
    ++found.moving;
    found.rates[operand] = rate;
    const std::int64_t beyond = operand < arrays.beyond.size() ? arrays.beyond[operand] : 0;
    if (beyond > 0) {
      ++found.skipping;
      found.copies += rate;
    }
    const std::int64_t ragged = operand < arrays.ragged.size() ? arrays.ragged[operand] : 0;
    found.ragged += rate * static_cast<double>(ragged);
    // How much is copied is no constant where the last block is smaller.
    if (!found.checked[operand] && ragged == 0) return;
    if (beyond > 0)
      found.skipping_checks += rate;
    else
      ++found.checks;
  };
  const auto steps_behind = [&](std::size_t dim) {
    double steps = 1;
    for (std::size_t d = dim; d < program.grid.size(); ++d) {
      const bool shared = std::cmp_equal(d, of_cores);  // each core has one step of it
      steps *= shared ? 1 : static_cast<double>(std::max<std::int64_t>(1, program.grid[d]));
    }
    return steps;
  };
  std::set<int> of_core{of_cores + 1};  // numbers that are the same at each of a core's steps
  std::set<int> made;
  std::set<int> loaded;  ///< what follows from a load
  const auto is_loaded = [&](int number) { return loaded.contains(number); };
  std::set<std::vector<int>> indices;
  found.stays.resize(program.operands.size());
  found.chosen.resize(program.operands.size());
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const Window& w = program.operands[i];
    found.rates.push_back(0);
    if (w.any || w.smem || w.semaphores) continue;
    if (i < in_registers.size() && in_registers[i]) {
      ++found.in_registers;
      continue;
    }
    ++found.all;
    if (w.whole) continue;
    if (w.transform.units.empty()) {  // its map branches
      moves_at(i, 1);
      ++found.indices;
      found.dims += std::ssize(w.bounds);
      continue;
    }
    const auto moves = [&](int number) { return number > 0 && !of_core.contains(number); };
    std::map<int, std::size_t> inner;  // the innermost dim that a number follows from, and one more
    const auto inner_of = [&](int number) -> std::size_t {
      if (const auto it = inner.find(number); it != inner.end()) return it->second;
      const auto dim = static_cast<std::size_t>(std::max(0, number));
      return dim <= program.grid.size() && moves(number) ? dim : 0;
    };
    for (const UnitOp& op : w.transform.units) {
      if (op.makes.empty()) continue;
      std::size_t most = 0;
      for (const int read : op.reads) most = std::max(most, inner_of(read));
      inner.emplace(op.makes[0], most);
    }
    for (const UnitOp& op : w.transform.units)
      if (!op.makes.empty() && std::ranges::none_of(op.reads, moves)) of_core.insert(op.makes[0]);
    const std::vector<int>& index = w.transform.units.back().reads;
    if (std::ranges::none_of(index, moves)) {
      // Of a core's own block each step checks whether it lies in the array, as of one that moves.
      const bool own = std::ranges::any_of(index, [](int number) { return number > 0; });
      if (own)
        moves_at(i, 1 / steps_behind(0));
      else
        ++found.still;
      found.stays[i] = !own;
      continue;
    }
    std::size_t innermost = 0;
    for (const int number : index) innermost = std::max(innermost, inner_of(number));
    const double by_data = i < arrays.moved_by_data.size() ? arrays.moved_by_data[i] : 0;
    moves_at(i, by_data > 0 ? by_data : 1 / steps_behind(innermost));
    found.dims += std::ranges::count_if(index, moves);
    std::set<int> here;  // within a map what is computed twice is computed once
    for (const UnitOp& op : w.transform.units) {
      if (op.makes.empty() || !moves(op.makes[0]) || !here.insert(op.makes[0]).second) continue;
      const auto& [row, times] = op.rows[0];
      const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
      const bool loads = name == "memref.load";
      const bool fresh = made.insert(op.makes[0]).second;
      if (loads || std::ranges::any_of(op.reads, is_loaded)) loaded.insert(op.makes[0]);
      if (loads) {
        found.map_loads += fresh ? times : 1;
        for (std::size_t k = 1; k < op.rows.size(); ++k)
          found.map_again[program.unit_rows[static_cast<std::size_t>(op.rows[k].first)]] +=
              op.rows[k].second;
      } else if (is_loaded(op.makes[0])) {
        found.map_again[name] += times;
      } else if (fresh) {
        found.map_ops[name] += times;
      }
    }
    const auto anywhere = [&](int number) {
      const auto dim = static_cast<std::size_t>(std::max(0, number - 1));
      const bool of_any_extent =
          number > 0 && dim < program.grid.size() && program.grid[dim] == kDynamic;
      return is_loaded(number) || of_any_extent;
    };
    const bool ends_beyond = i < arrays.beyond.size() && arrays.beyond[i] > 0;
    found.chosen[i] = !w.written && !ends_beyond && std::ranges::any_of(index, anywhere);
    if (found.chosen[i]) ++found.choices;
    // The compiler does not know that two loads bring the same.
    if (std::ranges::any_of(index, is_loaded))
      ++found.indices;
    else
      indices.insert(index);
  }
  found.indices += std::ssize(indices);
  std::vector<bool> moving;
  for (const double rate : found.rates) moving.push_back(rate > 0);
  found.words = carried_words(program, moving, found.indices);
  return found;
}

/// The kernel's own.
std::int64_t semaphores_of(const Program& program) {
  std::int64_t all = 0;
  for (const Window& w : program.scratch)
    if (w.semaphores) all += w.type.shape.elems();
  return all;
}

}  // namespace

SharedGrid shared_grid(const Program& program, const std::vector<std::int64_t>& grid, int cores) {
  SharedGrid shared;
  int dims = 0;
  for (std::size_t d = 0; d < grid.size() && cores > 1; ++d) {
    if (!program.parallel[d] || grid[d] <= 1) continue;
    ++dims;
    if (grid[d] % cores != 0) continue;
    shared.of_one_step = grid[d] == cores ? static_cast<int>(d) : -1;
    return shared;
  }
  // A rest for each dim but the first; of one dim that by how many cells there are.
  if (dims > 0) shared.quotients = std::max(1, dims - 1);
  return shared;
}

PipelineCycles pipeline_cycles(const Program& program, std::int64_t steps,
                               const WindowArrays& arrays, const UnitCosts& costs,
                               const SharedGrid& shared) {
  constexpr auto kScalar = static_cast<std::size_t>(CoreUnit::scalar);
  constexpr auto kStore = static_cast<std::size_t>(CoreUnit::store);
  const Windows w = windows_of(program, arrays, shared.of_one_step);
  const auto times = [](std::int64_t n, double each) { return static_cast<double>(n) * each; };
  // Two bundles bring what comes in registers to the vector unit, which stores each; a load of what
  // was just stored waits for four more.
  constexpr double kBringAndWait = 2 + 4;
  const double stores = std::max(1., costs.capacity[kStore]);
  const double of_registers =
      w.in_registers > 0 ? kBringAndWait + static_cast<double>(w.in_registers) / stores : 0;
  const double launch =
      costs.launch + of_registers + times(semaphores_of(program), costs.semaphore);
  const auto slots = [&](const std::map<std::string, std::int64_t>& rows) {
    double sum = 0;
    for (const auto& [row, n] : rows) {
      const auto cost = costs.rows.find(row);
      sum += times(n, cost == costs.rows.end() ? 1 : cost->second.slots[kScalar]);
    }
    return sum;
  };
  if (steps <= 1) return {std::llround(launch + times(w.all, costs.operand)), 0, {}};
  constexpr double kQuotient = 8;  // bundles until it is there
  // Of 32 scalar registers those that are left for words and places of arrays, and for words alone.
  constexpr std::int64_t kFree = 14;
  constexpr std::int64_t kMost = 29;
  // A window that ends beyond its array is copied once for each of its blocks, the others are told
  // what to do in the turn more, too.
  const double turns = static_cast<double>(steps) / static_cast<double>(steps + 1);
  const double step =
      costs.step + times(w.moving - w.skipping, costs.window) + times(w.checks, costs.check) +
      turns *
          (w.copies * costs.window + w.skipping_checks * costs.check + w.ragged * costs.ragged) +
      times(std::max<std::int64_t>(0, w.words + w.moving - kFree), costs.carried) +
      times(std::max<std::int64_t>(0, w.words - kMost), costs.kept) +
      times(w.skipping, costs.skip) + times(w.still, costs.still) + times(w.dims, costs.dim) +
      times(w.indices, costs.index) + times(w.map_loads, costs.map) +
      costs.map_op * slots(w.map_ops) + costs.map_again * slots(w.map_again) +
      times(w.choices, costs.chosen) + times(shared.quotients, kQuotient);
  // The loop has two turns more: one brings the first windows, the other waits for the last ones.
  return {std::llround(launch + step), std::llround(step), w.stays};
}

namespace {

/// One of kKinds.
std::string kind_of(const Program& program) {
  const auto has = [&](const auto& is) {
    return std::ranges::any_of(program.main.units, [&](const UnitOp& op) {
      return std::ranges::any_of(op.rows, [&](const auto& row) {
        return is(program.unit_rows[static_cast<std::size_t>(row.first)]);
      });
    });
  };
  if (has([](const std::string& row) { return row == "tpu.enqueue_dma"; })) return "copies";
  if (has([](const std::string& row) { return row.starts_with("tpu.matmul"); })) return "products";
  const bool moves = has([](const std::string& row) {
    for (const char* op : {"vector.shape_cast", "tpu.transpose", "tpu.concatenate", "tpu.repeat",
                           "tpu.dynamic_rotate", "tpu.dynamic_gather", "vector.extract_strided"})
      if (row.starts_with(op)) return true;
    const bool memory = row.starts_with("load ") || row.starts_with("store ");
    return memory && row.find(' ', row.find(' ') + 1) != std::string::npos;
  });
  return moves ? "moves" : "plain";
}

}  // namespace

std::string held_out_kind(const Program& program, std::int64_t steps) {
  const bool stretch = steps <= 1 && stretches(program.main, false, {}).size() == 1;
  return (stretch ? "stretch " : "module ") + kind_of(program);
}

namespace {

Json blocks_of(const Program& program, bool knows_narrow_masks) {
  Json blocks = Json::array();
  for (const Stretch& s : stretches(program.main, knows_narrow_masks, {})) {
    Json ops = Json::array();
    const Phases phases(program, s.ops);
    const Pressure pressure(program, s.ops, phases, {});
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      const UnitOp* const op = s.ops[i];
      Json rows = Json::array();
      for (const auto& [row, times] : op->rows) rows.push_back({row, times});
      Json one{{"reads", op->reads}, {"makes", op->makes}, {"rows", rows}};
      if (pressure.too_many(i).all() > 0) one["spills"] = pressure.too_many(i).all();
      ops.push_back(std::move(one));
    }
    blocks.push_back({{"step", s.begin}, {"branches", s.branches}, {"ops", ops}});
  }
  return blocks;
}

Json moves_of(const Windows& w) {
  return {{"moving", w.moving},       {"rates", w.rates},     {"still", w.still},
          {"dims", w.dims},           {"indices", w.indices}, {"map_loads", w.map_loads},
          {"checked", w.checked},     {"words", w.words},     {"map_ops", w.map_ops},
          {"map_again", w.map_again}, {"chosen", w.chosen}};
}

}  // namespace

std::string units_json(const Program& program) {
  const Windows w = windows_of(program, {}, -1);
  Json bounds = Json::array();
  for (const Window& each : program.operands)
    bounds.push_back(each.whole ? std::vector<std::int64_t>{} : each.bounds);
  Json all{{"kernel", program.name},
           {"grid", program.grid},
           {"windows", w.all},
           {"bounds", bounds},
           {"semaphores", semaphores_of(program)},
           {"of", kind_of(program)},
           {"rows", program.unit_rows},
           {"blocks", blocks_of(program, false)}};
  all.update(moves_of(w));
  if (const int dim = shared_grid(program, program.grid, 2).of_one_step; dim >= 0)
    all["moves_of_two_cores"] = moves_of(windows_of(program, {}, dim));
  if (!program.main.units_of_known_narrow_masks.empty())
    all["blocks_of_known_narrow_masks"] = blocks_of(program, true);
  return all.dump() + "\n";
}

}  // namespace tessera::program
