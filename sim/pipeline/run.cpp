#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>

#include "sim/pipeline/close_run.hpp"
#include "sim/pipeline/count.hpp"
#include "sim/pipeline/run_driver.hpp"
#include "sim/pipeline/threads.hpp"

namespace tessera {

namespace {

/// The array of all devices.
Shape global_shape(const Shape& shard, int devices) {
  Shape s = shard;
  if (devices > 1 && s.rank > 0) s[0] *= devices;
  return s;
}

void check_input(const OperandPlan& op, const Array& array, int devices) {
  const Shape wanted = global_shape(op.array, devices);
  if (array.dtype() == op.dtype && array.shape() == wanted) return;
  throw InputError("bad-input", op.name + " is " + describe(array.dtype(), array.shape()) +
                                    "; the kernel takes " + describe(op.dtype, wanted));
}

KernelError unmodelled_bounds(const char* where) {
  return KernelError({.slug = "unmodelled",
                      .kind = Diagnostic::Kind::unmodelled,
                      .headline = std::string("error bounds ") + where});
}

}  // namespace

RunDriver::RunDriver(const Kernel& kernel, Plan plan, const Inputs& inputs,
                     const RunOptions& options)
    : kernel_(kernel), plan_(std::move(plan)), options_(options), inputs_(inputs) {
  for (const int extent : options.mesh) devices_ *= extent;
  std::size_t wanted = 0;
  for (const auto& op : plan_.operands) wanted += op.is_input() && op.present ? 1 : 0;
  if (inputs.size() != wanted) {
    throw InputError("bad-input", plan_.kernel + " takes " + std::to_string(wanted) +
                                      " inputs, got " + std::to_string(inputs.size()));
  }
  std::size_t next = 0;
  for (const auto& op : plan_.operands) {
    if (!op.present) continue;
    if (op.is_input()) check_input(op, *inputs[next++], devices_);
    if (op.is_output()) {
      outputs_.push_back(Array::undefined(op.dtype, global_shape(op.array, devices_)));
      if (options.error_model)
        bounds_.push_back(Array::undefined(DType::f32, outputs_.back().shape()));
    }
    if (options.error_model && op.aliased >= 0 &&
        in_hbm(op.role) != in_hbm(plan_.operands[static_cast<std::size_t>(op.aliased)].role))
      throw unmodelled_bounds("of an array that both copies and the pipeline reach");
  }
  if (options.error_model && options.transport != nullptr)
    throw unmodelled_bounds("across processes");
  device_io_.resize(static_cast<std::size_t>(devices_));
  missing_.resize(static_cast<std::size_t>(devices_));
  for (auto& io : device_io_) {
    io.hbm.resize(plan_.operands.size());
    io.bounds.resize(plan_.operands.size());
    io.owner.resize(plan_.operands.size());
    io.arrays.resize(plan_.operands.size());
  }
  io_.device = device_io_.data();
  io_.keeps_blocks = options.device.keeps_blocks_across_cells();
  io_.trap_nan = options.trap_nan;
  io_.profile = options.profile;
  if (options.error_model) io_.error_model = &*options.error_model;
  io_.keep_checksums = options.keep_checksums;
  io_.dry = options.dry;
  io_.keep_movements = options.keep_movements;
  if (plan_.counts_in_run) io_.trace_steps = options.trace_steps;
  io_.cells = plan_.cells();
  if (!options.at.empty()) io_.at = &options.at;
  io_.break_at = options.break_at;
  if (options.on_step) io_.on_step = &options.on_step;
  if (options.progress) {
    // Chunks are handed out in grid order, so one thread's place stands for all.
    progress_ = [&report = options.progress, caller = std::this_thread::get_id()](double done) {
      if (std::this_thread::get_id() == caller) report(done);
    };
    io_.progress = &progress_;
  }
  context_ = *step_context;
  context_.plan = &plan_;
  io_.context = &context_;
}

void RunDriver::reset() {
  for (int d = 0; d < devices_; ++d) {
    DeviceIo& io = device_io_[static_cast<std::size_t>(d)];
    missing_[static_cast<std::size_t>(d)].assign(plan_.operands.size(), Missing{});
    std::size_t in = 0;
    std::size_t out = 0;
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const OperandPlan& op = plan_.operands[i];
      if (!op.present) continue;
      const std::int64_t shard = d * packed_bytes(op.dtype, op.array.elems());
      // Cores read inputs through this pointer and never write them.
      if (op.is_input()) io.hbm[i] = const_cast<std::byte*>(inputs_[in++]->bytes()) + shard;
      if (op.is_output()) {
        if (!bounds_.empty()) {
          io.bounds[i] = bounds_[out].data<float>() + d * op.array.elems();
          // Blocks bring theirs when they are written back; of what nothing writes nothing is
          // known.
          const bool undefined = plan_.leaves_undefined && op.aliased < 0;
          std::fill_n(io.bounds[i], op.array.elems(),
                      undefined ? std::numeric_limits<float>::infinity() : 0.f);
        }
        io.hbm[i] = outputs_[out++].bytes() + shard;
        if (plan_.leaves_undefined) poison(io.hbm[i], op.dtype, op.array.elems());
      }
      if (op.role == Role::out) {
        io.owner[i].assign(static_cast<std::size_t>(op.claims().elems()), 0);
      }
    }
    // An aliased input is the output's array, which begins as what the input holds.
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const OperandPlan& op = plan_.operands[i];
      if (!op.is_output() || op.aliased < 0) continue;
      std::byte*& input = io.hbm[static_cast<std::size_t>(op.aliased)];
      std::memcpy(io.hbm[i], input,
                  static_cast<std::size_t>(packed_bytes(op.dtype, op.array.elems())));
      input = io.hbm[i];
    }
  }
}

