// Counting without arithmetic and without data.
//
// The grid is walked run by run of its last dimension. Along a run an index map that is affine in
// that dimension's id (sim/affine_id.hpp) gives bytes and transfers in closed form; any other is
// asked at every step. So the cost is that of the steps before the last dimension, whatever blocks
// hold.
//
// Bodies run on tiles without elements (sim/counted_body.hpp), once for all steps that look the
// same to them: by the program ids that they ask for, and whether a step is the first or last of a
// dimension. Their copies count as the asynchronous machine's do. A body without copies that takes
// too many distinct steps is left out: bytes are known, work is not.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "sim/affine_id.hpp"
#include "sim/counted_body.hpp"
#include "sim/interpreter.hpp"
#include "sim/step_trace.hpp"

namespace tessera {

namespace detail {

/// What a pipelined operand moves.
struct DryOperand {
  std::array<std::int64_t, kMaxRank> index{};
  bool resident = false;
  std::int64_t transfers = 0;
  std::int64_t bytes = 0;
  std::int64_t padded_bytes = 0;
};

/// A run of `steps` steps: at step t the block index + t slope. `renew`: every step is a cell whose
/// blocks come anew. Returns the first step whose block there is not, or -1.
std::int64_t count_run(DryOperand& operand, const OperandPlan& plan, const DeviceSpec& device,
                       const std::int64_t* index, const std::int64_t* slope, std::int64_t steps,
                       bool renew);

/// What a walk counted.
struct DryCount {
  std::vector<DryOperand> operands;
  std::int64_t steps = 0;
  std::array<int, kMaxGridRank> extent{};
  Work work;
  const char* no_work = nullptr;  ///< why `work` is not known; null: it is
};

/// What one body did.
struct BodyCount {
  Work work;
  std::vector<Movement> copies;
  std::size_t script = 0;  ///< among those of all bodies; the first is empty
};

/// The bodies of the steps of a core, each that looks different run once.
class CountedBodies {
 public:
  /// `run`: the body at the ids of the counted core.
  CountedBodies(CountedCore& core, std::function<void()> run) : core_(core), run_(std::move(run)) {}

  /// Steps first, first + 1, ... of dim `last` at the ids of the core; calls f(index of the count,
  /// steps that it is of) in order.
  template <class F>
  void for_steps(int last, int first, std::int64_t steps, F&& f) {
    int& id = core_.ids[static_cast<std::size_t>(last)];
    for (std::int64_t t = 0; t < steps;) {
      id = first + static_cast<int>(t);
      const std::size_t count = body();
      const std::int64_t alike = std::min(steps - t, alike_along(last));
      f(count, alike);
      t += alike;
    }
  }
  const BodyCount& count(std::size_t index) const { return counts_[index]; }
  const std::vector<BodyCount>& counts() const { return counts_; }
  const Script& script(std::size_t index) const { return scripts_[index]; }
  std::int64_t acts() const { return acts_; }
  std::int64_t asked() const { return asked_; }

 private:
  /// What the body could know of the step: two words per dim.
  using Key = std::array<std::int64_t, 2 * kMaxGridRank>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  Key key() const;
  std::size_t body();
  /// The number of what the body that ran did.
  std::size_t number_of_script();
  /// Steps from this one on along a dim that look the same.
  std::int64_t alike_along(int dim) const;

  CountedCore& core_;
  std::function<void()> run_;
  IdUse use_;  ///< of all bodies so far
  std::vector<BodyCount> counts_;
  std::vector<Script> scripts_{{}};  ///< distinct ones
  std::unordered_multimap<std::uint64_t, std::size_t> known_scripts_;
  std::int64_t acts_ = 0;  ///< in scripts_
  std::unordered_map<Key, std::size_t, Hash> known_;
  std::int64_t asked_ = 0;
};

/// The blocks of a run's steps.
void trace_run(const OperandPlan& plan, const std::int64_t* index, const std::int64_t* slope,
               std::int64_t steps, std::vector<std::int32_t>& to);

struct DryOptions {
  MachineCore* core = nullptr;
  StepTrace* trace = nullptr;  ///< where to add this core's steps; null: none is kept
  const std::function<void(double)>* progress = nullptr;
};

template <class Op, bool kPassed>
struct CountedIf {
  using type = NoMap;
};
template <class Op>
struct CountedIf<Op, true> {
  using type = std::optional<CountedOperand<Op>>;
};

template <class K, class S>
class DryWalk {
  using G = typename S::GridType;
  using Operands = decltype(S::operands);
  static constexpr std::size_t kOperands = std::tuple_size_v<Operands>;
  static constexpr int kLast = G::kRank - 1;
  static constexpr bool kEachStepIsACell = G::kParallel == G::kRank;
  template <std::size_t I>
  using OpAt = std::tuple_element_t<I, Operands>;

