#include "python/live_calls.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "cli/command_line.hpp"
#include "golden/call_golden.hpp"
#include "memory_model/npy.hpp"
#include "pallas/call_directory.hpp"
#include "pallas/extract.hpp"
#include "pallas/load.hpp"
#include "pallas/plan_module.hpp"
#include "record/call_record.hpp"
#include "report/html_report.hpp"
#include "tpu_compiler/played.hpp"

namespace tessera::live {

namespace {

/// Of which a page has pictures.
constexpr std::int64_t kTracedSteps = std::int64_t{1} << 17;

/// What the text of a call's configuration comes to.
struct Kernel {
  std::string module;  ///< bytecode
  std::string config;  ///< without it
  std::unique_ptr<program::Program> program;
  std::exception_ptr failure;  ///< why there is no program
  bool stopped = false;        ///< because reading it was ended
};

std::unique_ptr<Kernel> kernel_of(const std::string& text) {
  auto kernel = std::make_unique<Kernel>();
  try {
    const auto found = pallas::extract_kernels(text);
    if (found.size() != 1) throw InputError("bad-module", "the custom call has no Mosaic module");
    kernel->module = found.front().module;
    kernel->config = found.front().config;
    kernel->program = pallas::plan_module(pallas::load_module(kernel->module, "the kernel"));
  } catch (const Stopped&) {
    kernel->failure = std::current_exception();
    kernel->stopped = true;
  } catch (...) {
    kernel->failure = std::current_exception();
  }
  return kernel;
}

/// A call that has come in, and what it was called by.
struct Arrived : DeviceCall {
  Within within = {};
};

/// The calls of all devices that belong together, in the order of devices.
using Group = std::vector<Arrived>;

Array lent(const View& view) { return Array::lent(view.dtype, view.shape, view.bytes); }

Array copy_of(const View& view) {
  Array a = Array::undefined(view.dtype, view.shape);
  if (a.size_bytes() > 0)
    std::memcpy(a.bytes(), view.bytes, static_cast<std::size_t>(a.size_bytes()));
  return a;
}

class Calls {
 public:
  Calls() {
    std::thread([this] { run(); }).detach();
    std::thread([this] { keep_time(); }).detach();
  }