void RunDriver::collect(const CoreTotals& core, int device, RunResult& result) {
  auto& missing = missing_[static_cast<std::size_t>(device)];
  for (std::size_t i = 0; i < missing.size(); ++i) missing[i].add(core.missing[i]);
  result.plan.ledger.add(core.ledger);
  result.steps += core.steps;
  result.flops += core.flops;
  result.transcendentals += core.transcendentals;
  beyond_.insert(beyond_.end(), core.beyond.begin(), core.beyond.end());
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
  result.checksums.insert(result.checksums.end(), core.checksums.begin(), core.checksums.end());
  if (core.trace.most > 0) {
    if (device == 0) result.trace.most = options_.trace_steps;
    if (StepTrace* const trace = trace_for(result, options_.trace_steps, device))
      trace->append(core.trace);
  }
  if (core.printed.empty()) return;
  if (options_.print)
    options_.print(core.printed);
  else
    std::fputs(core.printed.c_str(), stdout);
}

void RunDriver::run_serial(RunResult& result) {
  if (options_.keep_going) context_.findings = &findings_;
  Pipeline core(kernel_, plan_, io_);
  try {
    core.run_cells(0, io_.cells);
  } catch (const KernelError& error) {
    fail(error, result);
  }
  collect(core, 0, result);
}

void RunDriver::fail(const KernelError& error, RunResult& result) {
  result.diagnostics.push_back(error.diagnostic);
  ended_ = true;
}

bool RunDriver::run_parallel(int threads, RunResult& result) {
  const std::int64_t cells = io_.cells;
  constexpr std::int64_t kChunksPerThread = 8;
  const std::int64_t chunk = std::max<std::int64_t>(1, cells / (threads * kChunksPerThread));
  const std::int64_t chunks = (cells + chunk - 1) / chunk;
  std::vector<CoreTotals> totals(static_cast<std::size_t>(chunks));
  std::atomic<bool> failed = false;
  std::optional<Diagnostic> stopped;
  std::mutex stopping;
  each_on_threads(chunks, threads, [&](std::int64_t i) {
    if (failed.load(std::memory_order_relaxed)) return;
    // Whatever is thrown, the run on one thread throws it again, where it can be caught.
    try {
      Pipeline core(kernel_, plan_, io_);
      core.run_cells(i * chunk, std::min(cells, (i + 1) * chunk));
      totals[static_cast<std::size_t>(i)] = std::move(static_cast<CoreTotals&>(core));
    } catch (const Stopped& stop) {
      failed = true;
      const std::scoped_lock lock(stopping);
      if (!stopped) stopped = stop.diagnostic;
    } catch (...) {
      failed = true;
    }
  });
  if (stopped) fail(KernelError(*stopped), result);
  if (failed) return !result.ok();
  for (const auto& core : totals) collect(core, 0, result);
  return !reached();
}

/// True if an output has undefined values from elsewhere. What they were depends on the cells that
/// a thread ran before.
bool RunDriver::reached() const {
  for (const auto& device : missing_) {
    if (std::ranges::any_of(device, [](const Missing& m) { return m.reached > 0; })) return true;
  }
  return false;
}

void RunDriver::begin(RunResult& result) {
  reset();
  result = RunResult{};
  ended_ = false;
  beyond_.clear();
  result.plan = plan_;
  result.grid.assign(static_cast<std::size_t>(plan_.grid_rank), 0);
}

