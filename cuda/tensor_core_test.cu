// The tensor cores themselves against sim/ops/tensor_core.hpp: mma.sync and wgmma with f32 sums, of
// bf16, f16, tf32 and fp8, in classes of random operands: any bits, near 1, far apart, subnormal,
// huge, small whole numbers and signed zeros, cancelling pairs, and a few infinities and NaNs.
//
// usage: tensor_core_test [--record FILE] [MILLIONS of outputs of each instruction]
//
// --record: some of the inputs and the hardware's outputs, for tests/sim/tensor_core_test.cpp. Exit
// code 77: no GPU.
#include <cstring>

#include "cuda/gpu_test.hpp"
#include "sim/ops/tensor_core.hpp"

namespace tessera::cuda {

// Every instruction takes 32 bytes of k: m64 by n8 of a warpgroup, m16 by n8 of each warp.
constexpr int kRows = 64;
constexpr int kCols = 8;
constexpr int kBytes = 32;
constexpr int kWarpgroup = 128;
constexpr int kClasses = 8;

struct Found {
  Word wrong[kClasses];
  unsigned example[2];  ///< the hardware's, ours
};

/// A row, a column, a sum, and what became of it.
struct Record {
  unsigned char a[kBytes];
  unsigned char b[kBytes];
  float c;
  float by_mma;
  float by_wgmma;
};
constexpr int kRecordedThreads = 8;  ///< of the first block, in the first round of each class
constexpr int kRecords = kRecordedThreads * kClasses;

/// Bits of a float format with kExp exponent and kMan mantissa bits, of a class.
template <int kExp, int kMan>
__device__ unsigned draw(int of_class, Word random) {
  constexpr unsigned kMantissas = (1u << kMan) - 1;
  constexpr unsigned kMost = (1u << kExp) - 1;
  constexpr unsigned kBias = kMost / 2;
  const auto bits = static_cast<unsigned>(random);
  const unsigned sign = bits >> 31;
  unsigned mantissa = bits & kMantissas;
  const auto high = static_cast<unsigned>(random >> 32);
  unsigned exponent = kBias;
  switch (of_class) {
    case 0:
      exponent = high & kMost;
      break;
    case 1:
      exponent = kBias - 2 + high % 5;
      break;
    case 2:
      exponent = kBias / 2 + high % (kBias + 1);
      break;
    case 3:
      exponent = high % 3 == 0 ? 0 : kBias - 1 + high % 4;
      mantissa = exponent == 0 ? 0 : mantissa & 1u << (kMan - 1);
      break;
    case 4:
      exponent = high % 4 == 0 ? high / 4 % 3 : 0;
      break;
    case 5:
      exponent = kMost - 1 - high % 3;
      break;
    case 6:
      exponent = kBias - 4 + high % 9;
      break;
    default:
      exponent = high % 64 == 0 ? kMost : kBias - 2 + high % 5;
      if (high / 64 % 2 == 0 && exponent == kMost) mantissa = 0;
      break;
  }
  return sign << (kExp + kMan) | exponent << kMan | mantissa;
}
template <class T>
__device__ T draw_operand(int of_class, Word random) {
  if constexpr (std::is_same_v<T, float>)
    return __uint_as_float(draw<8, 23>(of_class, random));
  else if constexpr (std::is_same_v<T, bf16>)
    return std::bit_cast<T>(static_cast<std::uint16_t>(draw<8, 7>(of_class, random)));
  else if constexpr (std::is_same_v<T, f16>)
    return std::bit_cast<T>(static_cast<std::uint16_t>(draw<5, 10>(of_class, random)));
  else if constexpr (std::is_same_v<T, f8e4m3fn>)
    return std::bit_cast<T>(static_cast<std::uint8_t>(draw<4, 3>(of_class, random)));
  else
    return std::bit_cast<T>(static_cast<std::uint8_t>(draw<5, 2>(of_class, random)));
}

template <class T>
__device__ void mma_sync(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#define TESSERA_MMA(shape, type)                                       \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type \
               ".f32 {%0,%1,%2,%3},"                                   \
               " {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"               \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])        \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (std::is_same_v<T, float>)
    TESSERA_MMA("m16n8k8", "tf32");
  else if constexpr (std::is_same_v<T, bf16>)
    TESSERA_MMA("m16n8k16", "bf16");
  else if constexpr (std::is_same_v<T, f16>)
    TESSERA_MMA("m16n8k16", "f16");
  else if constexpr (std::is_same_v<T, f8e4m3fn>)
    TESSERA_MMA("m16n8k32", "e4m3");
  else
    TESSERA_MMA("m16n8k32", "e5m2");
