// usage: mufu_blocks EVERY RECORD...: every EVERYth block of inputs of each function (starting with
// another block for each; 1: all 2^32) against what a GPU gave.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cuda/output_hash.hpp"
#include "sim/numerics/gpu_functions.hpp"
#include "sim/numerics/libdevice.hpp"
#include "sim/numerics/mufu.hpp"

namespace {

using tessera::GpuFunction;
namespace libdevice = tessera::libdevice;

/// Of two numbers drawn from one, as the recorded kernels draw them; half of them near 1.
template <float (*kFunction)(float, float)>
float of_pair(float x) {
  const auto n = std::bit_cast<std::uint32_t>(x);
  std::uint32_t a = (n ^ n >> 16) * 0x7feb352du;
  a = (a ^ a >> 15) * 0x846ca68bu;
  a ^= a >> 16;
  const std::uint32_t m = n + 0x9e3779b9u;
  std::uint32_t b = (m ^ m >> 16) * 0x21f0aaadu;
  b = (b ^ b >> 15) * 0x735a2d97u;
  b ^= b >> 15;
  if ((n & 0x400000u) != 0) {
    a = (a & 0x80ffffffu) | 0x3f000000u;
    b = (b & 0x81ffffffu) | 0x3e000000u;
  }
  return kFunction(std::bit_cast<float>(a), std::bit_cast<float>(b));
}

const std::map<std::string, float (*)(float)> kFunctions{
    {"cos", tessera::mufu::cos},
    {"ex2", tessera::mufu::ex2},
    {"erff", GpuFunction<tessera::Erf>::apply},
    {"lg2", tessera::mufu::lg2},
    {"rcp", tessera::mufu::rcp},
    {"rsqrt", tessera::mufu::rsqrt},
    {"rsqrtf", GpuFunction<tessera::Rsqrt>::apply},
    {"sin", tessera::mufu::sin},
    {"sqrt", tessera::mufu::sqrt},
    {"tanh", tessera::mufu::tanh},
    {"tanhf", GpuFunction<tessera::Tanh>::apply},
    {"triton.cos", libdevice::cos},
    {"triton.div", of_pair<libdevice::div>},
    {"triton.erf", libdevice::erf},
    {"triton.exp", libdevice::exp},
    {"triton.exp2", libdevice::exp2},
    {"triton.expf", libdevice::expf},
    {"triton.log", libdevice::log},
    {"triton.log1p", libdevice::log1p},
    {"triton.log2", libdevice::log2},
    {"triton.rem", of_pair<libdevice::rem>},
    {"triton.rsqrt", libdevice::rsqrt},
    {"triton.sin", libdevice::sin},
    {"triton.sqrt", libdevice::sqrt},
    {"triton.tanh", libdevice::tanh},
};

/// Of bf16: a block is the numbers of one upper byte.
const std::map<std::string, tessera::bf16 (*)(tessera::bf16)> kHalves{
    {"ex2.bf16", tessera::mufu::ex2_bf16},
    {"tanh.bf16", tessera::mufu::tanh_bf16},
};

std::uint64_t hash_of(float (*apply)(float), std::uint32_t block) {
  tessera::OutputHash hash;
  for (std::uint32_t i = 0; i < 1u << tessera::kBlockBits; ++i) {
    const float x = std::bit_cast<float>(block << tessera::kBlockBits | i);
    hash.add(std::bit_cast<std::uint32_t>(apply(x)));
  }
  return hash.value();
}
std::uint64_t hash_of(tessera::bf16 (*apply)(tessera::bf16), std::uint32_t block) {
  tessera::OutputHash hash;
  for (std::uint32_t i = 0; i < 256; ++i) {
    tessera::bf16 x;
    x.bits = static_cast<std::uint16_t>(block << 8 | i);
    hash.add(static_cast<std::uint32_t>(apply(x).bits) << 16);
  }
  return hash.value();
}

using Record = std::map<std::string, std::vector<std::uint64_t>>;

template <class Functions>
bool differ(const Functions& functions, const Record& recorded, std::uint32_t every) {
  bool failed = false;
  std::uint32_t first = 0;
  for (const auto& [of, apply] : functions) {
    const auto it = recorded.find(of);
    if (it == recorded.end() || it->second.size() != tessera::kBlocks) {
      std::printf("%s: not recorded\n", of.c_str());
      return true;
    }
    std::vector<int> wrong(tessera::kBlocks);
    const std::uint32_t start = first++ % every;
#pragma omp parallel for schedule(dynamic)
    for (std::uint32_t b = start; b < tessera::kBlocks; b += every)
      wrong[b] = hash_of(apply, b) == it->second[b] ? 0 : 1;
    for (std::uint32_t b = 0; b < tessera::kBlocks; ++b) {
      if (wrong[b] == 0) continue;
      std::printf("%s: inputs of block %02x differ from the GPU's\n", of.c_str(), b);
      failed = true;
    }
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto every = static_cast<std::uint32_t>(std::max(1, std::atoi(argv[1])));
  Record recorded;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::string name;
    std::uint32_t block = 0;
    for (std::uint64_t hash = 0; file >> name >> std::hex >> block >> hash;)
      recorded[name].push_back(hash);
  }
  const bool wide = differ(kFunctions, recorded, every);
  const bool half = differ(kHalves, recorded, 1);
  return wide || half ? 1 : 0;
}
