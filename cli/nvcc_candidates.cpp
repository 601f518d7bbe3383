#include "cli/nvcc_candidates.hpp"

#include "cli/cuda_instances.hpp"
#include "cli/cuda_timing.hpp"
#include "cli/points.hpp"

namespace tessera::cli {

namespace {

class NvccScheduler final : public Scheduler {
 public:
  explicit NvccScheduler(const TunedKernel& tuned)
      : tuned_(tuned), build_(cuda_build_of(tuned.kernel().info.name)) {}

  std::string version() const override { return "nvcc's code for Hopper"; }
  std::string build() const override { return build_; }
  std::string how() const override { return "by the code that nvcc made"; }

  Schedule schedule(const tuning::Configuration& tiles) override {
    const Request request = tuned_.with(tiles);
    Point p;
    p.device = request.device.name;
    p.assignments = request.assignments;
    count_point(count_of(tuned_.kernel(), request, {.by = "compiler"}), p);
    if (p.reason.empty() && p.seconds <= 0) p.reason = "unmodelled: " + p.note;
    return {.seconds = p.seconds, .binds = p.binds, .why_not = p.reason};
  }

 private:
  const TunedKernel& tuned_;
  std::string build_;
};

}  // namespace

std::unique_ptr<Scheduler> nvcc_scheduler(const TunedKernel& tuned) {
  require_nvcc();
  return std::make_unique<NvccScheduler>(tuned);
}

}  // namespace tessera::cli
