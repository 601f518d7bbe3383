#include "sim/numerics/dot.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>
#include <xsimd/xsimd.hpp>

#include "memory_model/array.hpp"
#include "sim/numerics/mxu.hpp"
#include "sim/numerics/op_state.hpp"
#include "sim/numerics/part.hpp"
#include "sim/numerics/tensor_core.hpp"
#include "sim/numerics/transpose.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/tensor_core.hpp"

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
constexpr int kVectors = 2;  // vectors in a row of a panel
constexpr int kRows = kLanes == 16 ? 12 : 6;
constexpr int kPanel = kVectors * kLanes;
constexpr int kDepth = 256;  // k per packed panel: 256 x 16 x 4 bytes is half of a 32 KiB L1

/// x y + z, rounded once. xsimd 8.1 has no fma for AVX-512 and rounds twice there.
Vector fused(const Vector& x, const Vector& y, const Vector& z) {
#if defined(__AVX512F__)
  return Vector(_mm512_fmadd_ps(x, y, z));
#else
  return xsimd::fma(x, y, z);
#endif
}

/// Rows of kPanel columns of b, `row` apart.
struct Panel {
  const float* data;
  std::int64_t row = kPanel;
};

/// `keep` (unless null): the panel is copied there on the way, rows close together. Where rows lie
/// apart, those that follow below are often multiplied next: they are prefetched.
template <int kR, bool kKeep = false>
void micro_kernel(float* c, std::int64_t ldc, const float* a, std::int64_t a_row,
                  std::int64_t a_col, Panel panel, int k, float* keep = nullptr) {
  Vector acc[kR][kVectors];
  for (int r = 0; r < kR; ++r) {
    for (int v = 0; v < kVectors; ++v) acc[r][v] = Vector::load_unaligned(c + r * ldc + v * kLanes);
  }
  for (int p = 0; p < k; ++p) {
    Vector b[kVectors];
    for (int v = 0; v < kVectors; ++v)
      b[v] = Vector::load_unaligned(panel.data + p * panel.row + v * kLanes);
    if constexpr (kKeep) {
      for (int v = 0; v < kVectors; ++v) {
        b[v].store_aligned(keep + p * kPanel + v * kLanes);
        __builtin_prefetch(panel.data + (p + k) * panel.row + v * kLanes);
      }
    }
    for (int r = 0; r < kR; ++r) {
      const Vector x(a[r * a_row + p * a_col]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = fused(x, b[v], acc[r][v]);
    }
  }
  for (int r = 0; r < kR; ++r) {
    for (int v = 0; v < kVectors; ++v) acc[r][v].store_unaligned(c + r * ldc + v * kLanes);
  }
}

/// Without a hardware fma the chain is the same, element by element.
void plain_kernel(float* c, std::int64_t ldc, const float* a, std::int64_t a_row,
                  std::int64_t a_col, Panel panel, int rows, int k) {
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < kPanel; ++j) {
      float sum = c[r * ldc + j];
      for (int p = 0; p < k; ++p)
        sum = std::fma(a[r * a_row + p * a_col], panel.data[p * panel.row + j], sum);
      c[r * ldc + j] = sum;
    }
  }
}

void run_rows(float* c, std::int64_t ldc, const float* a, std::int64_t a_row, std::int64_t a_col,
              Panel panel, int rows, int k) {
  if constexpr (!kHardwareFma) {
    plain_kernel(c, ldc, a, a_row, a_col, panel, rows, k);
    return;
  }
  switch (rows) {
    case 1:
      return micro_kernel<1>(c, ldc, a, a_row, a_col, panel, k);
    case 2:
      return micro_kernel<2>(c, ldc, a, a_row, a_col, panel, k);
    case 3:
      return micro_kernel<3>(c, ldc, a, a_row, a_col, panel, k);
    case 4:
      return micro_kernel<4>(c, ldc, a, a_row, a_col, panel, k);
    case 5:
      return micro_kernel<5>(c, ldc, a, a_row, a_col, panel, k);
    default:
      break;
  }
  if (rows == kRows) {
    micro_kernel<kRows>(c, ldc, a, a_row, a_col, panel, k);
  } else if (rows >= 8) {  // what 128 rows leave
    micro_kernel<8>(c, ldc, a, a_row, a_col, panel, k);
    if (rows > 8) run_rows(c + 8 * ldc, ldc, a + 8 * a_row, a_row, a_col, panel, rows - 8, k);
  } else {
    micro_kernel<6>(c, ldc, a, a_row, a_col, panel, k);
    if (rows > 6) run_rows(c + 6 * ldc, ldc, a + 6 * a_row, a_row, a_col, panel, rows - 6, k);
  }
}

