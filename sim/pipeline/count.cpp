#include "sim/pipeline/count.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "sim/pipeline/close_run.hpp"
#include "sim/pipeline/core_cells.hpp"
#include "sim/pipeline/counted_bodies.hpp"
#include "sim/pipeline/pipeline.hpp"
#include "sim/pipeline/step_trace.hpp"

namespace tessera {

namespace {

/// What a pipelined operand moves.
struct OperandCount {
  std::array<std::int64_t, kMaxRank> index{};
  bool resident = false;
  std::int64_t transfers = 0;
  std::int64_t bytes = 0;
  std::int64_t padded_bytes = 0;
  // Of an output that is restored when it returns.
  std::set<std::int64_t> had;
  std::int64_t restored = 0;
  std::int64_t restored_bytes = 0;
  std::int64_t restored_padded_bytes = 0;
};

/// A run of `steps` steps: at step t the block index + t slope. `renew`: every step is a cell whose
/// blocks come anew. Returns the first step whose block there is not, or -1.
std::int64_t count_run(OperandCount& o, const OperandPlan& plan, const DeviceSpec& device,
                       const std::int64_t* index, const std::int64_t* slope, std::int64_t steps,
                       bool renew) {
  const int rank = plan.block.rank;
  bool moves = false;
  bool inside = true;
  for (int d = 0; d < rank; ++d) {
    moves = moves || slope[d] != 0;
    const std::int64_t end = index[d] + slope[d] * (steps - 1);
    inside = inside && std::min(index[d], end) >= 0 && std::max(index[d], end) < plan.blocks[d];
  }
  if (!inside) {
    const auto leaves_at = [&](std::int64_t t) {
      for (int d = 0; d < rank; ++d) {
        const std::int64_t i = index[d] + slope[d] * t;
        if (i < 0 || i >= plan.blocks[d]) return true;
      }
      return false;
    };
    if (leaves_at(0)) return 0;
    // What has left does not come back.
    std::int64_t inside_at = 0;
    std::int64_t outside_at = steps - 1;
    while (outside_at - inside_at > 1) {
      const std::int64_t t = std::midpoint(inside_at, outside_at);
      (leaves_at(t) ? outside_at : inside_at) = t;
    }
    return outside_at;
  }
  const bool stays = !renew && o.resident && std::equal(index, index + rank, o.index.begin());
  const std::int64_t first = stays ? 1 : 0;
  const std::int64_t end = moves || renew ? steps : 1;
  // Steps whose block the array's edge cuts, in a dim along which the run moves.
  std::array<std::int64_t, kMaxRank> edges{};
  std::size_t count = 0;
  Shape usual = plan.in_bounds(index);
  for (int d = 0; d < rank; ++d) {
    if (slope[d] == 0) continue;
    usual[d] = plan.block[d];
    const std::int64_t to_go = plan.blocks[d] - 1 - index[d];
    if (plan.array[d] % plan.block[d] == 0 || to_go % slope[d] != 0) continue;
    const std::int64_t t = to_go / slope[d];
    const bool known = std::find(edges.begin(), edges.begin() + count, t) != edges.begin() + count;
    if (t >= first && t < end && !known) edges[count++] = t;
  }
  const std::int64_t transfers = std::max<std::int64_t>(0, end - first);
  const std::int64_t plain = transfers - static_cast<std::int64_t>(count);
  const MovedBytes each = plan.moved(usual, device);
  o.transfers += transfers;
  o.bytes += plain * each.bytes;
  o.padded_bytes += plain * each.padded_bytes;
  std::array<std::int64_t, kMaxRank> there{};
  for (std::size_t e = 0; e < count; ++e) {
    for (int d = 0; d < rank; ++d)
      there[static_cast<std::size_t>(d)] = index[d] + slope[d] * edges[e];
    const MovedBytes cut = plan.moved(plan.in_bounds(there.data()), device);
    o.bytes += cut.bytes;
    o.padded_bytes += cut.padded_bytes;
  }
  for (int d = 0; d < rank; ++d)
    o.index[static_cast<std::size_t>(d)] = index[d] + slope[d] * (steps - 1);
  o.resident = true;
  return -1;
}

/// The blocks of a run's steps.
void trace_run(const OperandPlan& plan, const std::int64_t* index, const std::int64_t* slope,
               std::int64_t steps, std::vector<std::int32_t>& to) {
  std::int64_t at = 0;
  std::int64_t each = 0;
  for (int d = 0; d < plan.blocks.rank; ++d) {
    at = at * plan.blocks[d] + index[d];
    each = each * plan.blocks[d] + slope[d];
  }
  for (std::int64_t t = 0; t < steps; ++t) to.push_back(static_cast<std::int32_t>(at + t * each));
}

/// One core's walk.
class Walk {
 public:
  /// Copies are counted in the plan's ledger.
  Walk(const Kernel& kernel, Plan& plan, MachineCore& core, StepContext& context, StepTrace* trace,
       const std::function<void(double)>* progress)
      : plan_(plan),
        trace_(trace),
        progress_(progress),
        last_(plan.grid_rank - 1),
        each_step_is_a_cell_(plan.parallel_rank == plan.grid_rank && plan.grid_rank > 0),
        keeps_blocks_(plan.device.keeps_blocks_across_cells()),
        operands_(plan.operands.size()),
        ids_(counted_.ids),
        body_(make_body(kernel, plan, core, context)),
        bodies_(counted_, *body_) {
    counted_.core = &core;
    counted_.scripted = trace != nullptr;
    counted_.plan = &plan;
    for (std::size_t d = 0; d < static_cast<std::size_t>(plan.grid_rank); ++d) {
      if (!plan.bounds[d]) continue;
      extent_[d] = plan.bounds[d]->hi;
      counted_.lo[d] = plan.bounds[d]->lo;
      counted_.hi[d] = plan.bounds[d]->hi;
    }
    if (plan.grid_rank == 0) counted_.hi[0] = 1;  // one step, as of a grid of one dim
    if (trace != nullptr) {
      trace->blocks.resize(plan.operands.size());
      steps_before_ = trace->steps;
    }
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  /// The cells at places [first, last), by a core that begins with empty blocks.
  void run_cells(const CoreCells& cells, std::int64_t first, std::int64_t last) {
    cells_ = last;
    if (each_step_is_a_cell_) {
      const std::int64_t row = plan_.bounds[static_cast<std::size_t>(last_)]->hi;
      for (place_ = first; place_ < last;) {
        const std::int64_t cell = cells.at(place_);
        const std::int64_t from = cell % row;
        set_cell(plan_, cell - from, ids_.data());
        const std::int64_t steps = std::min({row - from, last - place_, cells.in_order(place_)});
        make_room(steps);
        for (std::int64_t c = 0; tracing() && !lingers() && c < steps; ++c)
          trace_->cell_begin.push_back(steps_before_ + steps_ + c);
        if (tracing() && lingers() && place_ == first)
          trace_->cell_begin.push_back(steps_before_ + steps_);
        run(static_cast<int>(from), steps);
        place_ += steps;
      }
      return;
    }
    for (place_ = first; place_ < last; ++place_) {
      set_cell(plan_, cells.at(place_), ids_.data());
      if (tracing() && (place_ == first || !lingers()))
        trace_->cell_begin.push_back(steps_before_ + steps_);
      if (plan_.grid_rank == 0)
        run(0, 1);
      else
        loop(plan_.parallel_rank);
      for (std::size_t i = 0; i < operands_.size(); ++i) {
        const OperandPlan& op = plan_.operands[i];
        const bool stays =
            op.role == Role::out ? op.returns == OperandPlan::Returns::lingers : keeps_blocks_;
        if (!stays) operands_[i].resident = false;
      }
    }
  }

  /// After the last cell: adds the counts to those of the run.
  void end(RunResult& result, int device);

 private:
  std::unique_ptr<Body> make_body(const Kernel& kernel, const Plan& plan, MachineCore& core,
                                  StepContext& context) {
    view_.plan = &plan;
    view_.core = &core;
    view_.context = &context;
    view_.dry = true;
    view_.ran = trace_ != nullptr ? &counted_.ran : nullptr;
    context.ids = ids_.data();
    return kernel.body(view_);
  }

  bool lingers() const {
    return std::ranges::any_of(plan_.operands, [](const OperandPlan& op) {
      return op.returns == OperandPlan::Returns::lingers;
    });
  }

  void loop(int dim) {
    const auto d = static_cast<std::size_t>(dim);
    const Range range = bounds_of(plan_, *body_, dim, ids_.data());
    extent_[d] = std::max(extent_[d], range.hi);
    counted_.lo[d] = range.lo;
    counted_.hi[d] = range.hi;
    if (dim == last_) {
      run(range.lo, range.hi - range.lo);
    } else {
      for (ids_[d] = range.lo; ids_[d] < range.hi; ++ids_[d]) loop(dim + 1);
    }
    ids_[d] = range.lo;
  }
  /// `steps` steps of the last dimension, from `first` on.
  void run(int first, std::int64_t steps) {
    if (steps <= 0) return;
    stop_if_asked();
    make_room(steps);
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const OperandPlan& op = plan_.operands[i];
      if (op.present && op.pipelined()) count_operand(i, first, steps);
    }
    count_bodies(first, steps);
    steps_ += steps;
    if (tracing()) {
      trace_->steps = steps_before_ + steps_;
      if (bodies_.acts() > kMostActs) give_up_trace(true);
    }
    if (progress_ != nullptr && steps_ >= told_ + kStepsPerReport) {
      told_ = steps_;
      (*progress_)(static_cast<double>(place_) / static_cast<double>(cells_));
    }
  }
  bool tracing() const { return trace_ != nullptr && trace_->complete; }
  void give_up_trace(bool acts) {
    trace_->give_up(acts);
    counted_.scripted = false;
  }
  /// Before a trace takes so many steps more.
  void make_room(std::int64_t steps) {
    if (tracing() && steps_before_ + steps_ + steps > trace_->most) give_up_trace(false);
  }

