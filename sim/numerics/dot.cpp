#include "sim/numerics/dot.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
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
// Accumulators, a row of a panel and one element of a must fit the vector registers: 16 with AVX2
// and before, 32 with AVX-512 and NEON.
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int kWidest = 4;  // vectors in a row of a panel: so wide, most operands are in registers
constexpr int kAccumulators = 24;
#else
constexpr int kWidest = 2;
constexpr int kAccumulators = 12;
#endif
constexpr int kMostRows = 12;
template <int kVectors>
constexpr int kRows = std::min(kMostRows, kAccumulators / kVectors);
constexpr int kDepth = 256;  // k per packed panel

/// x y + z, rounded once. xsimd 8.1 has no fma for AVX-512 and rounds twice there.
Vector fused(const Vector& x, const Vector& y, const Vector& z) {
#if defined(__AVX512F__)
  return Vector(_mm512_fmadd_ps(x, y, z));
#else
  return xsimd::fma(x, y, z);
#endif
}

/// f(0), ..., f(n - 1), each a constant: what they index stays in registers.
template <int kN, class F>
void unrolled(F&& f) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) { (f(std::integral_constant<int, kI>{}), ...); }
  (std::make_integer_sequence<int, kN>{});
}

/// Rows of some columns of b, `row` apart.
struct Panel {
  const float* data;
  std::int64_t row;
};

/// kKeep: the panel is copied to `keep` on the way, rows close together. Where rows lie apart,
/// those that follow below are often multiplied next: they are prefetched.
template <int kR, int kVectors, bool kKeep = false>
void micro_kernel(float* c, std::int64_t ldc, const Operand2d<float>& a, const Panel& panel, int k,
                  float* keep = nullptr) {
  Vector acc[kR][kVectors];
  unrolled<kR>([&](auto r) {
    unrolled<kVectors>(
        [&](auto v) { acc[r][v] = Vector::load_unaligned(c + r * ldc + v * kLanes); });
  });
  for (int p = 0; p < k; ++p) {
    Vector b[kVectors];
    unrolled<kVectors>([&](auto v) {
      const float* const from = panel.data + p * panel.row + v * kLanes;
      b[v] = Vector::load_unaligned(from);
      if constexpr (kKeep) {
        b[v].store_aligned(keep + (p * kVectors + v) * kLanes);
        __builtin_prefetch(from + k * panel.row);
      }
    });
    unrolled<kR>([&](auto r) {
      const Vector x(a.data[r * a.row + p * a.col]);
      unrolled<kVectors>([&](auto v) { acc[r][v] = fused(x, b[v], acc[r][v]); });
    });
  }
  unrolled<kR>([&](auto r) {
    unrolled<kVectors>([&](auto v) { acc[r][v].store_unaligned(c + r * ldc + v * kLanes); });
  });
}

/// Without a hardware fma the chain is the same, element by element.
void plain_kernel(float* c, std::int64_t ldc, Operand2d<float> a, Panel panel, int rows, int cols,
                  int k) {
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < cols; ++j) {
      float sum = c[r * ldc + j];
      for (int p = 0; p < k; ++p)
        sum = std::fma(a.data[r * a.row + p * a.col], panel.data[p * panel.row + j], sum);
      c[r * ldc + j] = sum;
    }
  }
}

/// Of `rows` up to kR.
template <int kVectors, int kR = kRows<kVectors>>
void run_rows(float* c, std::int64_t ldc, const Operand2d<float>& a, const Panel& panel, int rows,
              int k) {
  if constexpr (kR > 1) {
    if (rows < kR) return run_rows<kVectors, kR - 1>(c, ldc, a, panel, rows, k);
  }
  micro_kernel<kR, kVectors>(c, ldc, a, panel, k);
}

/// Calls f(j, constant of vectors) for panels of `cols` columns: as wide as there are columns for,
/// the last one wider if it must.
template <class F>
void each_panel(int cols, F&& f) {
  int j = 0;
  const auto of = [&](auto vectors) {
    for (; j + vectors * kLanes <= cols; j += vectors * kLanes) f(j, vectors);
  };
  if constexpr (kWidest > 2) of(std::integral_constant<int, 4>{});
  of(std::integral_constant<int, 2>{});
  constexpr std::integral_constant<int, 1> kOne{};
  of(kOne);
  if (j < cols) f(j, kOne);
}

Operand2d<float> rows_from(Operand2d<float> a, int i) { return {a.data + i * a.row, a.row, a.col}; }

/// c's rows by one panel of b. `keep` (unless null): the first rows leave the panel there, for the
/// others.
template <int kVectors>
void run_panel(float* c, std::int64_t ldc, const Operand2d<float>& a, Panel panel, int m, int depth,
               float* keep) {
  constexpr int kWidth = kVectors * kLanes;
  if constexpr (!kHardwareFma) return plain_kernel(c, ldc, a, panel, m, kWidth, depth);
  int i = 0;
  if (keep != nullptr) {
    micro_kernel<kRows<kVectors>, kVectors, true>(c, ldc, a, panel, depth, keep);
    panel = {keep, kWidth};
    i = kRows<kVectors>;
  }
  // Blocks of few rows keep few FMAs in flight: all have about as many.
  for (int blocks = (m - i + kRows<kVectors> - 1) / kRows<kVectors>; blocks > 0; --blocks) {
    const int rows = (m - i) / blocks;
    run_rows<kVectors>(c + i * ldc, ldc, rows_from(a, i), panel, rows, depth);
    i += rows;
  }
}

