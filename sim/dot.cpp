#include "sim/dot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>
#include <xsimd/xsimd.hpp>

#include "memory_model/array.hpp"

namespace tessera {

namespace {

#if defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_NEON)
constexpr bool kHardwareFma = true;
#else
constexpr bool kHardwareFma = false;
#endif

using Vector = xsimd::batch<float>;
constexpr int kLanes = static_cast<int>(Vector::size);
// Registers: 16 with AVX2 and before, 32 with AVX-512 and NEON. kRows x kPanel accumulators, kPanel
// vectors of b and one broadcast of a must fit.
constexpr int kVectors = 2;                                  // vectors in a row of a panel
constexpr int kRows = kLanes == 16 ? 12 : 6;
constexpr int kPanel = kVectors * kLanes;
constexpr int kDepth = 256;  // k per packed panel: 256 x 16 x 4 bytes is half of a 32 KiB L1

template <int kR>
void micro_kernel(float* c, std::int64_t ldc, const float* a, std::int64_t a_row, std::int64_t a_col,
                  const float* panel, int k) {
  Vector acc[kR][kVectors];
  for (int r = 0; r < kR; ++r) {
    for (int v = 0; v < kVectors; ++v) acc[r][v] = Vector::load_unaligned(c + r * ldc + v * kLanes);
  }
  for (int p = 0; p < k; ++p) {
    Vector b[kVectors];
    for (int v = 0; v < kVectors; ++v) b[v] = Vector::load_aligned(panel + p * kPanel + v * kLanes);
    for (int r = 0; r < kR; ++r) {
      const Vector x(a[r * a_row + p * a_col]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = xsimd::fma(x, b[v], acc[r][v]);
    }
  }
  for (int r = 0; r < kR; ++r) {
    for (int v = 0; v < kVectors; ++v) acc[r][v].store_unaligned(c + r * ldc + v * kLanes);
  }
}

/// Without a hardware fma the chain is the same, element by element.
void plain_kernel(float* c, std::int64_t ldc, const float* a, std::int64_t a_row, std::int64_t a_col,
                  const float* panel, int rows, int k) {
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < kPanel; ++j) {
      float sum = c[r * ldc + j];
      for (int p = 0; p < k; ++p) sum = std::fma(a[r * a_row + p * a_col], panel[p * kPanel + j], sum);
      c[r * ldc + j] = sum;
    }
  }
}

void run_rows(float* c, std::int64_t ldc, const float* a, std::int64_t a_row, std::int64_t a_col,
              const float* panel, int rows, int k) {
  if constexpr (!kHardwareFma) {
    plain_kernel(c, ldc, a, a_row, a_col, panel, rows, k);
    return;
  }
  switch (rows) {
    case 1: return micro_kernel<1>(c, ldc, a, a_row, a_col, panel, k);
    case 2: return micro_kernel<2>(c, ldc, a, a_row, a_col, panel, k);
    case 3: return micro_kernel<3>(c, ldc, a, a_row, a_col, panel, k);
    case 4: return micro_kernel<4>(c, ldc, a, a_row, a_col, panel, k);
    case 5: return micro_kernel<5>(c, ldc, a, a_row, a_col, panel, k);
    default: break;
  }
  if (rows == kRows) {
    micro_kernel<kRows>(c, ldc, a, a_row, a_col, panel, k);
  } else {
    micro_kernel<6>(c, ldc, a, a_row, a_col, panel, k);
    if (rows > 6) run_rows(c + 6 * ldc, ldc, a + 6 * a_row, a_row, a_col, panel, rows - 6, k);
  }
}

template <class T>
void pack_panel(float* panel, Operand2d<T> b, int k0, int depth, int j0, int cols) {
  if (cols < kPanel) std::memset(panel, 0, sizeof(float) * static_cast<std::size_t>(depth * kPanel));
  if (b.col == 1) {
    for (int p = 0; p < depth; ++p) {
      const T* from = b.data + (k0 + p) * b.row + j0;
      float* to = panel + p * kPanel;
      if (cols == kPanel) {
        for (int j = 0; j < kPanel; ++j) to[j] = convert<float>(from[j]);
      } else {
        for (int j = 0; j < cols; ++j) to[j] = convert<float>(from[j]);
      }
    }
  } else {
    for (int j = 0; j < cols; ++j) {
      const T* from = b.data + (j0 + j) * b.col + k0 * b.row;
      for (int p = 0; p < depth; ++p) panel[p * kPanel + j] = convert<float>(from[p * b.row]);
    }
  }
}

struct Scratch {
  std::vector<float, CacheAligned<float>> panel;
  std::vector<float, CacheAligned<float>> left;
  std::array<float, static_cast<std::size_t>(kRows * kPanel)> edge{};
};

Scratch& scratch() {
  static thread_local Scratch s;
  return s;
}

}  // namespace