 public:
  /// Copies are counted in the plan's ledger.
  DryWalk(const K& kernel, const S& spec, Plan& plan, const DryOptions& options)
      : kernel_(kernel),
        spec_(spec),
        plan_(plan),
        options_(options),
        keeps_blocks_(plan.device.keeps_blocks_across_cells()),
        operands_(total_.operands),
        ids_(counted_.ids),
        bodies_(counted_, [this] { call_body(std::make_index_sequence<kOperands>{}); }) {
    counted_.core = options.core;
    counted_.scripted = options.trace != nullptr;
    counted_.plan = &plan;
    operands_.resize(plan.operands.size());
    for (int d = 0; d < G::kParallel; ++d) {
      const auto i = static_cast<std::size_t>(d);
      total_.extent[i] = count_of(d);
      counted_.hi[i] = count_of(d);
    }
    [&]<std::size_t... I>(std::index_sequence<I...>) { (make_ref<I>(), ...); }
    (std::make_index_sequence<kOperands>{});
    if (options.trace != nullptr) {
      options.trace->blocks.resize(plan.operands.size());
      steps_before_ = options.trace->steps;
    }
  }
  DryWalk(const DryWalk&) = delete;
  DryWalk& operator=(const DryWalk&) = delete;

  const int* ids() const { return ids_.data(); }

  /// Cells [first, last), by a core that begins with empty blocks.
  void run_cells(std::int64_t first, std::int64_t last) {
    for (DryOperand& o : operands_) o.resident = false;
    cells_ = last;
    if constexpr (kEachStepIsACell) {
      const std::int64_t row = std::get<kLast>(spec_.grid.dims).count;
      for (std::int64_t cell = first; cell < last;) {
        set_cell(cell / row * row);
        const std::int64_t from = cell % row;
        const std::int64_t to = std::min(row, from + (last - cell));
        if (StepTrace* trace = tracing()) {
          for (std::int64_t c = 0; c < to - from; ++c)
            trace->cell_begin.push_back(steps_before_ + total_.steps + c);
        }
        run(static_cast<int>(from), to - from);
        cell += to - from;
      }
    } else {
      for (std::int64_t cell = first; cell < last; ++cell) {
        set_cell(cell);
        if (StepTrace* trace = tracing()) trace->cell_begin.push_back(steps_before_ + total_.steps);
        loop<G::kParallel>();
        for (std::size_t i = 0; i < operands_.size(); ++i) {
          if (!keeps_blocks_ || plan_.operands[i].role == Role::out) operands_[i].resident = false;
        }
      }
    }
  }

  /// After the last cell.
  const DryCount& total() {
    if (StepTrace* trace = tracing()) {
      add_works(*trace);
    }
    return total_;
  }

 private:
  /// Of a parallel dimension.
  int count_of(int d) const {
    int count = 0;
    int i = 0;
    std::apply(
        [&](const auto&... dim) {
          const auto look = [&](const auto& each) {
            if constexpr (!std::remove_cvref_t<decltype(each)>::kArbitraryDim) {
              if (i == d) count = each.count;
            }
            ++i;
          };
          (look(dim), ...);
        },
        spec_.grid.dims);
    return count;
  }
  void set_cell(std::int64_t cell) {
    cell_ = cell;
    for (int d = G::kParallel - 1; d >= 0; --d) {
      ids_[static_cast<std::size_t>(d)] = static_cast<int>(cell % count_of(d));
      cell /= count_of(d);
    }
  }

