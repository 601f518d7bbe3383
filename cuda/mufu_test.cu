// The GPU's approximate instructions, and erff, tanhf and rsqrtf as nvcc compiles them, over all
// 2^32 inputs (of bf16 all 2^16) against the record that sim/numerics/mufu.hpp is held to.
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
constexpr const char* kNames[] = {"cos",    "ex2", "erff", "lg2",   "rcp", "rsqrt",
                                  "rsqrtf", "sin", "sqrt", "tanhf", "tanh"};
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
    case 9:
      return tanhf(x);
    default:
      asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
  }
}

__global__ void block_of(int function, unsigned first, unsigned* outputs) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  outputs[i] = __float_as_uint(of_function(function, __uint_as_float(first + i)));
}

/// Of the bf16 whose bits are i, in the lower half of a pair.
__global__ void of_halves(bool tanh, unsigned* outputs) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned pair = i | ~i << 16;
  unsigned y = 0;
  if (tanh)
    asm("tanh.approx.bf16x2 %0, %1;" : "=r"(y) : "r"(pair));
  else
    asm("ex2.approx.ftz.bf16x2 %0, %1;" : "=r"(y) : "r"(pair));
  outputs[i] = y << 16;
}

std::string line(const char* name, unsigned block, const unsigned* outputs, unsigned count) {
  OutputHash hash;
  for (unsigned i = 0; i < count; ++i) hash.add(outputs[i]);
  char text[64];
  std::snprintf(text, sizeof text, "%s %02x %016llx\n", name, block,
                static_cast<Word>(hash.value()));
  return text;
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
      text += line(kNames[f], b, outputs.data(), kBlock);
    }
  }
  constexpr unsigned kHalves = 1u << 16;
  for (const bool tanh : {false, true}) {
    of_halves<<<kHalves / kThreads, kThreads>>>(tanh, device);
    require(cudaMemcpy(outputs.data(), device, kHalves * sizeof *device, cudaMemcpyDeviceToHost));
    for (unsigned b = 0; b < kBlocks; ++b)
      text += line(tanh ? "tanh.bf16" : "ex2.bf16", b, outputs.data() + b * 256, 256);
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