#undef TESSERA_MMA
}

/// b lies in shared memory at `b_desc`: 16 bytes of each column, then the other 16.
template <class T>
__device__ void wgmma(float (&d)[4], const unsigned (&a)[4], std::uint64_t b_desc) {
#define TESSERA_WGMMA(shape, type, transposed)                                                 \
  asm volatile("wgmma.fence.sync.aligned;\n\twgmma.mma_async.sync.aligned." shape ".f32." type \
               "." type " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1" transposed                \
               ";\n\t"                                                                         \
               "wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;"          \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_desc)                       \
               : "memory")
  if constexpr (std::is_same_v<T, float>)
    TESSERA_WGMMA("m64n8k8", "tf32", "");
  else if constexpr (std::is_same_v<T, bf16>)
    TESSERA_WGMMA("m64n8k16", "bf16", ", 0");
  else if constexpr (std::is_same_v<T, f16>)
    TESSERA_WGMMA("m64n8k16", "f16", ", 0");
  else if constexpr (std::is_same_v<T, f8e4m3fn>)
    TESSERA_WGMMA("m64n8k32", "e4m3", "");
  else
    TESSERA_WGMMA("m64n8k32", "e5m2", "");
#undef TESSERA_WGMMA
}

/// c plus a row's products: of wgmma, and of mma.sync.
template <class T>
__device__ float model(float c, const T* a, const T* b, bool mma_sync) {
  if constexpr (sizeof(T) == 1) {
    if (mma_sync) return fp8_mma_sync(c, a, b);
  }
  constexpr TensorCoreStep kStep = hopper_step<T>();
  return tensor_core_add<kStep>(c, a, 1, b, 1, kStep.group);
}

__device__ void compare(Found* found, int of_class, float hardware, float ours) {
  if (__float_as_uint(hardware) == __float_as_uint(ours)) return;
  atomicAdd(&found->wrong[of_class], Word{1});
  found->example[0] = __float_as_uint(hardware);
  found->example[1] = __float_as_uint(ours);
}

template <class T>
__global__ void __launch_bounds__(kWarpgroup)
    compare_all(Found* of_mma, Found* of_wgmma, Record* records, int rounds) {
  constexpr int kK = kBytes / static_cast<int>(sizeof(T));
  __shared__ alignas(16) T a[kRows][kK];
  __shared__ alignas(16) T b[kCols][kK];
  __shared__ alignas(128) unsigned char b_in_halves[2][kCols][kBytes / 2];
  const int thread = static_cast<int>(threadIdx.x);
  const int g = thread % 32 / 4;
  const int t = thread % 4;
  const int row = thread / 32 * 16 + g;
  for (int round = 0; round < rounds; ++round) {
    const Word seed = permuted((static_cast<Word>(blockIdx.x) << 32) + round) & ~Word{0xffff};
    const int of_class = round % kClasses;
    for (int i = thread; i < kRows * kK; i += kWarpgroup) {
      const int k = i % kK;
      // Class 6: every other product is the one before, negated.
      const int from = of_class == 6 ? i - k % 2 : i;
      a[i / kK][k] = draw_operand<T>(of_class, permuted(seed + from));
    }
    for (int i = thread; i < kCols * kK; i += kWarpgroup) {
      const int k = i % kK;
      const bool negated = of_class == 6 && k % 2 != 0;
      const T v = draw_operand<T>(of_class, permuted(seed + 0x8000 + i - (negated ? 1 : 0)));
      b[i / kK][k] = negated ? T(-convert<float>(v)) : v;
    }
    __syncthreads();
    for (int i = thread; i < kCols * kBytes; i += kWarpgroup) {
      const int byte = i % kBytes;
      b_in_halves[byte / 16][i / kBytes][byte % 16] =
          reinterpret_cast<const unsigned char*>(&b[i / kBytes][0])[byte];
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const auto word = [&](const T* line, int byte) {
      return *reinterpret_cast<const unsigned*>(reinterpret_cast<const unsigned char*>(line) +
                                                byte);
    };
    const unsigned fragment[4] = {word(a[row], 4 * t), word(a[row + 8], 4 * t),
                                  word(a[row], 4 * t + 16), word(a[row + 8], 4 * t + 16)};
    const unsigned b_fragment[2] = {word(b[g], 4 * t), word(b[g], 4 * t + 16)};
    float c[4];
    for (int i = 0; i < 4; ++i) {
      const Word random = permuted(seed + 0xc000 + thread * 4 + i);
      // Sums as large as products, or none, or cancelling what does not cancel.
      const int c_class = of_class == 6 ? 4 : of_class;
      c[i] = random % 8 == 0 ? 0.0f : __uint_as_float(draw<8, 23>(c_class, random));
    }
    float by_mma[4] = {c[0], c[1], c[2], c[3]};
    float by_wgmma[4] = {c[0], c[1], c[2], c[3]};
    mma_sync<T>(by_mma, fragment, b_fragment);
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(&b_in_halves[0][0][0]));
    constexpr std::uint64_t kNext = kCols * 16;
    wgmma<T>(by_wgmma, fragment, address >> 4 | kNext >> 4 << 16 | kNext >> 4 << 32);
    for (int i = 0; i < 4; ++i) {
      const T* const x = a[row + i / 2 * 8];
      const T* const y = b[2 * t + i % 2];
      compare(of_wgmma, of_class, by_wgmma[i], model(c[i], x, y, false));
      compare(of_mma, of_class, by_mma[i], model(c[i], x, y, true));
      constexpr int kApart = kWarpgroup / kRecordedThreads;
      if (blockIdx.x == 0 && round < kClasses && i == 0 && thread % kApart == 0) {
        Record& record = records[round * kRecordedThreads + thread / kApart];
        memcpy(record.a, x, kBytes);
        memcpy(record.b, y, kBytes);
        record.c = c[i];
        record.by_mma = by_mma[i];
        record.by_wgmma = by_wgmma[i];
      }
    }
    __syncthreads();
  }
}

