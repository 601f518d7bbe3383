// The GPU's approximate instructions, and erff, tanhf and rsqrtf as nvcc compiles them, over all
// 2^32 inputs against the record that sim/numerics/mufu.hpp is held to.
//
// usage: mufu_test RECORD | --record FILE
//
// Exit code 77: no GPU.
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "cuda/gpu_test.hpp"
#include "cuda/output_hash.hpp"

namespace tessera::cuda {

constexpr unsigned kBlock = 1u << kBlockBits;
constexpr const char* kNames[] = {"cos",   "ex2",    "erff", "lg2",  "rcp",
                                  "rsqrt", "rsqrtf", "sin",  "sqrt", "tanhf"};
constexpr int kFunctions = sizeof kNames / sizeof *kNames;

__device__ float of_function(int function, float x) {
  float y = 0;
  switch (function) {
    case 0:
      asm("cos.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
    case 1:
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
    case 2:
      return erff(x);
    case 3:
      asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
    case 4:
      asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
    case 5:
      asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
    case 6:
      return rsqrtf(x);
    case 7:
      asm("sin.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
    case 8:
      asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
    default:
      return tanhf(x);
  }
}

__global__ void block_of(int function, unsigned first, unsigned* outputs) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  outputs[i] = __float_as_uint(of_function(function, __uint_as_float(first + i)));
}

/// Name, block and hash, a line each.
std::string lines() {
  constexpr unsigned kThreads = 256;
  unsigned* device = nullptr;
  require(cudaMalloc(&device, kBlock * sizeof *device));
  std::vector<unsigned> outputs(kBlock);
  std::string text;
  for (int f = 0; f < kFunctions; ++f) {
    for (unsigned b = 0; b < kBlocks; ++b) {
      block_of<<<kBlock / kThreads, kThreads>>>(f, b << kBlockBits, device);
      require(cudaMemcpy(outputs.data(), device, kBlock * sizeof *device, cudaMemcpyDeviceToHost));
      OutputHash hash;
      for (const unsigned output : outputs) hash.add(output);
      char line[64];
      std::snprintf(line, sizeof line, "%s %02x %016llx\n", kNames[f], b,
                    static_cast<Word>(hash.value()));
      text += line;
    }
  }
  return text;
}

}  // namespace tessera::cuda

int main(int argc, char** argv) {
  using namespace tessera::cuda;
  require_gpu();
  if (argc == 3 && std::strcmp(argv[1], "--record") == 0) {
    std::ofstream(argv[2]) << lines();
    return 0;
  }
  if (argc != 2) return 2;
  std::ifstream file(argv[1]);
  const std::string recorded((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
  const std::string now = lines();
  std::printf("%s\n", now == recorded ? "all outputs are those recorded" : "the outputs differ");
  return now == recorded ? 0 : 1;
}
