#include "triton/launch.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "sim/diagnostics/slugs.hpp"
#include "sim/pipeline/threads.hpp"
#include "triton/by_processor.hpp"
#include "triton/waiting.hpp"
#include "triton/worker.hpp"

namespace tessera::triton {

namespace {

void check(const Launch& launch) {
  const Kernel& k = *launch.kernel;
  if (launch.arguments.size() != k.parameters.size()) {
    throw InputError("bad-input", k.program.name + " takes " + std::to_string(k.parameters.size()) +
                                      " arguments; " + std::to_string(launch.arguments.size()) +
                                      " are given");
  }
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const Argument& a = launch.arguments[i];
    const Parameter& p = k.parameters[i];
    if (a.storage >= std::ssize(launch.storages) || (a.storage >= 0 && !p.type.pointer))
      throw InputError("bad-input", p.name + " is " + p.type.text + ": it takes another argument");
    if (a.storage >= 0 && a.end >= 0) {
      const std::int64_t size = launch.storages[static_cast<std::size_t>(a.storage)].size_bytes();
      if (a.begin < 0 || a.begin > a.end || a.end > size)
        throw InputError("bad-input", p.name + " is a view of more than its allocation");
    }
  }
  std::int64_t programs = 1;
  for (const std::int64_t extent : launch.grid) {
    if (extent < 0 || extent > INT32_MAX)
      throw InputError("bad-input", "a grid has extents from 0 to 2^31 - 1");
    programs *= extent;
    if (programs > (std::int64_t{1} << 40))
      throw InputError("bad-input", "a grid of more than 2^40 programs");
  }
  for (const LaunchStorage& s : launch.storages) {
    if (s.size_bytes() > (std::int64_t{1} << (kAddressBits - 1)))
      throw InputError("bad-input", s.name + " is larger than 512 GiB");
  }
}

/// The program after the first one along an axis.
std::int64_t next_along(const std::array<std::int64_t, 3>& grid, int axis) {
  return axis == 0 ? 1 : axis == 1 ? grid[0] : grid[0] * grid[1];
}

/// Where the first programs along each axis write.
class Places {
 public:
  explicit Places(const std::array<std::int64_t, 3>& grid) : grid_(grid) {}

  /// Each program by one thread.
  void note(std::int64_t program, std::int64_t address) {
    if (program == 0) first_ = address;
    for (int axis = 0; axis < 3; ++axis) {
      if (program == next_along(grid_, axis)) next_[static_cast<std::size_t>(axis)] = address;
    }
  }

  /// LaunchResult::axes.
  std::array<int, 3> axes() const {
    std::array<int, 3> all{0, 1, 2};
    std::ranges::stable_sort(all, {}, [&](int axis) {
      const auto a = static_cast<std::size_t>(axis);
      return grid_[a] > 1 ? std::abs(next_[a] - first_) : INT64_MAX;
    });
    return all;
  }

 private:
  std::array<std::int64_t, 3> grid_;
  std::int64_t first_ = 0;
  std::array<std::int64_t, 3> next_{};
};

class Runner {
 public:
  Runner(Launch& launch, const RunOptions& options)
      : launch_(launch),
        kernel_(*launch.kernel),
        options_(options),
        running_{launch, options, plan_} {
    plan_.kernel = kernel_.program.name;
    plan_.grid_rank = 3;
    plan_.labels = {"x", "y", "z"};
    for (const std::int64_t extent : launch.grid) programs_ *= extent;
    running_.programs = programs_;
    for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
      const Argument& a = launch.arguments[i];
      auto of = static_cast<std::size_t>(std::max(a.storage, 0));
      if (a.storage >= 0 && a.end >= 0 &&
          (a.begin > 0 || a.end < launch.storages[of].size_bytes())) {
        views_.push_back({of, kernel_.parameters[i].name, a.begin, a.end});
        of = launch.storages.size() + views_.size() - 1;
      }
      running_.bases.push_back(base_address(of));
    }
  }

