#include "sim/pipeline/pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iterator>
#include <limits>

#include "sim/diagnostics/findings.hpp"
#include "sim/diagnostics/machine_parts.hpp"
#include "sim/numerics/part.hpp"
#include "sim/pipeline/block_runs.hpp"

namespace tessera {

void begin_part() { stop_if_asked(); }

Range bounds_of(const Plan& plan, Body& body, int dim, const int* ids) {
  const auto& known = plan.bounds[static_cast<std::size_t>(dim)];
  return known ? *known : body.bounds(dim, ids);
}

void set_cell(const Plan& plan, std::int64_t cell, int* ids) {
  for (int d = plan.parallel_rank - 1; d >= 0; --d) {
    const int count = plan.bounds[static_cast<std::size_t>(d)]->hi;
    ids[d] = static_cast<int>(cell % count);
    cell /= count;
  }
}

Pipeline::Pipeline(const Kernel& kernel, const Plan& plan, CoreIo& io)
    : plan_(plan), io_(io), context_(*io.context), inner_(plan) {
  ledger = plan.ledger;
  missing.resize(plan.operands.size());
  ledger.keep_movements(io.keep_movements);
  context_.ids = view_.ids.data();
  view_.plan = &plan;
  view_.core = io.core;
  view_.context = &context_;
  view_.dry = io.dry;
  view_.printed = &printed;
  view_.scopes = &scopes;
  if (io.core != nullptr) {
    io.core->ledger = &ledger;
    io.core->step = &steps;
    const Machine& machine = *io.core->machine;
    if (machine.devices() > 1) context_.device = io.core->device;
    if (machine.cores_per_device() > 1) context_.core = io.core->core;
  }
  const std::size_t n = plan.operands.size();
  view_.blocks.resize(n);
  view_.arrays.resize(n);
  view_.semaphores.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const OperandPlan& op = plan.operands[i];
    lingering_ = lingering_ || op.returns == OperandPlan::Returns::lingers;
    aliases_ = aliases_ || (op.aliased >= 0 && io.core != nullptr);
    if (is_block(op.role)) {
      make_block(op, i);
    } else if (io.core == nullptr) {
      throw NeedsMachine{};
    } else if (is_semaphore(op.role)) {
      make_semaphores(op, i);
    } else {
      view_.arrays[i] = io.device->arrays[i];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const OperandPlan& op = plan.operands[i];
    if (!op.pipelined() || !op.present) continue;
    windows_.emplace_back();
    windows_.back().operand = static_cast<int>(i);
    windows_.back().plan = &op;
    windows_.back().block = view_.blocks[i];
  }
  // What leaves makes an aliased array ready before anything comes.
  if (aliases_ || plan.leaves_undefined)
    std::stable_partition(windows_.begin(), windows_.end(),
                          [](const Window& w) { return w.plan->role == Role::out; });
  if (aliases_ && !io.dry) pair_aliased();
  for (std::size_t d = 0; d < static_cast<std::size_t>(plan.grid_rank); ++d) {
    if (!plan.bounds[d]) continue;
    extent[d] = plan.bounds[d]->hi;
    view_.lo[d] = plan.bounds[d]->lo;
    view_.hi[d] = plan.bounds[d]->hi;
  }
  begin_trace();
  if (tracing()) view_.ran = &trace.ran;
  body_ = kernel.body(view_);
  plain_ = io.at == nullptr && io.progress == nullptr && trace.most == 0 && !io.keep_checksums;
}

void Pipeline::pair_aliased() {
  for (Window& out : windows_) {
    if (out.plan->role != Role::out || out.plan->aliased < 0) continue;
    for (Window& in : windows_) {
      if (in.operand != out.plan->aliased || !AliasedPair::applies(*in.block, *out.block)) continue;
      pairs_.push_back(
          {std::make_unique<AliasedPair>(*in.block, *out.block, out.operand), &in, &out});
      in.pair = out.pair = pairs_.back().blocks.get();
    }
  }
}

void Pipeline::make_block(const OperandPlan& op, std::size_t i) {
  blocks_.push_back(std::make_unique<Block>(op, plan_.device));
  Block& block = *blocks_.back();
  view_.blocks[i] = &block;
  // Inputs of tiles come defined; whether they are views of HBM the first one decides.
  if (op.present && (op.role != Role::in || op.outside == OperandPlan::Outside::undefined))
    block.allocate_undefined();
  if (!op.pipelined() && unknown(block)) block.shadow.fill(Shadow::init);
  if (io_.core == nullptr) return;
  block.device = io_.core->device;
  block.core = io_.core->id;
  block.ledger_ref = op.role == Role::vmem ? op.ledger_ref : plan_.scoped_ref;
  block.shared = op.reached;
  block.on = io_.core;
  io_.core->machine->place(block);
}

void Pipeline::make_semaphores(const OperandPlan& op, std::size_t i) {
  if (op.handed_on && op.aliased >= 0) {
    view_.semaphores[i] = view_.semaphores[static_cast<std::size_t>(op.aliased)];
    for (Semaphore* const s : view_.semaphores[i]) s->outlives = true;
    return;
  }
  const std::int64_t n = op.array.elems();
  for (std::int64_t k = 0; k < n; ++k) {
    semaphores_.push_back(std::make_unique<Semaphore>(
        n == 1 ? op.name : op.name + "[" + std::to_string(k) + "]",
        op.role == Role::dma_sem ? Semaphore::Kind::dma : Semaphore::Kind::regular, io_.core->id));
    io_.core->machine->place(*semaphores_.back());
    view_.semaphores[i].push_back(semaphores_.back().get());
    semaphores_.back()->outlives = op.handed_on;
    if (!op.given || io_.core->core != 0) continue;
    const auto held = load_element<std::int32_t>(io_.device->hbm[i], k);
    if (held <= 0) continue;
    semaphores_.back()->issue(held, io_.core->clock, nullptr, site_of(*io_.core, op.at));
    semaphores_.back()->land(held);
  }
}

void Pipeline::hand_on() {
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    if (!plan_.operands[i].handed_on || io_.core->core != 0) continue;
    std::byte* to = io_.device->hbm[i];
    for (const Semaphore* const s : view_.semaphores[i]) {
      const auto held = static_cast<std::int32_t>(s->value());
      std::memcpy(to, &held, sizeof held);
      to += sizeof held;
    }
  }
}

