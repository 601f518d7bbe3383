#include "python/triton_launches.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>
#include <unordered_map>

#include "cli/command_line.hpp"
#include "memory_model/npy.hpp"
#include "predict/gpu_model.hpp"
#include "predict/grid_bytes.hpp"
#include "predict/grid_time.hpp"
#include "record/launch_record.hpp"
#include "report/html_report.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "triton/load.hpp"
#include "triton/rounds.hpp"

namespace tessera::live {

namespace {

using program::Scalar;
using Clock = std::chrono::steady_clock;

/// What stops a run that reads a module: launch.cpp has its own context.
struct Reading {
  Reading(const std::string& who, const StopFlag& stop) : outer(step_context) {
    context.who = who;
    context.stop = &stop;
    step_context = &context;
  }
  ~Reading() { step_context = outer; }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  StepContext context;
  const StepContext* outer;
};

/// The rate of a kernel's FLOP: of its products, if it has any. Tensor cores take f32 as tf32, at
/// half the rate of bf16.
double rate_of(const DeviceSpec& device, const triton::Kernel& kernel) {
  if (!kernel.products) return device.peak(DType::f32);
  if (kernel.tf32) return device.peak(DType::bf16) / 2;
  return device.peak(*kernel.products);
}

/// Of what is less, DRAM gives each byte once.
constexpr std::int64_t kOnceRead = 16 << 20;

class Launches {
 public:
  void open(LaunchSettings settings) {
    const std::lock_guard lock(mutex_);
    if (settings_) throw InputError("bad-input", "a simulation is on already: they do not nest");
    predict::check_models(settings.options.device);
    stop_ = Stop::none;
    settings.options.stop = &stop_;
    options_ = std::make_shared<const RunOptions>(settings.options);
    if (settings.time_limit > 0) {
      deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(settings.time_limit));
      timer_ = std::thread([this] { keep_time(); });
    }
    settings_ = std::move(settings);
    launched_.clear();
    kept_ = 0;
    left_out_ = 0;
    clock_ = {};
  }
  void close() {
    std::thread timer;
    {
      const std::lock_guard lock(mutex_);
      settings_.reset();
      undefined_.clear();
      deadline_.reset();
      timer.swap(timer_);
    }
    time_.notify_all();
    if (timer.joinable()) timer.join();
  }

  void record_in(const std::string& folder) {
    auto recording = folder.empty() ? nullptr : std::make_shared<const record::Folder>(folder);
    const std::lock_guard lock(mutex_);
    recording_ = std::move(recording);
  }

  bool views() {
    const std::lock_guard lock(mutex_);
    return settings_ && settings_->views;
  }

  std::shared_ptr<Launched> run(Specialisation& which, const std::array<std::int64_t, 3>& grid,
                                const std::vector<Scalar>& scalars,
                                const std::vector<Pointer>& pointers) {
    const std::lock_guard one(running_);
    auto l = std::make_shared<Launched>();
    std::shared_ptr<const record::Folder> recording;
    {
      const std::lock_guard lock(mutex_);
      if (!settings_) throw InputError("bad-input", "no simulation is on");
      l->options = options_;
      recording = recording_;
    }
    record::Record record;
    l->kernel = which.name();
    RunOptions& options = options_of_run();
    options.print = [&](const std::string& text) { l->printed += text; };
    try {
      const triton::Kernel& kernel = which.kernel(options.profile, stop_);
      triton::Launch launch = launch_of(kernel, grid, scalars, pointers, *l);
      if (recording && !options.dry && triton::why_not_recorded(launch).empty())
        record.arguments = keep(*recording, which, launch, *options_, record.inputs);
      launch.program_seconds = which.program_seconds;
      launch.axes = which.axes;
      l->result = triton::run_launch(launch, options);
      which.program_seconds = l->result.program_seconds;
      which.axes = l->result.axes;
      if (recording && l->result.run.ok() && !record.arguments.empty())
        record.outputs = record::keep_storages(*recording, launch);
      for (const Diagnostic& d : l->result.run.diagnostics)
        l->findings.push_back({d.slug, name(d.kind), d.text()});
      predict(which, kernel, launch, *l);
    } catch (const KernelError& e) {
      l->findings.push_back({e.diagnostic.slug, name(e.diagnostic.kind), e.diagnostic.text()});
    } catch (const InputError& e) {
      l->findings.push_back({e.slug, "input", e.text()});
    } catch (const NpyError& e) {  // a recording that cannot be written
      l->findings.push_back(
          {"bad-input", "input", std::string("error[bad-input]: ") + e.what() + "\n"});
    } catch (const std::exception& e) {
      l->findings.push_back(
          {"internal", "internal", std::string("error[internal]: ") + e.what() + "\n"});
    }
    options.print = nullptr;
    if (recording) write_down(*recording, which, std::move(record), *l);
    keep(l);
    return l->findings.empty() && l->printed.empty() ? nullptr : l;
  }