RunResult RunDriver::execute() {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t cells = io_.cells;
  if (cells > std::numeric_limits<std::int32_t>::max() - 1) {
    throw KernelError({.slug = "unsupported",
                       .kind = Diagnostic::Kind::unsupported,
                       .headline = "a grid of more than 2^31 - 2 parallel cells"});
  }
  RunResult result;
  bool packed_output = false;
  for (const auto& op : plan_.operands) {
    packed_output = packed_output || (op.role == Role::out && bit_width(op.dtype) < 8);
  }
  int threads = options_.threads > 0 ? options_.threads : omp_get_max_threads();
  const bool in_turn = packed_output || plan_.writes_inputs || cells < 2;
  if (options_.keep_movements || !options_.at.empty() || in_turn) threads = 1;
  bool meets = devices_ > 1 || plan_.asynchronous();  // the machine, whatever the options
  bool machine = meets || options_.cores > 1 || options_.schedule;
  // A kernel that fails on several threads, or leaves undefined values, runs again on one: the
  // first error in grid order is then the one reported, with what scratch held at that step.
  bool done = false;
  if (!machine) begin(result);
  if (!machine && threads > 1) done = run_parallel(threads, result);
  if (!machine && !done) {
    if (threads > 1) begin(result);
    try {
      run_serial(result);
    } catch (const NeedsMachine&) {
      machine = meets = true;
    }
    if (threads > 1 && !machine && result.ok() && !reached() && findings_.empty()) {
      result.diagnostics.push_back(
          {.slug = "internal",
           .kind = Diagnostic::Kind::internal,
           .headline = "a failure on several threads did not recur on one"});
    }
  }
  if (machine)
    run_on_machine(result);
  else
    finish(result);
  if (result.ok() && !options_.dry) {
    std::optional<Diagnostic> d;
    try {
      d = dependence_beyond(meets ? &result.schedule : nullptr);
    } catch (const NeedsMachine&) {  // of a body that asked for it in the run
      d = dependence_beyond(&result.schedule);
    }
    if (d) result.diagnostics.push_back(std::move(*d));
  }
  result.outputs = std::move(outputs_);
  result.bounds = std::move(bounds_);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

bool RunDriver::here(int device) const {
  const Transport* t = options_.transport;
  return t == nullptr || rank_of_device(device, devices_, t->ranks()) == t->rank();
}

void close_ledger(const Plan& plan, Ledger& ledger, int devices, std::int64_t steps,
                  const std::function<bool(int)>& here) {
  for (const auto& s : plan.scalars) {
    Movement m;
    m.ref = s.ledger_ref;
    m.to = Space::smem;
    m.bytes = packed_bytes(s.dtype, s.elems);
    m.padded_bytes = m.bytes;
    for (m.device = 0; m.device < devices; ++m.device) {
      if (here(m.device)) ledger.record(m);
    }
  }
  for (const auto& op : plan.operands) {
    if (op.pipelined() && op.ledger_ref >= 0) ledger.set_elided(op.ledger_ref, steps);
  }
}

Diagnostic RunDriver::describe_missing(const OperandPlan& op, const Missing& missing) const {
  if (missing.reached == 0) return output_not_covered(op, missing.first, missing.count);
  const UndefinedRead read = kernel_.undefined_read(Shadow::origin(missing.state));
  const OperandPlan* const from =
      read.operand < 0 ? nullptr : &plan_.operands[static_cast<std::size_t>(read.operand)];
  return undefined_output(op, missing, from, read.line, read.memory);
}

namespace {

/// What data let a kernel leave of an output is for its callers to know, and for nobody to miss.
std::string left_by_data(const OperandPlan& op, std::int64_t elems, std::int64_t blocks,
                         int devices) {
  std::string text = "output-not-covered: " + with_commas(elems) + " of " +
                     with_commas(op.array.elems() * devices) + " elements of " + op.name;
  if (devices > 1) text += " on " + std::to_string(devices) + " devices";
  text += " were never written";
  if (blocks > 0)
    text += ", " + with_commas(blocks) + " of " + with_commas(op.blocks.elems() * devices) +
            " blocks never visited";
  text += "; data decides which are, and they must not be read";
  const std::string line = source_excerpt(op.at);
  return line.empty() ? text : text + ": " + line;
}

}  // namespace

void RunDriver::finish(RunResult& result) {
  // What ended the run comes last.
  const std::vector<Diagnostic> earlier = findings_.take();
  result.diagnostics.insert(result.diagnostics.begin(), earlier.begin(), earlier.end());
  if (result.ok())
    result.trace.close(result.grid);
  else
    result.trace = {};
  close_ledger(plan_, result.plan.ledger, devices_, result.steps,
               [this](int device) { return here(device); });
  result.complete = !ended_;
  result.undefined.assign(outputs_.size(), 0);
  struct Left {
    std::int64_t elems = 0, blocks = 0;
    int devices = 0;
  };
  std::vector<Left> left(plan_.operands.size());
  for (int d = 0; d < devices_ && result.complete; ++d) {
    if (!here(d)) continue;
    std::size_t out = 0;
    const DeviceIo& io = device_io_[static_cast<std::size_t>(d)];
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const OperandPlan& op = plan_.operands[i];
      if (!op.is_output() || !op.present) continue;
      Missing& missing = missing_[static_cast<std::size_t>(d)][i];
      ++left[i].devices;
      // Besides what written blocks lack: the blocks that no step visited.
      for (std::size_t linear = 0; op.aliased < 0 && linear < io.owner[i].size(); ++linear) {
        if (io.owner[i][linear] != 0) continue;
        if (op.by_element) {
          missing.add(1, static_cast<std::int64_t>(linear));
          continue;
        }
        const Shape index = unravel(op.blocks, static_cast<std::int64_t>(linear));
        missing.add(op.in_bounds(index.dims.data()).elems(), op.offset(index.dims.data()));
        ++left[i].blocks;
      }
      result.undefined[out++] += missing.count;
      const bool enough = !result.ok() && !options_.keep_going;
      if (enough || missing.count == 0) continue;
      if (missing.reached == 0 && op.by_data) {
        left[i].elems += missing.count;
        continue;
      }
      StepContext context = *step_context;
      if (devices_ > 1) context.device = d;
      const StepContext* const outer = std::exchange(step_context, &context);
      findings_.add(describe_missing(op, missing));
      step_context = outer;
      if (!options_.keep_going) result.diagnostics = findings_.take();
    }
  }
  for (Diagnostic& d : findings_.take()) result.diagnostics.push_back(std::move(d));
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].elems > 0)
      result.notes.push_back(
          left_by_data(plan_.operands[i], left[i].elems, left[i].blocks, left[i].devices));
  }
}

