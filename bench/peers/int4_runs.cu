// What one kernel takes for o = x w with weights of 4 bits and few rows, whose k has runs that
// groups of warps of a CTA do side by side: written by hand, for one shape, beside
// quantised_matmul with split_sum (bench/peers/split_kernels.py), whose fragments these are.
//
//   nvcc -std=c++20 -O3 -arch=sm_90a bench/peers/int4_runs.cu -o int4_runs && ./int4_runs
//
// Prints, for each number of runs and slots, the median time in a CUDA graph that walks over more
// weights than L2 holds, and how far o is from sums in double.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kM = 16, kN = 8192, kK = 8192, kGroup = 128, kSteps = kK / kGroup;
constexpr int kWarpColumns = 32;
constexpr int kSets = 6;  // of weights: 228 MB, which no L2 holds

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

using Address = unsigned;  // in shared memory

__device__ unsigned permuted(unsigned a, unsigned b, unsigned selector) {
  unsigned r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}
__device__ void wait(Address barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra "
      "DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ void product(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ uint2 load(Address at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at));
  return v;
}
__device__ void copy_box(Address to, const CUtensorMap& map, int a, int b, int c, Address barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2,%3,%4}], [%5];" ::"r"(to),
      "l"(&map), "r"(a), "r"(b), "r"(c), "r"(barrier)
      : "memory");
}
__device__ void copy_row(Address to, const float* from, unsigned bytes, Address barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

struct Arrays {
  const float* scale;  // (K / group, N)
  const float* zero;
  __nv_bfloat16* o;  // (M, N)
};

// Where things lie in shared memory: slots of words (16 rows of 32 columns for each warp) and x
// (two panels of 64 columns), swizzled by 128 bytes; their scales and zeros; barriers.
template <int kWarps, int kSlots>
struct Layout {
  static constexpr int kColumns = kWarps * kWarpColumns;
  static constexpr int kWords = 2048 * kWarps;
  static constexpr int kSlot = kWords + 4096;
  static constexpr int kScales = kSlots * kSlot;
  static constexpr int kScaleBytes = kColumns * 4;
  static constexpr int kBarriers = kScales + kSlots * 2 * kScaleBytes;
  static constexpr int kBytes = kBarriers + kSlots * 16;
};

// A CTA: kRuns groups of kWarps warps that compute, and a warp that starts copies. All of k, of 32
// columns for each warp of a group. Run r has the steps [r, r + 1) kSteps / kRuns.
template <int kRuns, int kWarps, int kSlots>
__global__ void __launch_bounds__(kRuns* kWarps * 32 + 32)
    int4_product(const __grid_constant__ CUtensorMap words, const __grid_constant__ CUtensorMap x,
                 const Arrays arrays) {
  using Lies = Layout<kWarps, kSlots>;
  constexpr int kComputing = kRuns * kWarps * 32;
  extern __shared__ __align__(1024) unsigned char memory[];
  const Address base = static_cast<Address>(__cvta_generic_to_shared(memory));
  const auto full = [&](int slot) { return base + Lies::kBarriers + slot * 8; };
  const auto empty = [&](int slot) { return base + Lies::kBarriers + (kSlots + slot) * 8; };
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kSlots; ++s) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(full(s)));
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(empty(s)), "r"(kWarps));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&words));
    asm volatile("prefetch.tensormap [%0];" ::"l"(&x));
  }
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  __syncthreads();
  const int column = blockIdx.x * Lies::kColumns;

  if (warp == kRuns * kWarps) {
    unsigned elected;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(elected));
    if (!elected) return;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    int slot = 0, parity = 1;
#pragma unroll 1
    for (int t = 0; t < kSteps; ++t) {
      const int step = t % kRuns * (kSteps / kRuns) + t / kRuns;  // of the runs in turn
      if (t >= kSlots) wait(empty(slot), parity);
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(full(slot)),
                   "r"(Lies::kSlot + 2 * Lies::kScaleBytes));
      const Address to = base + slot * Lies::kSlot;
      const Address scales = base + Lies::kScales + slot * 2 * Lies::kScaleBytes;
      copy_box(to, words, 0, step * 16, column / kWarpColumns, full(slot));
      copy_box(to + Lies::kWords, x, 0, 0, step * 2, full(slot));
      copy_row(scales, arrays.scale + step * kN + column, Lies::kScaleBytes, full(slot));
      copy_row(scales + Lies::kScaleBytes, arrays.zero + step * kN + column, Lies::kScaleBytes,
               full(slot));
      if (++slot == kSlots) slot = 0, parity ^= 1;
    }
    return;
  }

  const int run = warp / kWarps, part = warp % kWarps;
  const int g = lane / 4, q = lane % 4;  // an mma's row or column, and its quarter
  float sums[4][4] = {};