  template <int D>
  void loop() {
    const auto& dim = std::get<D>(spec_.grid.dims);
    const int lo = bound_at<G, D>(dim.lo, ids_);
    const int hi = bound_at<G, D>(dim.hi, ids_);
    total_.extent[D] = std::max(total_.extent[D], hi);
    counted_.lo[D] = lo;
    counted_.hi[D] = hi;
    if constexpr (D == kLast) {
      run(lo, hi - lo);
    } else {
      for (ids_[D] = lo; ids_[D] < hi; ++ids_[D]) loop<D + 1>();
    }
    ids_[D] = lo;
  }

  /// `steps` steps of the last dimension, from `first` on.
  void run(int first, std::int64_t steps) {
    if (steps <= 0) return;
    [&]<std::size_t... I>(std::index_sequence<I...>) { (count<I>(first, steps), ...); }
    (std::make_index_sequence<kOperands>{});
    count_bodies(first, steps);
    total_.steps += steps;
    if (StepTrace* trace = tracing()) {
      trace->steps = steps_before_ + total_.steps;
      if (trace->steps > trace->most || bodies_.acts() > kMostActs) {
        trace->give_up(bodies_.acts() > kMostActs);
        counted_.scripted = false;
      }
    }
    if (options_.progress != nullptr && total_.steps >= told_ + kStepsPerReport) {
      told_ = total_.steps;
      (*options_.progress)(static_cast<double>(cell_) / static_cast<double>(cells_));
    }
  }
  /// The trace that is kept, or null.
  StepTrace* tracing() const {
    return options_.trace != nullptr && options_.trace->complete ? options_.trace : nullptr;
  }

  void count_bodies(int first, std::int64_t steps) {
    if (total_.no_work != nullptr) return;
    // A look-up costs some ten nanoseconds, a body that is run a microsecond.
    constexpr std::int64_t kMostAsked = std::int64_t{1} << 23;
    constexpr std::size_t kMostRun = std::size_t{1} << 18;
    if ((bodies_.asked() > kMostAsked || bodies_.counts().size() > kMostRun) && !copies_ &&
        !plan_.asynchronous()) {
      leave_work("too many of its steps differ from one another");
      return;
    }
    try {
      bodies_.for_steps(kLast, first, steps, [&](std::size_t count, std::int64_t alike) {
        const BodyCount& body = bodies_.count(count);
        total_.work.add(body.work, alike);
        for (Movement m : body.copies) {
          copies_ = true;
          m.transfers *= alike;
          m.bytes *= alike;
          m.padded_bytes *= alike;
          plan_.ledger.record(m);
        }
        if (StepTrace* trace = tracing())
          trace->work.insert(trace->work.end(), static_cast<std::size_t>(alike),
                             static_cast<std::int32_t>(count));
      });
    } catch (const ValueNeeded&) {
      if (copies_ || plan_.asynchronous()) throw;
      leave_work("its body decides by values");
    }
    ids_[kLast] = first;
  }
  /// What bodies did, once for all that did the same.
  void add_works(StepTrace& trace) {
    if (std::ssize(trace.work) != trace.steps) return;  // it is not known
    std::map<std::pair<std::size_t, Work>, std::int32_t> known;
    std::vector<std::int32_t> place;
    for (const BodyCount& b : bodies_.counts()) {
      const auto [at, added] =
          known.try_emplace({b.script, b.work}, static_cast<std::int32_t>(trace.works.size()));
      place.push_back(at->second);
      if (added) trace.add(b.work, bodies_.script(b.script));
      if (!trace.complete) return;
    }
    for (auto w = trace.work.begin() + steps_before_; w != trace.work.end(); ++w)
      *w = place[static_cast<std::size_t>(*w)];
  }
  void leave_work(const char* why) {
    total_.no_work = why;
    total_.work = {};
    if (options_.trace != nullptr) options_.trace->work.clear();
  }

  template <std::size_t I>
  void make_ref() {
    if constexpr (OpAt<I>::kPassed) std::get<I>(refs_).emplace(counted_, plan_.operands[kPlace<I>]);
  }
  template <std::size_t I>
  auto ref_tuple() const {
    if constexpr (OpAt<I>::kPassed)
      return std::tuple{std::get<I>(refs_)->ref()};
    else
      return std::tuple<>{};
  }
  template <std::size_t... I>
  void call_body(std::index_sequence<I...>) {
    CountedEnv env(counted_);
    std::apply([&](auto... refs) { kernel_(env, refs...); }, std::tuple_cat(ref_tuple<I>()...));
  }