  std::vector<std::shared_ptr<Launched>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(launched_, {});
  }
  std::int64_t left_out() {
    const std::lock_guard lock(mutex_);
    return left_out_;
  }
  DeviceClock clock() {
    const std::lock_guard lock(mutex_);
    return clock_;
  }

  void declare_undefined(const std::byte* base, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto all = std::make_unique<triton::Ranges>();
    all->add(0, bytes);
    undefined_[base] = std::move(all);
  }
  void declare_defined(const std::byte* base) {
    const std::lock_guard lock(mutex_);
    undefined_.erase(base);
  }
  bool any_undefined() {
    const std::lock_guard lock(mutex_);
    return !undefined_.empty();
  }
  bool undefined(const std::byte* base) {
    const std::lock_guard lock(mutex_);
    return undefined_.contains(base);
  }

  void note_allocation(std::byte* base, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    allocations_[base] = bytes;
  }
  void forget_allocation(const std::byte* base) {
    const std::lock_guard lock(mutex_);
    allocations_.erase(const_cast<std::byte*>(base));  // NOLINT: a key
  }

  void interrupt() noexcept { stop_ = Stop::interrupted; }
  void resume() noexcept {
    Stop interrupted = Stop::interrupted;
    stop_.compare_exchange_strong(interrupted, Stop::none);
  }

 private:
  /// The words of `tessera run` that run it again.
  static std::vector<std::string> keep(const record::Folder& folder, const Specialisation& which,
                                       const triton::Launch& launch, const RunOptions& options,
                                       std::vector<record::Noted>& noted) {
    cli::RunArguments again;
    again.kernel = record::keep_launch(
        folder, {which.ttir(), which.layouts(), which.fusion(), &launch}, noted);
    again.profile = name(options.profile);
    again.device = options.device.origin.ends_with(".json")
                       ? folder.keep(options.device.json, ".json")
                       : options.device.name;
    return cli::words_of("run", again);
  }

  static void write_down(const record::Folder& folder, const Specialisation& which,
                         record::Record kept, Launched& l) {
    const RunOptions& options = *l.options;
    try {
      record::Record r;
      if (const std::string json = l.json(); !json.empty()) {
        r = record::record_of(json);
      } else {  // it did not get as far
        r.operation = l.kernel;
        r.frontend = "triton";
        r.requested = "auto";
        r.ran = "interpret";
        r.device = options.device.name;
        r.numerics = name(options.profile);
      }
      r.diagnostics.clear();
      for (const LaunchFinding& each : l.findings) r.diagnostics.push_back(each.slug);
      r.predicted_seconds = l.predicted_seconds;
      r.arguments = std::move(kept.arguments);
      r.inputs = std::move(kept.inputs);
      r.outputs = std::move(kept.outputs);
      r.key = record::key_of(r.operation, options.device, which.ttir(), r.inputs, {1}, 1);
      folder.append(r);
    } catch (const InputError& e) {
      l.findings.push_back({e.slug, "input", e.text()});
    }
  }

