// Elementary functions of all 2^32 floats on the GPU: the hash of the results is the one that
// tests/numerics/RESULTS.md has of the interpreter's, which MPFR agreed with. And 2^32 quotients of
// random patterns (cuda/quotient.hpp).
//
// usage: elementary_test RESULTS.md       Exit code 77: no GPU.
#include <fstream>
#include <string>
#include <vector>

#include "cuda/gpu_test.hpp"
#include "cuda/quotient.hpp"
#include "sim/ops/all.hpp"

namespace tessera::cuda {

constexpr int kParts = 1 << 12;
constexpr unsigned kOfPart = 1u << 20;
constexpr Word kHashBegin = 0xcbf29ce484222325;

/// FNV-1a, by words, as tests/numerics/every_input.cpp does it.
__host__ __device__ Word mixed_in(Word hash, Word word) { return (hash ^ word) * 0x100000001b3; }

template <class Op>
__global__ void hash_parts(Word* hashes) {
  constexpr unsigned kNan = 0x7fc00000;
  const unsigned part = blockIdx.x * blockDim.x + threadIdx.x;
  Word hash = kHashBegin;
  for (unsigned i = 0; i < kOfPart; ++i) {
    const float y = Op::apply(__uint_as_float(part * kOfPart + i));
    hash = mixed_in(hash, y != y ? kNan : __float_as_uint(y));
  }
  hashes[part] = hash;
}

__global__ void compare_quotients(Word* wrong) {
  const Word threads = static_cast<Word>(gridDim.x) * blockDim.x;
  for (Word n = blockIdx.x * blockDim.x + threadIdx.x; n < Word{1} << 32; n += threads) {
    const Word bits = permuted(n);
    const float a = __uint_as_float(static_cast<unsigned>(bits));
    // A third of the divisors is near a, so that quotients near 1 and subnormal ones are frequent.
    const float b = n % 3 == 0 ? __uint_as_float(static_cast<unsigned>(bits) ^ (bits >> 44))
                               : __uint_as_float(static_cast<unsigned>(bits >> 32));
    const float ours = quotient(a, 1.0 / static_cast<double>(b));
    const float theirs = a / b;
    if (__float_as_uint(ours) == __float_as_uint(theirs) || (ours != ours && theirs != theirs))
      continue;
    atomicAdd(wrong, Word{1});
  }
}

/// The hash of a function's line, "" if RESULTS.md has none of all inputs.
std::string recorded(const char* path, const std::string& name) {
  std::ifstream file(path);
  const std::string start = "| " + name + " | 4294967296 | 0 | ";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(start, 0) == 0) return line.substr(start.size(), 16);
  }
  return "";
}

template <class Op>
bool same_hash(const char* results) {
  if constexpr (Op::info.transcendental && Op::info.arity == 1) {
    Word* parts = nullptr;
    require(cudaMallocManaged(&parts, kParts * sizeof *parts));
    hash_parts<Op><<<kParts / 32, 32>>>(parts);
    require(cudaDeviceSynchronize());
    Word hash = kHashBegin;
    for (int i = 0; i < kParts; ++i) hash = mixed_in(hash, parts[i]);
    require(cudaFree(parts));
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", hash);
    const bool same = recorded(results, Op::info.name) == text;
    std::printf("%s: %s, %s\n", Op::info.name, text, same ? "the recorded hash" : "WRONG");
    return same;
  } else {
    return true;
  }
}
template <class... Op>
bool all_same(std::tuple<Op...>*, const char* results) {
  return (int{same_hash<Op>(results)} & ...) != 0;
}

bool quotients_same() {
  Word* wrong = nullptr;
  require(cudaMallocManaged(&wrong, sizeof *wrong));
  *wrong = 0;
  compare_quotients<<<1056, 256>>>(wrong);
  require(cudaDeviceSynchronize());
  std::printf("quotients: %llu of 2^32 differ\n", *wrong);
  return *wrong == 0;
}

}  // namespace tessera::cuda

int main(int argc, char** argv) {
  using namespace tessera::cuda;
  require_gpu();
  if (argc != 2) {
    std::puts("usage: elementary_test RESULTS.md");
    return EXIT_FAILURE;
  }
  const bool functions = all_same(static_cast<tessera::ops::All*>(nullptr), argv[1]);
  const bool quotients = quotients_same();
  return functions && quotients ? EXIT_SUCCESS : EXIT_FAILURE;
}
