#include "cli/gpu_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cli/cta_messages.hpp"
#include "cli/cuda_instances.hpp"

namespace tessera::cli {

namespace {

constexpr double kLeastSeconds = 5e-4;  // of a time
constexpr int kMostCalls = 200;
constexpr double kEvents = 0.5e-6;  // resolution of cudaEventElapsedTime, CUDA Runtime API

/// Why there is none, or "".
std::string why_no_gpu(const KernelHandle& kernel, const RunArguments& a, Gpu& gpu) {
  // What tells of a GPU comes with an instance: that of the case's tiles, which is timed anyway.
  const auto make_for = [&](const cta::Sm& target) {
    RunArguments words = a;
    words.assignments.clear();
    const Request request = request_of(kernel, words);
    std::vector<int> tiles;
    for (const auto& [name, extent] : setting_of(kernel, request).tiles) tiles.push_back(extent);
    const CudaFit fit = made_cuda(kernel.info.name, request.dtype, tiles, target);
    if (fit.instance == nullptr) return fit.why;
    gpu.backend = fit.backend;
    gpu.device = gpu.backend->device();
    return std::string();
  };
  gpu.backend = cuda_backend();
  if (gpu.backend == nullptr) {
    if (std::string why = why_makes_no_cuda(); !why.empty()) return why;
    if (!has_cuda_device()) return "no CUDA device";
    if (std::string why = make_for(cuda_target()); !why.empty()) return why;
  } else {
    gpu.device = gpu.backend->device();
  }
  // Another GPU than that was built for.
  if (!gpu.device.there && gpu.device.capability > 0 && makes_cuda()) {
    const cta::Sm& target = cuda_target(gpu.device.capability, gpu.device.name);
    if (std::string why = make_for(target); !why.empty()) return why;
  }
  return gpu.device.there ? "" : gpu.device.why;
}

}  // namespace

std::string spec_of_gpu(const std::string& name) {
  // Words between dashes, as the devices' names have them.
  std::string words = "-";
  for (const char c : name + " ")
    words += std::isalnum(static_cast<unsigned char>(c)) != 0
                 ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                 : '-';
  for (const std::string& spec : device_names()) {
    if (words.find("-" + spec + "-") != std::string::npos) return spec;
  }
  return "h100";
}

std::optional<Gpu> gpu_of(const KernelHandle& kernel, const RunArguments& a) {
  if (a.backend != "cuda") return std::nullopt;
  Gpu gpu;
  if (const std::string why = why_no_gpu(kernel, a, gpu); !why.empty())
    throw InputError("no-backend", "--backend cuda: " + why,
                     "without --backend cuda block shapes are predicted: tessera tune " + a.kernel +
                         " --device h100");
  gpu.spec = a.device_given ? a.device : spec_of_gpu(gpu.device.name);
  if (find_device(gpu.spec).kind != DeviceSpec::Kind::gpu)
    throw InputError(
        "bad-usage",
        "--backend cuda times candidates that are predicted for a GPU, not " + gpu.spec,
        "--device h100, or none: the one that this machine has");
  return gpu;
}

tuning::Key measured_key(const TunedKernel& tuned, const Gpu& gpu) {
  tuning::Key key = tuned.key();
  key.device = gpu.device.name;
  key.fingerprint = tuning::fingerprint(gpu.title(), TESSERA_VERSION, cuda_build_of(key.operation));
  return key;
}

Measured measure_on(const Gpu& gpu, const TunedKernel& tuned, tuning::Store& store,
                    const RunArguments& a) {
  GpuBench bench(gpu, tuned);
  return measure(tuned, measured_key(tuned, gpu), bench, store, measure_options(a));
}

std::optional<Judge> judge_of(const std::optional<Gpu>& gpu, const TunedKernel& tuned,
                              const RunArguments& a) {
  if (!gpu) return std::nullopt;
  return Judge{measured_key(tuned, *gpu),
               [&](tuning::Store& store) { return measure_on(*gpu, tuned, store, a).entry; }};
}

GpuBench::GpuBench(const Gpu& gpu, const TunedKernel& tuned)
    : tuned_(tuned), target_(cuda_target(gpu.device.capability, gpu.device.name)) {
  if (tuned.kernel().make.front()()->devices())
    throw InputError("unsupported", tuned.key().operation +
                                        " runs on several devices: block shapes of such a kernel "
                                        "are predicted, not measured");
  stopwatch_ = gpu.backend->stopwatch();
}

Request GpuBench::request_for(const tuning::Configuration& tiles) const {
  Request request = tuned_.with(tiles);
  request.backend = BackendKind::cuda;
  return request;
}

std::string GpuBench::why_not(const tuning::Configuration& tiles) const {
  try {
    Plan plan = tuned_.kernel().describe(tuned_.with(tiles)).plan;
    lay_out(plan);
    check_fits_cta(tuned_.key().operation, plan, target_);
    return "";
  } catch (const InputError& error) {
    return error.slug + ": " + error.what();
  } catch (const KernelError& error) {
    return error.diagnostic.slug + ": " + error.diagnostic.headline;
  }
}

void GpuBench::compile(const tuning::Configuration& tiles) {
  GpuCall call = tuned_.kernel().gpu_call(request_for(tiles));
  const std::lock_guard lock(mutex_);
  compiled_.insert_or_assign(tiles, std::move(call));
}

void GpuBench::place(const tuning::Configuration& tiles) {
  const auto compiled = compiled_.find(tiles);
  if (compiled == compiled_.end())
    throw InputError("no-backend", tuning::text_of(tiles) + " is not compiled");
  const GpuCall& call = compiled->second;
  Placed placed{.bound = call.fit.instance->bind(call.launch), .arrays = {}};
  for (const cuda::BoundArray& a : placed.bound->arrays())
    placed.arrays.push_back(array_of(a, tiles));
  const auto timed = [&] {
    return stopwatch_->time(*placed.bound, placed.arrays.data(), 1, tuned_.request().time_limit);
  };
  timed();  // the first loads the kernel
  const double calls = std::ceil(kLeastSeconds / std::max(timed(), kEvents));
  placed.calls = static_cast<int>(std::clamp(calls, 1., double{kMostCalls}));
  placed_.push_back(std::move(placed));
}

void* GpuBench::array_of(const cuda::BoundArray& array, const tuning::Configuration& tiles) {
  void*& there = arrays_[array.name + " " + describe(array.dtype, array.shape)];
  if (there != nullptr) return there;
  const void* data = nullptr;
  const auto bytes = static_cast<std::size_t>(packed_bytes(array.dtype, array.shape.elems()));
  if (array.read) {
    if (!inputs_) inputs_ = tuned_.kernel().build_inputs(tuned_.with(tiles));
    const auto found =
        std::ranges::find(inputs_->arrays, array.name, &std::pair<std::string, Array>::first);
    if (found == inputs_->arrays.end() ||
        static_cast<std::size_t>(found->second.size_bytes()) != bytes)
      throw InputError("unsupported", array.name +
                                          " has another shape with other blocks: block "
                                          "shapes of such a kernel are not measured");
    data = found->second.bytes();
  }
  return there = stopwatch_->array(data, bytes);
}

double GpuBench::time(std::size_t i) {
  Placed& p = placed_[i];
  return stopwatch_->time(*p.bound, p.arrays.data(), p.calls, tuned_.request().time_limit) /
         p.calls;
}

double GpuBench::resolution() const {
  int calls = kMostCalls;
  for (const Placed& p : placed_) calls = std::min(calls, p.calls);
  return kEvents / calls;
}

}  // namespace tessera::cli
