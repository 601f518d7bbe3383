#include "program/program_kernel.hpp"

#include "program/memory.hpp"
#include "sim/tiles/async.hpp"

namespace tessera::program {

IndexMaps::IndexMaps(const Call& call, const std::vector<std::int64_t>& grid, Exec& exec,
                     int device)
    : call_(call), device_(device), grid_(grid), exec_(exec) {
  exec.bounds = &grid;
  const Program& p = exec.program;
  for (std::size_t i = 0; i < p.prefetched.size(); ++i) {
    const Type& t = p.prefetched[i].type;
    prefetched_.push_back(std::make_unique<SharedBuffer>("prefetched" + std::to_string(i),
                                                         Space::smem, t.dtype, t.shape));
    Buffer& b = *prefetched_.back();
    std::memcpy(b.writable(), given(i),
                static_cast<std::size_t>(packed_bytes(t.dtype, t.shape.elems())));
    b.shadow.fill(Shadow::init);
    b.shared = false;
    exec_.memref(p.prefetched[i].slot) = MemRef::whole(b);
    for (const Window& w : p.operands) {
      if (!w.whole && !w.any)
        exec_.memref(w.transform.arguments[p.grid.size() + i]) = MemRef::whole(b);
    }
  }
}

const std::byte* IndexMaps::given(std::size_t i) const {
  const Array& array = call_.prefetched[i];
  const Type& t = exec_.program.prefetched[i].type;
  const std::int64_t bytes = packed_bytes(t.dtype, t.shape.elems());
  return array.bytes() + (array.size_bytes() > bytes ? device_ * bytes : 0);
}

void IndexMaps::forget_changes() {
  for (std::size_t i = 0; i < prefetched_.size(); ++i) {
    if (!exec_.program.prefetched[i].written) continue;
    Buffer& b = *prefetched_[i];
    for (std::int64_t e = 0; e < b.shape.elems(); ++e) {
      if (!same_bits(b.dtype, given(i), e, b.bytes(), e)) b.shadow.set(e, Shadow::stale);
    }
  }
}

void IndexMaps::evaluate(const Window& w, const int* ids, std::int64_t* index) {
  if (w.whole) {
    std::fill_n(index, std::max(1, w.type.shape.rank), 0);
    return;
  }
  const Code& code = w.transform;
  for (std::size_t d = 0; d < grid_.size(); ++d) exec_.set(code.arguments[d], std::int32_t{ids[d]});
  exec_.run(code);
  for (std::size_t d = 0; d < code.results.size(); ++d)
    index[d] = exec_.integer(code.results[d], DType::i32, "a block index");
  if (code.results.empty()) index[0] = 0;  // of a scalar, planned as one element
}

namespace {

class ProgramBody final : public Body {
 public:
  ProgramBody(const Call& call, const std::vector<std::int64_t>& grid,
              const std::vector<CoreUse>& core_use, CoreView& view)
      : program_(*call.program),
        view_(view),
        exec_(program_, view.core, *view.context),
        maps_(call, grid, exec_, view.core != nullptr ? view.core->device : 0) {
    exec_.printed = view.printed;
    exec_.core_use = core_use.empty() ? nullptr : &core_use;
    exec_.ran = view.ran;
    exec_.collective_id = call.collective_id;
    exec_.unchecked_bounds = call.unchecked_bounds;
    exec_.dry = view.dry;
    meets_first_ = program_.reaches_devices && !program_.has_barrier && !call.skip_device_barrier;
    const std::vector<OperandPlan>& operands = view.plan->operands;
    for (std::size_t i = 0; i < operands.size(); ++i) bind(i, window_at(i));
  }

  Range bounds(int, const int*) override { return {}; }  // the plan has them all

  void index(int operand, const int* ids, std::int64_t* index) override {
    maps_.evaluate(window(operand), ids, index);
  }

