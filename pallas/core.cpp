#include "pallas/core.hpp"

#include <atomic>
#include <deque>
#include <set>

#include "pallas/ops/memory.hpp"
#include "sim/ops/checksum.hpp"
#include "sim/transfer.hpp"

namespace tessera::pallas {

IndexMaps::IndexMaps(const Launch& launch, Exec& exec, int device) : launch_(launch), exec_(exec) {
  exec.bounds = &launch.grid;
  const Program& p = *launch.program;
  for (std::size_t i = 0; i < p.prefetched.size(); ++i) {
    const Array& array = launch.call->prefetched[i];
    const Type& t = p.prefetched[i].type;
    prefetched_.push_back(
        make_buffer("prefetched" + std::to_string(i), Space::smem, t.dtype, t.shape));
    Buffer& b = *prefetched_.back();
    const std::int64_t bytes = packed_bytes(t.dtype, t.shape.elems());
    const bool sharded = array.size_bytes() > bytes;
    std::memcpy(b.writable(), array.bytes() + (sharded ? device * bytes : 0),
                static_cast<std::size_t>(bytes));
    b.shadow = Shadow(t.shape.elems(), Shadow::init);
    b.shared = false;
    exec_.memref(p.prefetched[i].slot) = MemRef::whole(b);
    for (const Window& w : p.operands) {
      if (!w.whole && !w.any)
        exec_.memref(w.transform.arguments[p.grid.size() + i]) = MemRef::whole(b);
    }
  }
}

void IndexMaps::evaluate(const Window& w, const int* ids, std::int64_t* index) {
  if (w.whole) {
    for (int d = 0; d < w.type.shape.rank; ++d) index[d] = 0;
    return;
  }
  const Code& code = w.transform;
  for (std::size_t d = 0; d < launch_.grid.size(); ++d)
    exec_.set(code.arguments[d], std::int32_t{ids[d]});
  exec_.run(code);
  for (std::size_t d = 0; d < code.results.size(); ++d)
    index[d] = exec_.integer(code.results[d], DType::i32, "a block index");
}

namespace {

class KernelCore final : public CoreBase {
 public:
  KernelCore(const Launch& launch, const Plan& plan, CoreIo& io)
      : launch_(launch),
        program_(*launch.program),
        plan_(plan),
        io_(io),
        context_(*io.context),
        exec_(*launch.program, io.core, context_),
        maps_(launch, exec_, io.core != nullptr ? io.core->device : 0) {
    ledger = plan.ledger;
    missing.resize(plan.operands.size());
    ledger.keep_movements(io.keep_movements);
    exec_.printed = &printed;
    exec_.collective_id = launch.call->collective_id;
    exec_.unchecked_bounds = launch.call->unchecked_bounds;
    exec_.dry = io.dry;
    if (io.core != nullptr) {
      io.core->ledger = &ledger;
      io.core->step = &steps;
    }
    if (io.core != nullptr && std::ranges::count(launch.lingers, true) != 0) throw NeedsOneCell{};
    places_.resize(program_.operands.size());
    for (std::size_t i = 0; i < program_.operands.size(); ++i) prepare(i);
    for (std::size_t i = 0; i < program_.scratch.size(); ++i) prepare_scratch(i);
    for (std::size_t d = 0; d < launch_.grid.size(); ++d)
      extent[d] = static_cast<int>(launch_.grid[d]);
    if (io.core == nullptr || io.core->device == 0 || launch.call->program->asynchronous)
      trace.most = io.trace_steps;
    trace.blocks.resize(plan.operands.size());
    for (const OperandPlan& op : plan.operands) {
      if (op.pipelined() && op.blocks.elems() > std::numeric_limits<std::int32_t>::max())
        trace.give_up();
    }
  }

