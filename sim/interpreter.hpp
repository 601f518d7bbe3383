// One core of the machine, stepping a kernel's body through its part of the grid.
//
// The grid runs in row-major order. Before each step an input block whose index changed is fetched
// and an output block whose index changed is written back; a block that stays is elided. On a
// device that keeps blocks across cells (TPU) the accounting continues from the previous cell,
// whichever host thread ran it: a core that starts at cell c asks the index maps what cell c - 1
// left behind. run.hpp has the call for users; run.cpp drives cores over OpenMP threads.
#pragma once

#include <atomic>
#include <csignal>
#include <deque>
#include <functional>
#include <memory>

#include "sim/body/kernel.hpp"
#include "sim/env.hpp"
#include "sim/ops/checksum.hpp"
#include "sim/scoped.hpp"
#include "sim/step_checksums.hpp"
#include "sim/step_trace.hpp"
#include "sim/transfer.hpp"

namespace tessera {

/// What the cores of a device share: per operand, its array in HBM.
struct DeviceIo {
  std::vector<std::byte*> hbm;  ///< null for scratch
  std::vector<float*> bounds;   ///< of outputs, where error bounds are kept; else null
  std::vector<std::vector<std::int32_t>>
      owner;                    ///< per OperandPlan::claims(): 1 + the cell that wrote it
  std::vector<Buffer*> arrays;  ///< on the machine: what copies or aliases reach
};

/// What a core is given.
struct CoreIo {
  DeviceIo* device = nullptr;
  bool keeps_blocks = true;
  bool trap_nan = false;
  Profile profile = Profile::exact;
  const ErrorModel* error_model = nullptr;
  bool keep_checksums = false;
  bool dry = false;  ///< of a module: vectors have no values
  bool keep_movements = false;
  std::int64_t trace_steps = 0;          ///< of a module: RunOptions::trace_steps
  const std::vector<int>* at = nullptr;  ///< the watched grid step
  bool break_at = false;
  const std::function<void(const std::string&)>* on_step = nullptr;
  const std::function<void(double)>* progress = nullptr;
  const StepContext* context = nullptr;
  std::int64_t cells = 1;
  MachineCore* core = nullptr;  ///< on the asynchronous machine; else null
};

/// What a core counted.
struct CoreTotals {
  Ledger ledger;
  std::vector<Missing> missing;  ///< per operand: of the output blocks that were written back
  std::int64_t steps = 0;
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
  std::array<int, kMaxGridRank> extent{};
  Scopes scopes;
  StepChecksums checksums;
  StepTrace trace;  ///< of a module
  std::string printed;
};

/// Made, run and destroyed on one thread: its blocks are that thread's memory.
class CoreBase : public CoreTotals {
 public:
  CoreBase() = default;
  CoreBase(const CoreBase&) = delete;
  CoreBase& operator=(const CoreBase&) = delete;
  virtual ~CoreBase() = default;
  /// Runs cells [first, last); throws KernelError.
  virtual void run_cells(std::int64_t first, std::int64_t last) = 0;
};

template <class K, std::size_t... I>
auto spec_of(const K& kernel, [[maybe_unused]] Tiles tiles, std::index_sequence<I...>) {
  return kernel.spec(tiles[static_cast<int>(I)]...);
}
template <class K>
auto spec_of(const K& kernel, Tiles tiles) {
  return spec_of(kernel, tiles, std::make_index_sequence<K::tiles.size()>{});
}

namespace detail {
constexpr Space space_of(Role role, const DeviceSpec& device) {
  if (in_hbm(role)) return Space::hbm;
  if (is_semaphore(role)) return Space::semaphore;
  if (role == Role::smem) return Space::smem;
  return role == Role::accum && !device.accumulators_in_vmem() ? Space::registers : Space::vmem;
}

/// True if no arbitrary dimension of the grid moves the block of a pipelined operand.
template <class G, class Op>
constexpr bool stays_in_cell(const Op& op) {
  if constexpr (Op::kRole == Role::in || Op::kRole == Role::out) {
    return !decltype(with_ids<G, G::kRank>(
        op.map, std::declval<const std::array<int, kMaxGridRank>&>()))::kArbitraryIndex;
  } else {
    return false;
  }
}

template <class Op>
void add_operand(Plan& plan, const Op& op, bool of_cell) {
  if constexpr (!Op::kPassed) {
    plan.scalars.push_back(
        {op.name.text, kDTypeOf<typename Op::Element>, op.array.size, op.name.at});
  } else {
    OperandPlan p;
    p.name = op.name.text;
    p.role = Op::kRole;
    p.dtype = kDTypeOf<typename Op::Element>;
    p.at = op.name.at;
    p.space = space_of(Op::kRole, plan.device);
    p.array = op.shape;
    std::apply(
        [&](const auto&... e) {
          [[maybe_unused]] const auto add = [&](const auto& extent) {
            p.squeezed[static_cast<std::size_t>(p.block.rank)] =
                std::is_same_v<std::remove_cvref_t<decltype(extent)>, Squeezed>;
            p.block.push_back(detail::block_extent(extent));
          };
          (add(e), ...);
        },
        op.block.extents);
    p.rows = static_cast<int>(block_rows(op.block));
    p.cols = static_cast<int>(block_cols(op.block));
    p.buffers = op.buffers;
    p.of_cell = of_cell;
    p.present = op.present;
    p.padded = op.padded;
    p.pad_value = op.pad_value;
    p.alias = op.alias;
    plan.operands.push_back(std::move(p));
  }
}
}  // namespace detail

template <class Op>
OperandPlan scratch_plan(const Op& op, const DeviceSpec& device) {
  Plan plan;
  plan.device = device;
  detail::add_operand(plan, op, false);
  OperandPlan p = std::move(plan.operands.front());
  p.strides = row_major_strides(p.array);
  p.kept = p.block.rank > 0 ? p.block : p.array;
  return p;
}

template <class... Dim, class... Op>
Plan plan_of(const char* kernel, const Spec<Grid<Dim...>, Op...>& spec, const DeviceSpec& device) {
  Plan plan;
  plan.kernel = kernel;
  plan.device = device;
  plan.grid_rank = sizeof...(Dim);
  plan.parallel_rank = Grid<Dim...>::kParallel;
  std::size_t d = 0;
  std::apply([&](const auto&... dim) { ((plan.labels[d++] = dim.label), ...); }, spec.grid.dims);
  const auto add = [&](const auto& op) {
    bool of_cell = false;
    if constexpr (std::remove_cvref_t<decltype(op)>::kPassed)
      of_cell = detail::stays_in_cell<Grid<Dim...>>(op);
    detail::add_operand(plan, op, of_cell);
  };
  std::apply([&](const auto&... op) { (add(op), ...); }, spec.operands);
  return plan;
}

namespace detail {
/// Place of operand I among those that have a plan (scalars have none).
template <class Operands, std::size_t I>
inline constexpr std::size_t kPlaceAmongPlans = [] {
  return []<std::size_t... J>(std::index_sequence<J...>) {
    return (std::size_t{0} + ... + (std::tuple_element_t<J, Operands>::kPassed ? 1 : 0));
  }
  (std::make_index_sequence<I>{});
}();
}  // namespace detail

template <class K, class S>
class Core final : public CoreBase {
  using G = typename S::GridType;
  using Operands = decltype(S::operands);
  static constexpr std::size_t kOperands = std::tuple_size_v<Operands>;
  template <std::size_t I>
  using OpAt = std::tuple_element_t<I, Operands>;

