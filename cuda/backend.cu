#include "cuda/instances/all.hpp"
#include "cuda/launch.hpp"

namespace tessera::cuda {

void check(cudaError_t error, const char* call, const std::string& what) {
  if (error == cudaSuccess) return;
  throw CudaError(what + ": " + call + ": " + cudaGetErrorName(error) + ", " +
                  cudaGetErrorString(error));
}

DeviceArray::DeviceArray(const void* data, std::size_t bytes, const std::string& what) {
  check(cudaMalloc(&data_, bytes == 0 ? 1 : bytes), "cudaMalloc", what);
  // What nothing writes is NaN, as in the interpreter.
  const cudaError_t error = data == nullptr
                                ? cudaMemset(data_, 0xff, bytes)
                                : cudaMemcpy(data_, data, bytes, cudaMemcpyHostToDevice);
  check(error, "cudaMemcpy", what);
}
DeviceArray::~DeviceArray() { cudaFree(data_); }

namespace {

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
  d.there = properties.major == 9;
  if (!d.there) d.why = d.name + " is no Hopper GPU (sm_90a)";
  return d;
}

}  // namespace

}  // namespace tessera::cuda

extern "C" const tessera::cuda::Backend* tessera_cuda_backend() {
  using namespace tessera::cuda;
  static const Backend backend = [] {
    Backend b;
    for (const auto add : kAllKernels) add(b.instances);
    b.device = find_device;
    return b;
  }();
  return &backend;
}