  void run_cells(std::int64_t first, std::int64_t last) override {
    const OpState outer = std::exchange(
        op_state,
        OpState{.trap_nan = io_.trap_nan, .profile = io_.profile, .error_model = io_.error_model});
    context_.ids = ids_.data();
    if (io_.core != nullptr) {
      const Machine& machine = *io_.core->machine;
      if (machine.devices() > 1) context_.device = io_.core->device;
      if (machine.cores_per_device() > 1) context_.core = io_.core->core;
    }
    const StepContext* const outer_context = std::exchange(step_context, &context_);
    struct Restore {
      KernelCore* core;
      OpState state;
      const StepContext* context;
      ~Restore() {
        core->flops += op_state.flops;
        core->transcendentals += op_state.transcendentals;
        op_state = state;
        step_context = context;
      }
    } restore{this, outer, outer_context};

    if (io_.keeps_blocks && io_.core == nullptr) recall(first);
    for (std::int64_t cell = first; cell < last; ++cell) {
      if (!io_.keeps_blocks) {
        for (Place& p : places_) p.resident = false;
      }
      set_cell(cell);
      cell_ = cell;
      // An output that lingers leaves with the last cell: as if all were one.
      if (tracing() && (cell == 0 || std::ranges::count(launch_.lingers, true) == 0))
        trace.cell_begin.push_back(trace.steps);
      if (inner_steps() > 0) walk();
      end_cell();
      if (io_.progress != nullptr)
        (*io_.progress)(static_cast<double>(cell + 1) / static_cast<double>(io_.cells));
    }
  }

 private:
  /// A window's block in VMEM or SMEM.
  struct Place {
    std::unique_ptr<Buffer> block;
    std::array<std::int64_t, kMaxRank> index{};
    bool resident = false;  ///< as the device sees it
    bool loaded = false;
    bool again = false;                                  ///< an output block that was here before
    std::set<std::array<std::int64_t, kMaxRank>> taken;  ///< by an output counted in elements
  };

  void place_buffer(Buffer& b, int ledger_ref, bool shared) {
    if (io_.core == nullptr) return;
    b.device = io_.core->device;
    b.core = io_.core->id;
    b.ledger_ref = ledger_ref;
    b.shared = shared;
    io_.core->machine->place(b);
  }

  void prepare(std::size_t i) {
    const Window& w = program_.operands[i];
    const OperandPlan& op = plan_.operands[i];
    if (w.any) {
      if (io_.core == nullptr) throw NeedsMachine{};
      exec_.memref(w.slot) = MemRef::whole(*io_.device->arrays[i]);
      return;
    }
    Place& p = places_[i];
    p.block = make_buffer(op.name, op.space, op.dtype, w.type.shape);
    place_buffer(*p.block, plan_.scoped_ref, op.role == Role::out || w.whole);
    exec_.memref(w.slot) = MemRef::whole(*p.block);
    if (launch_.lingers[i]) exec_.lingering.push_back(p.block.get());
  }

  void prepare_scratch(std::size_t i) {
    const Window& w = program_.scratch[i];
    const OperandPlan& op = plan_.operands[program_.operands.size() + i];
    if (w.semaphores) {
      if (io_.core == nullptr) throw NeedsMachine{};
      auto all = std::make_unique<std::vector<Semaphore*>>();
      const std::int64_t n = w.type.shape.elems();
      for (std::int64_t k = 0; k < n; ++k) {
        semaphores_.push_back(std::make_unique<Semaphore>(
            n == 1 ? op.name : op.name + "[" + std::to_string(k) + "]",
            op.role == Role::dma_sem ? Semaphore::Kind::dma : Semaphore::Kind::regular,
            io_.core->id));
        io_.core->machine->place(*semaphores_.back());
        all->push_back(semaphores_.back().get());
      }
      MemRef m;
      m.semaphores = all.get();
      m.view.extents = w.type.shape;
      m.view.strides = row_major_strides(w.type.shape);
      exec_.memref(w.slot) = m;
      semaphore_arrays_.push_back(std::move(all));
      return;
    }
    if (w.any) {
      if (io_.core == nullptr) throw NeedsMachine{};
      exec_.memref(w.slot) = MemRef::whole(*io_.device->arrays[program_.operands.size() + i]);
      return;
    }
    scratch_.push_back(make_buffer(op.name, op.space, op.dtype, w.type.shape));
    if (exec_.unknown(op.space)) scratch_.back()->shadow.fill(Shadow::init);
    place_buffer(*scratch_.back(), op.ledger_ref, true);
    exec_.memref(w.slot) = MemRef::whole(*scratch_.back());
  }

  std::int64_t inner_steps() const {
    std::int64_t n = 1;
    for (std::size_t d = static_cast<std::size_t>(launch_.parallel); d < launch_.grid.size(); ++d)
      n *= launch_.grid[d];
    return n;
  }

  void set_cell(std::int64_t cell) {
    for (int d = launch_.parallel - 1; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      ids_[i] = static_cast<int>(cell % launch_.grid[i]);
      cell /= launch_.grid[i];
    }
    for (std::size_t d = static_cast<std::size_t>(launch_.parallel); d < launch_.grid.size(); ++d)
      ids_[d] = 0;
  }