/// The same by a panel of which `cols` columns are wanted.
template <int kVectors>
void run_edge(float* c, std::int64_t ldc, const Operand2d<float>& a, Panel panel, int m, int cols,
              int depth) {
  constexpr int kWidth = kVectors * kLanes;
  alignas(64) float edge[kMostRows * kWidth] = {};
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(cols);
  for (int i = 0; i < m; i += kMostRows) {
    const int rows = std::min(kMostRows, m - i);
    float* const to = c + i * ldc;
    for (int r = 0; r < rows; ++r) std::memcpy(edge + r * kWidth, to + r * ldc, bytes);
    run_panel<kVectors>(edge, kWidth, rows_from(a, i), panel, rows, depth, nullptr);
    for (int r = 0; r < rows; ++r) std::memcpy(to + r * ldc, edge + r * kWidth, bytes);
  }
}

/// b's columns [j0, j0 + cols) of rows [k0, k0 + depth) as panels, one after the other, the last
/// one padded with zeros (its surplus columns are computed and dropped).
void pack_right(float* panels, Operand2d<float> b, int depth, int cols) {
  if (const int rest = cols % kLanes; rest != 0) {
    std::memset(panels + std::int64_t{cols - rest} * depth, 0,
                sizeof(float) * kLanes * static_cast<std::size_t>(depth));
  }
  each_panel(cols, [&](int first, auto vectors) {
    constexpr int kWidth = vectors * kLanes;
    const int wanted = std::min(kWidth, cols - first);
    const float* const from = b.data + first * b.col;
    float* const to = panels + std::int64_t{first} * depth;
    int j = 0;
    if (b.col == 1) {
      const auto bytes = sizeof(float) * static_cast<std::size_t>(wanted);
      for (int p = 0; p < depth; ++p) std::memcpy(to + p * kWidth, from + p * b.row, bytes);
      return;
    }
    if (b.row == 1) {
      for (; j + kSquare <= wanted; j += kSquare) {
        int p = 0;
        for (; p + kSquare <= depth; p += kSquare)
          transpose_square(to + p * kWidth + j, kWidth, from + j * b.col + p, b.col);
        for (; p < depth; ++p) {
          for (int l = j; l < j + kSquare; ++l) to[p * kWidth + l] = from[p + l * b.col];
        }
      }
    }
    for (; j < wanted; ++j) {
      for (int p = 0; p < depth; ++p) to[p * kWidth + j] = from[p * b.row + j * b.col];
    }
  });
}

using Floats = std::vector<float, CacheAligned<float>>;

/// rows x cols of m as floats that lie close together in one of the two directions: a view, or a
/// copy in `buffer`.
template <class T>
Operand2d<float> as_floats(Floats& buffer, Operand2d<T> m, int rows, int cols) {
  if constexpr (std::is_same_v<T, float>) {
    constexpr std::int64_t kNear = 512;  // farther apart, the rows of a block share too few pages
    if (m.row <= kNear && m.col <= kNear) return m;
  }
  const bool down = m.row == 1 && m.col != 1;
  const int lines = down ? cols : rows;
  const int length = down ? rows : cols;
  const std::int64_t line = down ? m.col : m.row;
  const std::int64_t step = down ? m.row : m.col;
  buffer.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  float* to = buffer.data();
  for (int i = 0; i < lines; ++i, to += length) {
    const T* const from = m.data + i * line;
    if (step == 1) {
      for (int j = 0; j < length; ++j) to[j] = convert<float>(from[j]);
    } else {
      for (int j = 0; j < length; ++j) to[j] = convert<float>(from[j * step]);
    }
  }
  return {buffer.data(), down ? 1 : length, down ? length : 1};
}

/// c += a b, of `depth` and `cols` that the panels have room for.
void multiply_block(Floats& panels, float* c, std::int64_t ldc, const Operand2d<float>& a,
                    const Operand2d<float>& b, int m, int cols, int depth) {
  const bool lies = b.col == 1 && cols % kLanes == 0;
  if (!lies) pack_right(panels.data(), b, depth, cols);
  each_panel(cols, [&](int j, auto vectors) {
    constexpr int kWidth = vectors * kLanes;
    float* const packed = panels.data() + std::int64_t{j} * depth;
    if (cols - j < kWidth)
      run_edge<vectors>(c + j, ldc, a, {packed, kWidth}, m, cols - j, depth);
    else if (!lies)
      run_panel<vectors>(c + j, ldc, a, {packed, kWidth}, m, depth, nullptr);
    else
      run_panel<vectors>(c + j, ldc, a, {b.data + j, b.row}, m, depth,
                         m > kRows<vectors> && b.row != kWidth ? packed : nullptr);
  });
}

struct Scratch {
  Floats panels;
  Floats left;
  Floats right;
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
    const Operand2d<float> left =
        as_floats(s.left, Operand2d<T>{a.data + k0 * a.col, a.row, a.col}, m, depth);
    for (int j = 0; j < n; j += kColumns) {
      const int cols = std::min(kColumns, n - j);
      begin_part();
      const Operand2d<T> of_b{b.data + k0 * b.row + j * b.col, b.row, b.col};
      if constexpr (std::is_same_v<T, float>)
        multiply_block(s.panels, c + j, ldc, left, of_b, m, cols, depth);
      else
        multiply_block(s.panels, c + j, ldc, left, as_floats(s.right, of_b, depth, cols), m, cols,
                       depth);
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