  void count_operand(std::size_t i, int first, std::int64_t steps) {
    const OperandPlan& op = plan_.operands[i];
    const bool out = op.role == Role::out;
    const bool renew = each_step_is_a_cell_ &&
                       (out ? op.returns != OperandPlan::Returns::lingers : !keeps_blocks_);
    std::array<std::int64_t, kMaxRank> index{};
    std::array<std::int64_t, kMaxRank> slope{};
    const int operand = static_cast<int>(i);
    if (last_ >= 0) ids_[static_cast<std::size_t>(last_)] = first;
    const bool restores = op.returns == OperandPlan::Returns::restored;
    if (!op.by_element && !restores &&
        body_->along(operand, ids_.data(), index.data(), slope.data())) {
      count_along(i, index.data(), slope.data(), first, steps, renew);
      return;
    }
    slope.fill(0);
    for (std::int64_t t = 0; t < steps; ++t) {
      if (t % kStepsPerLook == 0) stop_if_asked();
      if (last_ >= 0) ids_[static_cast<std::size_t>(last_)] = first + static_cast<int>(t);
      body_->index(operand, ids_.data(), index.data());
      const std::int64_t before = operands_[i].transfers;
      count_along(i, index.data(), slope.data(), first + static_cast<int>(t), 1, renew);
      if (restores && operands_[i].transfers != before) count_restored(i, index.data());
    }
  }
  /// A block of an output begins; it is fetched if it was here before.
  void count_restored(std::size_t i, const std::int64_t* index) {
    const OperandPlan& op = plan_.operands[i];
    OperandCount& o = operands_[i];
    if (o.had.insert(op.number_of(index)).second) return;
    const MovedBytes moved = op.moved(op.in_bounds(index), plan_.device);
    ++o.restored;
    o.restored_bytes += moved.bytes;
    o.restored_padded_bytes += moved.padded_bytes;
  }
  void count_along(std::size_t i, const std::int64_t* index, const std::int64_t* slope, int first,
                   std::int64_t steps, bool renew) {
    const OperandPlan& op = plan_.operands[i];
    const std::int64_t bad = count_run(operands_[i], op, plan_.device, index, slope, steps, renew);
    if (bad < 0) {
      if (tracing()) trace_run(op, index, slope, steps, trace_->blocks[i]);
      return;
    }
    ids_[static_cast<std::size_t>(last_)] = first + static_cast<int>(bad);
    std::array<std::int64_t, kMaxRank> there{};
    for (int d = 0; d < op.block.rank; ++d)
      there[static_cast<std::size_t>(d)] = index[d] + bad * slope[d];
    throw KernelError(oob_block(op, there.data()));
  }

