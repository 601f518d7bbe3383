// What DRAM gives when it is read in runs of a few bytes that lie apart: predict/ACCURACY.md,
// "Granules and pages".
//
//   nvcc -O3 -std=c++20 -arch=sm_90 predict/measured/hbm_runs.cu -o hbm_runs
//   ./hbm_runs           times
//   ncu --clock-control none --metrics dram__bytes_read.sum ./hbm_runs once      bytes
//
// Every run of an array of 4 GiB is read once, in one of three orders: `random`, a permutation of
// all runs; `down`, the runs of a column of an array with rows of `pitch` bytes one below the
// other, column after column; `across`, blocks of 64 rows of a run each, row of blocks after row of
// blocks. A line of JSON for each: order, bytes of a run, pitch, bytes that were read, the median
// of nine times in seconds.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(x)                                                   \
  do {                                                             \
    const cudaError_t e = (x);                                     \
    if (e != cudaSuccess) {                                        \
      std::fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); \
      std::exit(1);                                                \
    }                                                              \
  } while (0)

enum Order { random_order, down, across };

struct Walk {
  const uint4* data;
  unsigned log_runs;   // runs in all
  unsigned log_bytes;  // of a run
  unsigned log_pitch;  // of a row
  Order order;
};

__device__ std::uint64_t place(const Walk& w, std::uint64_t n) {
  const std::uint64_t mask = (std::uint64_t{1} << w.log_runs) - 1;
  if (w.order == random_order) {
    // A permutation: odd products and shifts, modulo a power of two.
    const unsigned half = (w.log_runs + 1) / 2;
    n = n * 0x9e3779b97f4a7c15u & mask;
    n ^= n >> half;
    n = n * 0xbf58476d1ce4e5b9u & mask;
    n ^= n >> half;
    n = n * 0x94d049bb133111ebu & mask;
    return n << w.log_bytes;
  }
  const unsigned log_columns = w.log_pitch - w.log_bytes;
  const unsigned log_rows = w.log_runs - log_columns;
  std::uint64_t row, column;
  if (w.order == down) {
    row = n & ((std::uint64_t{1} << log_rows) - 1);
    column = n >> log_rows;
  } else {
    const std::uint64_t in_block = n & 63;
    column = (n >> 6) & ((std::uint64_t{1} << log_columns) - 1);
    row = (n >> (6 + log_columns) << 6) + in_block;
  }
  return (row << w.log_pitch) + (column << w.log_bytes);
}

constexpr int kLoads = 8;

__global__ void __launch_bounds__(512) read_runs(Walk w, unsigned* out) {
  const unsigned log_lanes = w.log_bytes - 4;  // 16 bytes a lane
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t total = std::uint64_t{1} << (w.log_runs + log_lanes);
  unsigned sum = 0;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; first < total;
       first += kLoads * threads) {
    uint4 v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::uint64_t at = first + i * threads;
      v[i] = {};
      if (at >= total) continue;
      const std::uint64_t from =
          place(w, at >> log_lanes) + ((at & ((std::uint64_t{1} << log_lanes) - 1)) << 4);
      v[i] = __ldcs(w.data + (from >> 4));
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  if (sum == 0x12345678) *out = sum;
}

int main(int argc, char** argv) {
  const bool once = argc > 1;
  constexpr unsigned kLogBytes = 32;
  uint4* data = nullptr;
  unsigned* out = nullptr;
  CHECK(cudaMalloc(&data, std::size_t{1} << kLogBytes));
  CHECK(cudaMemset(data, 1, std::size_t{1} << kLogBytes));
  CHECK(cudaMalloc(&out, 4));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  const auto time = [&](const char* name, Order order, unsigned log_run, unsigned log_pitch) {
    const Walk w{data, kLogBytes - log_run, log_run, log_pitch, order};
    std::vector<float> times;
    for (int i = 0; i < (once ? 1 : 9); ++i) {
      CHECK(cudaEventRecord(begin));
      read_runs<<<132 * 4, 512>>>(w, out);
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    std::printf(
        "{\"order\": \"%s\", \"run\": %u, \"pitch\": %u, \"bytes\": %llu, \"seconds\": %.7f}\n",
        name, 1u << log_run, log_pitch == 0 ? 0 : 1u << log_pitch, 1ull << kLogBytes,
        times[times.size() / 2] * 1e-3);
    std::fflush(stdout);
  };
  for (unsigned run = 5; run <= 14; ++run) time("random", random_order, run, 0);
  for (const unsigned pitch : {13u, 15u}) {
    for (unsigned run = 5; run <= 12; ++run) time("down", down, run, pitch);
    for (unsigned run = 5; run <= 12; ++run) time("across", across, run, pitch);
  }
}