Word print(const char* instruction, const char* type, const Found& found, Word outputs) {
  Word wrong = 0;
  for (const Word w : found.wrong) wrong += w;
  std::printf("| %s | %s | %llu | %llu |", instruction, type, outputs, wrong);
  if (wrong != 0) {
    for (const Word w : found.wrong) std::printf(" %llu", w);
    std::printf(": %08x, ours %08x", found.example[0], found.example[1]);
  }
  std::printf("\n");
  return wrong;
}

void write(std::FILE* file, const char* type, const Record& record) {
  const auto bits = [](float v) {
    unsigned word;
    std::memcpy(&word, &v, sizeof word);
    return word;
  };
  std::fprintf(file, "%s ", type);
  for (const unsigned char byte : record.a) std::fprintf(file, "%02x", byte);
  std::fprintf(file, " ");
  for (const unsigned char byte : record.b) std::fprintf(file, "%02x", byte);
  std::fprintf(file, " %08x %08x %08x\n", bits(record.c), bits(record.by_mma),
               bits(record.by_wgmma));
}

template <class T>
bool same(const char* type, Word outputs, std::FILE* file) {
  constexpr int kBlocks = 132 * 8;
  const auto rounds =
      static_cast<int>(outputs / (static_cast<Word>(kBlocks) * kRows * kCols) / kClasses + 1) *
      kClasses;
  const Word all = static_cast<Word>(kBlocks) * kRows * kCols * rounds;
  Found* found = nullptr;
  require(cudaMallocManaged(&found, 2 * sizeof *found));
  found[0] = found[1] = Found{};
  Record* records = nullptr;
  require(cudaMallocManaged(&records, kRecords * sizeof *records));
  compare_all<T><<<kBlocks, kWarpgroup>>>(found, found + 1, records, rounds);
  require(cudaDeviceSynchronize());
  for (int i = 0; file != nullptr && i < kRecords; ++i) write(file, type, records[i]);
  require(cudaFree(records));
  const Word wrong = print("mma.sync", type, found[0], all) + print("wgmma", type, found[1], all);
  require(cudaFree(found));
  return wrong == 0;
}

}  // namespace tessera::cuda

int main(int argc, char** argv) {
  using namespace tessera;
  using namespace tessera::cuda;
  require_gpu();
  Word millions = 100;
  std::FILE* file = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--record") == 0 && i + 1 < argc)
      file = std::fopen(argv[++i], "w");
    else
      millions = std::strtoull(argv[i], nullptr, 10);
  }
  const Word outputs = millions * 1'000'000;
  bool all = same<bf16>("bf16", outputs, file);
  all = same<f16>("f16", outputs, file) && all;
  all = same<float>("tf32", outputs, file) && all;
  all = same<f8e4m3fn>("f8e4m3fn", outputs, file) && all;
  all = same<f8e5m2>("f8e5m2", outputs, file) && all;
  if (file != nullptr) std::fclose(file);
  return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