  /// All steps of the cell in ids_, the last dim fastest.
  void walk() {
    const auto rank = static_cast<int>(launch_.grid.size());
    for (;;) {
      step();
      int d = rank - 1;
      for (; d >= launch_.parallel; --d) {
        const auto i = static_cast<std::size_t>(d);
        if (++ids_[i] < launch_.grid[i]) break;
        ids_[i] = 0;
      }
      if (d < launch_.parallel) return;
    }
  }

  /// The inputs that the device still holds before cell `first`.
  void recall(std::int64_t first) {
    if (first == 0 || inner_steps() == 0) return;
    set_cell(first - 1);
    for (std::size_t d = static_cast<std::size_t>(launch_.parallel); d < launch_.grid.size(); ++d)
      ids_[d] = static_cast<int>(launch_.grid[d]) - 1;
    for (std::size_t i = 0; i < program_.operands.size(); ++i) {
      const Window& w = program_.operands[i];
      if (w.any || plan_.operands[i].role != Role::in) continue;
      maps_.evaluate(w, ids_.data(), places_[i].index.data());
      places_[i].resident = true;
    }
  }

  void step() {
    for (std::size_t d = 0; d < launch_.grid.size(); ++d)
      exec_.set(program_.ids[d], std::int32_t{ids_[d]});
    // What leaves makes room, and an aliased array ready, before anything comes.
    std::array<std::int64_t, kMaxRank> index{};
    indices_.resize(program_.operands.size());
    for (std::size_t i = 0; i < program_.operands.size(); ++i) {
      if (program_.operands[i].any) continue;
      maps_.evaluate(program_.operands[i], ids_.data(), index.data());
      indices_[i] = index;
    }
    if (io_.core != nullptr) pass_time();
    for (const Role role : {Role::out, Role::in}) {
      for (std::size_t i = 0; i < program_.operands.size(); ++i) {
        if (program_.operands[i].any || plan_.operands[i].role != role) continue;
        Place& p = places_[i];
        const OperandPlan& op = plan_.operands[i];
        const bool same =
            p.resident &&
            std::equal(indices_[i].begin(), indices_[i].begin() + op.block.rank, p.index.begin());
        if (!same || !p.loaded) come(i, same);
      }
    }
    if (io_.at != nullptr) watch();
    const OpState before = op_state;
    script_.clear();
    if (io_.core != nullptr) {
      io_.core->script = tracing() ? &script_ : nullptr;
      io_.core->scripted = op_state;
    }
    if (launch_.bodies) run_body();
    if (tracing()) trace_step(before);
    ++steps;
    if (io_.keep_checksums) sum_scratch();
    report_progress();
  }

  void run_body() {
    exec_.scopes.clear();
    exec_.scopes.emplace_back();
    exec_.run(program_.main);
    if (!exec_.scopes.empty()) leave_scope(exec_);
    for (const auto& [unit, mxu] : exec_.matrix_units) {
      if (mxu.staged.empty() && mxu.sums.empty()) continue;
      fail_matrix_unit("matrix unit " + std::to_string(unit) + " still holds " +
                           (mxu.sums.empty() ? "a staged operand" : "a sum") +
                           " at the end of the step",
                       "pop every accumulator and load every staging register");
    }
  }

  bool tracing() const { return trace.most > 0 && trace.complete; }
  /// Keeps what this step used; `before`: what the steps before it had counted.
  void trace_step(const OpState& before) {
    if (trace.steps == trace.most) {
      trace.give_up();
      return;
    }
    ++trace.steps;
    for (std::size_t i = 0; i < program_.operands.size(); ++i) {
      const OperandPlan& op = plan_.operands[i];
      if (program_.operands[i].any || !op.pipelined()) continue;
      trace.blocks[i].push_back(static_cast<std::int32_t>(op.number_of(indices_[i].data())));
    }
    if (!launch_.bodies || (io_.dry && !program_.counts_all)) return;
    if (!script_.empty()) {
      const Work rest = work_since(io_.core->scripted);
      if (!(rest == Work{})) script_.push_back(work_act(rest));
    }
    trace.add_work(work_since(before), script_);
  }