#pragma unroll 1
  for (int t = run; t < kSteps; t += kRuns) {
    const int slot = t % kSlots;
    wait(full(slot), t / kSlots & 1);
    const Address at = base + slot * Lies::kSlot;
    float values[4][4] = {}, total[4] = {};  // x times values as they are, and times ones
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const Address left_at =
          at + Lies::kWords + k / 4 * 2048 + g * 128 + ((k % 4 * 2 + q / 2) ^ g) * 16 + q % 2 * 8;
      const uint2 low = load(left_at), high = load(left_at + 1024);
      const unsigned left[4] = {permuted(low.x, low.y, 0x5410), permuted(high.x, high.y, 0x5410),
                                permuted(low.x, low.y, 0x7632), permuted(high.x, high.y, 0x7632)};
      const int row = 2 * k + q / 2;
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const int c = pair * 16 + g % 2 * 8 + g / 2 * 2;
        const uint2 two = load(at + part * 2048 + row * 128 + (c / 4 ^ row % 8) * 16 + c % 4 * 4);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const unsigned bytes = permuted(e ? two.y : two.x, 0, lane % 2 ? 0x4342 : 0x4140);
          unsigned right[2];
#pragma unroll
          for (int p = 0; p < 2; ++p) {
            unsigned above;  // 128 + code, twice
            asm("lop3.b32 %0, %1, %2, %3, 0xea;"
                : "=r"(above)
                : "r"(bytes >> 4 * p), "n"(0x000f000f), "r"(0x43004300));
            asm("fma.rn.bf16x2 %0, %1, %2, %3;"
                : "=r"(right[p])
                : "r"(above), "r"(0x3f803f80), "r"(0xc300c300));
          }
          product(values[pair * 2 + e], left, right);
        }
      }
      const unsigned ones[2] = {0x3f803f80U, 0x3f803f80U};
      product(total, left, ones);
    }
    const Address scales = base + Lies::kScales + slot * 2 * Lies::kScaleBytes;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair)
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int c = part * kWarpColumns + pair * 16 + odd * 8 + q * 2;
        const uint2 scale = load(scales + c * 4), zero = load(scales + Lies::kScaleBytes + c * 4);
#pragma unroll
        for (int e = 0; e < 2; ++e)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float z = __uint_as_float(e ? zero.y : zero.x);
            const float s = __uint_as_float(e ? scale.y : scale.x);
            const int i = odd + half * 2;
            sums[pair * 2 + e][i] =
                fmaf(fmaf(z, -total[half * 2], values[pair * 2 + e][i]), s, sums[pair * 2 + e][i]);
          }
      }
    __syncwarp();
    if (lane == 0)
      asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(empty(slot)) : "memory");
  }

  // Runs' sums, added in their order. Nothing is on its way to a slot any more.
  asm volatile("bar.sync 1, %0;" ::"n"(kComputing) : "memory");
  constexpr int kPitch = Lies::kColumns + 8;
  float* const parts = reinterpret_cast<float*>(memory);
#pragma unroll
  for (int pair = 0; pair < 2; ++pair)
#pragma unroll
    for (int odd = 0; odd < 2; ++odd)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(parts + (run * kM + g + half * 8) * kPitch +
                                   part * kWarpColumns + pair * 16 + odd * 8 + q * 2) =
            make_float2(sums[pair * 2][odd + half * 2], sums[pair * 2 + 1][odd + half * 2]);
  asm volatile("bar.sync 1, %0;" ::"n"(kComputing) : "memory");
  for (int i = threadIdx.x; i < kM * Lies::kColumns / 2; i += kComputing) {
    const int r = i / (Lies::kColumns / 2), c = i % (Lies::kColumns / 2) * 2;
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int j = 0; j < kRuns; ++j) {
      const float2 p = *reinterpret_cast<const float2*>(parts + (j * kM + r) * kPitch + c);
      sum.x += p.x;
      sum.y += p.y;
    }
    *reinterpret_cast<__nv_bfloat162*>(arrays.o + r * kN + column + c) =
        __floats2bfloat162_rn(sum.x, sum.y);
  }
}

struct Set {
  std::uint32_t* words;  // (K / 8, N)
  __nv_bfloat16* x;      // (M, K)
  float* scale;
  float* zero;
  __nv_bfloat16* o;
};

__global__ void fill(Set set, unsigned seed) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < kK / 8 * kN;
       i += gridDim.x * blockDim.x) {
    unsigned h = (i + seed) * 2654435761U;
    h = (h ^ h >> 15) * 2246822519U;
    h = (h ^ h >> 13) * 3266489917U;
    h ^= h >> 16;
    set.words[i] = h;
    if (i < kK / kGroup * kN) {
      set.scale[i] = 0.5f + (h & 1023) / 1024.f;
      set.zero[i] = (h >> 10 & 255) / 16.f;
    }
    if (i < kM * kK) set.x[i] = __float2bfloat16((h >> 16) / 65536.f - 0.5f);
  }
}

template <class T>
std::vector<T> fetched(const T* from, std::size_t n) {
  std::vector<T> all(n);
  CHECK(cudaMemcpy(all.data(), from, n * sizeof(T), cudaMemcpyDefault));
  return all;
}

