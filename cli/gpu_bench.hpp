// Candidates timed on this machine's GPU: instances compiled, bound to the same arrays, and called
// in turns between events.
//
// A time is of as many calls on end as take half a millisecond. Errors: InputError[no-backend] says
// why there is no GPU, or what nvcc said.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cli/measured.hpp"

namespace tessera::cli {

/// The GPU that --backend cuda runs on.
struct Gpu {
  cuda::Device device;
  const cuda::Backend* backend = nullptr;
  std::string spec;  ///< the device whose predictions are for it: "h100"

  /// "NVIDIA H100 80GB HBM3, driver 580.65.06".
  std::string title() const { return device.name + ", driver " + device.driver; }
};
/// None where no --backend cuda is asked for. Throws InputError.
std::optional<Gpu> gpu_of(const KernelHandle& kernel, const RunArguments& arguments);
/// The embedded device that a GPU's name names ("h200": "NVIDIA H200"), else "h100".
std::string spec_of_gpu(const std::string& name);

class GpuBench final : public Bench {
 public:
  /// Both must outlive it. Throws InputError for a kernel on a mesh.
  GpuBench(const Gpu& gpu, const TunedKernel& tuned);

  std::string why_not(const tuning::Configuration& tiles) const override;
  void compile(const tuning::Configuration& tiles) override;
  void place(const tuning::Configuration& tiles) override;
  double time(std::size_t i) override;
  double resolution() const override;

 private:
  struct Placed {
    std::unique_ptr<cuda::Bound> bound;
    std::vector<void*> arrays;
    int calls = 1;  ///< of a time
  };
  Request request_for(const tuning::Configuration& tiles) const;
  void* array_of(const cuda::BoundArray& array, const tuning::Configuration& tiles);

  const TunedKernel& tuned_;
  const cta::Sm& target_;
  std::unique_ptr<cuda::Stopwatch> stopwatch_;
  std::mutex mutex_;
  std::map<tuning::Configuration, GpuCall> compiled_;
  std::optional<BuildInputs> inputs_;
  std::map<std::string, void*> arrays_;  ///< on the GPU, by name, type and shape
  std::vector<Placed> placed_;
};

/// The key of what is measured there.
tuning::Key measured_key(const TunedKernel& tuned, const Gpu& gpu);
Measured measure_on(const Gpu& gpu, const TunedKernel& tuned, tuning::Store& store,
                    const RunArguments& arguments);
/// The same, for the tiers; all must outlive it. None without a GPU.
std::optional<Judge> judge_of(const std::optional<Gpu>& gpu, const TunedKernel& tuned,
                              const RunArguments& arguments);

}  // namespace tessera::cli