  void report_progress() {
    if (io_.progress != nullptr && (steps & 0xff) == 0 && launch_.parallel == 0) {
      double total = 1;
      double done = 0;
      for (std::size_t d = 0; d < launch_.grid.size(); ++d) {
        done = done * static_cast<double>(launch_.grid[d]) + ids_[d];
        total *= static_cast<double>(launch_.grid[d]);
      }
      (*io_.progress)(done / total);
    }
  }

  void end_cell() {
    for (std::size_t i = 0; i < program_.operands.size(); ++i) {
      if (program_.operands[i].any || plan_.operands[i].role != Role::out) continue;
      if (places_[i].resident && (!launch_.lingers[i] || cell_ + 1 == io_.cells)) leave(i);
      places_[i].resident = places_[i].loaded = false;
    }
    if (launch_.parallel == 0) return;
    // Scratch that this cell wrote stays there, but not for the next one.
    for (auto& b : scratch_) {
      if (exec_.unknown(b->space)) continue;
      if (b->shadow.missing() < b->shadow.elems()) b->shadow.fill(Shadow::stale);
    }
  }

  /// Block indices_[i] comes into place i.
  void come(std::size_t i, bool elided) {
    Place& p = places_[i];
    const OperandPlan& op = plan_.operands[i];
    const std::int64_t* const index = indices_[i].data();
    for (int d = 0; d < op.block.rank; ++d) {
      if (index[d] < 0 || index[d] >= op.blocks[d]) throw KernelError(oob_block(op, index));
    }
    const Shape inside = op.in_bounds(index);
    Buffer& b = *p.block;
    if (op.role == Role::out) {
      if (p.resident) leave(i);
      if (io_.core != nullptr) touch(op, b, true, "fetch");
      if (!launch_.lingers[i]) claim(i, index);
      b.shadow.fill(exec_.unknown(b.space) ? Shadow::init : Shadow::uninit);
      b.bounds.clear();
    } else {
      if (io_.core != nullptr) {
        touch(op, b, true, "fetch");
        if (op.aliased >= 0) fetched(op, index, inside);
      }
      if (exec_.unknown(b.space)) {
        b.shadow.fill(Shadow::init);
      } else {
        fetch(op, b, io_.device->hbm[i], index, inside);
        fetch_bounds(i, index, inside);
      }
      if (!elided) record(op, inside, Space::hbm, op.space, Why::fetch);
    }
    std::copy_n(index, op.block.rank, p.index.begin());
    p.resident = p.loaded = true;
  }

  void leave(std::size_t i) {
    Place& p = places_[i];
    const OperandPlan& op = plan_.operands[i];
    const Shape inside = op.in_bounds(p.index.data());
    if (io_.core != nullptr) {
      touch(op, *p.block, false, "write-back");
      if (op.aliased >= 0) written_back(op, p.index.data(), inside);
    }
    if (io_.dry) {
      record(op, inside, op.space, Space::hbm, Why::writeback);
      return;
    }
    if (launch_.lingers[i]) {
      if (!p.block->shadow.all_init()) throw NeedsOneCell{};
      claim(i, p.index.data());
    }
    if (io_.keep_checksums) add_checksum(i, *p.block, p.index.data(), inside);
    if (float* const bounds = io_.device->bounds[i])
      write_back_bounds(op, *p.block, bounds, p.index.data(), inside);
    const Missing left = write_back(op, *p.block, io_.device->hbm[i], p.index.data(), inside);
    if (p.again && left.count > 0) throw KernelError(output_revisit(op, p.index.data()));
    if (op.aliased < 0) missing[i].add(left);
    record(op, inside, op.space, Space::hbm, Why::writeback);
  }

  static void fetch(const OperandPlan& op, Buffer& b, const std::byte* hbm,
                    const std::int64_t* index, const Shape& inside) {
    std::byte* const to = b.writable();
    const bool whole = inside == op.block;
    if (!whole) {
      poison(to, op.dtype, op.block.elems());
      b.shadow.fill(Shadow::uninit);
    } else {
      b.shadow.fill(Shadow::init);
    }
    for_each_run(op, index, inside, [&](std::int64_t from, std::int64_t at, std::int64_t n) {
      copy_elements(op.dtype, hbm, from, to, at, n);
      if (!whole) b.shadow.mark_init(Rect{at, 1, n, n});
    });
  }