  void open(Settings settings) {
    const std::lock_guard lock(mutex_);
    if (settings_) throw InputError("bad-input", "a simulation is on already: they do not nest");
    stop_ = Stop::none;
    settings.options.stop = &stop_;
    if (settings.time_limit > 0) {
      constexpr double kLongest = 1e8;  // what a clock can add
      deadline_ = Clock::now() +
                  std::chrono::duration_cast<Clock::duration>(
                      std::chrono::duration<double>(std::min(settings.time_limit, kLongest)));
      time_.notify_one();
    }
    settings_ = std::make_shared<const Settings>(std::move(settings));
    captured_ = 0;
    report_bytes_ = 0;
    most_report_bytes_ = settings_->report_bytes;
    left_out_ = 0;
    under_way_ = {};
  }
  void count_alone(bool alone, std::shared_ptr<tpu_compiler::TpuCompiler> compiler) {
    const std::lock_guard lock(mutex_);
    if (!alone && opened_with_) settings_ = std::exchange(opened_with_, nullptr);
    if (!alone || opened_with_ || !settings_) return;
    opened_with_ = settings_;
    auto dry = std::make_shared<Settings>(*settings_);
    dry->options.dry = true;
    dry->options.error_model.reset();
    dry->options.keep_checksums = false;
    dry->capture.clear();
    dry->golden.clear();
    if (compiler) {
      dry->by_schedule = true;
      dry->compiler = std::move(compiler);
    }
    settings_ = std::move(dry);
  }
  void close() {
    std::list<Group> orphans;
    {
      const std::lock_guard lock(mutex_);
      settings_.reset();
      opened_with_.reset();
      deadline_.reset();
      orphans.swap(incomplete_);
    }
    for (const Group& group : orphans) finish(group, "the simulation is over");
  }
  void record_in(const std::string& folder) {
    auto recording = folder.empty() ? nullptr : std::make_shared<const record::Folder>(folder);
    const std::lock_guard lock(mutex_);
    recording_ = std::move(recording);
  }
  void program_begins(const Within& within) {
    const std::lock_guard lock(mutex_);
    programs_.push_back(within);
  }
  void program_ends(const Within& within) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(programs_, within);
    if (found != programs_.end()) programs_.erase(found);
  }
  void submit(DeviceCall call) {
    {
      const std::lock_guard lock(mutex_);
      if (settings_) {
        arrived_.push_back({std::move(call), called_by()});
        wake_.notify_one();
        return;
      }
    }
    call.done("no simulation is on: run this inside `with tessera.simulate():`");
  }
  std::vector<Finished> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(finished_, {});
  }
  std::int64_t left_out() {
    const std::lock_guard lock(mutex_);
    return left_out_;
  }
  UnderWay under_way() {
    const std::lock_guard lock(mutex_);
    return under_way_;
  }
  void interrupt() noexcept { stop_ = Stop::interrupted; }
  void resume() noexcept {
    Stop interrupted = Stop::interrupted;
    stop_.compare_exchange_strong(interrupted, Stop::none);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Within called_by() const {
    if (programs_.empty()) return {};
    const Within& first = programs_.front();
    return std::ranges::count(programs_, first) == std::ssize(programs_) ? first : Within();
  }

  /// Each device goes on in a thread of its own: what comes next in its program may wait for the
  /// others, as XLA's collectives do.
  static void finish(const Group& group, const std::string& error) {
    for (const Arrived& c : group) {
      if (c.done) std::thread(c.done, error).detach();
    }
  }
  static bool complete(const Group& group) {
    return std::all_of(group.begin(), group.end(),
                       [](const Arrived& c) { return static_cast<bool>(c.done); });
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (arrived_.empty()) {
        if (incomplete_.empty())
          wake_.wait(lock);
        else
          wait_for_late_devices(lock);
        continue;
      }
      Arrived call = std::move(arrived_.front());
      arrived_.pop_front();
      const std::shared_ptr<const Settings> settings = settings_;
      // What is counted on the way to a choice is no invocation.
      const auto recording = opened_with_ ? nullptr : recording_;
      lock.unlock();
      Kernel& kernel = this->kernel(call.config);
      Group ready = gather(std::move(call), kernel);
      if (!ready.empty()) {
        if (settings)
          execute(ready, kernel, *settings, recording.get());
        else
          finish(ready, "the simulation is over");
      }
      lock.lock();
    }
  }

  /// Until a device comes, or it is in vain: a signal handler can wake nobody.
  void wait_for_late_devices(std::unique_lock<std::mutex>& lock) {
    constexpr auto kLook = std::chrono::milliseconds(100);
    const auto patience = std::chrono::duration<double>(settings_ ? settings_->patience : 3600);
    const auto since = Clock::now();
    while (arrived_.empty() && !incomplete_.empty()) {
      if (stop_ != Stop::none || Clock::now() - since > patience) return give_up(lock);
      wake_.wait_for(lock, kLook);
    }
  }