  template <std::size_t I>
  static constexpr std::size_t kPlace = detail::kPlaceAmongPlans<Operands, I>;
  template <std::size_t I>
  static constexpr bool kPipelined = [] {
    if constexpr (!OpAt<I>::kPassed)
      return false;
    else
      return OpAt<I>::kRole == Role::in || OpAt<I>::kRole == Role::out;
  }();

  template <std::size_t I>
  static constexpr bool kBlock = [] {
    if constexpr (!OpAt<I>::kPassed)
      return false;
    else
      return is_block(OpAt<I>::kRole);
  }();

  template <std::size_t... I>
  static auto block_tuple(std::index_sequence<I...>)
      -> std::tuple<std::conditional_t<kBlock<I>, Block<typename OpAt<I>::Element>, NoMap>...>;
  using Blocks = decltype(block_tuple(std::make_index_sequence<kOperands>{}));

  struct Position {
    std::array<std::int64_t, kMaxRank> index{};
    bool resident = false;  ///< as the device sees it
    bool loaded = false;    ///< into this core's block
  };

 public:
  Core(const K& kernel, const S& spec, const Plan& plan, CoreIo& io)
      : kernel_(kernel), spec_(spec), plan_(plan), io_(io) {
    ledger = plan.ledger;
    missing.resize(plan.operands.size());
    ledger.keep_movements(io.keep_movements);
    if (io.core != nullptr) {
      io.core->ledger = &ledger;
      io.core->step = &steps;
      for (const auto& op : plan.operands) aliases_ = aliases_ || op.aliased >= 0;
    }
    for_each_operand([&]<std::size_t I>() { prepare<I>(); });
    int d = 0;
    std::apply([&](const auto&... dim) { ((parallel_extent(dim, d++)), ...); }, spec_.grid.dims);
  }

