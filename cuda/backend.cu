#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#include "cuda/c_api.hpp"
#include "cuda/launch.hpp"

namespace tessera::cuda {

void check(cudaError_t error, const char* call, const std::string& what) {
  if (error == cudaSuccess) return;
  throw CudaError(what + ": " + call + ": " + cudaGetErrorName(error) + ", " +
                  cudaGetErrorString(error));
}

void use_gpu(int gpu, const std::string& what) { check(cudaSetDevice(gpu), "cudaSetDevice", what); }

void enable_peers(int gpus, const std::string& what) {
  static int enabled = 1;  // those among which it is done: asking again is an error
  for (int from = 0; from < gpus; ++from) {
    use_gpu(from, what);
    for (int to = from < enabled ? enabled : 0; to < gpus; ++to) {
      if (to != from) check(cudaDeviceEnablePeerAccess(to, 0), "cudaDeviceEnablePeerAccess", what);
    }
  }
  enabled = gpus > enabled ? gpus : enabled;
}

DeviceArray::DeviceArray(const void* data, std::size_t bytes, const std::string& what)
    : bytes_(bytes) {
  // Threads read the aligned 16 bytes around what they want.
  const std::size_t whole = bytes / 16 * 16 + 16;
  check(cudaMalloc(&data_, whole), "cudaMalloc", what);
  check(cudaMemset(static_cast<unsigned char*>(data_) + whole - 16, 0xff, 16), "cudaMemset", what);
  // What nothing writes is NaN, as in the interpreter.
  const cudaError_t error = data == nullptr
                                ? cudaMemset(data_, 0xff, bytes)
                                : cudaMemcpy(data_, data, bytes, cudaMemcpyHostToDevice);
  check(error, "cudaMemcpy", what);
}
DeviceArray::~DeviceArray() { cudaFree(data_); }
void DeviceArray::clear(const std::string& what) const {
  check(cudaMemset(data_, 0, bytes_), "cudaMemset", what);
}
void DeviceArray::fill(const void* data, const std::string& what) const {
  check(cudaMemcpy(data_, data, bytes_, cudaMemcpyHostToDevice), "cudaMemcpy", what);
}

namespace {

/// What the copy engine calls the elements: of what it fills with zeros their size alone counts.
std::optional<CUtensorMapDataType> map_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::i32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::u32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    default:
      break;
  }
  switch (bit_width(dtype)) {
    case 8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 16:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    default:
      return std::nullopt;
  }
}

using Encode = decltype(&cuTensorMapEncodeTiled);
Encode tensor_map_encoder() {
  static const Encode encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                           cudaEnableDefault, &found),
          "cudaGetDriverEntryPointByVersion", "cuTensorMapEncodeTiled");
    if (found != cudaDriverEntryPointSuccess)
      throw CudaError("the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12");
    return reinterpret_cast<Encode>(entry);
  }();
  return encode;
}

}  // namespace

bool encode_map(const MapRequest& request, CUtensorMap& map, const std::string& what) {
  const int rank = request.shape.rank;
  const std::optional<CUtensorMapDataType> type = map_type(request.dtype);
  Shape stored = request.shape;
  stored[rank - 1] = request.row_elems > 0 ? request.row_elems : stored[rank - 1];
  if (!type || !cta::is_mappable(stored, request.dtype)) return false;
  cuuint64_t extents[5];
  cuuint64_t strides[5];
  cuuint32_t box[5];
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  std::int64_t stride = bit_width(request.dtype) / 8;
  for (int i = 0; i < rank; ++i) {
    const int d = rank - 1 - i;
    extents[i] = static_cast<cuuint64_t>(request.shape[d]);
    box[i] = static_cast<cuuint32_t>(request.box[d]);
    stride *= stored[d];
    strides[i] = static_cast<cuuint64_t>(stride);
  }
  if (reinterpret_cast<std::uintptr_t>(request.array) % 16 != 0) return false;
  const CUresult result = tensor_map_encoder()(
      &map, *type, static_cast<cuuint32_t>(rank), const_cast<void*>(request.array), extents,
      strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      request.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw CudaError(what + ": cuTensorMapEncodeTiled: error " + std::to_string(result));
  return true;
}

__global__ void __launch_bounds__(256) spread_rows(const unsigned char* from, unsigned char* to,
                                                   long long rows, int row_bytes, int pitch) {
  const int chunks = pitch / 16;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long n = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       n < rows * chunks; n += stride) {
    const long long r = n / chunks;
    const int c = static_cast<int>(n % chunks) * 16;
    const unsigned char* const row = from + r * row_bytes + c;
    uint4 bits;
    if (c + 16 <= row_bytes) {
      Shifted16 shifted;
      shifted.load(row);
      bits = shifted.wanted();
    } else {
      unsigned char last[16] = {};
      for (int e = 0; c + e < row_bytes; ++e) last[e] = row[e];
      __builtin_memcpy(&bits, last, sizeof bits);
    }
    *reinterpret_cast<uint4*>(to + r * pitch + c) = bits;
  }
}