  /// The device's figures are not copied for every launch.
  RunOptions& options_of_run() {
    if (of_run_from_ != options_) {
      of_run_ = *options_;
      of_run_from_ = options_;
    }
    return of_run_;
  }

  triton::Launch launch_of(const triton::Kernel& kernel, const std::array<std::int64_t, 3>& grid,
                           const std::vector<Scalar>& scalars, const std::vector<Pointer>& pointers,
                           Launched& l) {
    triton::Launch launch;
    launch.kernel = &kernel;
    launch.grid = grid;
    if (scalars.size() != kernel.parameters.size()) {
      throw InputError("bad-input", kernel.program.name + " takes " +
                                        std::to_string(kernel.parameters.size()) + " arguments; " +
                                        std::to_string(scalars.size()) + " are given");
    }
    std::vector<const std::byte*> bases;
    bool floats = false;
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      const triton::Parameter& p = kernel.parameters[i];
      triton::Argument a{.value = scalars[i]};
      const Pointer& pointer = pointers[i];
      if (p.type.pointer && pointer.bytes > 0) {
        const DType dtype = p.type.pointee;
        const std::int64_t width = program::register_bytes(dtype);
        if (pointer.offset % width != 0) {
          throw InputError("bad-input", p.name + " is not aligned: it lies " +
                                            std::to_string(pointer.offset) +
                                            " bytes behind the start of its allocation");
        }
        if (p.written && !pointer.writable)
          throw InputError("bad-input", p.name + " is read-only, and the kernel writes to it");
        a.offset = pointer.offset / width;
        a.begin = pointer.begin;
        a.end = pointer.end;
        const auto known = std::ranges::find(bases, pointer.base);
        a.storage = static_cast<int>(known - bases.begin());
        if (known == bases.end()) {
          bases.push_back(pointer.base);
          l.storages.push_back(p.name);
          triton::LaunchStorage& s = launch.storages.emplace_back();
          s.data = Array(dtype, {0});
          s.outside = {pointer.base, static_cast<std::size_t>(pointer.bytes)};
          const std::lock_guard lock(mutex_);
          const auto it = undefined_.find(pointer.base);
          if (it != undefined_.end()) s.undefined_bytes = it->second.get();
        } else {
          l.storages[static_cast<std::size_t>(a.storage)] += ", " + p.name;
        }
        if (is_float(dtype) && !std::exchange(floats, true)) l.main_dtype = dtype;
      }
      launch.arguments.push_back(a);
    }
    if (kernel.loads_pointers) add_allocations(bases, launch, l);
    for (std::size_t s = 0; s < l.storages.size(); ++s) launch.storages[s].name = l.storages[s];
    std::int64_t bytes = 0;
    for (const triton::LaunchStorage& s : launch.storages) bytes += s.size_bytes();
    launch.footprint = bytes > kOnceRead;
    return launch;
  }

  void add_allocations(const std::vector<const std::byte*>& bases, triton::Launch& launch,
                       Launched& l) {
    const std::lock_guard lock(mutex_);
    for (const auto& [base, bytes] : allocations_) {
      if (std::ranges::find(bases, base) != bases.end() || bytes <= 0) continue;
      // Where it lies, and so its number among them, is the system's to say: all have one name.
      l.storages.emplace_back("an allocation that pointers in memory point to");
      triton::LaunchStorage& s = launch.storages.emplace_back();
      s.data = Array(DType::i8, {0});
      s.outside = {base, static_cast<std::size_t>(bytes)};
      const auto it = undefined_.find(base);
      if (it != undefined_.end()) s.undefined_bytes = it->second.get();
    }
  }

  void predict(const Specialisation& which, const triton::Kernel& kernel,
               const triton::Launch& launch, Launched& l) {
    const RunResult& run = l.result.run;
    const triton::LaunchWork asked = triton::work_of(kernel, l.result);
    predict::GridWork work{.programs = run.steps,
                           .warps = which.taken().warps,
                           .stages = which.taken().stages,
                           .registers = which.taken().registers,
                           .shared_bytes = which.taken().shared_bytes,
                           .flops = run.flops,
                           .product_flops = asked.product_flops,
                           .product_flops_per_second = rate_of(l.options->device, kernel),
                           .functions = run.transcendentals,
                           .elements = asked.elements,
                           .reductions = asked.reductions,
                           .product_rows = asked.product_rows,
                           .accumulators = asked.accumulators,
                           .operand_bytes = asked.operand_bytes,
                           .kept_bytes = asked.kept_bytes,
                           .held_bytes = asked.held_bytes,
                           .tile_elements = asked.tile_elements};
    work.chained = asked.chained;
    work.masked_elements = asked.masked_elements;
    work.turns = asked.turns;
    l.waits = kernel.waits || kernel.locks;
    work.atomic_passes = l.result.atomic_passes;
    work.most_atomic_passes = l.result.most_atomic_passes;
    for (const triton::Round& r : asked.rounds) {
      work.rounds.push_back({r.times, r.products});
      predict::GridRound& round = work.rounds.back();
      round.stages = r.stages;
      round.turn_bytes = r.turn_bytes;
      using Turn = triton::Round::Turn;
      if (r.products || r.turn == Turn::none || r.turn == Turn::reduces) continue;
      round.sites = r.sites;
      round.elements = r.elements;
      round.width = r.width;
      round.bytes = r.element_bytes;
      round.stores = r.turn == Turn::stores;
    }
    for (const triton::LoopProduct& p : asked.products)
      work.products.push_back({p.times, p.rows, p.cols, p.depth, p.bits, p.left_computed});
    for (const triton::LineTraffic& t : l.result.lines) {
      const triton::Site& site = kernel.sites[t.site];
      work.accesses.push_back({.times = t.requested.times,
                               .elements = site.elements,
                               .width = site.width,
                               .run = site.run,
                               .bytes = site.bytes,
                               .moved = t.requested.read_bytes + t.requested.written_bytes,
                               .write = t.requested.written_bytes > 0});
    }
    work.reads = predict::grid_reads(l.result.tiles);
    double touched = 0;
    const auto& refs = run.ledger().refs();
    for (std::size_t s = 0; s < refs.size(); ++s) {
      const std::int64_t size = launch.storages[s].size_bytes();
      work.requested_bytes += refs[s].read_bytes + refs[s].write_bytes;
      work.written_bytes += refs[s].write_bytes;
      touched += static_cast<double>(std::min(refs[s].read_bytes, size) +
                                     std::min(refs[s].write_bytes, size));
    }
    const DeviceSpec& device = l.options->device;
    if (!l.result.tiles.begins.empty() && device.kind == DeviceSpec::Kind::gpu &&
        !device.model.empty()) {
      const predict::GridBytes dram =
          predict::grid_bytes(device, l.result.tiles, predict::side_by_side(device, work));
      touched = dram.dram_read + dram.dram_written;
      l.predicted_dram_read = dram.dram_read;
      l.predicted_dram_written = dram.dram_written;
    }
    l.predicted_seconds = predict::grid_time(device, work, touched).seconds;
  }

  /// All are kept while there is room, then those that went wrong.
  void keep(const std::shared_ptr<Launched>& l) {
    const std::lock_guard lock(mutex_);
    clock_.seconds += l->predicted_seconds;
    clock_.unknown += l->predicted_seconds > 0 ? 0 : 1;
    if (!settings_) return;
    const std::size_t most = settings_->most_launched;
    if (kept_ < most || (!l->findings.empty() && kept_ < 2 * most)) {
      ++kept_;
      launched_.push_back(l);
    } else {
      ++left_out_;
    }
  }

  void keep_time() {
    std::unique_lock lock(mutex_);
    while (deadline_) {
      if (Clock::now() < *deadline_) {
        time_.wait_until(lock, *deadline_);
      } else {
        stop_ = Stop::time_limit;
        return;
      }
    }
  }

  std::mutex running_;  ///< held by the launch that runs
  std::mutex mutex_;
  std::condition_variable time_;
  std::thread timer_;
  std::optional<Clock::time_point> deadline_;
  StopFlag stop_{Stop::none};
  std::optional<LaunchSettings> settings_;
  std::shared_ptr<const record::Folder> recording_;
  std::shared_ptr<const RunOptions> options_;
  RunOptions of_run_;
  std::shared_ptr<const RunOptions> of_run_from_;
  std::vector<std::shared_ptr<Launched>> launched_;
  std::size_t kept_ = 0;
  std::int64_t left_out_ = 0;
  DeviceClock clock_;
  std::map<std::byte*, std::int64_t> allocations_;
  std::unordered_map<const std::byte*, std::unique_ptr<triton::Ranges>> undefined_;
};