void Pipeline::run_cells(std::int64_t first, std::int64_t last, const CoreCells* shared) {
  const OpState outer = std::exchange(
      op_state,
      OpState{.trap_nan = io_.trap_nan, .profile = io_.profile, .error_model = io_.error_model});
  const StepContext* const outer_context = std::exchange(step_context, &context_);
  struct Restore {
    Pipeline* core;
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
  first_place_ = io_.core != nullptr ? first : 0;
  last_place_ = last - 1;
  for (place_ = first; place_ < last; ++place_) {
    if (io_.core != nullptr && io_.core->machine->cores() == 1 && place_ > 0 && place_ == last / 2)
      check_semaphores_empty();
    const std::int64_t cell = shared != nullptr ? shared->at(place_) : place_;
    if (!io_.keeps_blocks) {
      for (Window& w : windows_) w.resident = false;
    }
    set_cell(plan_, cell, view_.ids.data());
    cell_ = cell;
    view_.cell = cell;
    cell_start_ = true;
    inner_.forget_all();
    for (const Window& w : windows_) {
      if (w.loaded && w.beyond) note_beyond();
    }
    // An output that lingers leaves with a core's last cell: as if its cells were one.
    if (tracing() && (place_ == first_place_ || !lingering_))
      trace.cell_begin.push_back(trace.steps);
    walk();
    end_cell();
    if (io_.progress != nullptr)
      (*io_.progress)(static_cast<double>(place_ + 1) / static_cast<double>(io_.cells));
  }
}

/// Before the cells that a second core would have: nobody there would find what semaphores hold.
void Pipeline::check_semaphores_empty() {
  const MachineCore& c = *io_.core;
  for (const auto& s : semaphores_) {
    if (s->outstanding() != 0 && !s->outlives) found(parallel_dependence_semaphore(c, *s));
  }
}

void Pipeline::set_bounds(int dim) {
  const auto d = static_cast<std::size_t>(dim);
  const Range range = bounds_of(plan_, *body_, dim, view_.ids.data());
  view_.lo[d] = range.lo;
  view_.hi[d] = range.hi;
  extent[d] = std::max(extent[d], range.hi);
}

void Pipeline::note_beyond() {
  if (beyond.empty() || beyond.back() != cell_) beyond.push_back(cell_);
}

/// The inputs that the device still holds before cell `first`.
void Pipeline::recall(std::int64_t first) {
  int* const ids = view_.ids.data();
  const auto last_step = [&](auto&& self, int dim) -> bool {
    if (dim == plan_.grid_rank) return true;
    const Range range = bounds_of(plan_, *body_, dim, ids);
    for (int i = range.hi - 1; i >= range.lo; --i) {
      ids[dim] = i;
      if (self(self, dim + 1)) return true;
    }
    return false;
  };
  for (std::int64_t cell = first - 1; cell >= 0; --cell) {
    set_cell(plan_, cell, ids);
    if (!last_step(last_step, plan_.parallel_rank)) continue;
    for (Window& w : windows_) {
      if (w.plan->role != Role::in) continue;
      body_->index(w.operand, ids, w.index.data());
      w.resident = true;
    }
    return;
  }
}

/// False if it went wrong, in a run that goes on then: one whose cores cannot wait for one another.
template <class Work>
bool Pipeline::attempt(Work&& work) {
  Findings* const all = context_.findings;
  if (all == nullptr || (io_.core != nullptr && (plan_.copies || plan_.asynchronous()))) {
    work();
    return true;
  }
  try {
    work();
    return true;
  } catch (const Stopped&) {
    throw;
  } catch (const KernelError& error) {
    if (error.diagnostic.kind != Diagnostic::Kind::kernel) throw;
    all->add(error.diagnostic);
    return false;
  }
}

/// What a step that went wrong would have written counts as written, in the blocks that it would
/// have had: nothing is found for lack of it. Every window is asked for its place again.
template <class Work>
void Pipeline::attempt_step(Work&& work) {
  if (attempt(work)) return;
  for (Window& w : windows_) {
    if (w.plan->role == Role::out) attempt([&] { advance(w); });
  }
  ++steps;
  for (const auto& block : blocks_) {
    if (block->plan->role == Role::in || !block->plan->present) continue;
    if (block->plan->dense) poison(block->writable(), block->dtype, block->shape.elems());
    block->shadow.fill(Shadow::init);
  }
  for (const Pair& p : pairs_) p.blocks->moved();
  moving_.clear();
  for (Window& w : windows_) {
    w.affine = false;
    moving_.push_back(&w);
  }
}

/// All steps of the cell in the ids, the last dim fastest.
void Pipeline::walk() {
  if (plan_.parallel_rank == plan_.grid_rank) {
    attempt_step([&] {
      advance_all();
      step();
    });
  } else {
    walk_dim(plan_.parallel_rank);
  }
}

void Pipeline::walk_dim(int dim) {
  set_bounds(dim);
  const auto d = static_cast<std::size_t>(dim);
  const int lo = view_.lo[d];
  const int hi = view_.hi[d];
  int& id = view_.ids[d];
  if (dim + 1 < plan_.grid_rank) {
    const bool runs = plan_.runs > 1 && dim == plan_.parallel_rank;
    for (id = lo; id < hi; ++id) {
      if (runs && id > lo) begin_run();
      walk_dim(dim + 1);
    }
  } else if (lo < hi) {
    id = lo;
    attempt_step([&] {
      advance_all();
      find_moving(hi - lo);
      step();
    });
    for (id = lo + 1; id < hi; ++id) {
      attempt_step([&] {
        if (aliases_) pass_time();
        for (Window* const w : moving_) move_on(*w);
        step();
      });
    }
  }
  id = lo;
}

/// Another run of the cell's sum begins: it has nothing of those before but their total.
void Pipeline::begin_run() {
  for (const auto& block : blocks_) {
    if (!block->plan->of_run || unknown(*block)) continue;
    if (block->shadow.missing() < block->shadow.elems()) block->shadow.fill(Shadow::stale);
  }
}

/// What moves along a run of steps of the last dim, the first of which is the current one.
void Pipeline::find_moving(int run) {
  moving_.clear();
  constexpr int kFewSteps = 3;  // asked one by one
  for (Window& w : windows_) {
    if (w.plan->of_cell) continue;
    std::array<std::int64_t, kMaxRank> index;
    w.affine =
        run > kFewSteps && body_->along(w.operand, view_.ids.data(), index.data(), w.slope.data());
    const bool stays =
        w.affine && std::all_of(w.slope.begin(), w.slope.begin() + w.plan->block.rank,
                                [](std::int64_t s) { return s == 0; });
    if (!stays) moving_.push_back(&w);
  }
}

void Pipeline::advance_all() {
  if (aliases_) pass_time();
  for (Window& w : windows_) {
    if (cell_start_ || !w.plan->of_cell) advance(w);
  }
  cell_start_ = false;
}

/// Along a run of steps.
void Pipeline::move_on(Window& w) {
  if (!w.affine) return advance(w);
  std::array<std::int64_t, kMaxRank> index;
  for (std::size_t d = 0; d < static_cast<std::size_t>(w.plan->block.rank); ++d)
    index[d] = w.index[d] + w.slope[d];
  move_to(w, index.data(), false);
}

/// A body says where it ends by itself; one that looks at nothing ends here, after its step.
void Pipeline::stop_between_steps() {
  if (stopping_++ > 0) stop_if_asked();
}

/// A block that stays where it is may not stay another core's.
void Pipeline::enter_inner_cell() {
  view_.cell = inner_.claim_of(cell_, view_.ids.data());
  const auto mine = static_cast<std::int32_t>(view_.cell) + 1;
  for (Window& w : windows_) {
    const bool shared = w.plan->returns == OperandPlan::Returns::lingers ||
                        w.plan->returns == OperandPlan::Returns::restored || w.plan->by_element;
    if (w.plan->role != Role::out || shared || w.claim == mine) continue;
    const std::int32_t before = std::exchange(w.claim, mine);
    throw KernelError(parallel_dependence_output(*w.plan, w.index.data(), before - 1));
  }
  inner_.enter(view_.ids.data(), view_.blocks);
}

void Pipeline::step() {
  if (stop_asked() != Stop::none) stop_between_steps();
  if (inner_.any() && !io_.dry) enter_inner_cell();
  if (plain_) {
    body_->run();
    ++steps;
  } else {
    observed_step();
  }
  for (const Pair& p : pairs_) p.blocks->end_step(p.in->index.data(), p.out->index.data());
}

void Pipeline::observed_step() {
  if (io_.at != nullptr) watch();
  if (io_.progress != nullptr && (steps & 0xff) == 0xff) report_step();
  if (trace.most == 0) {
    body_->run();
  } else {
    const OpState before = op_state;
    script_.clear();
    if (io_.core != nullptr) {
      io_.core->script = tracing() ? &script_ : nullptr;
      io_.core->scripted = op_state;
    }
    body_->run();
    const bool too_long = io_.core != nullptr && tracing() && io_.core->script == nullptr;
    if (too_long) trace.give_up(true);
    if (tracing()) trace_step(before);
  }
  ++steps;
  if (io_.keep_checksums) sum_scratch();
}

void Pipeline::end_cell() {
  for (const auto& s : semaphores_) {
    if (s->outlives) io_.core->machine->settle(*io_.core, *s, site_of(*io_.core, {}));
  }
  const std::int64_t last = io_.core != nullptr ? last_place_ : io_.cells - 1;
  for (Window& w : windows_) {
    if (w.plan->role != Role::out) continue;
    const bool stays = w.plan->returns == OperandPlan::Returns::lingers && place_ < last;
    if (w.resident && !stays) attempt([&] { leave(w); });
    w.resident = w.loaded = false;
    for (const auto& [number, left] : w.left)
      missing[static_cast<std::size_t>(w.operand)].add(left.missing);
    w.left.clear();
  }
  // What this cell wrote to scratch and inputs stays there, but not for the next one. After the
  // last one others may still read what subcores share.
  if (place_ >= last) return;
  for (const Window& w : windows_) {
    if (w.plan->written && w.loaded && !unknown(*w.block))
      w.block->forget_changes(io_.device->hbm[static_cast<std::size_t>(w.operand)], w.index.data());
  }
  for (const auto& block : blocks_) {
    if (block->plan->pipelined() || unknown(*block)) continue;
    if (block->shadow.missing() < block->shadow.elems()) block->shadow.fill(Shadow::stale);
  }
}

void Pipeline::advance(Window& w) {
  std::array<std::int64_t, kMaxRank> index;
  body_->index(w.operand, view_.ids.data(), index.data());
  bool same = w.resident;
  for (std::size_t d = 0; d < static_cast<std::size_t>(w.plan->block.rank); ++d)
    same = same && index[d] == w.index[d];
  if (!same || !w.loaded) move_to(w, index.data(), same);
}

void Pipeline::move_to(Window& w, const std::int64_t* index, bool elided) {
  Block& block = *w.block;
  const OperandPlan& op = *w.plan;
  for (int d = 0; d < op.block.rank; ++d) {
    if (index[d] < 0 || index[d] >= op.blocks[d]) throw KernelError(oob_block(op, index));
  }
  if (op.role == Role::out) {
    if (std::exchange(w.resident, false)) leave(w);
    if (io_.core != nullptr) touch(op, block, true, "fetch");
    if (op.returns != OperandPlan::Returns::lingers) claim(w, index);
    block.begin_undefined();
    inner_.forget(block);
    if (op.returns == OperandPlan::Returns::restored && w.again) restore(w, index);
    // What an earlier cell wrote is there, but not for this one.
    if (op.returns == OperandPlan::Returns::lingers && place_ > first_place_)
      block.shadow.fill(Shadow::stale);
    if (unknown(block)) block.shadow.fill(Shadow::init);
  } else {
    Shape part;
    const Shape& inside = op.whole(index) ? op.block : part = op.in_bounds(index);
    w.beyond = op.outside == OperandPlan::Outside::numbers && !op.padded && inside != op.block;
    if (w.beyond) note_beyond();
    if (io_.core != nullptr) {
      touch(op, block, true, "fetch");
      if (op.aliased >= 0) fetched(op, index, inside);
    }
    if (unknown(block)) {
      block.shadow.fill(Shadow::init);
    } else {
      block.fetch(io_.device->hbm[static_cast<std::size_t>(w.operand)], index, inside);
      // An input has bounds where it is an output's array.
      if (io_.error_model != nullptr && op.aliased >= 0)
        block.fetch_bounds(io_.device->bounds[static_cast<std::size_t>(op.aliased)], index, inside);
      else if (io_.error_model != nullptr)
        block.clear_bounds();
    }
    if (!elided) record(op, inside, Space::hbm, op.space, Why::fetch);
  }
  if (w.pair != nullptr) w.pair->moved();
  std::copy_n(index, op.block.rank, w.index.begin());
  w.resident = w.loaded = true;
}

/// Fetches what an output block held when it left.
void Pipeline::restore(Window& w, const std::int64_t* index) {
  Block& block = *w.block;
  const OperandPlan& op = *w.plan;
  const auto at = static_cast<std::size_t>(w.operand);
  const Shape inside = op.in_bounds(index);
  record(op, inside, Space::hbm, op.space, Why::fetch);
  if (io_.dry) return;
  block.fetch(io_.device->hbm[at], index, inside);
  if (const float* const bounds = io_.device->bounds[at]) block.fetch_bounds(bounds, index, inside);
  block.shadow = w.left.at(op.number_of(index)).shadow;
}

/// Writes the output block back that the window holds.
void Pipeline::leave(Window& w) {
  Block& block = *w.block;
  const OperandPlan& op = *w.plan;
  const auto at = static_cast<std::size_t>(w.operand);
  const std::int64_t* const index = w.index.data();
  const Shape inside = op.in_bounds(index);
  if (io_.core != nullptr) {
    touch(op, block, false, "write-back");
    if (op.aliased >= 0) written_back(op, index, inside);
  }
  if (!io_.dry) {
    // Two cores each write theirs back: the last cell's is the result.
    const bool lingers = op.returns == OperandPlan::Returns::lingers;
    if (lingers && place_ + 1 < io_.cells)
      return record(op, inside, op.space, Space::hbm, Why::writeback);
    if (lingers) claim(w, index);
    if (io_.keep_checksums) add_checksum(at, index, inside);
    if (float* const bounds = io_.device->bounds[at])
      block.write_back_bounds(bounds, index, inside);
    const Missing left = block.write_back(io_.device->hbm[at], index, inside);
    // An array that is passed whole and aliased is its input's memory, and keeps what that held.
    const bool kept = op.aliased >= 0 && plan_.leaves_undefined && op.block == op.array;
    if (op.returns == OperandPlan::Returns::restored) {
      w.left[op.number_of(index)] = {block.shadow, kept ? Missing{} : left};
    } else {
      if (w.again && left.count > 0) throw KernelError(output_revisit(op, index));
      if (!kept) missing[at].add(left);
    }
  }
  record(op, inside, op.space, Space::hbm, Why::writeback);
}

/// Takes an output block for this cell.
void Pipeline::claim(Window& w, const std::int64_t* index) {
  const OperandPlan& op = *w.plan;
  if (op.by_element) return claim_elements(w, index);
  const auto linear = static_cast<std::size_t>(op.number_of(index));
  const auto mine = static_cast<std::int32_t>(inner_.claim_of(cell_, view_.ids.data())) + 1;
  w.claim = mine;
  const std::int32_t before =
      std::atomic_ref(io_.device->owner[static_cast<std::size_t>(w.operand)][linear])
          .exchange(mine);
  if (before != 0 && before != mine)
    throw KernelError(parallel_dependence_output(op, index, before - 1));
  if (before == mine && op.returns == OperandPlan::Returns::never)
    throw KernelError(output_revisit(op, index));
  w.again = before != 0;
}

/// A window of elements may come back to the place that it had, but not overlap an earlier one.
void Pipeline::claim_elements(Window& w, const std::int64_t* index) {
  const OperandPlan& op = *w.plan;
  const Shape inside = op.in_bounds(index);
  const auto mine = static_cast<std::int32_t>(cell_) + 1;
  auto& owner = io_.device->owner[static_cast<std::size_t>(w.operand)];
  std::int64_t before = 0;
  for_each_run(op, index, inside, [&](std::int64_t first, std::int64_t, std::int64_t n) {
    for (std::int64_t e = first; e < first + n; ++e) {
      const std::int32_t other = std::atomic_ref(owner[static_cast<std::size_t>(e)]).exchange(mine);
      if (other != 0 && other != mine)
        throw KernelError(parallel_dependence_output(op, index, other - 1));
      before += other == mine ? 1 : 0;
    }
  });
  w.again = before != 0;
  std::array<std::int64_t, kMaxRank> place{};
  std::copy_n(index, op.block.rank, place.begin());
  const bool known = !w.taken.insert(place).second;
  if (w.again && !known) throw KernelError(output_overlap(op, index));
}

void Pipeline::record(const OperandPlan& op, const Shape& inside, Space from, Space to, Why why) {
  const MovedBytes moved = op.moved(inside, plan_.device);
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
  m.bytes = moved.bytes;
  m.padded_bytes = moved.padded_bytes;
  ledger.record(m);
}

/// `index`: of an output block, whose part `inside` counts; null: all of it.
void Pipeline::add_checksum(std::size_t i, const std::int64_t* index, const Shape& inside) {
  const Block& block = *view_.blocks[i];
  const OperandPlan& op = plan_.operands[i];
  if (!op.present || block.shadow.missing() == block.shadow.elems()) return;
  StepChecksum sum;
  sum.device = io_.core != nullptr ? io_.core->device : 0;
  std::copy(body_ids_.begin(), body_ids_.end(), sum.ids.begin());
  sum.operand = static_cast<int>(i);
  if (index != nullptr) sum.block = op.number_of(index);
  sum.checksum = block.checksum(index, inside);
  checksums.push_back(sum);
}

/// What copies reach may be under way: only scratch that the body alone writes counts.
void Pipeline::sum_scratch() {
  body_ids_ = view_.ids;
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    const OperandPlan& op = plan_.operands[i];
    if (!is_block(op.role) || op.pipelined()) continue;
    if (op.role == Role::accum || io_.core == nullptr) add_checksum(i, nullptr, {});
  }
}