/// b's columns [j0, j0 + cols) of rows [k0, k0 + depth) as panels of kPanel columns, the last one
/// padded with zeros (its surplus columns are computed and dropped).
template <class T>
void pack_right(float* panels, Operand2d<T> b, int k0, int depth, int j0, int cols) {
  const int whole = cols / kPanel;
  const int rest = cols % kPanel;
  const std::int64_t panel = std::int64_t{depth} * kPanel;
  if (rest > 0)
    std::memset(panels + whole * panel, 0, sizeof(float) * static_cast<std::size_t>(panel));
  if (b.col == 1) {
    for (int p = 0; p < depth; ++p) {
      const T* from = b.data + (k0 + p) * b.row + j0;
      float* to = panels + p * kPanel;
      for (int w = 0; w < whole; ++w, from += kPanel, to += panel) {
        for (int j = 0; j < kPanel; ++j) to[j] = convert<float>(from[j]);
      }
      for (int j = 0; j < rest; ++j) to[j] = convert<float>(from[j]);
    }
    return;
  }
  int j = 0;
  if (b.row == 1) {
    for (; j + kSquare <= cols; j += kSquare) {
      const T* from = b.data + (j0 + j) * b.col + k0;
      float* to = panels + j / kPanel * panel + j % kPanel;
      int p = 0;
      for (; p + kSquare <= depth; p += kSquare)
        transpose_square(to + p * kPanel, kPanel, from + p, b.col);
      for (; p < depth; ++p) {
        for (int l = 0; l < kSquare; ++l) to[p * kPanel + l] = convert<float>(from[p + l * b.col]);
      }
    }
  }
  for (; j < cols; ++j) {
    const T* from = b.data + (j0 + j) * b.col + k0 * b.row;
    float* to = panels + j / kPanel * panel + j % kPanel;
    for (int p = 0; p < depth; ++p) to[p * kPanel] = convert<float>(from[p * b.row]);
  }
}

/// a's columns [k0, k0 + depth), as floats and with rows close together: a view, or a copy in
/// `buffer`.
template <class T>
Operand2d<float> pack_left(std::vector<float, CacheAligned<float>>& buffer, Operand2d<T> a, int k0,
                           int m, int depth) {
  constexpr std::int64_t kNear = 512;  // farther apart, the rows of a block share too few pages
  if constexpr (std::is_same_v<T, float>) {
    if (a.row <= kNear && a.col <= kNear) return {a.data + k0 * a.col, a.row, a.col};
  }
  buffer.resize(static_cast<std::size_t>(m) * static_cast<std::size_t>(depth));
  float* to = buffer.data();
  if (a.row == 1 && a.col != 1) {
    for (int p = 0; p < depth; ++p, to += m) {
      const T* from = a.data + (k0 + p) * a.col;
      for (int i = 0; i < m; ++i) to[i] = convert<float>(from[i]);
    }
    return {buffer.data(), 1, m};
  }
  for (int i = 0; i < m; ++i, to += depth) {
    const T* from = a.data + i * a.row + k0 * a.col;
    if (a.col == 1) {
      for (int p = 0; p < depth; ++p) to[p] = convert<float>(from[p]);
    } else {
      for (int p = 0; p < depth; ++p) to[p] = convert<float>(from[p * a.col]);
    }
  }
  return {buffer.data(), depth, 1};
}

/// c's rows by `width` columns of b, whole panels, where they lie. The first rows leave the panels
/// in `keep`, rows close together, for the others.
void run_where_it_lies(float* c, std::int64_t ldc, Operand2d<float> a, Panel b, int m, int width,
                       int depth, float* keep) {
  const bool keeps = kHardwareFma && m > kRows && b.row > kPanel;
  const auto block = [&](int i0, int j) {
    float* const to = c + i0 * ldc + j;
    const float* const left = a.data + i0 * a.row;
    const Panel lies{b.data + j, b.row};
    float* const kept = keep + std::int64_t{j} * depth;
    if constexpr (kHardwareFma) {
      if (keeps && i0 == 0)
        return micro_kernel<kRows, true>(to, ldc, left, a.row, a.col, lies, depth, kept);
    }
    run_rows(to, ldc, left, a.row, a.col, keeps ? Panel{kept} : lies, std::min(kRows, m - i0),
             depth);
  };
  // A few rows of a, or one panel, stay in the L1: what is read again and again.
  constexpr int kNear = 4096;
  if (depth * width <= kNear) {
    for (int i0 = 0; i0 < m; i0 += kRows) {
      for (int j = 0; j < width; j += kPanel) block(i0, j);
    }
  } else {
    for (int j = 0; j < width; j += kPanel) {
      for (int i0 = 0; i0 < m; i0 += kRows) block(i0, j);
    }
  }
}