/// Never destroyed: threads may be at work when the process ends.
Launches& launches() {
  static auto* const all = new Launches;
  return *all;
}

}  // namespace

const triton::Kernel& Specialisation::kernel(Profile profile, const StopFlag& stop) {
  const std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(profile); known != kernels_.end()) return *known->second;
  if (const auto failed = failures_.find(profile); failed != failures_.end())
    std::rethrow_exception(failed->second);
  try {
    const Reading reading(name_, stop);
    auto kernel = triton::plan_kernel(triton::load_module(ttir_, name_), profile, fusion_);
    if (!layouts_.empty()) triton::set_layouts(*kernel, layouts_);
    return *(kernels_[profile] = std::move(kernel));
  } catch (const Stopped&) {
    kernels_.erase(profile);
    throw;
  } catch (...) {
    kernels_.erase(profile);
    failures_[profile] = std::current_exception();
    throw;
  }
}

report::RunReport Launched::report() const {
  RunResult run = result.run;
  run.plan.device = options->device;
  report::RunReport r = report::report_of(run, *options);
  r.kernel = kernel;
  r.frontend = "triton";
  r.dtype = main_dtype;
  r.backend_why = "a Triton launch runs in the interpreter";
  r.validated = "no: nothing to compare with";
  for (const triton::LineTraffic& l : result.lines) {
    r.lines.push_back({l.line.file, l.line.line, l.line.column, storages[l.storage],
                       l.requested.times, l.requested.read_bytes, l.requested.written_bytes,
                       l.requested.sectors.requests, l.requested.sectors.sectors,
                       l.requested.sectors.of_l2});
  }
  return r;
}
std::string Launched::json() const {
  return result.run.grid.empty() ? "" : report::json_of(report());
}
std::string Launched::text() const {
  return result.run.grid.empty() ? "" : report::text_of(report());
}
std::string Launched::page() const {
  return result.run.grid.empty() ? "" : report::page_data(report(), result.run, "");
}