StepTrace* trace_for(RunResult& result, std::int64_t trace_steps, int device) {
  if (trace_steps == 0) return nullptr;
  if (device == 0) return &result.trace;
  if (!result.trace.scripted()) return nullptr;
  auto& peers = result.trace.peers;
  while (std::ssize(peers) < device) peers.emplace_back().most = trace_steps;
  return &peers[static_cast<std::size_t>(device - 1)];
}

namespace {

void check_options(const RunOptions& options) {
  constexpr int kMostThreads = 1024;
  constexpr int kMost = 4096;  // cores of a device, devices
  const auto refuse = [](const char* what, std::int64_t least, std::int64_t most,
                         std::int64_t given) {
    throw InputError("bad-input", std::string(what) + " are " + std::to_string(least) + " to " +
                                      std::to_string(most) + ", not " + std::to_string(given));
  };
  if (options.threads < 0 || options.threads > kMostThreads)
    refuse("threads", 0, kMostThreads, options.threads);
  if (options.cores < 1 || options.cores > kMost)
    refuse("the cores of a device", 1, kMost, options.cores);
  std::int64_t devices = 1;
  for (const int extent : options.mesh) {
    devices *= extent;
    if (extent < 1 || devices > kMost) refuse("the devices of a mesh", 1, kMost, devices);
  }
}

/// What the steps of a run that went well use; empty if its body decides by values.
StepTrace trace_of(const Kernel& kernel, const Plan& plan, StepContext& context,
                   const RunOptions& options) {
  RunOptions counting = options;
  counting.progress = nullptr;
  try {
    return count(kernel, plan, counting, context).trace;
  } catch (const KernelError&) {
    StepTrace none;
    none.most = options.trace_steps;
    return none;
  }
}

}  // namespace

RunResult run(const Kernel& kernel, Plan plan, const Inputs& inputs, const RunOptions& options) {
  check_options(options);
  StepContext context{.plan = &plan,
                      .who = options.who.empty() ? plan.kernel : options.who,
                      .command = options.command,
                      .stop = options.stop};
  step_context = &context;
  struct Clear {
    ~Clear() { step_context = nullptr; }
  } clear;
  RunResult result;
  try {
    if (options.keep_going && options.transport != nullptr)
      throw InputError("bad-input",
                       "all findings of a run are kept in one process, without mpirun");
    finish_plan(plan);
    check_grid(plan, options.dry && kernel.counts());
    const std::string doubt = vmem_in_doubt(plan);
    if (options.dry && kernel.counts()) {
      result = count(kernel, std::move(plan), options, context);
      if (!doubt.empty()) result.notes.push_back(doubt);
      return result;
    }
    const bool traced = options.trace_steps > 0 && !plan.counts_in_run;
    const Plan counted = traced ? plan : Plan();
    RunDriver driver(kernel, std::move(plan), inputs, options);
    context.plan = &driver.plan();
    result = driver.execute();
    result.dry = options.dry;
    if (!doubt.empty()) result.notes.push_back(doubt);
    if (traced && result.ok()) result.trace = trace_of(kernel, counted, context, options);
  } catch (const KernelError& error) {
    // Only what precedes the first step lands here: the plan.
    result.plan = std::move(plan);
    result.diagnostics.push_back(error.diagnostic);
  }
  return result;
}

}  // namespace tessera
