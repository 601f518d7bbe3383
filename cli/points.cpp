#include "cli/points.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <tuple>

#include "cli/progress.hpp"
#include "report/run_report.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::cli {

namespace {

/// What a TPU's compiler gives a kernel of which nobody says how much it may take.
std::int64_t capacity_of(const DeviceSpec& device) {
  return device.scoped_vmem_bytes > 0 ? std::min(device.scoped_vmem_bytes, device.vmem_bytes)
                                      : device.vmem_bytes;
}

}  // namespace

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

std::vector<Point> combinations(const std::vector<std::pair<std::string, std::string>>& assignments,
                                std::vector<std::string>& varied) {
  std::vector<Point> points{{}};
  for (const auto& [name, text] : assignments) {
    const std::vector<std::string> values = split(text);
    if (values.size() > 1) varied.push_back(name);
    std::vector<Point> more;
    for (const Point& p : points) {
      for (const auto& value : values) {
        more.push_back(p);
        more.back().assignments.emplace_back(name, value);
      }
    }
    points = std::move(more);
  }
  return points;
}

std::string over_limit(const Plan& plan) {
  const std::int64_t capacity = capacity_of(plan.device);
  if (plan.vmem_limit > 0 || plan.vmem_bytes() <= capacity) return vmem_in_doubt(plan);
  return fmt::format("{} bytes of VMEM do not fit in the {} that the compiler gives a kernel on {}",
                     with_commas(plan.vmem_bytes()), with_commas(capacity), plan.device.name);
}

void fill(Point& p, const RunResult& result, DType dtype, const RunOptions& options,
          const std::function<void(report::RunReport&)>& add_timeline) {
  p.vmem = result.plan.vmem_bytes();
  if (!result.ok()) {
    if (options.stop != nullptr && options.stop->load() != Stop::none) stop(options.stop->load());
    const Diagnostic& d = result.diagnostics.front();
    p.reason = d.slug + ": " + d.headline;
    return;
  }
  if (const std::string why = over_limit(result.plan); !why.empty()) {
    p.reason = "vmem-capacity: " + why;
    return;
  }
  p.read = result.ledger().hbm_read_bytes();
  p.write = result.ledger().hbm_write_bytes();
  p.flops = result.flops;
  report::RunReport run = report::report_of(result, options);
  run.dtype = dtype;
  if (add_timeline)
    add_timeline(run);
  else
    report::add_timeline(run, result, 0);
  p.rank_seconds = report::rank_seconds(run);
  const predict::Timeline& line = run.timeline.value();
  p.seconds = line.seconds;
  p.binds = line.binds;
  p.model = line.model;
  p.why_model = line.why_model;
  p.note = line.unmodelled.empty() ? line.warning : "no time: " + line.unmodelled;
}

void count_point(const Count& count, Point& p) {
  try {
    count(p);
  } catch (const InputError& error) {
    p.bad_input = true;
    p.reason = error.slug + ": " + error.what();
  } catch (const Stopped&) {
    throw;
  } catch (const KernelError& error) {
    p.reason = error.diagnostic.slug + ": " + error.diagnostic.headline;
  }
}

Count count_of(const KernelHandle& kernel, const Request& base, const Timing& timing) {
  return [&kernel, &base, timing](Point& p) {
    Request request = base;
    request.assignments = p.assignments;
    request.device = find_device(p.device);
    request.check = false;
    request.options.dry = true;
    request.options.trace_steps = StepTrace::kMostSteps;
    p.capacity = capacity_of(request.device);
    Outcome outcome = kernel.run(request);
    request.options.device = request.device;
    request.options.mesh = outcome.mesh;
    fill(p, outcome.result, request.dtype, request.options, [&](report::RunReport& report) {
      add_timing(kernel, request, outcome.result, timing, report);
    });
  };
}
void count_all(const std::string& name, const Count& count, std::vector<Point>& points,
               int threads) {
  Progress progress(name);
  std::atomic<std::size_t> done = 0;
  std::exception_ptr failed;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::size_t i = 0; i < points.size(); ++i) {
    try {
      count_point(count, points[i]);
    } catch (...) {
#pragma omp critical
      failed = std::current_exception();
    }
    ++done;
    if (omp_get_thread_num() == 0)
      progress.show(static_cast<double>(done) / static_cast<double>(points.size()));
  }
  if (failed) std::rethrow_exception(failed);
}

void sort_points(std::vector<Point>& points) {
  std::ranges::stable_sort(points, {}, [](const Point& p) {
    return std::tuple(!p.runs(), !p.why_model.empty(), p.runs() ? p.rank_seconds : 0);
  });
}

std::string time_of(double seconds) { return seconds > 0 ? report::duration(seconds) : "-"; }

int threads_of(const RunArguments& a) { return a.threads > 0 ? a.threads : omp_get_max_threads(); }

}  // namespace tessera::cli
