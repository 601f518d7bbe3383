// A run on the asynchronous machine: one schedule, or as many as were asked for.
#include <map>
#include <set>

#include "memory_model/host_memory.hpp"
#include "sim/machine/shared_by_cells.hpp"
#include "sim/pipeline/close_run.hpp"
#include "sim/pipeline/core_cells.hpp"
#include "sim/pipeline/run_driver.hpp"
#include "sim/pipeline/step_trace.hpp"

namespace tessera {

void add_scoped_peaks(const Machine& machine, Plan& plan) {
  for (const Space space : {Space::vmem, Space::smem}) {
    std::int64_t peak = 0;
    for (int id = 0; id < machine.cores(); ++id) {
      peak = std::max(peak, machine.core(id).scoped_peak[static_cast<std::size_t>(space)]);
    }
    if (peak > 0) plan.allocations.push_back({"run_scoped", space, DType::u8, {peak}, 1, peak});
  }
}

/// The arrays in HBM that copies or aliases reach, known to the machine.
void RunDriver::make_arrays(Machine& machine) {
  scratch_.clear();
  arrays_.clear();
  for (int d = 0; d < devices_; ++d) {
    DeviceIo& io = device_io_[static_cast<std::size_t>(d)];
    io.arrays.assign(plan_.operands.size(), nullptr);
    if (!here(d)) continue;
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const OperandPlan& op = plan_.operands[i];
      if (!op.present || is_semaphore(op.role) || (!in_hbm(op.role) && op.aliased < 0)) continue;
      if (op.aliased >= 0 && static_cast<std::size_t>(op.aliased) < i) {
        io.arrays[i] = io.arrays[static_cast<std::size_t>(op.aliased)];
        continue;
      }
      std::byte* data = io.hbm[i];
      if (op.role == Role::hbm) {
        check_fits_host(bit_width(op.dtype) / 8. * static_cast<double>(op.array.elems()));
        scratch_.push_back(Array::undefined(op.dtype, op.array));
        data = scratch_.back().bytes();
      }
      if (plan_.parallel_rank > 0 && io_.cells > 1 && machine.cores() == 1 && !plan_.writes_agree)
        arrays_.push_back(std::make_unique<SharedByCells>(op.name, op.dtype, op.array, data,
                                                          op.role == Role::hbm));
      else
        arrays_.push_back(
            std::make_unique<BorrowedBuffer>(op.name, Space::hbm, op.dtype, op.array, data));
      Buffer& array = *arrays_.back();
      array.device = d;
      array.ledger_ref = op.ledger_ref;
      array.prefetched = op.aliased >= 0;
      array.written = op.role != Role::hbm_in || op.aliased >= 0 || op.written;
      const bool defined = op.is_input() || op.aliased >= 0;
      array.shadow = Shadow(op.array.elems(), defined ? Shadow::init : Shadow::uninit);
      machine.place(array);
      io.arrays[i] = &array;
    }
  }
}

/// What copies have written of outputs, and what they have not.
void RunDriver::collect_arrays() {
  for (int d = 0; d < devices_; ++d) {
    const DeviceIo& io = device_io_[static_cast<std::size_t>(d)];
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      Buffer* const array = io.arrays[i];
      if (array == nullptr || plan_.operands[i].role != Role::hbm_out) continue;
      const Shadow& shadow = array->shadow;
      for (std::int64_t e = 0; io.bounds[i] != nullptr && e < shadow.elems(); ++e) {
        if (shadow.at(e) == Shadow::init)
          io.bounds[i][e] =
              array->bounds.empty() ? 0.f : array->bounds[static_cast<std::size_t>(e)];
      }
      Missing& missing = missing_[static_cast<std::size_t>(d)][i];
      for (std::int64_t e = 0; shadow.missing() > 0 && e < shadow.elems(); ++e) {
        const Shadow::State state = shadow.at(e);
        if (state == Shadow::init) continue;
        missing.add(e, state);
        const std::int64_t width = bit_width(array->dtype) / 8;
        if (width > 0) poison(array->writable() + e * width, array->dtype, 1);
      }
    }
  }
}

