// usage: mufu_blocks RECORD [EVERY]: every EVERYth block of inputs of each function (32 unless
// given, starting with another block for each; 1: all 2^32) against what a GPU gave.
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
#include "sim/numerics/mufu.hpp"

namespace {

using tessera::GpuFunction;

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
    {"tanhf", GpuFunction<tessera::Tanh>::apply},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::uint32_t every =
      argc > 2 ? static_cast<std::uint32_t>(std::max(1, std::atoi(argv[2]))) : 32;
  std::map<std::string, std::vector<std::uint64_t>> recorded;
  std::ifstream file(argv[1]);
  std::string name;
  std::uint32_t block = 0;
  for (std::uint64_t hash = 0; file >> name >> std::hex >> block >> hash;)
    recorded[name].push_back(hash);
  int failed = 0;
  std::uint32_t first = 0;
  for (const auto& [of, apply] : kFunctions) {
    const auto& hashes = recorded[of];
    if (hashes.size() != tessera::kBlocks) {
      std::printf("%s: %zu blocks are recorded\n", of.c_str(), hashes.size());
      return 1;
    }
    std::vector<int> wrong(tessera::kBlocks);
    const std::uint32_t start = first++ % every;
#pragma omp parallel for schedule(dynamic)
    for (std::uint32_t b = start; b < tessera::kBlocks; b += every) {
      tessera::OutputHash hash;
      for (std::uint32_t i = 0; i < 1u << tessera::kBlockBits; ++i) {
        const float x = std::bit_cast<float>(b << tessera::kBlockBits | i);
        hash.add(std::bit_cast<std::uint32_t>(apply(x)));
      }
      wrong[b] = hash.value() == hashes[b] ? 0 : 1;
    }
    for (std::uint32_t b = 0; b < tessera::kBlocks; ++b) {
      if (wrong[b] == 0) continue;
      std::printf("%s: inputs %08x to %08x differ from the GPU's\n", of.c_str(),
                  b << tessera::kBlockBits,
                  (b << tessera::kBlockBits) | ((1u << tessera::kBlockBits) - 1));
      failed = 1;
    }
  }
  return failed;
}