  void run_cells(std::int64_t first, std::int64_t last) override {
    const OpState outer = std::exchange(
        op_state,
        OpState{.trap_nan = io_.trap_nan, .profile = io_.profile, .error_model = io_.error_model});
    StepContext context = *io_.context;
    context.ids = ids_.data();
    if (io_.core != nullptr) {
      const Machine& machine = *io_.core->machine;
      if (machine.devices() > 1) context.device = io_.core->device;
      if (machine.cores_per_device() > 1) context.core = io_.core->core;
    }
    const StepContext* const outer_context = std::exchange(step_context, &context);
    struct Restore {
      Core* core;
      OpState state;
      const StepContext* context;
      ~Restore() {
        core->flops += op_state.flops;
        core->transcendentals += op_state.transcendentals;
        op_state = state;
        step_context = context;
      }
    } restore{this, outer, outer_context};

    // On the machine this core has no predecessor: its part of the cells begins with empty blocks.
    if (io_.keeps_blocks && io_.core == nullptr) recall(first);
    for (std::int64_t cell = first; cell < last; ++cell) {
      if (!io_.keeps_blocks)
        for_each_operand([&]<std::size_t I>() { position_[I].resident = false; });
      set_cell(cell);
      cell_ = cell;
      cell_start_ = true;
      loop<G::kParallel>();
      for_each_operand([&]<std::size_t I>() { end_cell<I>(); });
      if (io_.progress != nullptr)
        report(static_cast<double>(cell + 1) / static_cast<double>(io_.cells));
    }
  }

 private:
  template <class F>
  static void for_each_operand(F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (f.template operator()<I>(), ...); }
    (std::make_index_sequence<kOperands>{});
  }

  template <class Dim>
  void parallel_extent(const Dim& dim, int d) {
    if constexpr (!Dim::kArbitraryDim) {
      extent[static_cast<std::size_t>(d)] = dim.count;
      lo_[static_cast<std::size_t>(d)] = 0;
      hi_[static_cast<std::size_t>(d)] = dim.count;
    }
  }

  template <std::size_t I>
  void prepare() {
    if constexpr (kBlock<I>) {
      auto& block = std::get<I>(blocks_);
      block.plan = &plan_.operands[kPlace<I>];
      block.device_spec = &plan_.device;
      if constexpr (OpAt<I>::kRole != Role::in) {
        if (block.plan->present) {
          block.allocate();
          block.shadow = Shadow(std::int64_t{block.plan->rows} * block.plan->cols, Shadow::uninit);
        }
      }
      if (io_.core != nullptr) place(block, OpAt<I>::kRole);
    } else if constexpr (OpAt<I>::kPassed) {
      if constexpr (is_semaphore(OpAt<I>::kRole)) make_semaphores(kPlace<I>);
    }
  }

  /// Makes a block known to the machine.
  template <class T>
  void place(Block<T>& block, Role role) {
    const OperandPlan& op = *block.plan;
    block.name = op.name;
    block.space = op.space;
    block.shape = {op.rows, op.cols};
    block.device = io_.core->device;
    block.core = io_.core->id;
    block.ledger_ref = role == Role::vmem ? op.ledger_ref : plan_.scoped_ref;
    block.shared = role == Role::vmem || role == Role::out;
    block.on = io_.core;
    io_.core->machine->place(block);
  }