/// Every 37th column of o in double.
std::vector<double> in_double(const Set& set) {
  const auto words = fetched(set.words, kK / 8 * kN);
  const auto x = fetched(set.x, kM * kK);
  const auto scale = fetched(set.scale, kK / kGroup * kN);
  const auto zero = fetched(set.zero, kK / kGroup * kN);
  std::vector<double> o(kM * kN);
  for (int c = 0; c < kN; c += 37)
    for (int k = 0; k < kK; ++k) {
      const int group = k / kGroup * kN + c;
      const double w =
          ((words[k / 8 * kN + c] >> k % 8 * 4 & 15) - double{zero[group]}) * double{scale[group]};
      for (int r = 0; r < kM; ++r) o[r * kN + c] += w * double{__bfloat162float(x[r * kK + k])};
    }
  return o;
}

using Encode = decltype(&cuTensorMapEncodeTiled);

CUtensorMap panels(Encode encode, CUtensorMapDataType type, void* data, cuuint64_t columns,
                   cuuint64_t rows, cuuint64_t panel_columns, cuuint64_t pitch, cuuint32_t box_rows,
                   cuuint32_t box_panels) {
  CUtensorMap map;
  const cuuint64_t extents[] = {panel_columns, rows, columns / panel_columns};
  const cuuint64_t strides[] = {pitch, 128};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(panel_columns), box_rows, box_panels};
  const cuuint32_t steps[] = {1, 1, 1};
  if (encode(&map, type, 3, data, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
    std::printf("no tensor map\n");
    std::exit(1);
  }
  return map;
}

template <int kRuns, int kWarps, int kSlots>
void measure(Encode encode, const std::vector<Set>& sets, const std::vector<double>& wanted) {
  // Runs share a ring: with other numbers of slots who is ahead would take a phase for the one
  // before.
  static_assert(kSlots % kRuns == 0);
  auto* const kernel = int4_product<kRuns, kWarps, kSlots>;
  constexpr int kBytes = Layout<kWarps, kSlots>::kBytes;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  cudaFuncAttributes made;
  CHECK(cudaFuncGetAttributes(&made, kernel));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const auto launch = [&](const Set& set) {
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = kN / (kWarpColumns * kWarps);
    config.blockDim = kRuns * kWarps * 32 + 32;
    config.dynamicSmemBytes = kBytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(
        &config, kernel,
        panels(encode, CU_TENSOR_MAP_DATA_TYPE_UINT32, set.words, kN, kK / 8, 32, kN * 4, 16,
               kWarps),
        panels(encode, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, set.x, kK, kM, 64, kK * 2, kM, 2),
        Arrays{set.scale, set.zero, set.o}));
  };
  launch(sets[0]);
  CHECK(cudaStreamSynchronize(stream));
  const auto o = fetched(sets[0].o, kM * kN);
  double off = 0, most = 0;
  for (int c = 0; c < kN; c += 37)
    for (int r = 0; r < kM; ++r) {
      const double right = wanted[r * kN + c];
      off = std::max(off, std::abs(right - double{__bfloat162float(o[r * kN + c])}));
      most = std::max(most, std::abs(right));
    }

  constexpr int kLoops = 10;
  cudaGraph_t graph;
  cudaGraphExec_t walk;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int loop = 0; loop < kLoops; ++loop)
    for (const Set& set : sets) launch(set);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&walk, graph, 0));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> us;
  for (int round = 0; round < 14; ++round) {
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaGraphLaunch(walk, stream));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamSynchronize(stream));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (round > 2) us.push_back(ms * 1000 / (kLoops * kSets));
  }
  std::sort(us.begin(), us.end());
  std::printf(
      "%2d runs of %d warps, %2d slots, %3d KB: %5.2f us (%5.2f to %5.2f), %d registers, %zu "
      "bytes of local memory, off by %.1e\n",
      kRuns, kWarps, kSlots, kBytes / 1024, us[us.size() / 2], us.front(), us.back(), made.numRegs,
      made.localSizeBytes, off / most);
}

}  // namespace

int main() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult is_there;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                         &is_there));
  const auto encode = reinterpret_cast<Encode>(found);
  std::vector<Set> sets(kSets);
  unsigned seed = 0;
  for (Set& set : sets) {
    CHECK(cudaMalloc(&set.words, kK / 8 * kN * 4));
    CHECK(cudaMalloc(&set.x, kM * kK * 2));
    CHECK(cudaMalloc(&set.scale, kK / kGroup * kN * 4));
    CHECK(cudaMalloc(&set.zero, kK / kGroup * kN * 4));
    CHECK(cudaMalloc(&set.o, kM * kN * 2));
    fill<<<512, 256>>>(set, seed += 77777);
  }
  CHECK(cudaDeviceSynchronize());
  const std::vector<double> wanted = in_double(sets[0]);
  measure<8, 2, 24>(encode, sets, wanted);
  measure<8, 2, 16>(encode, sets, wanted);
  measure<4, 2, 24>(encode, sets, wanted);
}