void Spread::launch(cudaStream_t stream, const std::string& what) const {
  spread_rows<<<static_cast<unsigned>(multiprocessors()) * 8, 256, 0, stream>>>(
      static_cast<const unsigned char*>(from), static_cast<unsigned char*>(to), rows, row_bytes,
      pitch);
  check(cudaGetLastError(), "launch", what);
}

int multiprocessors() {
  int device = 0;
  int count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice", "multiprocessors");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute", "multiprocessors");
  return count;
}

int capability() {
  int device = 0;
  int major = 0;
  int minor = 0;
  check(cudaGetDevice(&device), "cudaGetDevice", "capability");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute", "capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "cudaDeviceGetAttribute", "capability");
  return 10 * major + minor;
}

namespace {
/// A stream of the GPU in use, and the events around what runs on it.
struct Timer {
  explicit Timer(const std::string& what) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", what);
    check(cudaEventCreate(&begin), "cudaEventCreate", what);
    check(cudaEventCreate(&end), "cudaEventCreate", what);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    cudaEventDestroy(end);
    cudaEventDestroy(begin);
    cudaStreamDestroy(stream);
  }
  cudaStream_t stream{};
  cudaEvent_t begin{};
  cudaEvent_t end{};

  /// Seconds between the events, once the second is over. `start`: when it was recorded.
  double seconds(std::chrono::steady_clock::time_point start, double limit_s,
                 const std::string& what) const {
    for (;;) {
      const cudaError_t state = cudaEventQuery(end);
      if (state != cudaErrorNotReady) {
        check(state, "kernel", what);
        break;
      }
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      if (waited.count() > limit_s) {
        char limit[32];
        std::snprintf(limit, sizeof limit, "%g s", limit_s);
        throw HungKernel(what + ": the kernel did not end within " + limit +
                         " (--time-limit): a semaphore that nobody signals? The interpreter "
                         "(--backend interpret) names the wait");
      }
      if (waited.count() > 0.05) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime", what);
    return milliseconds * 1e-3;
  }
};
}  // namespace

double timed(const std::vector<Part>& parts, double limit_s, const std::string& what) {
  std::deque<Timer> timers;
  for (const Part& part : parts) {
    use_gpu(part.gpu, what);
    timers.emplace_back(what);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize", what);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    use_gpu(parts[i].gpu, what);
    check(cudaEventRecord(timers[i].begin, timers[i].stream), "cudaEventRecord", what);
    parts[i].launch(timers[i].stream);
    check(cudaEventRecord(timers[i].end, timers[i].stream), "cudaEventRecord", what);
  }
  const auto start = std::chrono::steady_clock::now();
  double longest = 0;
  for (const Timer& timer : timers) {
    const double seconds = timer.seconds(start, limit_s, what);
    longest = seconds > longest ? seconds : longest;
  }
  return longest;
}

namespace {

class EventStopwatch final : public Stopwatch {
 public:
  void* array(const void* data, std::size_t bytes) override {
    return arrays_.emplace_back(data, bytes, kWhat).get();
  }
  double time(Bound& kernel, void* const* arrays, int calls, double limit_s) override {
    check(cudaEventRecord(timer_.begin, timer_.stream), "cudaEventRecord", kWhat);
    for (int i = 0; i < calls; ++i) kernel.call(arrays, timer_.stream);
    check(cudaEventRecord(timer_.end, timer_.stream), "cudaEventRecord", kWhat);
    return timer_.seconds(std::chrono::steady_clock::now(), limit_s, kWhat);
  }