  bool along(int operand, const int* ids, std::int64_t* index, std::int64_t* slope) override {
    const Window& w = window(operand);
    if (w.along == Along::other) return false;
    maps_.evaluate(w, ids, index);
    const int rank = view_.plan->operands[static_cast<std::size_t>(operand)].block.rank;
    if (w.whole || w.along == Along::constant) {
      std::fill_n(slope, rank, 0);
      return true;
    }
    std::array<int, kMaxGridRank> next{};
    std::copy_n(ids, program_.grid.size(), next.begin());
    ++next[program_.grid.size() - 1];
    maps_.evaluate(w, next.data(), slope);
    for (int d = 0; d < rank; ++d) slope[d] -= index[d];
    return true;
  }

  void run() override {
    if (std::exchange(meets_first_, false)) meet_devices();
    if (op_state.error_model != nullptr && std::exchange(exact_constants_, false))
      bound_constants();
    run_at(view_.ids.data());
  }

  void count(CountedCore& counted) override {
    // A body with scratch of its own counts on the machine's refs: it asks for the machine first.
    exec_.core = counted.plan->scoped_ref >= 0 ? counted.core : nullptr;
    exec_.counting = true;
    for (std::size_t d = 0; d < program_.ids.size(); ++d) {
      if (program_.reads_id[d]) counted.use.exact |= 1u << d;
    }
    const OpState before = op_state;
    run_at(counted.ids.data());
    counted_work = work_since(before);
    op_state = before;
  }

 private:
  const Window& window(int operand) const {
    return program_.operands[static_cast<std::size_t>(operand)];
  }

  /// Of operand i of the plan.
  const Window& window_at(std::size_t i) const {
    const std::size_t first = program_.operands.size();
    return i < first ? program_.operands[i] : program_.scratch[i - first];
  }

  /// Other builds have these constants; of real numbers they are what rounding left.
  void bound_constants() {
    if (op_state.error_model->accumulate > 0) return;
    for (const auto& [slot, value] : program_.constants)
      exec_.scalars[static_cast<std::size_t>(slot)].bound = value.bound;
  }

  /// No core goes on before all cores of all devices are in the kernel: what Pallas does for a
  /// kernel that reaches others and takes no barrier semaphore itself, unless it is told otherwise
  /// (JAX, docs/pallas/tpu/distributed.md).
  void meet_devices() {
    if (view_.core == nullptr || view_.core->machine->devices() < 2) return;
    MachineCore& c = *view_.core;
    Machine& m = *c.machine;
    constexpr int kNoCollective = (1 << 30) - 1;  // an id that no kernel has
    Semaphore& own = m.barrier(c, kNoCollective);
    own.name = "the barrier before the kernel";
    const SemRef mine({&own}, c, own.name.c_str());
    Here at;
    for (const Location& line : program_.locations) {
      if (at.line == 0) at = {line.file.c_str(), line.line};
    }
    if (c.id != 0) {
      semaphore_signal(mine, 1, 0, 0, at);
      semaphore_wait(mine, 1, at);
      return;
    }
    semaphore_wait(mine, m.cores() - 1, at);
    for (int id = 1; id < m.cores(); ++id)
      semaphore_signal(mine, 1, m.core(id).device, m.core(id).core, at);
  }

  /// What the cores of a SparseCore share is that of one of them.
  void bind_shared() {
    if (view_.core == nullptr || program_.subcores.empty()) return;
    const Machine& machine = *view_.core->machine;
    const auto leader = static_cast<int>(leader_of(program_, view_.core->core));
    const int on = view_.core->device * machine.cores_per_device() + leader;
    for (std::size_t i = 0; i < view_.plan->operands.size(); ++i) {
      const Window& w = window_at(i);
      if (w.type.space == "vmem_shared")
        exec_.memref(w.slot) = MemRef::whole(*machine.on_core(*view_.blocks[i], on));
    }
  }