  void count_bodies(int first, std::int64_t steps);
  void add_works();
  void leave_work(const char* why) {
    no_work_ = why;
    work_ = {};
    if (trace_ != nullptr) trace_->work.clear();
  }

  static constexpr std::int64_t kStepsPerLook = 1024;  ///< whether the run shall end
  static constexpr std::int64_t kStepsPerReport = std::int64_t{1} << 20;

  Plan& plan_;
  StepTrace* trace_;  ///< where to add this core's steps; null: none is kept
  const std::function<void(double)>* progress_;
  const int last_;
  const bool each_step_is_a_cell_;
  const bool keeps_blocks_;
  std::vector<OperandCount> operands_;
  CountedCore counted_;
  CoreView view_;
  std::array<int, kMaxGridRank>& ids_;
  std::array<int, kMaxGridRank> extent_{};
  std::unique_ptr<Body> body_;
  CountedBodies bodies_;
  Work work_;
  const char* no_work_ = nullptr;  ///< why `work_` is not known; null: it is
  bool copies_ = false;
  std::int64_t steps_ = 0;
  std::int64_t place_ = 0;  ///< of the cell
  std::int64_t cells_ = 1;
  std::int64_t told_ = 0;
  std::int64_t steps_before_ = 0;  ///< in the trace: those of other cores
};

void Walk::count_bodies(int first, std::int64_t steps) {
  if (no_work_ != nullptr) return;
  // A look-up costs some ten nanoseconds, a body that is run a microsecond.
  constexpr std::int64_t kMostAsked = std::int64_t{1} << 23;
  constexpr std::size_t kMostRun = std::size_t{1} << 18;
  if ((bodies_.asked() > kMostAsked || bodies_.counts().size() > kMostRun) && !copies_ &&
      !plan_.asynchronous()) {
    leave_work("too many of its steps differ from one another");
    return;
  }
  const int last = std::max(0, last_);
  try {
    bodies_.for_steps(last, first, steps, [&](std::size_t count, std::int64_t alike) {
      const BodyCount& body = bodies_.count(count);
      work_.add(body.work, alike);
      for (Movement m : body.copies) {
        copies_ = true;
        m.transfers *= alike;
        m.bytes *= alike;
        m.padded_bytes *= alike;
        plan_.ledger.record(m);
      }
      if (tracing()) {
        trace_->work.insert(trace_->work.end(), static_cast<std::size_t>(alike),
                            static_cast<std::int32_t>(count));
        trace_->add_ran(body.ran, alike);
      }
    });
  } catch (const ValueNeeded&) {
    if (copies_ || plan_.asynchronous()) throw;
    leave_work("its body decides by values");
  }
  ids_[static_cast<std::size_t>(last)] = first;
}

/// What bodies did, once for all that did the same.
void Walk::add_works() {
  if (std::ssize(trace_->work) != trace_->steps) return;  // it is not known
  std::map<std::pair<std::size_t, Work>, std::int32_t> known;
  std::vector<std::int32_t> place;
  for (const BodyCount& b : bodies_.counts()) {
    const auto [at, added] =
        known.try_emplace({b.script, b.work}, static_cast<std::int32_t>(trace_->works.size()));
    place.push_back(at->second);
    if (added) trace_->add(b.work, bodies_.script(b.script));
    if (!trace_->complete) return;
  }
  for (auto w = trace_->work.begin() + steps_before_; w != trace_->work.end(); ++w)
    *w = place[static_cast<std::size_t>(*w)];
}

void Walk::end(RunResult& result, int device) {
  if (tracing()) add_works();
  Plan& plan = result.plan;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const OperandPlan& op = plan.operands[i];
    if (!op.present || !op.pipelined()) continue;
    const OperandCount& o = operands_[i];
    Movement m;
    m.ref = op.ledger_ref;
    m.why = op.role == Role::in ? Why::fetch : Why::writeback;
    m.from = op.role == Role::in ? Space::hbm : op.space;
    m.to = op.role == Role::in ? op.space : Space::hbm;
    m.transfers = o.transfers;
    m.bytes = o.bytes;
    m.padded_bytes = o.padded_bytes;
    m.device = device;
    plan.ledger.record(m);
    if (o.restored == 0) continue;
    m.why = Why::fetch;
    std::swap(m.from, m.to);
    m.transfers = o.restored;
    m.bytes = o.restored_bytes;
    m.padded_bytes = o.restored_padded_bytes;
    plan.ledger.record(m);
  }
  result.steps += steps_;
  result.flops += work_.flops;
  result.transcendentals += work_.transcendentals;
  if (no_work_ != nullptr) {
    result.no_work = no_work_;
    result.flops = 0;
    result.transcendentals = 0;
  }
  result.grid.resize(static_cast<std::size_t>(plan.grid_rank));
  for (std::size_t d = 0; d < result.grid.size(); ++d)
    result.grid[d] = std::max(result.grid[d], extent_[d]);
}

RunResult count_cores(const Kernel& kernel, const Plan& plan, const RunOptions& options,
                      StepContext& context) {
  RunResult result;
  result.dry = true;
  result.plan = plan;
  result.trace.most = options.trace_steps;
  context.plan = &result.plan;
  Machine machine(options.mesh, options.cores, {}, false);
  const bool on_machine =
      machine.cores() > 1 || options.schedule || plan.asynchronous() || plan.scoped_ref >= 0;
  if (on_machine) count_scratch(result.plan);
  const std::int64_t cells = plan.cells();
  const CoreCells shared(plan, options.cores);
  for (int id = 0; id < machine.cores(); ++id) {
    MachineCore& core = machine.core(id);
    Walk walk(kernel, result.plan, core, context,
              trace_for(result, options.trace_steps, core.device),
              options.progress ? &options.progress : nullptr);
    const auto [begin, end] = places_of(cells, core.core, options.cores);
    walk.run_cells(shared, begin, end);
    walk.end(result, core.device);
    context.ids = nullptr;
  }
  add_scoped_peaks(machine, result.plan);
  close_ledger(result.plan, result.plan.ledger, machine.devices(), result.steps,
               [](int) { return true; });
  result.trace.close(result.grid);
  return result;
}

}  // namespace

RunResult count(const Kernel& kernel, Plan plan, const RunOptions& options, StepContext& context) {
  const auto start = std::chrono::steady_clock::now();
  RunResult result;
  try {
    try {
      result = count_cores(kernel, plan, options, context);
    } catch (const NeedsMachine&) {
      // Bodies with scratch of their own count on the machine's refs.
      count_scratch(plan);
      result = count_cores(kernel, plan, options, context);
    }
  } catch (const ValueNeeded&) {
    fail_value_needed(plan);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void fail_value_needed(const Plan& plan, const std::string& line) {
  Diagnostic d{.slug = "unsupported",
               .kind = Diagnostic::Kind::unsupported,
               .headline = "--dry of " + plan.kernel +
                           ": its body decides by values what it copies, and there are none"};
  if (!line.empty()) {
    d.fields.emplace_back("line", line);
    d.fields.emplace_back("help",
                          "a dry run computes no values: what decides here must come of numbers, "
                          "or of arrays that nothing in this run writes");
  }
  throw KernelError(std::move(d));
}

}  // namespace tessera