 private:
  inline static const std::string kWhat = "a kernel that is timed";
  static const std::string& on_first_gpu() {
    use_gpu(0, kWhat);
    return kWhat;
  }
  Timer timer_{on_first_gpu()};
  std::deque<DeviceArray> arrays_;
};

/// What the kernel's module says of itself, where it is to be read.
std::string driver_version() {
  std::string version;
  if (std::getline(std::ifstream("/sys/module/nvidia/version"), version) && !version.empty())
    return version;
  int cuda = 0;
  check(cudaDriverGetVersion(&cuda), "cudaDriverGetVersion", "the driver");
  return "CUDA " + std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
}

Device find_device() {
  Device d;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    d.why = "no CUDA device";
    if (error != cudaSuccess) d.why += std::string(": ") + cudaGetErrorString(error);
    return d;
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties", "device 0");
  d.name = properties.name;
  d.driver = driver_version();
  d.capability = 10 * properties.major + properties.minor;
  const std::string built = "sm_" + std::to_string(kSm.capability) + (kHopper ? "a" : "");
  const auto wanted = static_cast<std::size_t>(launched_bytes(static_cast<int>(kSm.shared_bytes)));
  cudaFuncAttributes attributes{};
  if (kHopper && properties.major != 9) {
    d.why = d.name + " is no Hopper GPU (" + built + ")";
  } else if (cudaFuncGetAttributes(&attributes, spread_rows) != cudaSuccess) {
    cudaGetLastError();  // not an error of the next call
    d.why = d.name + " does not run what was built for " + built;
  } else if (properties.sharedMemPerBlockOptin < wanted) {
    d.why = d.name + " has " + std::to_string(properties.sharedMemPerBlockOptin / 1024) +
            " KiB of shared memory for a CTA, and this was built for " + built + ", which has " +
            std::to_string(wanted / 1024);
  } else {
    d.there = true;
  }
  d.gpus = 1;
  for (; d.gpus < count; ++d.gpus) {
    for (int other = 0; other < d.gpus; ++other) {
      int there = 0;
      int back = 0;
      check(cudaDeviceCanAccessPeer(&there, d.gpus, other), "cudaDeviceCanAccessPeer", d.name);
      check(cudaDeviceCanAccessPeer(&back, other, d.gpus), "cudaDeviceCanAccessPeer", d.name);
      if (there == 0 || back == 0) return d;
    }
  }
  return d;
}

/// What the sources of this module add when it is loaded.
Backend& backend() {
  static Backend b{{}, find_device, [] { return std::make_unique<EventStopwatch>(); }};
  return b;
}

}  // namespace

Adds::Adds(void (*add)(std::vector<Instance>&)) { add(backend().instances); }

}  // namespace tessera::cuda

extern "C" const tessera::cuda::Backend* tessera_cuda_backend() {
  return &tessera::cuda::backend();
}

namespace {
using tessera::cuda::BoundForC;
BoundForC* bound(tessera_cuda_kernel* kernel) { return reinterpret_cast<BoundForC*>(kernel); }
const BoundForC* bound(const tessera_cuda_kernel* kernel) {
  return reinterpret_cast<const BoundForC*>(kernel);
}
}  // namespace

extern "C" tessera_cuda_kernel* tessera_cuda_bind(const char* kernel, const char* dtype,
                                                  const int* tiles, int tile_count,
                                                  const double* sizes, int size_count,
                                                  const tessera_cuda_prefetched* given,
                                                  int given_count) {
  using namespace tessera::cuda;
  return noting_errors(
      [&] {
        Launch launch;
        launch.sizes.assign(sizes, sizes + size_count);
        for (int i = 0; i < given_count; ++i)
          launch.inputs.push_back({given[i].name, given[i].data, given[i].bytes});
        return reinterpret_cast<tessera_cuda_kernel*>(
            bind_instance(backend().instances, kernel, dtype, {tiles, tiles + tile_count}, launch));
      },
      static_cast<tessera_cuda_kernel*>(nullptr));
}
extern "C" void tessera_cuda_release(tessera_cuda_kernel* kernel) { delete bound(kernel); }
extern "C" int tessera_cuda_array_count(const tessera_cuda_kernel* kernel) {
  return static_cast<int>(bound(kernel)->arrays.size());
}
extern "C" const tessera_cuda_array* tessera_cuda_arrays(const tessera_cuda_kernel* kernel) {
  return bound(kernel)->arrays.data();
}
extern "C" int tessera_cuda_call(tessera_cuda_kernel* kernel, void* const* arrays, void* stream) {
  return tessera::cuda::noting_errors(
      [&] {
        bound(kernel)->bound->call(arrays, stream);
        return 0;
      },
      1);
}
extern "C" int tessera_cuda_wait(void* stream) {
  using namespace tessera::cuda;
  return noting_errors(
      [&] {
        check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "cudaStreamSynchronize",
              "a kernel");
        return 0;
      },
      1);
}
extern "C" const char* tessera_cuda_error() { return tessera::cuda::error_of_thread().c_str(); }