  /// The function of the kind of core that the cell is of, with its arguments.
  const Code& enter(std::int64_t cell) {
    const Subcores& kind = kind_of(program_, cell);
    std::int64_t left = cell - kind.first;
    for (std::size_t d = kind.grid.size(); d-- > 0;) {
      exec_.set(kind.ids[d], static_cast<std::int32_t>(left % kind.grid[d]));
      left /= kind.grid[d];
    }
    for (std::size_t i = 0; i < view_.plan->operands.size(); ++i)
      exec_.memref(kind.main.arguments[kind.grid.size() + i]) = exec_.memref(window_at(i).slot);
    return kind.main;
  }

  /// Gives operand i of the plan to the code.
  void bind(std::size_t i, const Window& w) {
    const OperandPlan& op = view_.plan->operands[i];
    MemRef& m = exec_.memref(w.slot);
    if (is_semaphore(op.role)) {
      m.semaphores = &view_.semaphores[i];
      m.view.extents = w.type.shape;
      m.view.strides = row_major_strides(w.type.shape);
    } else if (in_hbm(op.role)) {
      m = MemRef::whole(*view_.arrays[i]);
    } else {
      m = MemRef::whole(block(i, op));
    }
  }
  Block& block(std::size_t i, const OperandPlan& op) {
    if (!view_.blocks.empty()) return *view_.blocks[i];
    counted_.push_back(std::make_unique<Block>(op, view_.plan->device));
    counted_.back()->allocate_undefined();
    counted_.back()->shadow.fill(Shadow::init);
    return *counted_.back();
  }

  void run_at(const int* ids) {
    for (std::size_t d = 0; d < program_.ids.size(); ++d)
      exec_.set(program_.ids[d], std::int32_t{ids[d]});
    if (exec_.cell != view_.cell && view_.plan->inner_cells() == 1) maps_.forget_changes();
    exec_.cell = view_.cell;
    // What a step that was given up has left.
    while (!exec_.scopes.empty()) free_scope(exec_);
    exec_.matrix_units.clear();
    exec_.scopes.emplace_back();
    bind_shared();
    exec_.run(program_.subcores.size() > 1 ? enter(ids[0]) : program_.main);
    if (!exec_.scopes.empty()) leave_scope(exec_);
    for (const auto& [unit, mxu] : exec_.matrix_units) {
      if (mxu.staged.empty() && mxu.sums.empty()) continue;
      fail_matrix_unit("matrix unit " + std::to_string(unit) + " still holds " +
                           (mxu.sums.empty() ? "a staged operand" : "a sum") +
                           " at the end of the step",
                       "pop every accumulator and load every staging register");
    }
  }

  const Program& program_;
  CoreView& view_;
  Exec exec_;
  IndexMaps maps_;
  bool meets_first_ = false;
  bool exact_constants_ = true;
  std::vector<std::unique_ptr<Block>> counted_;  ///< of a count: memory that nobody reads
};

}  // namespace

std::unique_ptr<Body> ProgramKernel::body(CoreView& view) const {
  return std::make_unique<ProgramBody>(call_, grid_, core_use_, view);
}

UndefinedRead ProgramKernel::undefined_read(Origin origin) const {
  const Program& p = *call_.program;
  const int number = read_of(origin);
  if (number == 0 || number > std::ssize(p.reads)) return {};
  const Read& read = p.reads[static_cast<std::size_t>(number - 1)];
  const Location& at = p.locations[static_cast<std::size_t>(read.location)];
  UndefinedRead found{.line = {at.file.c_str(), at.line}};
  int operand = 0;
  for (const auto* windows : {&p.operands, &p.scratch}) {
    for (const Window& w : *windows) {
      if (w.argument == read.argument) found.operand = operand;
      ++operand;
    }
  }
  for (std::size_t i = 0; i < p.prefetched.size(); ++i) {
    if (p.prefetched[i].argument == read.argument) found.memory = "prefetched" + std::to_string(i);
  }
  return found;
}

bool ProgramKernel::counts() const {
  const Program& p = *call_.program;
  const auto in_smem = [](const Window& w) { return w.smem; };
  return !p.asynchronous && std::ranges::none_of(p.operands, in_smem) &&
         std::ranges::none_of(p.scratch, in_smem);
}

}  // namespace tessera::program