  void make_semaphores(std::size_t place) {
    const OperandPlan& op = plan_.operands[place];
    if (io_.core == nullptr) throw NeedsMachine{};
    const auto n = op.array[0];
    semaphores_.resize(plan_.operands.size());
    for (std::int64_t i = 0; i < n; ++i) {
      own_semaphores_.push_back(std::make_unique<Semaphore>(
          n == 1 ? op.name : op.name + "[" + std::to_string(i) + "]",
          op.role == Role::dma_sem ? Semaphore::Kind::dma : Semaphore::Kind::regular,
          io_.core->id));
      io_.core->machine->place(*own_semaphores_.back());
      semaphores_[place].push_back(own_semaphores_.back().get());
    }
  }

  void set_cell(std::int64_t cell) {
    for (int d = G::kParallel - 1; d >= 0; --d) {
      const int count = hi_[static_cast<std::size_t>(d)];
      ids_[static_cast<std::size_t>(d)] = static_cast<int>(cell % count);
      cell /= count;
    }
  }

  /// Sets ids_ to the last step of the cell whose parallel ids they hold; false if it has none.
  template <int D>
  bool last_step() {
    if constexpr (D == G::kRank) {
      return true;
    } else {
      const auto& dim = std::get<D>(spec_.grid.dims);
      const int lo = bound_at<G, D>(dim.lo, ids_);
      for (int i = bound_at<G, D>(dim.hi, ids_) - 1; i >= lo; --i) {
        ids_[D] = i;
        if (last_step<D + 1>()) return true;
      }
      return false;
    }
  }

  /// The inputs that the device still holds before cell `first`.
  void recall(std::int64_t first) {
    for_each_operand([&]<std::size_t I>() { position_[I] = Position{}; });
    for (std::int64_t cell = first - 1; cell >= 0; --cell) {
      set_cell(cell);
      if (!last_step<G::kParallel>()) continue;
      for_each_operand([&]<std::size_t I>() {
        if constexpr (kPipelined<I>) {
          if constexpr (OpAt<I>::kRole == Role::in) {
            if (!std::get<I>(spec_.operands).present) return;
            const auto index = with_ids<G, G::kRank>(std::get<I>(spec_.operands).map, ids_);
            std::copy_n(index.index, decltype(index)::kRank, position_[I].index.begin());
            position_[I].resident = true;
          }
        }
      });
      return;
    }
  }

  template <std::size_t I>
  void end_cell() {
    if constexpr (kPipelined<I>) {
      if constexpr (OpAt<I>::kRole == Role::out) {
        if (position_[I].resident) leave<I>();
        position_[I] = Position{};
      }
    } else if constexpr (kBlock<I>) {
      // Scratch that this cell wrote stays there, but not for the next one.
      Shadow& shadow = std::get<I>(blocks_).shadow;
      if (shadow.missing() < shadow.elems()) shadow.fill(Shadow::stale);
    }
  }

  template <int D>
  void loop() {
    if constexpr (D == G::kRank) {
      step();
    } else {
      const auto& dim = std::get<D>(spec_.grid.dims);
      const int lo = bound_at<G, D>(dim.lo, ids_);
      const int hi = bound_at<G, D>(dim.hi, ids_);
      lo_[D] = lo;
      hi_[D] = hi;
      extent[D] = std::max(extent[D], hi);
      for (ids_[D] = lo; ids_[D] < hi; ++ids_[D]) loop<D + 1>();
      ids_[D] = lo;
    }
  }

  void step() {
    if (aliases_) {
      pass_time();
      for_each_operand([&]<std::size_t I>() { advance_output<I>(); });
    }
    for_each_operand([&]<std::size_t I>() { advance<I>(); });
    cell_start_ = false;
    if (io_.at != nullptr) watch();
    if (io_.progress != nullptr && (steps & 0xfff) == 0xfff && G::kParallel < G::kRank)
      report_step();
    Env env(ids_.data(), lo_.data(), hi_.data(), &printed, &scopes, io_.core);
    call_body(env, std::make_index_sequence<kOperands>{});
    ++steps;
    if (io_.keep_checksums) {
      body_ids_ = ids_;
      for_each_operand([&]<std::size_t I>() { sum_scratch<I>(); });
    }
  }