void record_launches_in(const std::string& folder) { launches().record_in(folder); }
void open_launches(LaunchSettings settings) { launches().open(std::move(settings)); }
void close_launches() { launches().close(); }
std::shared_ptr<Launched> launch(Specialisation& which, const std::array<std::int64_t, 3>& grid,
                                 const std::vector<Scalar>& scalars,
                                 const std::vector<Pointer>& pointers) {
  return launches().run(which, grid, scalars, pointers);
}
std::vector<std::shared_ptr<Launched>> take_launched() { return launches().take(); }
std::int64_t launches_left_out() { return launches().left_out(); }
bool launches_take_views() { return launches().views(); }
DeviceClock device_clock() { return launches().clock(); }
void declare_undefined(const std::byte* base, std::int64_t bytes) {
  launches().declare_undefined(base, bytes);
}
void note_allocation(std::byte* base, std::int64_t bytes) {
  launches().note_allocation(base, bytes);
}
void forget_allocation(const std::byte* base) { launches().forget_allocation(base); }
void declare_defined(const std::byte* base) { launches().declare_defined(base); }
bool any_declared_undefined() { return launches().any_undefined(); }
bool declared_undefined(const std::byte* base) { return launches().undefined(base); }
void interrupt_launches() noexcept { launches().interrupt(); }
void resume_launches() noexcept { launches().resume(); }

}  // namespace tessera::live
