#include "sim/run.hpp"

#include <omp.h>

#include <chrono>
#include <cstdio>
#include <limits>

#if defined(__SANITIZE_THREAD__)
// libgomp is not instrumented: tell TSan where its fork and its join order memory.
extern "C" {
void __tsan_acquire(void* address);  // NOLINT(bugprone-reserved-identifier)
void __tsan_release(void* address);  // NOLINT(bugprone-reserved-identifier)
}
#endif

namespace tessera::detail {

namespace {

struct Fence {
#if defined(__SANITIZE_THREAD__)
  void acquire() { __tsan_acquire(this); }
  void release() { __tsan_release(this); }
#else
  void acquire() {}
  void release() {}
#endif
  char byte = 0;
};

void check_input(const OperandPlan& op, const Array& array) {
  if (array.dtype() == op.dtype && array.shape() == op.array) return;
  throw InputError("bad-input", op.name + " is " + describe(array.dtype(), array.shape()) +
                                    "; the kernel takes " + describe(op.dtype, op.array));
}

}  // namespace

RunDriver::RunDriver(Plan plan, const Inputs& inputs, const RunOptions& options)
    : plan_(std::move(plan)), options_(options) {
  std::size_t next = 0;
  std::size_t wanted = 0;
  for (const auto& op : plan_.operands) wanted += op.role == Role::in && op.present ? 1 : 0;
  if (inputs.size() != wanted) {
    throw InputError("bad-input", plan_.kernel + " takes " + std::to_string(wanted) +
                                      " inputs, got " + std::to_string(inputs.size()));
  }
  io_.hbm.resize(plan_.operands.size());
  missing_.resize(plan_.operands.size());
  io_.owner.resize(plan_.operands.size());
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    const OperandPlan& op = plan_.operands[i];
    if (op.role == Role::in && op.present) {
      check_input(op, *inputs[next]);
      // Cores read inputs through this pointer and never write them.
      io_.hbm[i] = const_cast<std::byte*>(inputs[next]->bytes());
      ++next;
    } else if (op.role == Role::out && op.present) {
      outputs_.push_back(Array::undefined(op.dtype, op.array));
    }
  }
  io_.keeps_blocks = options.device.keeps_blocks_across_cells();
  io_.trap_nan = options.trap_nan;
  io_.keep_movements = options.keep_movements;
  if (!options.at.empty()) io_.at = &options.at;
  io_.break_at = options.break_at;
  if (options.on_step) io_.on_step = &options.on_step;
  if (options.progress) {
    // Chunks are handed out in grid order, so one thread's place stands for all.
    progress_ = [&report = options.progress](double done) {
      if (omp_get_thread_num() == 0) report(done);
    };
    io_.progress = &progress_;
  }
  io_.context = step_context;
}

void RunDriver::reset() {
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    const OperandPlan& op = plan_.operands[i];
    if (op.role != Role::out || !op.present) continue;
    io_.hbm[i] = outputs_[next++].bytes();
    missing_[i] = Missing{};
    io_.owner[i].assign(static_cast<std::size_t>(op.blocks.elems()), 0);
  }
}

void RunDriver::collect(const CoreTotals& core, RunResult& result) {
  for (std::size_t i = 0; i < missing_.size(); ++i) missing_[i].add(core.missing[i]);
  result.plan.ledger.add(core.ledger);
  result.steps += core.steps;
  result.flops += core.flops;
  result.transcendentals += core.transcendentals;
  for (int d = 0; d < plan_.grid_rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    result.grid[i] = std::max(result.grid[i], core.extent[i]);
  }
  for (const auto& [region, totals] : core.scopes) {
    ScopeTotals& sum = result.scopes[region];
    sum.entries += totals.entries;
    sum.flops += totals.flops;
    sum.transcendentals += totals.transcendentals;
  }
  if (core.printed.empty()) return;
  if (options_.print)
    options_.print(core.printed);
  else
    std::fputs(core.printed.c_str(), stdout);
}

void RunDriver::run_serial(std::int64_t cells,
                           const std::function<std::unique_ptr<CoreBase>(CoreIo&)>& make_core,
                           RunResult& result) {
  const auto core = make_core(io_);
  try {
    core->run_cells(0, cells);
  } catch (const KernelError& error) {
    result.diagnostics.push_back(error.diagnostic);
  }
  collect(*core, result);
}