  LaunchResult run() {
    LaunchResult result;
    const auto start = std::chrono::steady_clock::now();
    int threads = options_.threads > 0 ? options_.threads : omp_get_max_threads();
    threads = static_cast<int>(std::min<std::int64_t>(threads, programs_));
    const bool in_order = kernel_.atomics || kernel_.prints || options_.error_model;
    if (!run_together(threads, result) &&
        (in_order || threads < 2 || !run_parallel(threads, result))) {
      result = {};
      run_alone(result);
    }
    result.run.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

 private:
  /// Per storage.
  std::vector<bool> may_be_written() const {
    // What no argument points to is there for pointers in memory.
    std::vector<bool> written(launch_.storages.size(), kernel_.loads_pointers);
    for (std::size_t i = 0; i < kernel_.parameters.size(); ++i) {
      const int storage = launch_.arguments[i].storage;
      if (storage >= 0 && kernel_.parameters[i].written)
        written[static_cast<std::size_t>(storage)] = true;
    }
    return written;
  }

  Memory memory(bool alone) {
    std::vector<GlobalStorage> storages;
    const std::vector<bool> written = may_be_written();
    for (std::size_t s = 0; s < launch_.storages.size(); ++s) {
      LaunchStorage& of = launch_.storages[s];
      storages.push_back({of.name, of.data.dtype(), of.bytes(), of.size_bytes(),
                          written[s] && !options_.dry, written[s] && options_.dry,
                          kernel_.loads_pointers ? of.outside.data() : nullptr});
    }
    Memory m(std::move(storages), views_, kernel_.sites, kernel_.granule, programs_ > 1, alone);
    for (std::size_t s = 0; s < launch_.storages.size(); ++s) {
      const LaunchStorage& of = launch_.storages[s];
      if (of.undefined_bytes != nullptr) {
        m.set_undefined(s, *of.undefined_bytes);
      } else if (of.undefined) {
        Ranges all;
        all.add(0, of.size_bytes());
        m.set_undefined(s, std::move(all));
      }
    }
    return m;
  }

  static std::vector<Requested> nothing_requested(const Memory& m) {
    return std::vector<Requested>(m.sites().size() * m.storages().size());
  }

  /// All programs as one (whole_grid.hpp). False if they cannot be, or something may be wrong.
  bool run_together(int threads, LaunchResult& result) {
    const auto counts_sectors = [](const Site& s) { return !s.layouts.empty(); };
    if (!kernel_.form || options_.trap_nan || options_.error_model || programs_ < 2 ||
        std::ranges::any_of(kernel_.sites, counts_sectors))
      return false;
    Memory m = memory(false);
    std::vector<Requested> requested = nothing_requested(m);
    const ThreadScope scope(options_);
    Worker worker(running_, m);
    GridLaunch all{launch_.grid, {}, threads, options_.dry};
    for (const Parameter& p : kernel_.parameters)
      all.arguments.push_back(worker.instance().scalars[static_cast<std::size_t>(p.slot)]);
    std::int64_t together = 0;
    try {
      stop_if_asked();
      if (!run_grid(*kernel_.form, all, m, requested, together,
                    [&](std::int64_t i) { worker.run(i); }))
        return false;
    } catch (const Stopped& stop) {
      m.restore();
      result = {};
      close(result, m, {});
      result.run.diagnostics.push_back(stop.diagnostic);
      return true;
    } catch (...) {
      m.restore();
      return false;
    }
    worker.count(requested);
    scope.count(result);
    for (const Step& s : kernel_.program.main.steps) {
      result.run.flops += together * s.work.flops;
      result.run.transcendentals += together * s.work.transcendentals;
    }
    worker.leave_programs();
    close(result, m, requested);
    return true;
  }

  /// The i-th that threads take.
  std::int64_t program_of(std::int64_t i) const {
    std::int64_t program = 0;
    for (const int axis : launch_.axes) {
      const std::int64_t extent = launch_.grid[static_cast<std::size_t>(axis)];
      program += i % extent * next_along(launch_.grid, axis);
      i /= extent;
    }
    return program;
  }

  /// False if something may be wrong.
  bool run_parallel(int threads, LaunchResult& result) {
    using Clock = std::chrono::steady_clock;
    Memory m = memory(false);
    std::vector<Requested> requested = nothing_requested(m);
    std::atomic<bool> failed = false;
    std::optional<Diagnostic> stopped;
    std::mutex mutex;  // of what threads share
    std::vector<std::unique_ptr<Worker>> resting;
    Places places(launch_.grid);
    const auto run_some = [&](std::int64_t first, std::int64_t end, auto&& enough) {
      const ThreadScope scope(options_);
      std::unique_ptr<Worker> worker;
      {
        const std::lock_guard lock(mutex);
        if (!resting.empty()) {
          worker = std::move(resting.back());
          resting.pop_back();
        }
      }
      if (!worker) worker = std::make_unique<Worker>(running_, m);
      std::int64_t i = first;
      try {
        for (; i < end && !enough(); ++i) {
          const std::int64_t program = program_of(i);
          worker->run(program);
          places.note(program, worker->instance().last_written);
        }
      } catch (const Stopped& stop) {
        failed = true;
        const std::lock_guard lock(mutex);
        if (!stopped) stopped = stop.diagnostic;
      } catch (...) {
        failed = true;
      }
      const std::lock_guard lock(mutex);
      scope.count(result);
      resting.push_back(std::move(worker));
      return i;
    };
    // What takes no longer than to wake threads is over by then; what takes far longer, as its
    // first program tells, or an earlier launch, does not wait for it.
    constexpr std::chrono::microseconds kBrief{100};
    const Clock::time_point start = Clock::now();
    const auto so_far = [&] { return Clock::now() - start; };
    const std::chrono::duration<double> before{launch_.program_seconds};
    std::int64_t begun = 0;
    const auto enough = [&] {
      const std::int64_t ran = begun++;
      return failed || so_far() > kBrief || (ran > 0 && so_far() * (programs_ / ran) > 8 * kBrief);
    };
    const bool long_before = before * programs_ > 8 * kBrief;
    const std::int64_t first = long_before ? 0 : run_some(0, programs_, enough);
    const Clock::duration alone = so_far();
    std::chrono::duration<double> each =
        long_before ? before : alone / std::max<std::int64_t>(first, 1);
    if (!failed && first < programs_) {
      const std::int64_t left = programs_ - first;
      // At the end threads wait for one that is in the middle of a chunk.
      const std::int64_t chunk =
          each > kBrief / 4 ? 1 : std::max<std::int64_t>(1, left / (threads * std::int64_t{16}));
      const std::int64_t parts = (left + chunk - 1) / chunk;
      // Programs side by side write into one page: what threads run at a time lies apart.
      ByProcessor order(parts, threads);
      each_on_threads(parts, threads, [&](std::int64_t i) {
        const std::int64_t from = first + order.next() * chunk;
        if (failed.load(std::memory_order_relaxed)) return;
        run_some(from, std::min(programs_, from + chunk), [] { return false; });
        if (!options_.progress) return;
        const std::lock_guard lock(mutex);
        options_.progress(static_cast<double>(first + i * chunk) /
                          static_cast<double>(first + parts * chunk));
      });
      each = (so_far() - alone) * threads / left;
    }
    if (stopped) {
      m.restore();
      result = {};
      close(result, m, {});
      result.run.diagnostics.push_back(*stopped);
      return true;
    }
    if (failed) {
      m.restore();
      return false;
    }
    std::vector<const Footprint*> footprints;
    for (const auto& worker : resting) {
      worker->count(requested);
      if (worker->footprint() != nullptr) footprints.push_back(worker->footprint());
    }
    result.tiles = together(footprints);
    result.program_seconds = each.count();
    result.axes = places.axes();
    close(result, m, requested);
    return true;
  }

  void run_alone(LaunchResult& result) {
    Memory m = memory(true);
    std::vector<Requested> requested = nothing_requested(m);
    const ThreadScope scope(options_);
    Worker worker(running_, m);
    std::string printed;  // of a kernel whose programs may wait: it may run again
    try {
      for (std::int64_t i = 0; i < programs_; ++i) {
        worker.run(i);
        if (kernel_.atomics || kernel_.waits)
          printed += std::exchange(worker.printed, {});
        else
          print(worker.printed);
        if (options_.progress && i % 64 == 0)
          options_.progress(static_cast<double>(i) / static_cast<double>(programs_));
      }
    } catch (const KernelError& error) {
      printed += std::exchange(worker.printed, {});
      result.run.diagnostics.push_back(error.diagnostic);
    } catch (const Waits&) {
      m.restore();
      if (options_.error_model) {
        result.run.diagnostics.push_back(
            {.slug = "unsupported",
             .kind = Diagnostic::Kind::unsupported,
             .headline = "error bounds of programs that wait for one another"});
        return;
      }
      run_on_fibers(result);
      return;
    }
    print(printed);
    worker.count(requested);
    if (worker.footprint() != nullptr) result.tiles = together({worker.footprint()});
    scope.count(result);
    worker.leave_programs();
    end(result, m, requested);
    if (!options_.error_model || !result.run.ok()) return;
    for (std::size_t s = 0; s < m.storages().size(); ++s)
      result.run.bounds.push_back(m.bounds.all(m, s));
  }

  /// Of programs that wait for one another.
  void run_on_fibers(LaunchResult& result) {
    Memory m = memory(true);
    std::vector<Requested> requested(m.sites().size() * m.storages().size());
    const ThreadScope scope(options_);
    try {
      run_waiting(running_, m, requested, [this](std::string& text) { print(text); });
    } catch (const KernelError& error) {
      result.run.diagnostics.push_back(error.diagnostic);
    }
    scope.count(result);
    StepContext of_launch;
    of_launch.plan = &plan_;
    of_launch.who = options_.who.empty() ? plan_.kernel : options_.who;
    step_context = &of_launch;
    end(result, m, requested);
  }

  /// Of a run on one thread.
  void end(LaunchResult& result, Memory& m, const std::vector<Requested>& requested) {
    if (!result.run.ok()) m.restore();
    close(result, m, requested);
    if (result.run.ok()) report_undefined(result, m);
  }

  void print(std::string& text) const {
    if (text.empty()) return;
    if (options_.print)
      options_.print(text);
    else
      std::fputs(text.c_str(), stdout);
    text.clear();
  }

  /// Ledger, lines, and what the run says of itself.
  void close(LaunchResult& result, const Memory& m, const std::vector<Requested>& requested) {
    RunResult& r = result.run;
    r.plan = plan_;
    for (const std::int64_t extent : launch_.grid) r.grid.push_back(static_cast<int>(extent));
    r.steps = programs_;
    r.dry = options_.dry;
    r.complete = r.ok();
    for (std::size_t s = 0; r.complete && s < launch_.storages.size(); ++s) {
      if (launch_.storages[s].undefined_bytes != nullptr)
        *launch_.storages[s].undefined_bytes = m.undefined(s);
    }
    result.atomic_passes = m.atomic_passes->all();
    result.most_atomic_passes = m.atomic_passes->most();
    const std::size_t storages = m.storages().size();
    result.written.assign(storages, false);
    std::vector<Requested> all(storages);
    for (std::size_t i = 0; i < requested.size(); ++i) {
      const Requested& q = requested[i];
      if (q.times == 0) continue;
      const std::size_t s = i % storages;
      all[s] += q;
      const Site& site = m.sites()[i / storages];
      result.lines.push_back(
          {kernel_.program.locations[static_cast<std::size_t>(site.location)], i / storages, s, q});
    }
    for (std::size_t s = 0; s < storages; ++s) {
      const Requested& q = all[s];
      result.written[s] = q.written_bytes > 0;
      const char* const direction = q.written_bytes == 0 ? "in"
                                    : q.read_bytes == 0  ? "out"
                                                         : "inout";
      const int ref = r.plan.ledger.add_ref(m.storages()[s].name, direction);
      Movement load{.ref = ref, .why = Why::load, .transfers = q.times, .bytes = q.read_bytes};
      load.padded_bytes = load.bytes;
      Movement store{.ref = ref,
                     .from = Space::vmem,
                     .to = Space::hbm,
                     .why = Why::store,
                     .transfers = 0,
                     .bytes = q.written_bytes};
      store.padded_bytes = store.bytes;
      r.plan.ledger.record(load);
      r.plan.ledger.record(store);
    }
  }

  /// Undefined values in memory at the end are an error, at the line that read them.
  void report_undefined(LaunchResult& result, const Memory& m) const {
    for (std::size_t s = 0; s < m.storages().size(); ++s) {
      const auto reached = m.reached(s);
      if (!reached) continue;
      const GlobalStorage& storage = m.storages()[s];
      const int number = read_of(reached->origin);
      Diagnostic d{.slug = "uninit-read"};
      d.headline = with_commas(reached->count) + " of " +
                   with_commas(storage.size / register_bytes(storage.dtype)) + " elements of " +
                   storage.name +
                   " depend on memory that nothing has written, or on lanes that a mask "
                   "left out";
      add_kernel_field(d);
      if (number > 0 && number <= std::ssize(kernel_.program.reads)) {
        const Read& read = kernel_.program.reads[static_cast<std::size_t>(number - 1)];
        const Location& at = kernel_.program.locations[static_cast<std::size_t>(read.location)];
        d.fields.emplace_back("line", source_excerpt({at.file.c_str(), at.line}));
      }
      d.fields.emplace_back(
          "ends", "in " + storage.name + ", first at element " + std::to_string(reached->first));
      d.fields.emplace_back(
          "help",
          "what a mask leaves out of a load is undefined without `other`: give it, or "
          "select before you compute");
      result.run.diagnostics.push_back(std::move(d));
      result.run.complete = true;
      return;
    }
  }

  Launch& launch_;
  const Kernel& kernel_;
  const RunOptions& options_;
  Plan plan_;
  std::int64_t programs_ = 1;
  std::vector<View> views_;
  Running running_;
};

}  // namespace

LaunchResult run_launch(Launch& launch, const RunOptions& options) {
  check(launch);
  if (options.profile != Profile::exact && !on_tensor_cores(options.profile)) {
    throw InputError(
        "bad-input",
        std::string("--profile ") + name(options.profile) +
            " is not built for Triton launches: exact, tensorcore:hopper or gpu:hopper");
  }
  if (options.dry && !launch.kernel->undry.empty()) {
    throw InputError("unsupported",
                     "a dry run of " + launch.kernel->program.name + ": " + launch.kernel->undry);
  }
  if (options.error_model && !launch.kernel->bounded)
    throw InputError("bad-input", launch.kernel->program.name + " was not planned for bounds");
  const auto of_gpu = [](Profile p) { return p == Profile::gpu_hopper; };
  if (of_gpu(options.profile) != of_gpu(launch.kernel->profile)) {
    throw InputError("bad-input", launch.kernel->program.name + " was planned for --profile " +
                                      name(launch.kernel->profile));
  }
  return Runner(launch, options).run();
}

}  // namespace tessera::triton