  template <std::size_t I>
  static constexpr std::size_t kPlace = kPlaceAmongPlans<Operands, I>;

  template <std::size_t I>
  void count(int first, std::int64_t steps) {
    if constexpr (OpAt<I>::kPassed) {
      if constexpr (OpAt<I>::kRole == Role::in || OpAt<I>::kRole == Role::out) {
        const auto& operand = std::get<I>(spec_.operands);
        if (!operand.present) return;
        const auto ids = [&]<std::size_t... D>(std::index_sequence<D...>) {
          return std::tuple{Id<G::kArbitraryDim[D]>{ids_[D]}..., AffineId{first, 1}};
        }
        (std::make_index_sequence<static_cast<std::size_t>(kLast)>{});
        AffineId::left = false;
        const auto index = std::apply(operand.map, ids);
        constexpr bool kRenew = kEachStepIsACell && OpAt<I>::kRole == Role::out;
        const bool renew = kRenew || (kEachStepIsACell && !keeps_blocks_);
        if (AffineId::left) {
          count_each<I>(first, steps, renew);
          return;
        }
        std::array<std::int64_t, kMaxRank> at{};
        std::array<std::int64_t, kMaxRank> slope{};
        for (int d = 0; d < decltype(index)::kRank; ++d) {
          const auto i = static_cast<std::size_t>(d);
          if constexpr (requires { index.along; }) {
            at[i] = index.along[i].value;
            slope[i] = index.along[i].slope;
          } else {
            at[i] = index.index[i];
          }
        }
        check<I>(at.data(), slope.data(), first, steps, renew);
      }
    }
  }
  /// Of a map that is not affine.
  template <std::size_t I>
  void count_each(int first, std::int64_t steps, bool renew) {
    const auto& operand = std::get<I>(spec_.operands);
    constexpr std::array<std::int64_t, kMaxRank> kStill{};
    for (std::int64_t t = 0; t < steps; ++t) {
      ids_[kLast] = first + static_cast<int>(t);
      const auto index = with_ids<G, G::kRank>(operand.map, ids_);
      check<I>(index.index, kStill.data(), ids_[kLast], 1, renew);
    }
  }
  template <std::size_t I>
  void check(const std::int64_t* index, const std::int64_t* slope, int first, std::int64_t steps,
             bool renew) {
    const OperandPlan& plan = plan_.operands[kPlace<I>];
    const std::int64_t bad =
        count_run(operands_[kPlace<I>], plan, plan_.device, index, slope, steps, renew);
    if (bad < 0) {
      if (StepTrace* trace = tracing())
        trace_run(plan, index, slope, steps, trace->blocks[kPlace<I>]);
      return;
    }
    ids_[kLast] = first + static_cast<int>(bad);
    std::array<std::int64_t, kMaxRank> there{};
    for (int d = 0; d < plan.block.rank; ++d)
      there[static_cast<std::size_t>(d)] = index[d] + bad * slope[d];
    throw KernelError(oob_block(plan, there.data()));
  }

  static constexpr std::int64_t kStepsPerReport = std::int64_t{1} << 20;

  template <std::size_t... I>
  static auto ref_operands(std::index_sequence<I...>)
      -> std::tuple<typename CountedIf<OpAt<I>, OpAt<I>::kPassed>::type...>;

  const K& kernel_;
  const S& spec_;
  Plan& plan_;
  DryOptions options_;
  const bool keeps_blocks_;
  DryCount total_;
  std::vector<DryOperand>& operands_;
  CountedCore counted_;
  std::array<int, kMaxGridRank>& ids_;
  CountedBodies bodies_;
  decltype(ref_operands(std::make_index_sequence<kOperands>{})) refs_;
  bool copies_ = false;
  std::int64_t cell_ = 0;
  std::int64_t cells_ = 1;
  std::int64_t told_ = 0;
  std::int64_t steps_before_ = 0;  ///< in the trace: those of other cores
};

}  // namespace detail

}  // namespace tessera