template <class T>
void dot_accumulate(float* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m, int n, int k) {
  Scratch& s = scratch();
  s.panel.resize(static_cast<std::size_t>(kDepth * kPanel));
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    const int depth = std::min(kDepth, k - k0);
    const float* left = nullptr;
    std::int64_t left_row = a.row;
    std::int64_t left_col = a.col;
    if constexpr (std::is_same_v<T, float>) {
      left = a.data + k0 * a.col;
    } else {
      s.left.resize(static_cast<std::size_t>(m) * static_cast<std::size_t>(depth));
      for (int i = 0; i < m; ++i) {
        const T* from = a.data + i * a.row + k0 * a.col;
        float* to = s.left.data() + static_cast<std::int64_t>(i) * depth;
        if (a.col == 1) {
          for (int p = 0; p < depth; ++p) to[p] = convert<float>(from[p]);
        } else {
          for (int p = 0; p < depth; ++p) to[p] = convert<float>(from[p * a.col]);
        }
      }
      left = s.left.data();
      left_row = depth;
      left_col = 1;
    }
    for (int j0 = 0; j0 < n; j0 += kPanel) {
      const int cols = std::min(kPanel, n - j0);
      pack_panel(s.panel.data(), b, k0, depth, j0, cols);
      for (int i0 = 0; i0 < m; i0 += kRows) {
        const int rows = std::min(kRows, m - i0);
        float* to = c + i0 * ldc + j0;
        if (cols == kPanel) {
          run_rows(to, ldc, left + i0 * left_row, left_row, left_col, s.panel.data(), rows, depth);
          continue;
        }
        for (int r = 0; r < rows; ++r) {
          std::memcpy(s.edge.data() + r * kPanel, to + r * ldc, sizeof(float) * static_cast<std::size_t>(cols));
        }
        run_rows(s.edge.data(), kPanel, left + i0 * left_row, left_row, left_col, s.panel.data(), rows,
                 depth);
        for (int r = 0; r < rows; ++r) {
          std::memcpy(to + r * ldc, s.edge.data() + r * kPanel, sizeof(float) * static_cast<std::size_t>(cols));
        }
      }
    }
  }
}

template void dot_accumulate(float*, std::int64_t, Operand2d<float>, Operand2d<float>, int, int, int);
template void dot_accumulate(float*, std::int64_t, Operand2d<bf16>, Operand2d<bf16>, int, int, int);
template void dot_accumulate(float*, std::int64_t, Operand2d<f16>, Operand2d<f16>, int, int, int);
template void dot_accumulate(float*, std::int64_t, Operand2d<f8e4m3fn>, Operand2d<f8e4m3fn>, int, int, int);
template void dot_accumulate(float*, std::int64_t, Operand2d<f8e5m2>, Operand2d<f8e5m2>, int, int, int);

void dot_accumulate(double* c, std::int64_t ldc, Operand2d<double> a, Operand2d<double> b, int m, int n,
                    int k) {
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      const double x = a.data[i * a.row + p * a.col];
      for (int j = 0; j < n; ++j) {
        c[i * ldc + j] = std::fma(x, b.data[p * b.row + j * b.col], c[i * ldc + j]);
      }
    }
  }
}

template <class T>
void dot_accumulate(std::int32_t* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m, int n,
                    int k) {
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      const std::int32_t x = a.data[i * a.row + p * a.col];
      for (int j = 0; j < n; ++j) c[i * ldc + j] += x * b.data[p * b.row + j * b.col];
    }
  }
}
template void dot_accumulate(std::int32_t*, std::int64_t, Operand2d<std::int8_t>, Operand2d<std::int8_t>,
                             int, int, int);
template void dot_accumulate(std::int32_t*, std::int64_t, Operand2d<std::uint8_t>,
                             Operand2d<std::uint8_t>, int, int, int);

}  // namespace tessera