  /// What copies reach may be under way: only scratch that the body alone writes counts.
  template <std::size_t I>
  void sum_scratch() {
    if constexpr (kBlock<I>) {
      constexpr Role kRole = OpAt<I>::kRole;
      if constexpr (kRole == Role::accum || kRole == Role::vmem) {
        if (kRole == Role::accum || io_.core == nullptr)
          add_checksum(std::get<I>(blocks_), kPlace<I>, nullptr, std::get<I>(blocks_).plan->block);
      }
    }
  }
  /// `index`: of an output block, whose part `inside` counts.
  template <class T>
  void add_checksum(const Block<T>& block, std::size_t place, const std::int64_t* index,
                    const Shape& inside) {
    const OperandPlan& op = *block.plan;
    if (!op.present || block.shadow.missing() == block.shadow.elems()) return;
    StepChecksum sum;
    sum.device = io_.core != nullptr ? io_.core->device : 0;
    std::copy(body_ids_.begin(), body_ids_.end(), sum.ids.begin());
    sum.operand = static_cast<int>(place);
    const bool whole = block.shadow.all_init();
    const auto add = [&](std::int64_t from, std::int64_t n) {
      const T* const data = block.data;
      std::uint64_t total = 0;
      if (whole) {
        for (std::int64_t i = from; i < from + n; ++i) total += checksum_of(i, data[i]);
      } else {
        for (std::int64_t i = from; i < from + n; ++i) {
          if (block.shadow.at(i) == Shadow::init) total += checksum_of(i, data[i]);
        }
      }
      sum.checksum += total;
    };
    if (index == nullptr) {
      add(0, std::int64_t{op.rows} * op.cols);
    } else {
      sum.block = op.number_of(index);
      for_each_run(op, index, inside,
                   [&](std::int64_t, std::int64_t from, std::int64_t n) { add(from, n); });
    }
    checksums.push_back(sum);
  }

  /// Operands of the body: refs to the blocks, without the scalars.
  template <std::size_t... I>
  void call_body(Env& env, std::index_sequence<I...>) {
    auto refs = std::tuple_cat(ref<I>()...);
    std::apply([&](auto&... r) { kernel_(env, r...); }, refs);
  }
  template <std::size_t I>
  auto ref() {
    if constexpr (kBlock<I>) {
      return std::tuple{BlockRef<typename OpAt<I>::Element, OpAt<I>::kRole>(std::get<I>(blocks_))};
    } else if constexpr (OpAt<I>::kPassed) {
      const OperandPlan& op = plan_.operands[kPlace<I>];
      if constexpr (is_semaphore(OpAt<I>::kRole)) {
        return std::tuple{SemRef(semaphores_[kPlace<I>], *io_.core, op.name.c_str())};
      } else {
        return std::tuple{HbmRef<typename OpAt<I>::Element, OpAt<I>::kRole>(
            io_.device->arrays[kPlace<I>], op, *io_.core)};
      }
    } else {
      return std::tuple<>{};
    }
  }

  /// A block leaves before the next step's blocks are looked at: what aliases it may be among them.
  template <std::size_t I>
  void advance_output() {
    if constexpr (kPipelined<I>) {
      if constexpr (OpAt<I>::kRole == Role::out) advance<I>();
    }
  }

  template <std::size_t I>
  void advance() {
    if constexpr (kPipelined<I>) {
      const auto& op = std::get<I>(spec_.operands);
      using Index = decltype(with_ids<G, G::kRank>(op.map, ids_));
      static_assert(Index::kRank == decltype(op.block)::kRank,
                    "an index map returns one block index per dim of its array");
      if constexpr (!Index::kArbitraryIndex) {
        if (!cell_start_) return;
      }
      if (!op.present) return;
      const Index index = with_ids<G, G::kRank>(op.map, ids_);
      Position& p = position_[I];
      bool same = p.resident;
      for (int d = 0; d < Index::kRank; ++d)
        same = same && p.index[static_cast<std::size_t>(d)] == index.index[d];
      if (same && p.loaded) return;
      move_to<I>(index.index, same);
    }
  }