namespace {

/// Of each output the first core's that lost something, with the counts of all.
void note_lost_updates(const std::vector<std::unique_ptr<Pipeline>>& cores, Machine& machine,
                       RunResult& result) {
  std::map<int, std::pair<int, LostUpdate>> all;
  for (std::size_t id = 0; id < cores.size(); ++id) {
    if (!cores[id]) continue;
    cores[id]->for_each_lost([&](const LostUpdate& lost) {
      const auto [at, fresh] = all.try_emplace(lost.operand, static_cast<int>(id), lost);
      if (fresh) return;
      at->second.second.elems += lost.elems;
      at->second.second.steps += lost.steps;
    });
  }
  for (const auto& [operand, lost] : all)
    result.notes.push_back(stale_alias(machine.core(lost.first), result.plan, lost.second));
}

}  // namespace

std::uint64_t RunDriver::run_schedule(const Schedule& schedule, RunResult& result) {
  begin(result);
  result.on_machine = true;
  result.schedule = schedule;
  StepContext context = context_;
  if (options_.keep_going) context.findings = &findings_;
  if (options_.schedule && !context.command.empty())
    context.command += " --schedule " + to_string(schedule);
  const StepContext* const outer = std::exchange(step_context, &context);

  Machine machine(options_.mesh, options_.cores, schedule, options_.find_races, options_.transport);
  if (plan_.writes_agree) machine.let_writes_agree();
  make_arrays(machine);
  std::vector<CoreIo> core_io(static_cast<std::size_t>(machine.cores()), io_);
  std::vector<std::unique_ptr<Pipeline>> cores(static_cast<std::size_t>(machine.cores()));
  for (int id = 0; id < machine.cores(); ++id) {
    if (!machine.here(id)) continue;
    CoreIo& io = core_io[static_cast<std::size_t>(id)];
    io.core = &machine.core(id);
    io.device = &device_io_[static_cast<std::size_t>(machine.core(id).device)];
    io.context = &context;
    cores[static_cast<std::size_t>(id)] = std::make_unique<Pipeline>(kernel_, plan_, io);
  }
  const CoreCells shared(plan_, options_.cores);
  try {
    machine.run([&](MachineCore& c) {
      const auto [begin, end] = places_of(io_.cells, c.core, options_.cores);
      cores[static_cast<std::size_t>(c.id)]->run_cells(begin, end, &shared);
    });
    for (const auto& core : cores) {
      if (core) core->hand_on();
    }
  } catch (const KernelError& error) {
    fail(error, result);
  }
  for (int id = 0; id < machine.cores(); ++id) {
    if (!machine.here(id)) continue;
    collect(*cores[static_cast<std::size_t>(id)], machine.core(id).device, result);
  }
  collect_arrays();
  add_scoped_peaks(machine, result.plan);
  result.switches = machine.switches();
  if (options_.transport == nullptr && devices_ > 1) result.barriers = machine.barrier_use();
  result.notes.clear();
  if (const std::string* agreement = machine.agreement()) result.notes.push_back(*agreement);
  note_lost_updates(cores, machine, result);
  finish(result);
  if (options_.transport != nullptr) merge_ranks(result);
  step_context = outer;
  return machine.choices();
}

void RunDriver::run_on_machine(RunResult& result) {
  count_scratch(plan_);
  const Schedule asked = options_.schedule.value_or(Schedule{});
  if (asked.kind != Schedule::Kind::explore) {
    run_schedule(asked, result);
    result.schedules = 1;
    return;
  }
  // A program may have fewer schedules that differ than were asked for.
  constexpr std::uint64_t kTriesEach = 4;
  std::set<std::uint64_t> seen;
  int schedules = 0;
  for (std::uint64_t i = 0; i < kTriesEach * asked.number && seen.size() < asked.number; ++i) {
    constexpr Schedule::Kind kFirst[] = {Schedule::Kind::eager, Schedule::Kind::on_wait,
                                         Schedule::Kind::adversarial};
    const Schedule schedule =
        i < std::size(kFirst) ? Schedule{kFirst[i], 0} : Schedule{Schedule::Kind::random, i - 3};
    seen.insert(run_schedule(schedule, result));
    schedules = static_cast<int>(seen.size());
    if (!result.ok()) break;
    if (options_.progress) {
      options_.progress(static_cast<double>(seen.size()) / static_cast<double>(asked.number));
    }
  }
  result.schedules = schedules;
}

}  // namespace tessera