  /// Ends what runs when the simulation has taken its time.
  void keep_time() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!deadline_) {
        time_.wait(lock);
      } else if (Clock::now() < *deadline_) {
        time_.wait_until(lock, *deadline_);
      } else {
        stop_ = Stop::time_limit;
        deadline_.reset();
      }
    }
  }

  StepContext before_a_run(const std::string& who) const {
    StepContext context;
    context.who = who;
    context.stop = &stop_;
    return context;
  }

  /// Only the thread that runs calls asks.
  Kernel& kernel(const std::string& config) {
    auto& kernel = kernels_[config];
    if (kernel && !kernel->stopped) return *kernel;
    const StepContext context = before_a_run("a kernel that is being read");
    step_context = &context;
    kernel = kernel_of(config);
    step_context = nullptr;
    return *kernel;
  }

  /// The group that the call completes, or nothing.
  Group gather(Arrived call, const Kernel& kernel) {
    const bool meets = call.devices > 1 && kernel.program && kernel.program->meets_devices;
    Group group;
    if (!meets) {
      group.push_back(std::move(call));
      return group;
    }
    const auto device = static_cast<std::size_t>(call.device);
    const std::lock_guard lock(mutex_);
    for (auto it = incomplete_.begin(); it != incomplete_.end(); ++it) {
      const auto same = std::find_if(it->begin(), it->end(), [&](const Arrived& c) {
        return c.done && c.program == call.program && c.site == call.site;
      });
      if (same == it->end() || (*it)[device].done) continue;
      (*it)[device] = std::move(call);
      if (complete(*it)) {
        group = std::move(*it);
        incomplete_.erase(it);
      }
      return group;
    }
    Group first(static_cast<std::size_t>(call.devices));
    first[device] = std::move(call);
    incomplete_.push_back(std::move(first));
    return group;
  }

  /// Devices that never come, since control flow differs between them, or that come too late.
  void give_up(std::unique_lock<std::mutex>& lock) {
    std::list<Group> late;
    late.swap(incomplete_);
    lock.unlock();
    for (const Group& group : late) {
      std::string here;
      std::string missing;
      const DeviceCall* some = nullptr;
      for (std::size_t d = 0; d < group.size(); ++d) {
        std::string& list = group[d].done ? here : missing;
        list += (list.empty() ? "" : ", ") + std::to_string(d);
        if (group[d].done) some = &group[d];
      }
      const Stop stopped = stop_;
      const std::string slug_of = stopped == Stop::none ? "late-device" : slug(stopped);
      const std::string waits =
          fmt::format("{} waits on devices {} for devices {}, which {} it",
                      some == nullptr ? "a kernel" : kernel(some->config).program->name, here,
                      missing, stopped == Stop::none ? "do not reach" : "have not reached");
      const std::string why =
          stopped == Stop::none
              ? fmt::format(
                    "error[{}]: {}\n  help    every device of the mesh must call a kernel "
                    "that meets the others\n",
                    slug_of, waits)
              : fmt::format("error[{}]: {}\n  kernel  {}\n", slug_of, headline(stopped), waits);
      Finished f;
      f.findings.push_back({slug_of, "kernel", why});
      publish(std::move(f));
      finish(group, why);
    }
    lock.lock();
  }

  /// A loop of calls need not end: all reports are kept while there is room, then, in as much room
  /// again, those of calls that went wrong.
  void publish(Finished f) {
    std::size_t bytes = f.note.size() + f.warnings.size() + f.printed.size() + f.compiler.size();
    if (f.report) bytes += static_cast<std::size_t>(f.report->bytes());
    const std::lock_guard lock(mutex_);
    const bool room = report_bytes_ + bytes <= most_report_bytes_;
    for (const Finding& each : f.findings) bytes += each.text.size();
    const bool wrong = !f.findings.empty() && report_bytes_ + bytes <= 2 * most_report_bytes_;
    if (!room && !wrong && !ended(f)) {
      ++left_out_;
      return;
    }
    report_bytes_ += bytes;
    finished_.push_back(std::move(f));
  }

  static void fail(Finished& f, const Diagnostic& d) {
    const bool by_compiler = std::ranges::any_of(
        d.fields, [](const auto& field) { return field.first == pallas::kRefusedByCompiler; });
    f.findings.push_back({d.slug, name(d.kind), d.text(), by_compiler});
  }
  static bool ended(const Finished& f) {
    return std::ranges::any_of(f.findings, [](const Finding& each) {
      return each.slug == slug(Stop::interrupted) || each.slug == slug(Stop::time_limit);
    });
  }

  void execute(const Group& group, const Kernel& kernel, const Settings& settings,
               const record::Folder* recording) {
    Finished f;
    Kept kept;
    bool there = false;  // results
    try {
      if (kernel.failure) std::rethrow_exception(kernel.failure);
      const StepContext context = before_a_run(kernel.program->name);
      step_context = &context;
      stop_if_asked();  // a kernel of one step that never looks would end well
      there = run_kernel(group, kernel, settings, recording, f, kept);
    } catch (const KernelError& e) {
      fail(f, e.diagnostic);
    } catch (const InputError& e) {
      f.findings.push_back({e.slug, "input", e.text()});
    } catch (const NpyError& e) {  // a folder for captures that cannot be written
      f.findings.push_back(
          {"bad-input", "input", std::string("error[bad-input]: ") + e.what() + "\n"});
    } catch (const std::exception& e) {
      f.findings.push_back(
          {"internal", "internal", std::string("error[internal]: ") + e.what() + "\n"});
    }
    if (recording != nullptr) write_down(*recording, group, kernel, settings, std::move(kept), f);
    // A program that is to end would go on for ever if its kernels gave results.
    const bool goes_on = settings.keep_going && !ended(f);
    if (!there && goes_on) poison_results(group);
    const std::string error = goes_on || f.findings.empty() ? "" : f.findings.front().text;
    publish(std::move(f));
    finish(group, error);
  }

  /// What a record has of a call's arrays.
  struct Kept {
    std::string folder;  ///< of the call
    std::vector<record::Noted> inputs, outputs;
  };

  static void write_down(const record::Folder& recording, const Group& group, const Kernel& kernel,
                         const Settings& settings, Kept kept, Finished& f) {
    const Arrived& any = group.front();
    const RunOptions& options = settings.options;
    try {
      record::Record r;
      if (f.report) {
        r = record::record_of(f.report->json());
      } else {  // it did not get as far
        r.operation = any.name.empty() && kernel.program ? kernel.program->name : any.name;
        r.frontend = "mosaic";
        r.requested = "auto";
        r.ran = "interpret";
        r.device = options.device.name;
        r.numerics = name(options.profile);
        r.mesh = {static_cast<int>(group.size())};
        r.cores = options.cores;
        r.dry = options.dry;
        for (const Finding& each : f.findings) r.diagnostics.push_back(each.slug);
      }
      r.inputs = std::move(kept.inputs);
      r.outputs = std::move(kept.outputs);
      r.key = record::key_of(r.operation, options.device, kernel.module, r.inputs, r.mesh, r.cores);
      r.within = any.within.operation;
      r.tier = any.within.tier;
      r.configuration = any.within.configuration;
      if (!kept.folder.empty()) {
        cli::RunArguments again;
        again.kernel = kept.folder;
        again.profile = name(options.profile);
        again.no_races = !options.find_races;
        again.keep_going = options.keep_going;
        again.dry = options.dry;
        r.arguments = cli::words_of("run", again);
        if (options.schedule) {
          r.arguments.emplace_back("--schedule");
          r.arguments.push_back(to_string(*options.schedule));
        }
      }
      recording.append(r);
    } catch (const InputError& e) {
      f.findings.push_back({e.slug, "input", e.text()});
    }
  }

  static void poison_results(const Group& group) {
    for (const Arrived& c : group) {
      for (const View& r : c.results) poison(r.bytes, r.dtype, r.shape.elems());
    }
  }

  /// Whatever becomes of its results, a call that ran has a report.
  struct Reported {
    Finished& f;
    const std::string& kernel_name;
    const program::Program& program;
    RunResult& result;
    const RunOptions& options;
    std::optional<Compiled>& compiled;

    ~Reported() {
      result.outputs.clear();
      result.bounds.clear();
      f.report = std::make_shared<CallReport>(kernel_name, program::main_dtype(program),
                                              std::move(result), options, std::move(compiled));
    }
  };

  /// True if it gave results.
  bool run_kernel(const Group& group, const Kernel& kernel, const Settings& settings,
                  const record::Folder* recording, Finished& f, Kept& kept) {
    const Arrived& any = group.front();
    const program::Call call = call_of(group, kernel, settings.jax_0_11);
    const std::string kernel_name = any.name.empty() ? kernel.program->name : any.name;
    RunOptions options = settings.options;
    options.who = kernel_name;
    options.trace_steps = kTracedSteps;
    options.mesh = {static_cast<int>(group.size())};
    options.print = [&](const std::string& text) { f.printed += text; };
    const std::string place = fmt::format("{:03}_{}", captured_++, kernel_name);
    if (!settings.capture.empty()) {
      f.folder = settings.capture + "/" + place;
      note_replaced(f.folder + "/meta.json", f.folder, f);
      options.command = capture(f.folder, record_of(group, kernel, options, call), options);
    }
    if (!settings.golden.empty() && group.size() > 1) {
      throw KernelError({.slug = "unsupported",
                         .kind = Diagnostic::Kind::unsupported,
                         .headline = "goldens of a call on several devices"});
    }
    if (recording != nullptr) {
      const pallas::CallToRecord record = record_of(group, kernel, options, call);
      kept.folder =
          record::keep_call(*recording, pallas::call_files(record), record.operands, kept.inputs);
    }
    std::optional<Compiled> compiled;
    if (settings.compiler) compiled = ask_compiler(group, call, kernel, kernel_name, settings, f);
    RunResult result = program::run_call(call, options);
    const Reported reported{f, kernel_name, *kernel.program, result, options, compiled};
    check_barriers(any, kernel_name, call.collective_id, result);
    for (std::size_t j = 0; recording != nullptr && result.ok() && j < result.outputs.size(); ++j)
      kept.outputs.push_back(recording->note("out" + std::to_string(j), result.outputs[j], true));
    if (!keep_findings(result, settings, f)) return false;
    if (!settings.golden.empty()) {
      f.golden = settings.golden + "/" + place;
      note_replaced(f.golden + "/manifest.json", f.golden, f);
      pallas::CallToRecord recorded = record_of(group, kernel, options, call);
      const auto files = pallas::call_files(recorded);
      golden::write(f.golden,
                    golden::golden_of_call(kernel_name, std::move(recorded.operands.front()), files,
                                           result, options, "tessera.simulate(golden=...)"));
    }
    if (options.dry)
      poison_results(group);
    else
      deliver(result, group);
    if (!options.dry) note_under_way(kernel_name, call, result);
    return true;
  }

  /// Copies that kernels start and others wait for: what their semaphores hold goes from one to the
  /// next.
  void note_under_way(const std::string& kernel_name, const program::Call& call,
                      const RunResult& result) {
    const auto held = [](const Array& semaphores) {
      std::int64_t bytes = 0;
      for (std::int64_t k = 0; k < semaphores.shape().elems(); ++k)
        bytes += load_element<std::int32_t>(semaphores.bytes(), k);
      return bytes;
    };
    std::int64_t more = 0;
    std::size_t output = 0;
    for (std::size_t i = 0; i < result.plan.operands.size(); ++i) {
      const OperandPlan& op = result.plan.operands[i];
      if (op.role == Role::dma_sem && op.given) more -= held(call.inputs[i]);
      if (op.role == Role::dma_sem && op.handed_on) more += held(result.outputs[output]);
      if (op.is_output()) ++output;
    }
    const std::lock_guard lock(mutex_);
    under_way_.bytes += more;
    if (more > 0) under_way_.started_by = kernel_name;
  }

  /// The devices' parts joined, with undefined results.
  static program::Call call_of(const Group& group, const Kernel& kernel, bool jax_0_11) {
    const program::Program& program = *kernel.program;
    const Arrived& any = group.front();
    std::vector<Array> operands;
    for (std::size_t i = 0; i < any.operands.size(); ++i) {
      std::vector<Array> parts;
      for (const Arrived& c : group) parts.push_back(lent(c.operands[i]));
      operands.push_back(program::join_parts(std::move(parts)));
      if (program.asynchronous && group.size() == 1)  // whose copies may go to an operand
        operands.back() = copy_of(any.operands[i]);
      if (i < program::operand_count(program))
        program::retype_integers(operands.back(), program::operand_dtype(program, i));
    }
    const std::size_t operands_given = operands.size();
    program::Call call = program::make_call(program, std::move(operands), any.aliases);
    pallas::apply_config(kernel.config, call);
    call.alone = any.alone;
    call.jax_0_11 = jax_0_11;
    for (const View& r : any.results) {
      Shape shape = r.shape;
      if (group.size() > 1 && shape.rank == 0) shape.push_back(1);
      if (group.size() > 1) shape[0] *= static_cast<std::int64_t>(group.size());
      const std::size_t i = operands_given + call.results.size();
      // Their types alone: the run has memory of its own.
      call.results.push_back(Array::lent(r.dtype, shape, nullptr));
      if (i < program::operand_count(program))
        program::retype_integers(call.results.back(), program::operand_dtype(program, i));
    }
    return call;
  }

  /// Gives the command that runs what it wrote.
  static std::string capture(const std::string& folder, const pallas::CallToRecord& record,
                             const RunOptions& options) {
    pallas::write_call(folder, record);
    cli::RunArguments again;
    again.kernel = folder;
    again.profile = name(options.profile);
    again.no_races = !options.find_races;
    return cli::command_of("run", again);
  }

  /// True if the results are to be given all the same.
  static bool keep_findings(const RunResult& result, const Settings& settings, Finished& f) {
    const bool left_unwritten = settings.may_leave_unwritten && result.complete && !result.ok() &&
                                std::ranges::all_of(result.diagnostics, [](const Diagnostic& d) {
                                  // Of a run that took all its steps: undefined elements of an
                                  // output.
                                  return d.slug == "output-not-covered" || d.slug == "uninit-read";
                                });
    if (left_unwritten) {
      f.note = result.diagnostics.front().text();
      return true;
    }
    for (const Diagnostic& d : result.diagnostics) fail(f, d);
    for (const std::string& note : result.notes) {
      const bool warns = note.starts_with("output-not-covered") || note.starts_with("stale-alias");
      if (warns) f.warnings += (f.warnings.empty() ? "" : "\n") + note;
    }
    return result.ok() || (settings.keep_going && result.complete);
  }

  static void deliver(const RunResult& result, const Group& group) {
    for (std::size_t d = 0; d < group.size(); ++d) {
      for (std::size_t j = 0; j < group[d].results.size(); ++j) {
        const View& to = group[d].results[j];
        const std::int64_t part = packed_bytes(to.dtype, to.shape.elems());
        std::memcpy(to.bytes, result.outputs[j].bytes() + static_cast<std::int64_t>(d) * part,
                    static_cast<std::size_t>(part));
      }
    }
  }

  static void note_replaced(const std::string& file, const std::string& folder, Finished& f) {
    std::error_code error;
    if (std::filesystem::exists(file, error)) f.replaced.push_back(folder);
  }

  /// A collective id that an earlier call of the program has used too: a device that runs ahead
  /// signals one that still waits in that call.
  void check_barriers(const DeviceCall& call, const std::string& name, int collective_id,
                      RunResult& result) {
    if (call.synchronised || result.barriers.signals.empty()) return;
    if (call.program != barriers_of_) barriers_.clear();
    barriers_of_ = call.program;
    for (const Barriers& before : barriers_[collective_id]) {
      for (const auto& [pair, line] : result.barriers.signals) {
        if (before.site == call.site || !before.use.behind.contains(pair)) continue;
        if (result.ok())
          result.diagnostics.push_back(shared_barrier(before, name, collective_id, pair, line));
      }
    }
    barriers_[collective_id].push_back({call.site, name, std::move(result.barriers)});
  }

  /// What a call of the running program did with its barrier.
  struct Barriers {
    const void* site = nullptr;
    std::string kernel;
    BarrierUse use;
  };
  static Diagnostic shared_barrier(const Barriers& before, const std::string& name,
                                   int collective_id, const BarrierUse::Pair& pair,
                                   const std::string& line) {
    return {
        .slug = "race",
        .headline =
            fmt::format("device {} may signal the barrier of device {} while that waits there in "
                        "another call",
                        pair.first, pair.second),
        .fields = {
            {"kernel", name},
            {"line", line},
            {"other", fmt::format("an earlier call, of {}, which device {} may have ended by then",
                                  before.kernel, pair.first)},
            {"help",
             fmt::format("both have collective_id {}: give each its own, or let devices meet "
                         "at the end of the earlier one",
                         collective_id)}}};
  }

  /// One that is refused is run all the same where errors are collected. What its schedule takes,
  /// if times are to be that.
  static std::optional<Compiled> ask_compiler(const Group& group, const program::Call& call,
                                              const Kernel& kernel, const std::string& name,
                                              const Settings& settings, Finished& f) {
    const DeviceCall& any = group.front();
    tpu_compiler::Question q;
    q.kernel = name;
    q.module = kernel.module;
    q.config = kernel.config;
    q.chip = settings.options.device.jax.chip;
    for (const View& v : any.operands) q.operands.push_back({v.dtype, v.shape});
    for (const View& v : any.results) q.results.push_back({v.dtype, v.shape});
    q.aliases = any.aliases;
    const tpu_compiler::Verdict verdict = settings.compiler->ask(q);
    f.compiler = tpu_compiler::json_of(verdict);
    if (verdict.kind == tpu_compiler::Verdict::Kind::refused) {
      const Diagnostic d =
          tpu_compiler::does_not_compile(verdict, name, settings.options.device.name);
      if (!settings.keep_going) throw KernelError(d);
      fail(f, d);
    }
    if (!settings.by_schedule) return std::nullopt;
    Compiled compiled{
        {}, settings.compiler->version(), program::operands_before_inputs(*call.program)};
    if (verdict.kind != tpu_compiler::Verdict::Kind::accepted)
      compiled.schedule.unmodelled = std::string("the compiler's answer is ") +
                                     tpu_compiler::name(verdict.kind) + ": " + verdict.sentence;
    else if (group.size() > 1)
      compiled.schedule.unmodelled = tpu_compiler::kOneDevice;
    else
      compiled.schedule =
          tpu_compiler::played_schedule(settings.compiler->libtpu(), verdict, call, true,
                                        settings.options.device, report::kPageSpans);
    return compiled;
  }

  static pallas::CallToRecord record_of(const Group& group, const Kernel& kernel,
                                        const RunOptions& options, const program::Call& call) {
    pallas::CallToRecord r;
    r.module = kernel.module;
    r.config = kernel.config;
    for (const Arrived& c : group) {
      std::vector<Array> parts;
      for (const View& v : c.operands) parts.push_back(copy_of(v));
      r.operands.push_back(std::move(parts));
    }
    for (const View& v : group.front().results)
      r.results.push_back(Array::undefined(v.dtype, v.shape));
    r.aliases = group.front().aliases;
    r.inputs = call.inputs.size();
    r.dynamic_bounds = call.bounds.size();
    r.device = options.device;
    r.cores = options.cores;
    r.alone = call.alone;
    r.jax_0_11 = call.jax_0_11;
    return r;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable time_;
  std::optional<Clock::time_point> deadline_;
  StopFlag stop_{Stop::none};
  std::shared_ptr<const Settings> settings_;
  std::shared_ptr<const Settings> opened_with_;    ///< while calls are counted alone
  std::map<int, std::vector<Barriers>> barriers_;  ///< by collective id
  std::int64_t barriers_of_ = 0;                   ///< of which program
  std::deque<Arrived> arrived_;
  std::shared_ptr<const record::Folder> recording_;
  std::vector<Within> programs_;
  std::list<Group> incomplete_;
  std::vector<Finished> finished_;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels_;
  int captured_ = 0;
  std::size_t report_bytes_ = 0;  ///< of this simulation: what is kept
  std::size_t most_report_bytes_ = 0;
  UnderWay under_way_;
  std::int64_t left_out_ = 0;  ///< calls whose reports were too many
};

/// Never destroyed: its threads may be at work when the process ends.
Calls& calls() {
  static auto* const all = new Calls;
  return *all;
}

}  // namespace

void open(Settings settings) { calls().open(std::move(settings)); }
void count_alone(bool alone, std::shared_ptr<tpu_compiler::TpuCompiler> compiler) {
  calls().count_alone(alone, std::move(compiler));
}
void record_in(const std::string& folder) { calls().record_in(folder); }
void program_begins(const Within& within) { calls().program_begins(within); }
void program_ends(const Within& within) { calls().program_ends(within); }
void close() { calls().close(); }
void submit(DeviceCall call) { calls().submit(std::move(call)); }
std::vector<Finished> take_finished() { return calls().take(); }
std::int64_t left_out() { return calls().left_out(); }
UnderWay under_way() { return calls().under_way(); }
void interrupt() noexcept { calls().interrupt(); }
void resume() noexcept { calls().resume(); }

}  // namespace tessera::live