  template <std::size_t I>
  void move_to(const std::int64_t* index, bool elided) {
    auto& block = std::get<I>(blocks_);
    const OperandPlan& op = *block.plan;
    Position& p = position_[I];
    for (int d = 0; d < op.block.rank; ++d) {
      if (index[d] < 0 || index[d] >= op.blocks[d]) throw KernelError(oob_block(op, index));
    }
    if constexpr (OpAt<I>::kRole == Role::out) {
      if (p.resident) leave<I>();
      if (io_.core != nullptr) touch(op, block, true, "fetch");
      claim<I>(index);
      block.shadow.fill(Shadow::uninit);
      block.clear_bounds();
      if (block.storage.shared()) block.allocate();
    } else {
      const Shape inside = op.in_bounds(index);
      if (io_.core != nullptr) {
        touch(op, block, true, "fetch");
        if (op.aliased >= 0) fetched(op, index, inside);
      }
      fetch_block(block, io_.device->hbm[kPlace<I>], index, inside);
      // An input has bounds where it is an output's array.
      if (io_.error_model != nullptr && op.aliased >= 0)
        fetch_bounds(block, io_.device->bounds[static_cast<std::size_t>(op.aliased)], index,
                     inside);
      if (!elided) record(op, inside, Space::hbm, op.space, Why::fetch);
    }
    std::copy_n(index, op.block.rank, p.index.begin());
    p.resident = true;
    p.loaded = true;
  }

  /// Writes the output block back that operand I holds.
  template <std::size_t I>
  void leave() {
    auto& block = std::get<I>(blocks_);
    const OperandPlan& op = *block.plan;
    const Shape inside = op.in_bounds(position_[I].index.data());
    if (io_.core != nullptr) {
      touch(op, block, false, "write-back");
      if (op.aliased >= 0) written_back(op, position_[I].index.data(), inside);
    }
    if (io_.keep_checksums) add_checksum(block, kPlace<I>, position_[I].index.data(), inside);
    if (float* const bounds = io_.device->bounds[kPlace<I>])
      write_back_bounds(block, bounds, position_[I].index.data(), inside);
    missing[kPlace<I>].add(
        write_back(block, io_.device->hbm[kPlace<I>], position_[I].index.data(), inside));
    record(op, inside, op.space, Space::hbm, Why::writeback);
  }

  // Of the automatic pipeline, on the machine.

  /// The pipeline reads or writes a whole block in VMEM.
  void touch(const OperandPlan& op, Buffer& block, bool write, const char* kind) {
    if (io_.core->machine->tracks(block)) {
      access(op, block, Ref(block).box(), write, kind, io_.core->clock, nullptr);
    }
  }
  void access(const OperandPlan& op, Buffer& buffer, const Box& box, bool write, const char* kind,
              const Clock& clock, std::shared_ptr<TransferHalf> half) {
    Access a;
    a.box = box;
    a.write = write;
    a.when = io_.core->now();
    a.half = std::move(half);
    a.site = site_of(*io_.core, op.at);
    a.kind = kind;
    io_.core->machine->access(*io_.core, buffer, std::move(a), clock);
  }

  /// A step begins: what was written back `buffers` steps ago is known to have landed, and
  /// prefetches that are issued now know what is known now.
  void pass_time() {
    MachineCore& core = *io_.core;
    core.machine->tick(core);
    while (!writing_back_.empty() && writing_back_.front().first <= steps) {
      writing_back_.front().second->seen = core.now();
      writing_back_.pop_front();
    }
    known_.push_back(core.clock);
    if (known_.size() > kKnownSteps) known_.pop_front();
  }
  Ref array_ref(const OperandPlan& op, const std::int64_t* index, const Shape& inside) {
    Ref ref(*io_.device->arrays[static_cast<std::size_t>(&op - plan_.operands.data())]);
    for (int d = 0; d < op.block.rank; ++d) ref = ref.slice(d, op.first(d, index), inside[d]);
    return ref;
  }
  /// A block of an aliased input was fetched: issued buffers - 1 steps ago.
  void fetched(const OperandPlan& op, const std::int64_t* index, const Shape& inside) {
    const Ref ref = array_ref(op, index, inside);
    const auto ahead =
        std::min<std::size_t>(static_cast<std::size_t>(op.buffers) - 1, known_.size() - 1);
    access(op, ref.buffer(), ref.box(), false, "fetch", known_[known_.size() - 1 - ahead], nullptr);
  }
  /// A block of an aliased output leaves, and has landed buffers - 1 steps later.
  void written_back(const OperandPlan& op, const std::int64_t* index, const Shape& inside) {
    const Ref ref = array_ref(op, index, inside);
    auto half = std::make_shared<TransferHalf>();
    writing_back_.emplace_back(steps + op.buffers - 1, half);
    access(op, ref.buffer(), ref.box(), true, "write-back", io_.core->clock, std::move(half));
  }