  /// An input has bounds where it is an output's array.
  void fetch_bounds(std::size_t i, const std::int64_t* index, const Shape& inside) {
    const OperandPlan& op = plan_.operands[i];
    Buffer& b = *places_[i].block;
    b.bounds.clear();
    if (io_.error_model == nullptr || op.aliased < 0) return;
    const float* const bounds = io_.device->bounds[static_cast<std::size_t>(op.aliased)];
    b.bounds.assign(static_cast<std::size_t>(op.block.elems()), 0.f);
    for_each_run(op, index, inside, [&](std::int64_t from, std::int64_t at, std::int64_t n) {
      std::copy_n(bounds + from, n, b.bounds.begin() + at);
    });
  }
  /// What nothing wrote keeps what the array has.
  static void write_back_bounds(const OperandPlan& op, const Buffer& b, float* hbm,
                                const std::int64_t* index, const Shape& inside) {
    for_each_run(op, index, inside, [&](std::int64_t to, std::int64_t at, std::int64_t n) {
      for (std::int64_t e = 0; e < n; ++e) {
        if (b.shadow.at(at + e) != Shadow::init) continue;
        hbm[to + e] = b.bounds.empty() ? 0.f : b.bounds[static_cast<std::size_t>(at + e)];
      }
    });
  }

  /// Of scratch, or of the part `inside` of an output block (`index`).
  void add_checksum(std::size_t place, Buffer& b, const std::int64_t* index, const Shape& inside) {
    const OperandPlan& op = plan_.operands[place];
    if (b.shadow.missing() == b.shadow.elems()) return;
    StepChecksum sum;
    sum.device = io_.core != nullptr ? io_.core->device : 0;
    std::copy_n(body_ids_.begin(), std::min(body_ids_.size(), sum.ids.size()), sum.ids.begin());
    sum.operand = static_cast<int>(place);
    const std::byte* const bytes = b.bytes();
    visit_dtype(op.dtype, [&]<class Tag>(Tag) {
      using T = typename Tag::type;
      const auto add = [&](std::int64_t from, std::int64_t n) {
        for (std::int64_t e = from; e < from + n; ++e) {
          if (b.shadow.at(e) == Shadow::init)
            sum.checksum += checksum_of(e, load_element<T>(bytes, e));
        }
      };
      if (index == nullptr) {
        add(0, b.shape.elems());
        return;
      }
      sum.block = op.number_of(index);
      for_each_run(op, index, inside,
                   [&](std::int64_t, std::int64_t from, std::int64_t n) { add(from, n); });
    });
    checksums.push_back(sum);
  }
  /// What copies reach may be under way: of scratch, what the body alone writes.
  void sum_scratch() {
    body_ids_ = ids_;
    if (io_.core != nullptr) return;
    std::size_t next = 0;
    for (std::size_t i = 0; i < program_.scratch.size(); ++i) {
      const Window& w = program_.scratch[i];
      if (w.semaphores || w.any) continue;
      add_checksum(program_.operands.size() + i, *scratch_[next++], nullptr, {});
    }
  }

  static Missing write_back(const OperandPlan& op, Buffer& b, std::byte* hbm,
                            const std::int64_t* index, const Shape& inside) {
    const bool whole = b.shadow.all_init();
    Missing left;
    const std::byte* const from = b.bytes();
    for_each_run(op, index, inside, [&](std::int64_t to, std::int64_t at, std::int64_t n) {
      if (whole || b.shadow.first_missing({at, 1, n, n}) < 0) {
        copy_elements(op.dtype, from, at, hbm, to, n);
        return;
      }
      for (std::int64_t e = 0; e < n; ++e) {
        if (b.shadow.at(at + e) == Shadow::init)
          copy_elements(op.dtype, from, at + e, hbm, to + e, 1);
        else
          left.add(1, to + e);
      }
    });
    return left;
  }

  static void copy_elements(DType dtype, const std::byte* from, std::int64_t from_at, std::byte* to,
                            std::int64_t to_at, std::int64_t n) {
    const std::int64_t bits = bit_width(dtype);
    if (bits < 8 && (from_at % 2 != 0 || to_at % 2 != 0 || n % 2 != 0)) {
      for (std::int64_t e = 0; e < n; ++e)
        store_element(to, to_at + e, load_element<i4>(from, from_at + e));
      return;
    }
    std::memcpy(to + to_at * bits / 8, from + from_at * bits / 8,
                static_cast<std::size_t>(n * bits / 8));
  }