/// c's rows by one panel of b; `cols` of its kPanel columns are wanted.
void run_panel(float* c, std::int64_t ldc, Operand2d<float> a, Panel panel, int m, int cols,
               int depth) {
  alignas(64) float edge[kRows * kPanel];
  for (int i0 = 0; i0 < m; i0 += kRows) {
    const int rows = std::min(kRows, m - i0);
    const float* left = a.data + i0 * a.row;
    float* to = c + i0 * ldc;
    if (cols == kPanel) {
      run_rows(to, ldc, left, a.row, a.col, panel, rows, depth);
      continue;
    }
    const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(cols);
    std::memset(edge, 0, sizeof(edge));
    for (int r = 0; r < rows; ++r) std::memcpy(edge + r * kPanel, to + r * ldc, bytes);
    run_rows(edge, kPanel, left, a.row, a.col, panel, rows, depth);
    for (int r = 0; r < rows; ++r) std::memcpy(to + r * ldc, edge + r * kPanel, bytes);
  }
}

struct Scratch {
  std::vector<float, CacheAligned<float>> panels;
  std::vector<float, CacheAligned<float>> left;
};

Scratch& scratch() {
  static thread_local Scratch s;
  return s;
}

}  // namespace

template <class T>
void chain_accumulate(float* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m, int n,
                      int k) {
  constexpr int kColumns = 256;  // packed at once: 256 x 256 x 4 bytes is half of a 512 KiB L2
  Scratch& s = scratch();
  s.panels.resize(static_cast<std::size_t>(kDepth * kColumns));
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    const int depth = std::min(kDepth, k - k0);
    const Operand2d<float> left = pack_left(s.left, a, k0, m, depth);
    for (int jc = 0; jc < n; jc += kColumns) {
      const int width = std::min(kColumns, n - jc);
      begin_part();
      if constexpr (std::is_same_v<T, float>) {
        // Of few rows, a pass that packs takes longer than what it saves.
        constexpr int kFewRows = 96;
        if (b.col == 1 && m <= kFewRows && width % kPanel == 0) {
          run_where_it_lies(c + jc, ldc, left, {b.data + k0 * b.row + jc, b.row}, m, width, depth,
                            s.panels.data());
          continue;
        }
      }
      pack_right(s.panels.data(), b, k0, depth, jc, width);
      for (int j = 0; j < width; j += kPanel) {
        run_panel(c + jc + j, ldc, left, {s.panels.data() + std::int64_t{j} * depth}, m,
                  std::min(kPanel, width - j), depth);
      }
    }
  }
}

template void chain_accumulate(float*, std::int64_t, Operand2d<float>, Operand2d<float>, int, int,
                               int);
template void chain_accumulate(float*, std::int64_t, Operand2d<bf16>, Operand2d<bf16>, int, int,
                               int);

template <class T>
void dot_accumulate(float* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m, int n,
                    int k) {
  if constexpr (kOnTensorCores<T>) {
    if (on_tensor_cores(op_state.profile)) return tensor_core_accumulate(c, ldc, a, b, m, n, k);
  }
  if constexpr (std::is_same_v<T, float>) {
    if (const int count = mxu_passes(op_state.profile); count > 0) {
      static thread_local std::vector<bf16> left;
      static thread_local std::vector<bf16> right;
      const mxu::Passes& passes = mxu::passes(count);
      return chain_accumulate(c, ldc, mxu::expand_left(left, a, m, k, passes),
                              mxu::expand_right(right, b, k, n, passes), m, n, k * count);
    }
  }
  chain_accumulate(c, ldc, a, b, m, n, k);
}

template void dot_accumulate(float*, std::int64_t, Operand2d<float>, Operand2d<float>, int, int,
                             int);
template void dot_accumulate(float*, std::int64_t, Operand2d<bf16>, Operand2d<bf16>, int, int, int);
template void dot_accumulate(float*, std::int64_t, Operand2d<f16>, Operand2d<f16>, int, int, int);
template void dot_accumulate(float*, std::int64_t, Operand2d<f8e4m3fn>, Operand2d<f8e4m3fn>, int,
                             int, int);
template void dot_accumulate(float*, std::int64_t, Operand2d<f8e5m2>, Operand2d<f8e5m2>, int, int,
                             int);

void dot_accumulate(double* c, std::int64_t ldc, Operand2d<double> a, Operand2d<double> b, int m,
                    int n, int k) {
  for (int i = 0; i < m; ++i) {
    begin_part();
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
    begin_part();
    for (int p = 0; p < k; ++p) {
      const std::int32_t x = a.data[i * a.row + p * a.col];
      for (int j = 0; j < n; ++j) {
        std::int32_t& sum = c[i * ldc + j];
        sum = Dot::apply<std::int32_t>(x, b.data[p * b.row + j * b.col], sum);
      }
    }
  }
}
template void dot_accumulate(std::int32_t*, std::int64_t, Operand2d<std::int8_t>,
                             Operand2d<std::int8_t>, int, int, int);
template void dot_accumulate(std::int32_t*, std::int64_t, Operand2d<std::uint8_t>,
                             Operand2d<std::uint8_t>, int, int, int);

}  // namespace tessera