  /// Takes an output block for this cell: once in the whole run.
  template <std::size_t I>
  void claim(const std::int64_t* index) {
    const OperandPlan& op = plan_.operands[kPlace<I>];
    const std::int64_t linear = op.number_of(index);
    std::atomic_ref<std::int32_t> owner(
        io_.device->owner[kPlace<I>][static_cast<std::size_t>(linear)]);
    const std::int32_t before = owner.exchange(static_cast<std::int32_t>(cell_) + 1);
    if (before == 0) return;
    if (before == cell_ + 1) throw KernelError(output_revisit(op, index));
    throw KernelError(parallel_dependence_output(op, index, before - 1));
  }

  void record(const OperandPlan& op, const Shape& inside, Space from, Space to, Why why) {
    const bool full = inside == op.block;
    Movement m;
    m.ref = op.ledger_ref;
    m.from = from;
    m.to = to;
    m.why = why;
    if (io_.core != nullptr) {
      m.device = io_.core->device;
      m.core = io_.core->core;
    }
    m.step = steps;
    m.bytes = full ? op.full_bytes : packed_bytes(op.dtype, inside.elems());
    m.padded_bytes = full ? op.full_padded_bytes : plan_.device.padded_bytes(op.dtype, inside);
    ledger.record(m);
  }

  void watch() {
    if (!std::equal(io_.at->begin(), io_.at->end(), ids_.begin())) return;
    if (io_.on_step != nullptr) {
      std::string text;
      for_each_operand([&]<std::size_t I>() {
        if constexpr (kBlock<I>) {
          const auto& block = std::get<I>(blocks_);
          if (!block.plan->present) return;
          text += describe_ref(*block.plan) + "\n";
          if (block.shadow.all_init()) {
            text +=
                detail::to_text(Tile<typename OpAt<I>::Element>(
                    block.data, block.plan->rows, block.plan->cols, block.stride, block.storage)) +
                "\n";
          } else {
            text += "  undefined so far\n";
          }
        }
      });
      (*io_.on_step)(text);
    }
    if (io_.break_at) std::raise(SIGTRAP);  // the body is the next call from step()
  }

  void report_step() {
    if constexpr (G::kParallel < G::kRank) {
      constexpr std::size_t kDim = G::kParallel;
      const double inner =
          static_cast<double>(ids_[kDim] - lo_[kDim]) / std::max(1, hi_[kDim] - lo_[kDim]);
      report((static_cast<double>(cell_) + inner) / static_cast<double>(io_.cells));
    }
  }
  void report(double done) { (*io_.progress)(done); }

  const K& kernel_;
  const S& spec_;
  const Plan& plan_;
  CoreIo& io_;
  Blocks blocks_;
  std::array<Position, kOperands> position_{};
  std::array<int, kMaxGridRank> ids_{};
  std::array<int, kMaxGridRank> body_ids_{};  ///< of the last step that ran, for checksums
  std::array<int, kMaxGridRank> lo_{};
  std::array<int, kMaxGridRank> hi_{};
  std::int64_t cell_ = 0;
  bool cell_start_ = true;
  std::vector<std::vector<Semaphore*>> semaphores_;  ///< per operand
  std::vector<std::unique_ptr<Semaphore>> own_semaphores_;

  // Aliased operands: what the core knew at the start of its last steps, and write-backs on their
  // way with the step by which they have landed.
  static constexpr std::size_t kKnownSteps = 16;
  bool aliases_ = false;
  std::deque<Clock> known_;
  std::deque<std::pair<std::int64_t, std::shared_ptr<TransferHalf>>> writing_back_;
};

}  // namespace tessera