  /// Takes an output block for this cell; it may come back to it.
  void claim(std::size_t i, const std::int64_t* index) {
    const OperandPlan& op = plan_.operands[i];
    if (op.by_element) {
      claim_elements(i, index);
      return;
    }
    const std::int64_t linear = op.number_of(index);
    std::atomic_ref<std::int32_t> owner(io_.device->owner[i][static_cast<std::size_t>(linear)]);
    const std::int32_t before = owner.exchange(static_cast<std::int32_t>(cell_) + 1);
    if (before != 0 && before != cell_ + 1)
      throw KernelError(parallel_dependence_output(op, index, before - 1));
    places_[i].again = before != 0;
  }

  /// A window of elements may come back to the place that it had, but not overlap an earlier one.
  void claim_elements(std::size_t i, const std::int64_t* index) {
    const OperandPlan& op = plan_.operands[i];
    const Shape inside = op.in_bounds(index);
    const auto mine = static_cast<std::int32_t>(cell_) + 1;
    std::int64_t before = 0;
    for_each_run(op, index, inside, [&](std::int64_t first, std::int64_t, std::int64_t n) {
      for (std::int64_t e = first; e < first + n; ++e) {
        std::atomic_ref<std::int32_t> owner(io_.device->owner[i][static_cast<std::size_t>(e)]);
        const std::int32_t other = owner.exchange(mine);
        if (other != 0 && other != mine)
          throw KernelError(parallel_dependence_output(op, index, other - 1));
        before += other == mine ? 1 : 0;
      }
    });
    Place& p = places_[i];
    p.again = before != 0;
    std::array<std::int64_t, kMaxRank> place{};
    std::copy_n(index, op.block.rank, place.begin());
    const bool known = !p.taken.insert(place).second;
    if (p.again && !known) throw KernelError(output_overlap(op, index));
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

  // Of the automatic pipeline, on the machine: as in sim/interpreter.hpp.

  void touch(const OperandPlan& op, Buffer& block, bool write, const char* kind) {
    if (io_.core->machine->tracks(block))
      access(op, block, Ref(block).box(), write, kind, io_.core->clock, nullptr);
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
  void fetched(const OperandPlan& op, const std::int64_t* index, const Shape& inside) {
    if (inside.elems() == 0) return;
    const Ref ref = array_ref(op, index, inside);
    const auto ahead =
        std::min<std::size_t>(static_cast<std::size_t>(op.buffers) - 1, known_.size() - 1);
    access(op, ref.buffer(), ref.box(), false, "fetch", known_[known_.size() - 1 - ahead], nullptr);
  }
  void written_back(const OperandPlan& op, const std::int64_t* index, const Shape& inside) {
    if (inside.elems() == 0) return;
    const Ref ref = array_ref(op, index, inside);
    auto half = std::make_shared<TransferHalf>();
    writing_back_.emplace_back(steps + op.buffers - 1, half);
    access(op, ref.buffer(), ref.box(), true, "write-back", io_.core->clock, std::move(half));
  }

  void watch() {
    if (!std::equal(io_.at->begin(), io_.at->end(), ids_.begin())) return;
    if (io_.on_step != nullptr) {
      std::string text;
      for (std::size_t i = 0; i < program_.operands.size(); ++i)
        text += describe_ref(plan_.operands[i]) + "\n";
      (*io_.on_step)(text);
    }
  }

  const Launch& launch_;
  const Program& program_;
  const Plan& plan_;
  CoreIo& io_;
  StepContext context_;
  Exec exec_;
  Script script_;  ///< of this step
  IndexMaps maps_;
  std::vector<Place> places_;
  std::vector<std::array<std::int64_t, kMaxRank>> indices_;
  std::vector<std::unique_ptr<Buffer>> scratch_;
  std::vector<std::unique_ptr<Semaphore>> semaphores_;
  std::vector<std::unique_ptr<std::vector<Semaphore*>>> semaphore_arrays_;
  std::array<int, kMaxGridRank> ids_{};
  std::array<int, kMaxGridRank> body_ids_{};  ///< of the last step that ran
  std::int64_t cell_ = 0;
  static constexpr std::size_t kKnownSteps = 16;
  std::deque<Clock> known_;
  std::deque<std::pair<std::int64_t, std::shared_ptr<TransferHalf>>> writing_back_;
};

}  // namespace

std::unique_ptr<CoreBase> make_core(const Launch& launch, const Plan& plan, CoreIo& io) {
  return std::make_unique<KernelCore>(launch, plan, io);
}

}  // namespace tessera::pallas
