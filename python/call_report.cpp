#include "python/call_report.hpp"

#include <utility>

#include "report/html_report.hpp"

namespace tessera::live {

namespace {

std::int64_t held_by(const StepTrace& trace) {
  const auto columns = std::ssize(trace.blocks) + 1;
  std::int64_t bytes = trace.steps * columns * std::int64_t{sizeof(std::int32_t)} +
                       trace.acts * std::int64_t{sizeof(Act)};
  for (const StepTrace& peer : trace.peers) bytes += held_by(peer);
  return bytes;
}

}  // namespace

struct CallReport::Kept {
  std::string kernel;
  DType dtype;
  RunResult result;
  RunOptions options;
  std::optional<Compiled> compiled;
};

CallReport::CallReport(std::string kernel, DType dtype, RunResult result, const RunOptions& options,
                       std::optional<Compiled> compiled)
    : kept_(std::make_unique<Kept>(
          Kept{std::move(kernel), dtype, std::move(result), options, std::move(compiled)})) {
  // Of the call, which will be gone.
  kept_->options.print = nullptr;
}

CallReport::~CallReport() = default;

const CallReport::Made& CallReport::made() {
  if (made_) return *made_;
  const RunResult& result = kept_->result;
  report::RunReport report = report::report_of(result, kept_->options);
  report.kernel = kept_->kernel;
  report.frontend = "mosaic";
  report.dtype = kept_->dtype;
  report.backend_why = "a TPU build runs on a TPU";
  if (!kept_->compiled) {
    report::add_timeline(report, result, report::kPageSpans);
  } else {
    predict::TpuSchedule& schedule = kept_->compiled->schedule;
    report.timeline = schedule.timeline;
    report.timeline->unmodelled = schedule.unmodelled;
    if (schedule.unmodelled.empty()) {
      for (predict::ScheduleOperand& o : schedule.operands) {
        const auto at = static_cast<std::size_t>(o.index) - kept_->compiled->before_inputs;
        if (at < result.plan.operands.size()) o.name = result.plan.operands[at].name;
      }
      report.compiled = std::move(schedule);
      report.compiled_by = kept_->compiled->by;
    }
  }
  made_ = Made{report::json_of(report), report::text_of(report),
               report::page_data(report, result, kept_->options.command)};
  kept_.reset();
  return *made_;
}

std::int64_t CallReport::bytes() const {
  if (made_) return std::ssize(made_->json) + std::ssize(made_->text) + std::ssize(made_->page);
  return std::int64_t{sizeof(Kept)} + held_by(kept_->result.trace);
}

}  // namespace tessera::live