void Pipeline::watch() {
  if (!std::equal(io_.at->begin(), io_.at->end(), view_.ids.begin())) return;
  if (io_.on_step != nullptr) {
    std::string text;
    for (const auto& block : blocks_) {
      if (block->plan->present) text += describe_ref(*block->plan) + "\n" + block->text() + "\n";
    }
    (*io_.on_step)(text);
  }
  if (io_.break_at) std::raise(SIGTRAP);  // the body is the next call from step()
}

void Pipeline::report_step() {
  double inside = 0;
  double part = 1;
  for (auto d = static_cast<std::size_t>(plan_.parallel_rank);
       d < static_cast<std::size_t>(plan_.grid_rank); ++d) {
    part /= std::max(1, view_.hi[d] - view_.lo[d]);
    inside += part * (view_.ids[d] - view_.lo[d]);
  }
  (*io_.progress)((static_cast<double>(place_) + inside) / static_cast<double>(io_.cells));
}

// Of the automatic pipeline, on the machine.

/// The pipeline reads or writes a whole block in VMEM.
void Pipeline::touch(const OperandPlan& op, Buffer& block, bool write, const char* kind) {
  if (io_.core->machine->tracks(block))
    access(op, block, Ref(block).box(), write, kind, io_.core->clock, nullptr);
}
void Pipeline::access(const OperandPlan& op, Buffer& buffer, const Box& box, bool write,
                      const char* kind, const Clock& clock, std::shared_ptr<TransferHalf> half) {
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
void Pipeline::pass_time() {
  MachineCore& core = *io_.core;
  core.machine->tick(core);
  while (!writing_back_.empty() && writing_back_.front().first <= steps) {
    writing_back_.front().second->seen = core.now();
    writing_back_.pop_front();
  }
  known_.push_back(core.clock);
  if (known_.size() > kKnownSteps) known_.pop_front();
}

Ref Pipeline::array_ref(const OperandPlan& op, const std::int64_t* index, const Shape& inside) {
  Ref ref(*io_.device->arrays[static_cast<std::size_t>(&op - plan_.operands.data())]);
  for (int d = 0; d < op.block.rank; ++d) ref = ref.slice(d, op.first(d, index), inside[d]);
  return ref;
}
/// A block of an aliased input was fetched: issued buffers - 1 steps ago.
void Pipeline::fetched(const OperandPlan& op, const std::int64_t* index, const Shape& inside) {
  if (inside.elems() == 0) return;
  const Ref ref = array_ref(op, index, inside);
  const auto ahead =
      std::min<std::size_t>(static_cast<std::size_t>(op.buffers) - 1, known_.size() - 1);
  access(op, ref.buffer(), ref.box(), false, "fetch", known_[known_.size() - 1 - ahead], nullptr);
}
/// A block of an aliased output leaves, and has landed buffers - 1 steps later.
void Pipeline::written_back(const OperandPlan& op, const std::int64_t* index, const Shape& inside) {
  if (inside.elems() == 0) return;
  const Ref ref = array_ref(op, index, inside);
  auto half = std::make_shared<TransferHalf>();
  writing_back_.emplace_back(steps + op.buffers - 1, half);
  access(op, ref.buffer(), ref.box(), true, "write-back", io_.core->clock, std::move(half));
}

// The trace.

void Pipeline::begin_trace() {
  if (io_.core == nullptr || io_.core->device == 0 || plan_.copies) trace.most = io_.trace_steps;
  trace.blocks.resize(plan_.operands.size());
  for (const OperandPlan& op : plan_.operands) {
    if (op.pipelined() && op.blocks.elems() > std::numeric_limits<std::int32_t>::max())
      trace.give_up();
  }
}

/// Keeps what this step used; `before`: what the steps before it had counted.
void Pipeline::trace_step(const OpState& before) {
  if (trace.steps == trace.most) {
    trace.give_up();
    return;
  }
  ++trace.steps;
  for (const Window& w : windows_)
    trace.blocks[static_cast<std::size_t>(w.operand)].push_back(
        static_cast<std::int32_t>(w.plan->number_of(w.index.data())));
  if (!script_.empty()) {
    const Work rest = work_since(io_.core->scripted);
    if (!(rest == Work{})) script_.push_back(work_act(rest));
  }
  trace.add_work(work_since(before), script_);
}

}  // namespace tessera