bool RunDriver::run_parallel(std::int64_t cells, int threads,
                             const std::function<std::unique_ptr<CoreBase>(CoreIo&)>& make_core,
                             RunResult& result) {
  constexpr std::int64_t kChunksPerThread = 8;
  const std::int64_t chunk = std::max<std::int64_t>(1, cells / (threads * kChunksPerThread));
  const std::int64_t chunks = (cells + chunk - 1) / chunk;
  std::vector<CoreTotals> totals(static_cast<std::size_t>(chunks));
  std::atomic<bool> failed = false;
  Fence fork;
  Fence join;
  fork.release();
#pragma omp parallel num_threads(threads)
  {
    fork.acquire();
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < chunks; ++i) {
      if (failed.load(std::memory_order_relaxed)) continue;
      // Whatever is thrown, the run on one thread throws it again, where it can be caught.
      try {
        const auto core = make_core(io_);
        core->run_cells(i * chunk, std::min(cells, (i + 1) * chunk));
        totals[static_cast<std::size_t>(i)] = std::move(static_cast<CoreTotals&>(*core));
      } catch (...) {
        failed = true;
      }
    }
    join.release();
  }
  join.acquire();
  if (failed) return false;
  for (const auto& core : totals) collect(core, result);
  return true;
}

RunResult RunDriver::execute(std::int64_t cells,
                             const std::function<std::unique_ptr<CoreBase>(CoreIo&)>& make_core) {
  const auto start = std::chrono::steady_clock::now();
  if (cells > std::numeric_limits<std::int32_t>::max() - 1) {
    throw KernelError({.slug = "unsupported",
                       .kind = Diagnostic::Kind::unsupported,
                       .headline = "a grid of more than 2^31 - 2 parallel cells"});
  }
  io_.cells = cells;
  RunResult result;
  const auto begin = [&] {
    reset();
    result = RunResult{};
    result.plan = plan_;
    result.grid.assign(static_cast<std::size_t>(plan_.grid_rank), 0);
  };
  bool packed_output = false;
  for (const auto& op : plan_.operands) {
    packed_output = packed_output || (op.role == Role::out && bit_width(op.dtype) < 8);
  }
  int threads = options_.threads > 0 ? options_.threads : omp_get_max_threads();
  if (options_.keep_movements || !options_.at.empty() || packed_output || cells < 2) threads = 1;
  begin();
  // A kernel that fails on several threads runs again on one: the first error in grid order is then
  // the one reported, with what scratch held at that step.
  if (threads == 1 || !run_parallel(cells, threads, make_core, result)) {
    if (threads != 1) begin();
    run_serial(cells, make_core, result);
    if (threads != 1 && result.ok()) {
      result.diagnostics.push_back(
          {.slug = "internal",
           .kind = Diagnostic::Kind::internal,
           .headline = "a failure on several threads did not recur on one"});
    }
  }
  finish(result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void RunDriver::finish(RunResult& result) {
  Ledger& ledger = result.plan.ledger;
  for (const auto& s : plan_.scalars) {
    Movement m;
    m.ref = s.ledger_ref;
    m.to = Space::smem;
    m.bytes = packed_bytes(s.dtype, s.elems);
    m.padded_bytes = m.bytes;
    ledger.record(m);
  }
  for (const auto& op : plan_.operands) {
    if (op.ledger_ref >= 0) ledger.set_elided(op.ledger_ref, result.steps);
  }
  for (std::size_t i = 0; i < plan_.operands.size() && result.ok(); ++i) {
    const OperandPlan& op = plan_.operands[i];
    if (op.role != Role::out || !op.present) continue;
    // Besides what written blocks lack: the blocks that no step visited.
    for (std::size_t linear = 0; linear < io_.owner[i].size(); ++linear) {
      if (io_.owner[i][linear] != 0) continue;
      const Shape index = unravel(op.blocks, static_cast<std::int64_t>(linear));
      missing_[i].add(op.in_bounds(index.dims.data()).elems(), op.offset(index.dims.data()));
    }
    if (missing_[i].count > 0) {
      result.diagnostics.push_back(output_not_covered(op, missing_[i].first, missing_[i].count));
    }
  }
  result.outputs = std::move(outputs_);
}

}  // namespace tessera::detail
