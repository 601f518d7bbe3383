// Bodies that use the language's constructs, each with what it computes as plain loops: the same
// cases for the interpreter, the counter and the TPU build (tests/language) and for the GPU
// (tests/language/language_test.cu).
//
// A case is a kernel of blocks of kRows x kCols of x and y, with an output of its own extents. Its
// oracle gets the arrays of one cell, row by row, and shares no code with the ops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "memory_model/array.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/abs.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/arg_reduce.hpp"
#include "sim/ops/bitcast.hpp"
#include "sim/ops/bitwise.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/cumsum.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/greater.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/interleave.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/lookup.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/mul_hi.hpp"
#include "sim/ops/negate.hpp"
#include "sim/ops/philox.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/rem.hpp"
#include "sim/ops/scan.hpp"
#include "sim/ops/shift.hpp"
#include "sim/ops/sort.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/tf32.hpp"
#include "sim/ops/top_k.hpp"
#include "sim/ops/unpack.hpp"
#include "sim/ops/where.hpp"

namespace tessera::language {

using std::int32_t;
using std::uint32_t;

/// The arrays of a cell, row by row.
template <class T>
struct Matrix {
  int rows;
  int cols;
  std::vector<T> elems;
  Matrix(int r, int c) : rows(r), cols(c), elems(static_cast<std::size_t>(r) * c) {}
  T& operator()(int r, int c) { return elems[static_cast<std::size_t>(r) * cols + c]; }
  const T& operator()(int r, int c) const { return elems[static_cast<std::size_t>(r) * cols + c]; }
};

/// A case's kernel: `Body` says the element types and extents.
template <class Body>
struct Probe {
  static constexpr KernelInfo info{.name = Body::kName, .summary = "", .math = ""};
  static constexpr auto tiles = kNoTiles;
  static constexpr std::array<SizeParam<Probe>, 0> sizes{};
  static constexpr bool exchanges = Body::kExchanges;
  static constexpr int kCells = 3;
  Body body{};

  /// Of all cells' blocks of R x C.
  template <int kR, int kC>
  TESSERA_FN static Shape array_shape() {
    if constexpr (Body::kLead == 1)
      return shape(kCells * kR, kC);
    else
      return shape(kCells * Body::kLead, kR / Body::kLead, kC);
  }
  template <int kR, int kC>
  TESSERA_FN static auto block_of() {
    if constexpr (Body::kLead == 1)
      return block(Int<kR>{}, Int<kC>{});
    else
      return block(Int<Body::kLead>{}, Int<kR / Body::kLead>{}, Int<kC>{});
  }
  TESSERA_FN auto spec() const {
    using B = Body;
    auto map = [](auto i) {
      if constexpr (B::kLead == 1)
        return at(i, 0);
      else
        return at(i, 0, 0);
    };
    constexpr int kR = B::kRows;
    constexpr int kC = B::kCols;
    return tessera::spec(grid(parallel(kCells).as("i")),
                         in<typename B::X>("x", array_shape<kR, kC>(), block_of<kR, kC>(), map),
                         in<typename B::X>("y", array_shape<kR, kC>(), block_of<kR, kC>(), map),
                         out<typename B::Out>("o", array_shape<B::kOutRows, B::kOutCols>(),
                                              block_of<B::kOutRows, B::kOutCols>(), map),
                         vmem<float>("s", Int<kR>{}, Int<kC>{}),
                         accum<float>("acc", Int<B::kAccum>{}, Int<B::kAccum>{}));
  }
  TESSERA_FN void operator()(auto& env, auto x, auto y, auto o, auto s, auto acc) const {
    body(env, x, y, o, s, acc);
  }
};

/// What most cases share.
template <int kR, int kC, class T = float, class To = T>
struct Extents {
  using X = T;
  using Out = To;
  static constexpr int kRows = kR;
  static constexpr int kCols = kC;
  static constexpr int kOutRows = kR;
  static constexpr int kOutCols = kC;
  static constexpr int kAccum = kR;
  static constexpr bool kOnTpu = true;  ///< which takes its blocks
  static constexpr int kLead = 1;       ///< extent of a dim before rows / kLead and columns
  static constexpr bool kExchanges = false;
};

/// Sum in 32 lanes, of more than 512 terms of each 512 first, as sim/ops/reduce.hpp states it.
inline float lane_sum(int n, const std::function<float(int)>& get) {
  if (n > 512) {
    std::vector<float> sums;
    for (int begin = 0; begin < n; begin += 512)
      sums.push_back(lane_sum(std::min(512, n - begin), [&](int i) { return get(begin + i); }));
    return lane_sum(static_cast<int>(sums.size()),
                    [&](int i) { return sums[static_cast<std::size_t>(i)]; });
  }
  float lane[32] = {};
  for (int i = 0; i < n; ++i) lane[i % 32] += get(i);
  for (int s = 16; s > 0; s /= 2) {
    for (int l = 0; l < s; ++l) lane[l] += lane[l + s];
  }
  return lane[0];
}
/// Running sums by doubling, as sim/ops/cumsum.hpp states it.
inline std::vector<float> doubling_sums(std::vector<float> v) {
  for (std::size_t apart = 1; apart < v.size(); apart *= 2) {
    std::vector<float> next = v;
    for (std::size_t i = apart; i < v.size(); ++i) next[i] = v[i] + v[i - apart];
    v = next;
  }
  return v;
}
/// Philox-4x32-10, one counter at a time, from the paper.
inline void philox_reference(uint32_t (&x)[4], uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * x[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * x[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(p1),
        static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<uint32_t>(p0)};
    std::copy(next, next + 4, x);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// Construct 3: places, numbers everywhere.

struct PlacesAndFull : Extents<24, 160> {
  static constexpr const char* kName = "places_and_full";
  TESSERA_FN void operator()(auto& env, auto x, auto y, auto o, auto, auto) const {
    const auto i = env.program_id(0);
    const auto rows = row_ids(*x) + i * x.rows;
    const auto cols = col_ids(*x);
    const auto ones = full<float>(env, x.rows, x.cols, 1.f);
    auto sum = zeros_like(*x);
    sum = load(sum + where(rows < cols, *x, full_like(*y, 2)));
    *o = sum + ones * cast<float>(rows);
  }
  static void oracle(int cell, const Matrix<float>& x, const Matrix<float>&, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        const int row = r + cell * kRows;
        o(r, c) = (row < c ? x(r, c) : 2.f) + static_cast<float>(row);
      }
    }
  }
};

// Construct 1: parts of blocks.

struct Recurrence : Extents<40, 128> {
  static constexpr const char* kName = "recurrence";
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    auto h = load(*x.row(0) * 0.f);
    for (int t = 0; t < x.rows; ++t) {
      h = load(h * *y.row(t) + *x.row(t));
      *o.row(t) = h;
    }
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int c = 0; c < kCols; ++c) {
      float h = x(0, c) * 0.f;
      for (int t = 0; t < kRows; ++t) o(t, c) = h = h * y(t, c) + x(t, c);
    }
  }
};

struct ScratchParts : Extents<32, 256> {
  static constexpr const char* kName = "scratch_parts";
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto s, auto) const {
    *s = *x;
    *s -= *y;
    *s *= 3.f;
    for (int t = 0; t < x.rows; t += 8) *s.row_range(t, Int<8>{}) += *y.row_range(t, Int<8>{});
    *s.col_range(128, Int<128>{}) *= 2.f;
    *s.row(5) -= *x.row(6);
    *o.col_range(0, Int<128>{}) = *s.col_range(128, Int<128>{});
    *o.col_range(128, Int<128>{}) = *s.col_range(0, Int<128>{});
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        float v = (x(r, c) - y(r, c)) * 3.f;
        v += y(r, c);
        if (c >= 128) v *= 2.f;
        if (r == 5) v -= x(6, c);
        o(r, (c + 128) % 256) = v;
      }
    }
  }
};

struct PartsOfProducts : Extents<32, 128> {
  static constexpr const char* kName = "parts_of_products";
  static constexpr int kOutRows = 16;
  static constexpr int kOutCols = 8;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto s, auto) const {
    *s = *y;
    *o = load(dot(*x.row_range(16, Int<16>{}), transpose(*s.row_range(8, Int<8>{}))));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kOutRows; ++r) {
      for (int c = 0; c < kOutCols; ++c) {
        float sum = 0;
        for (int k = 0; k < kCols; ++k) sum = std::fma(x(16 + r, k), y(8 + c, k), sum);
        o(r, c) = sum;
      }
    }
  }
};

struct LoopOverRows : Extents<32, 128> {
  static constexpr const char* kName = "loop_over_rows";
  TESSERA_FN void operator()(auto& env, auto x, auto y, auto o, auto s, auto) const {
    *s.row(0) = *x.row(0);
    env.loop(1, env.program_id(0) + 20, [&](auto t) {
      *s.row(t) = *s.row(t - 1) * 0.5f + *x.row(t);
      if (t > 10) *s.row(t) += *y.row(t);
    });
    env.loop(0, env.program_id(0) + 20, [&](auto t) { *o.row(t) = *s.row(t); });
    env.loop(env.program_id(0) + 20, 32, [&](auto t) { *o.row(t) = *y.row(t); });
  }
  static void oracle(int cell, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    o.elems = y.elems;
    for (int c = 0; c < kCols; ++c) {
      float h = o(0, c) = x(0, c);
      for (int t = 1; t < cell + 20; ++t) {
        h = h * 0.5f + x(t, c);
        if (t > 10) h += y(t, c);
        o(t, c) = h;
      }
    }
  }
};

// Construct 2: leading dims.

struct LeadingDims : Extents<80, 128, bf16> {
  static constexpr const char* kName = "leading_dims";
  static constexpr int kLead = 5;
  TESSERA_FN void operator()(auto& env, auto x, auto y, auto o, auto, auto) const {
    const auto cell = env.program_id(0);
    auto h = load(cast<float>(*x.at(0)) * 0.f);
    for (int t = 0; t < kLead; ++t) {
      h = load(h * 0.5f + cast<float>(*x.at(t)));
      *o.at(t) = cast<bf16>(h - cast<float>(*y.at((t + cell) % kLead)));
    }
  }
  static void oracle(int cell, const Matrix<bf16>& x, const Matrix<bf16>& y, Matrix<bf16>& o) {
    for (int r = 0; r < 16; ++r) {
      for (int c = 0; c < kCols; ++c) {
        float h = 0;
        for (int t = 0; t < kLead; ++t) {
          h = h * 0.5f + static_cast<float>(x(16 * t + r, c));
          const int other = 16 * ((t + cell) % kLead) + r;
          o(16 * t + r, c) = bf16(h - static_cast<float>(y(other, c)));
        }
      }
    }
  }
};

struct BatchedProducts : Extents<32, 128> {
  static constexpr const char* kName = "batched_products";
  static constexpr int kLead = 4;
  static constexpr int kOutCols = 8;
  TESSERA_FN void operator()(auto& env, auto x, auto y, auto o, auto, auto) const {
    env.loop(0, kLead, [&](auto b) { *o.at(b) = load(dot(*x.at(b), transpose(*y.at(b)))); });
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < 8; ++c) {
        float sum = 0;
        for (int k = 0; k < kCols; ++k) sum = std::fma(x(r, k), y(r / 8 * 8 + c, k), sum);
        o(r, c) = sum;
      }
    }
  }
};

// Construct 4: each product by itself.

/// Sum over k of a(r, k) b(k, c), one fused multiply-add per k.
template <class A, class B>
float chain(int depth, A a, B b) {
  float sum = 0;
  for (int k = 0; k < depth; ++k) sum = std::fma(a(k), b(k), sum);
  return sum;
}

struct RightFromRegisters : Extents<48, 256> {
  static constexpr const char* kName = "right_from_registers";
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto w = load(*y * 2.f);
    const auto scores = load(dot(*x, transpose(w)));
    *o = load(dot(scores * 0.125f, w));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      float scores[kRows];
      for (int n = 0; n < kRows; ++n) {
        scores[n] = chain(
            kCols, [&](int k) { return x(r, k); }, [&](int k) { return y(n, k) * 2.f; });
      }
      for (int c = 0; c < kCols; ++c) {
        o(r, c) = chain(
            kRows, [&](int k) { return scores[k] * 0.125f; }, [&](int k) { return y(k, c) * 2.f; });
      }
    }
  }
};

/// A left factor that is a value, turned: keys by values, as a state is updated.
struct TurnedLeft : Extents<32, 64> {
  static constexpr const char* kName = "turned_left";
  static constexpr int kOutRows = 64;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o = load(dot(transpose(load(*x * *y)), *y));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kOutRows; ++r) {
      for (int c = 0; c < kOutCols; ++c) {
        float sum = 0;
        for (int k = 0; k < kRows; ++k) sum = std::fma(x(k, r) * y(k, r), y(k, c), sum);
        o(r, c) = sum;
      }
    }
  }
};

struct IntegerProducts : Extents<32, 128, std::int8_t, int32_t> {
  static constexpr const char* kName = "integer_products";
  static constexpr int kOutRows = 64;
  static constexpr int kOutCols = 32;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o.row_range(0, Int<32>{}) = load(dot(*x, transpose(*y)));
    *o.row_range(32, Int<32>{}) = load(dot(load(*y), load(transpose(*x)))) + 7;
  }
  static void oracle(int, const Matrix<std::int8_t>& x, const Matrix<std::int8_t>& y,
                     Matrix<int32_t>& o) {
    for (int r = 0; r < 32; ++r) {
      for (int c = 0; c < 32; ++c) {
        o(r, c) = 0;
        o(32 + r, c) = 7;
        for (int k = 0; k < kCols; ++k) {
          o(r, c) += x(r, k) * y(c, k);
          o(32 + r, c) += y(r, k) * x(c, k);
        }
      }
    }
  }
};

template <class T>
struct Fp8Products : Extents<32, 128, T, float> {
  static constexpr const char* kName =
      std::is_same_v<T, f8e4m3fn> ? "f8e4m3fn_products" : "f8e5m2_products";
  static constexpr int kOutCols = 32;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o = load(dot(*x, transpose(*y)));
  }
  static void oracle(int, const Matrix<T>& x, const Matrix<T>& y, Matrix<float>& o) {
    for (int r = 0; r < 32; ++r) {
      for (int c = 0; c < 32; ++c) {
        o(r, c) = chain(
            128, [&](int k) { return static_cast<float>(x(r, k)); },
            [&](int k) { return static_cast<float>(y(c, k)); });
      }
    }
  }
};

struct Tf32Products : Extents<32, 128> {
  static constexpr const char* kName = "tf32_products";
  static constexpr int kOutRows = 64;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto w = load(round_tf32(*y));
    *o.row_range(0, Int<32>{}) = w;
    *o.row_range(32, Int<32>{}) = load(dot(load(round_tf32(*x.col_range(0, Int<32>{}))), w));
  }
  static float rounded(float v) {
    int exponent = 0;
    const double fraction = std::frexp(static_cast<double>(v), &exponent);
    return static_cast<float>(std::ldexp(std::nearbyint(fraction * 2048), exponent - 11));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < 32; ++r) {
      for (int c = 0; c < kCols; ++c) {
        o(r, c) = rounded(y(r, c));
        o(32 + r, c) = chain(
            32, [&](int k) { return rounded(x(r, k)); }, [&](int k) { return rounded(y(k, c)); });
      }
    }
  }
};

/// An f32 state beside products of bf16: on a GPU tensor cores multiply these, SIMT lanes that.
struct MixedProducts : Extents<64, 128, bf16, float> {
  static constexpr const char* kName = "mixed_products";
  static constexpr int kOutRows = 272;
  static constexpr int kOutCols = 64;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto s, auto acc) const {
    *acc = 0.f;
    *acc += dot(*x, transpose(*y));
    *s = cast<float>(*y) * 0.5f;
    *o.row_range(0, Int<64>{}) = *acc;
    // In shared memory and in registers, of f32.
    const auto wide = load(cast<float>(*x) + 0.25f);
    *o.row_range(64, Int<64>{}) = load(dot(wide, transpose(*s)));
    const auto few = load(dot(*s.row_range(0, Int<16>{}), transpose(wide)));  // (16, 64)
    *o.row_range(128, Int<16>{}) = few;
    // A right operand of bf16 in registers, and one that is part of a block.
    *o.row_range(144, Int<64>{}) = load(dot(*x, transpose(load(*y + 1.f))));
    *o.row_range(208, Int<64>{}) =
        load(dot(load(*x.col_range(0, Int<64>{})), *y.col_range(0, Int<64>{})));
  }
  /// Every product and sum is exact.
  static void oracle(int, const Matrix<bf16>& x, const Matrix<bf16>& y, Matrix<float>& o) {
    const auto f = [](bf16 v) { return static_cast<float>(v); };
    o.elems.assign(o.elems.size(), 0);
    for (int r = 0; r < 64; ++r) {
      for (int c = 0; c < 64; ++c) {
        for (int k = 0; k < kCols; ++k) {
          o(r, c) += f(x(r, k)) * f(y(c, k));
          o(64 + r, c) += (f(x(r, k)) + 0.25f) * f(y(c, k)) * 0.5f;
          if (r < 16) o(128 + r, c) += f(y(r, k)) * 0.5f * (f(x(c, k)) + 0.25f);
          o(144 + r, c) += f(x(r, k)) * (f(y(c, k)) + 1.f);
        }
        for (int k = 0; k < 64; ++k) o(208 + r, c) += f(x(r, k)) * f(y(k, c));
      }
    }
  }
};

// Construct 5: columns, places of the largest, running sums.

struct Columns : Extents<40, 128> {
  static constexpr const char* kName = "columns";
  static constexpr int kOutRows = 8;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o.row(0) = col_sum(*x);
    *o.row(1) = col_max(*x * *y);
    *o.row(2) = col_min(*y);
    *o.row_range(3, Int<5>{}) = 0.f;
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int c = 0; c < kCols; ++c) {
      o(0, c) = lane_sum(kRows, [&](int r) { return x(r, c); });
      o(1, c) = x(0, c) * y(0, c);
      o(2, c) = y(0, c);
      for (int r = 1; r < kRows; ++r) {
        o(1, c) = std::max(o(1, c), x(r, c) * y(r, c));
        o(2, c) = std::min(o(2, c), y(r, c));
      }
    }
  }
};

struct ArgReductions : Extents<24, 200, float, int32_t> {
  static constexpr const char* kName = "arg_reductions";
  static constexpr int kOutCols = 2;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto, auto o, auto, auto) const {
    // Rounded, so that there are equal ones.
    const auto coarse = cast<float>(cast<int32_t>(*x * 4.f));
    *o = concat_cols(row_argmax(coarse), row_argmin(coarse));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>&, Matrix<int32_t>& o) {
    for (int r = 0; r < kRows; ++r) {
      std::vector<float> row;
      for (int c = 0; c < kCols; ++c) row.push_back(std::trunc(x(r, c) * 4.f));
      o(r, 0) = static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
      o(r, 1) = static_cast<int>(std::min_element(row.begin(), row.end()) - row.begin());
    }
  }
};

struct RunningSums : Extents<24, 128> {
  static constexpr const char* kName = "running_sums";
  static constexpr int kOutRows = 48;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o.row_range(0, Int<24>{}) = cumsum_rows(*x);
    *o.row_range(24, Int<24>{}) = cumsum_cols(*y);
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int c = 0; c < kCols; ++c) {
      std::vector<float> column;
      for (int r = 0; r < kRows; ++r) column.push_back(x(r, c));
      column = doubling_sums(column);
      for (int r = 0; r < kRows; ++r) o(r, c) = column[static_cast<std::size_t>(r)];
    }
    for (int r = 0; r < kRows; ++r) {
      std::vector<float> row;
      for (int c = 0; c < kCols; ++c) row.push_back(y(r, c));
      row = doubling_sums(row);
      for (int c = 0; c < kCols; ++c) o(kRows + r, c) = row[static_cast<std::size_t>(c)];
    }
  }
};

struct Scans : Extents<24, 96> {
  static constexpr const char* kName = "scans";
  static constexpr int kOutRows = 96;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto most = [](const auto& earlier, const auto& later) { return max(earlier, later); };
    *o.row_range(0, Int<24>{}) = scan_rows(*x, most);
    *o.row_range(24, Int<24>{}) = scan_cols(*y, most);
    const auto decay = load(*y * 0.5f);
    *o.row_range(48, Int<24>{}) = linear_scan_rows(decay, *x);
    *o.row_range(72, Int<24>{}) = linear_scan_cols(decay, *x);
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        o(r, c) = r == 0 ? x(r, c) : std::max(o(r - 1, c), x(r, c));
        o(24 + r, c) = c == 0 ? y(r, c) : std::max(o(24 + r, c - 1), y(r, c));
      }
    }
    const auto recurrence = [](std::vector<float> decay, std::vector<float> h) {
      for (std::size_t apart = 1; apart < h.size(); apart *= 2) {
        for (std::size_t i = h.size() - 1; i >= apart; --i) {
          h[i] = decay[i] * h[i - apart] + h[i];
          decay[i] = decay[i] * decay[i - apart];
        }
      }
      return h;
    };
    for (int c = 0; c < kCols; ++c) {
      std::vector<float> decay;
      std::vector<float> column;
      for (int r = 0; r < kRows; ++r) {
        decay.push_back(y(r, c) * 0.5f);
        column.push_back(x(r, c));
      }
      column = recurrence(decay, column);
      for (int r = 0; r < kRows; ++r) o(48 + r, c) = column[static_cast<std::size_t>(r)];
    }
    for (int r = 0; r < kRows; ++r) {
      std::vector<float> decay;
      std::vector<float> row;
      for (int c = 0; c < kCols; ++c) {
        decay.push_back(y(r, c) * 0.5f);
        row.push_back(x(r, c));
      }
      row = recurrence(decay, row);
      for (int c = 0; c < kCols; ++c) o(72 + r, c) = row[static_cast<std::size_t>(c)];
    }
  }
};

// Construct 6: rearrangements.

struct Repeats : Extents<16, 128> {
  static constexpr const char* kName = "repeats";
  static constexpr int kOutRows = 96;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    // Scales of groups of 8 rows, and of 4 columns.
    *o.row_range(0, Int<64>{}) = repeat_rows<8>(load(*x.row_range(0, Int<8>{})));
    const auto scales = split_cols<4>(load(*y));
    *o.row_range(64, Int<16>{}) = *x * repeat_cols<4>(scales.third);
    *o.row_range(80, Int<16>{}) = repeat_cols<128>(row_sum(*x));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int c = 0; c < kCols; ++c) {
      for (int r = 0; r < 64; ++r) o(r, c) = x(r / 8, c);
      for (int r = 0; r < kRows; ++r) {
        o(64 + r, c) = x(r, c) * y(r, 64 + c / 4);
        o(80 + r, c) = lane_sum(kCols, [&](int k) { return x(r, k); });
      }
    }
  }
};

struct Interleaves : Extents<16, 128> {
  static constexpr const char* kName = "interleaves";
  static constexpr int kOutRows = 48;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o.row_range(0, Int<32>{}) = interleave_rows(*x, *y * 2.f);
    const auto halves = split_cols<2>(load(*x));
    *o.row_range(32, Int<16>{}) = interleave_cols(halves.second, halves.first);
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int c = 0; c < kCols; ++c) {
      for (int r = 0; r < kRows; ++r) {
        o(2 * r, c) = x(r, c);
        o(2 * r + 1, c) = y(r, c) * 2.f;
        o(32 + r, c) = x(r, c / 2 + (c % 2 == 0 ? 64 : 0));
      }
    }
  }
};

struct RotaryHalves : Extents<16, 128> {
  static constexpr const char* kName = "rotary_halves";
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto halves = split_cols<2>(load(*x));
    *o = *x * *y + concat_cols(halves.second * -1.f, halves.first);
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c)
        o(r, c) = x(r, c) * y(r, c) + (c < 64 ? x(r, c + 64) * -1.f : x(r, c - 64));
    }
  }
};

struct OddParts : Extents<24, 120> {
  static constexpr const char* kName = "odd_parts";
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto quarters = split_cols<4>(*x + *y);
    const auto halves = split_rows<2>(concat_cols(concat_cols(quarters.fourth, quarters.second),
                                                  concat_cols(quarters.first, quarters.third)));
    *o = concat_rows(halves.second, halves.first);
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    const int from[] = {3, 1, 0, 2};
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        const int source = from[c / 30] * 30 + c % 30;
        const int row = (r + 12) % 24;
        o(r, c) = x(row, source) + y(row, source);
      }
    }
  }
};

struct Rolls : Extents<24, 128> {
  static constexpr const char* kName = "rolls";
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o = roll_rows(*x + *y, -5) + roll_cols(*y, 37) * 2.f + load(roll_rows(*x, 24));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        const int down = (r + 5) % 24;
        o(r, c) = x(down, c) + y(down, c) + y(r, (c + 91) % 128) * 2.f + x(r, c);
      }
    }
  }
};

struct TransposedValue : Extents<32, 128> {
  static constexpr const char* kName = "transposed_value";
  static constexpr int kOutRows = 128;
  static constexpr int kOutCols = 32;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o = load(transpose(load(*x * *y)));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) o(c, r) = x(r, c) * y(r, c);
    }
  }
};

// Construct 7: bits.

struct SignedBits : Extents<24, 128, int32_t> {
  static constexpr const char* kName = "signed_bits";
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto low = *x & 0xff;
    const auto mixed = ((*x << 3) | (*y & 7)) ^ (*y >> 5);
    *o = mixed ^ *x % ((*y & 31) + 1) ^ mul_hi(*x, *y) ^ (*x >> (low & 63)) ^ (*y << (low & 63));
  }
  static void oracle(int, const Matrix<int32_t>& x, const Matrix<int32_t>& y, Matrix<int32_t>& o) {
    for (std::size_t i = 0; i < o.elems.size(); ++i) {
      const int32_t a = x.elems[i];
      const int32_t b = y.elems[i];
      const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
      const uint32_t mixed = ((u(a) << 3) | (u(b) & 7)) ^ u(b >> 5);
      const int by = a & 63;
      const int64_t product = int64_t{a} * b;
      uint32_t bits = mixed ^ u(a % ((b & 31) + 1)) ^ u(static_cast<int32_t>(product >> 32));
      bits ^= by < 32 ? u(a >> by) : a < 0 ? 0xffffffffu : 0u;
      bits ^= by < 32 ? u(b) << by : 0u;
      o.elems[i] = static_cast<int32_t>(bits);
    }
  }
  using int64_t = std::int64_t;
};

struct UnsignedBits : Extents<24, 128, uint32_t> {
  static constexpr const char* kName = "unsigned_bits";
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto low = *x & 63;
    *o = where(*x < *y, mul_hi(*x, *y), *x % (*y | 1u)) + (*x >> low) + (*x >> 7) +
         cast<uint32_t>(cast<float>(*y >> 9));
  }
  static void oracle(int, const Matrix<uint32_t>& x, const Matrix<uint32_t>& y,
                     Matrix<uint32_t>& o) {
    for (std::size_t i = 0; i < o.elems.size(); ++i) {
      const uint32_t a = x.elems[i];
      const uint32_t b = y.elems[i];
      const uint32_t high = static_cast<uint32_t>((std::uint64_t{a} * b) >> 32);
      const uint32_t by = a & 63;
      o.elems[i] = (a < b ? high : a % (b | 1u)) + (by < 32 ? a >> by : 0u) + (a >> 7) + (b >> 9);
    }
  }
};

struct Bits : Extents<24, 128> {
  static constexpr const char* kName = "bits";
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    // |x| with y's sign, by hand.
    const auto magnitude = bitcast<int32_t>(*x) & 0x7fffffff;
    const auto sign = bitcast<uint32_t>(*y) & 0x80000000u;
    *o = bitcast<float>(magnitude | bitcast<int32_t>(sign));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (std::size_t i = 0; i < o.elems.size(); ++i)
      o.elems[i] = std::copysign(x.elems[i], y.elems[i]);
  }
};

struct UnpackedWords : Extents<16, 128, uint32_t> {
  static constexpr const char* kName = "unpacked_words";
  static constexpr int kOutRows = 192;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o.row_range(0, Int<128>{}) = unpack_rows<4>(*x);
    const auto words = split_cols<4>(load(bitcast<int32_t>(*y)));
    *o.row_range(128, Int<16>{}) = bitcast<uint32_t>(unpack_cols<8>(words.second));
    const auto few = split_rows<2>(load(*x));
    *o.row_range(144, Int<16>{}) = unpack_rows<16>(few.first);
    *o.row_range(160, Int<32>{}) = bitcast<uint32_t>(unpack_rows<16>(bitcast<int32_t>(*y)));
  }
  static void oracle(int, const Matrix<uint32_t>& x, const Matrix<uint32_t>& y,
                     Matrix<uint32_t>& o) {
    for (int c = 0; c < kCols; ++c) {
      for (int r = 0; r < 128; ++r) o(r, c) = x(r / 8, c) / (1u << (r % 8 * 4)) % 16u;
      for (int r = 0; r < 16; ++r) {
        const auto byte = static_cast<std::int8_t>(y(r, 32 + c / 4) >> (c % 4 * 8));
        o(128 + r, c) = static_cast<uint32_t>(int32_t{byte});
        o(144 + r, c) = r % 2 == 0 ? x(r / 2, c) & 0xffffu : x(r / 2, c) >> 16;
      }
      for (int r = 0; r < 32; ++r) {
        const auto half = static_cast<std::int16_t>(y(r / 2, c) >> (r % 2 * 16));
        o(160 + r, c) = static_cast<uint32_t>(int32_t{half});
      }
    }
  }
};

struct Lookups : Extents<24, 128, int32_t, float> {
  static constexpr const char* kName = "lookups";
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto table =
        lookup_table(-1.f, -0.6961928f, -0.52507305f, -0.39491749f, -0.28444138f, -0.18477343f,
                     -0.09105004f, 0.f, 0.0795803f, 0.1609302f, 0.2461123f, 0.33791524f,
                     0.44070983f, 0.562617f, 0.72295684f, 1.f);
    *o = lookup(*x & 15, table) * lookup(*y, lookup_table(3.f, -5.f));
  }
  static void oracle(int, const Matrix<int32_t>& x, const Matrix<int32_t>& y, Matrix<float>& o) {
    // NF4: Dettmers et al., arXiv:2305.14314, appendix E.
    const float nf4[] = {-1.f,         -0.6961928f,  -0.52507305f, -0.39491749f,
                         -0.28444138f, -0.18477343f, -0.09105004f, 0.f,
                         0.0795803f,   0.1609302f,   0.2461123f,   0.33791524f,
                         0.44070983f,  0.562617f,    0.72295684f,  1.f};
    for (std::size_t i = 0; i < o.elems.size(); ++i)
      o.elems[i] = nf4[x.elems[i] & 15] * (y.elems[i] % 2 == 0 ? 3.f : -5.f);
  }
};

struct WrappingIntegers : Extents<24, 128, int32_t> {
  static constexpr const char* kName = "wrapping_integers";
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto least = full_like(*x, std::numeric_limits<int32_t>::min());
    const auto sums = *x + *y - -*x * *y + abs(where(*x < 0, least, *x)) + cumsum_cols(*x);
    *o = sums + row_sum(*y) + (*x / where(*y > 0, -1, *y >> 20)) + least / -1 + *x / 0;
  }
  static void oracle(int, const Matrix<int32_t>& x, const Matrix<int32_t>& y, Matrix<int32_t>& o) {
    const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
    constexpr uint32_t kLeast = 0x80000000u;
    for (int r = 0; r < kRows; ++r) {
      uint32_t all = 0;
      for (int c = 0; c < kCols; ++c) all += u(y(r, c));
      uint32_t running = 0;
      for (int c = 0; c < kCols; ++c) {
        const int32_t a = x(r, c);
        const int32_t b = y(r, c);
        running += u(a);
        uint32_t sum = u(a) + u(b) + u(a) * u(b) + (a < 0 ? kLeast : u(a)) + running + all;
        const int32_t by = b > 0 ? -1 : b >> 20;
        sum += by == -1 ? 0u - u(a) : by == 0 ? ~0u : u(a / by);
        o(r, c) = static_cast<int32_t>(sum + kLeast + ~0u);
      }
    }
  }
};

struct FusedMultiplyAdd : Extents<48, 128, int32_t, float> {
  static constexpr const char* kName = "fused_multiply_add";
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    // By row: any bits; an addend close to the product; exponents close to each other; results
    // around the least normal number.
    const auto kind = row_ids(*x) & 3;
    const auto one = (*x & 0x7fffff) | 0x3f800000;
    const auto small = (*x & 0x807fffff) | 0x1f800000;
    const auto a = bitcast<float>(where(kind == 0, *x, where(kind == 3, small, one)));
    const auto b = bitcast<float>(where(kind < 2, *y, (*y & 0x807fffff) | 0x20000000));
    const auto b_or_one = where(kind == 2, bitcast<float>((*y & 0x807fffff) | 0x3f800000), b);
    const auto mixed = *x * 1664525 + *y;
    const auto near = bitcast<int32_t>(a * b_or_one * -1.f) ^ (mixed & 3);
    const auto close = ((mixed & 0x1f000000) >> 1) + (mixed & 0x807fffff) + 0x38000000;
    const auto c = bitcast<float>(where(
        kind == 0, mixed, where(kind == 1, near, where(kind == 2, close, mixed & 0x80ffffff))));
    const auto fused = fma(a, b_or_one, c);
    *o = where(fused == fused, fused, 0.5f);
  }
  static void oracle(int, const Matrix<int32_t>& x, const Matrix<int32_t>& y, Matrix<float>& o) {
    const auto number = [](uint32_t bits) {
      float f;
      std::memcpy(&f, &bits, sizeof f);
      return f;
    };
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        const auto p = static_cast<uint32_t>(x(r, c));
        const auto q = static_cast<uint32_t>(y(r, c));
        const uint32_t mixed = p * 1664525u + q;
        float a = number(p);
        float b = number(q);
        uint32_t addend = mixed;
        if (r % 4 > 0) a = number((p & 0x7fffffu) | 0x3f800000u);
        if (r % 4 == 1) {
          const float product = a * b * -1.f;
          std::memcpy(&addend, &product, sizeof addend);
          addend ^= mixed & 3u;
        }
        if (r % 4 == 2) {
          b = number((q & 0x807fffffu) | 0x3f800000u);
          addend = ((mixed & 0x1f000000u) >> 1) + (mixed & 0x807fffffu) + 0x38000000u;
        }
        if (r % 4 == 3) {
          a = number((p & 0x807fffffu) | 0x1f800000u);
          b = number((q & 0x807fffffu) | 0x20000000u);
          addend = mixed & 0x80ffffffu;
        }
        const float fused = std::fma(a, b, number(addend));
        o(r, c) = fused == fused ? fused : 0.5f;
      }
    }
  }
};

/// Packed integers: fetched, widened, and what is stored packed.
template <class T>
struct PackedIntegers : Extents<32, 256, T> {
  static constexpr const char* kName = bit_width(kDTypeOf<T>) == 4
                                           ? (kDTypeOf<T> == DType::i4 ? "packed_i4" : "packed_u4")
                                           : (kDTypeOf<T> == DType::i2 ? "packed_i2" : "packed_u2");
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto sum = load(cast<int32_t>(*x) * 3 + cast<int32_t>(*y));
    const auto half = load(cast<float>(*y) * 2.5f);
    *o = cast<T>(where(sum > 2, cast<int32_t>(cast<T>(half)), sum));
  }
  /// The last bits of a number, with their sign.
  static int32_t wrapped(int32_t v) {
    const int32_t count = 1 << bit_width(kDTypeOf<T>);
    const int32_t low = ((v % count) + count) % count;
    return kDTypeOf<T> == DType::i4 || kDTypeOf<T> == DType::i2
               ? (low >= count / 2 ? low - count : low)
               : low;
  }
  static void oracle(int, const Matrix<T>& x, const Matrix<T>& y, Matrix<T>& o) {
    const int32_t count = 1 << bit_width(kDTypeOf<T>);
    const int32_t least = wrapped(count / 2) < 0 ? -count / 2 : 0;
    for (std::size_t i = 0; i < o.elems.size(); ++i) {
      const auto a = static_cast<int32_t>(x.elems[i].value);
      const auto b = static_cast<int32_t>(y.elems[i].value);
      const auto half = static_cast<int32_t>(static_cast<float>(b) * 2.5f);
      const int32_t sum = a * 3 + b;
      const int32_t kept = std::clamp(half, least, least + count - 1);
      o.elems[i].value = static_cast<decltype(o.elems[i].value)>(wrapped(sum > 2 ? kept : sum));
    }
  }
};

// Construct 8: random bits.

struct Dropout : Extents<24, 128, float, uint32_t> {
  static constexpr const char* kName = "dropout";
  TESSERA_FN void operator()(auto& env, auto x, auto, auto o, auto, auto) const {
    const auto i = env.program_id(0);
    const auto bits =
        random_bits({0x243f6a88u, 0x85a308d3u}, row_ids(*x) + i * x.rows, col_ids(*x));
    *o = bits;
  }
  static void oracle(int cell, const Matrix<float>&, const Matrix<float>&, Matrix<uint32_t>& o) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        uint32_t words[4] = {static_cast<uint32_t>(r + cell * kRows), static_cast<uint32_t>(c), 0,
                             0};
        philox_reference(words, 0x243f6a88u, 0x85a308d3u);
        o(r, c) = words[0];
      }
    }
  }
};

// Construct 9: rows in order.

/// A stable order of a row's columns: NaNs last, -0 and +0 equal.
template <class T>
std::vector<int> stable_order(const Matrix<T>& x, int row, bool largest_first) {
  std::vector<int> columns;
  for (int c = 0; c < x.cols; ++c) columns.push_back(c);
  std::stable_sort(columns.begin(), columns.end(), [&](int a, int b) {
    const T p = x(row, largest_first ? b : a);
    const T q = x(row, largest_first ? a : b);
    return p < q || (q != q && p == p);
  });
  return columns;
}

struct SortedRows : Extents<16, 100> {
  static constexpr const char* kName = "sorted_rows";
  static constexpr int kOutRows = 48;
  static constexpr bool kExchanges = true;
  /// Rounded, with NaNs and infinities.
  static float coarse(float v) {
    return v > 1.9f     ? std::numeric_limits<float>::infinity()
           : v < -1.98f ? std::numeric_limits<float>::quiet_NaN()
                        : std::trunc(v * 4.f) * 0.25f;
  }
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto steps = load(cast<float>(cast<int32_t>(*x * 4.f)) * 0.25f);
    const auto keys =
        load(where(*x > 1.9f, std::numeric_limits<float>::infinity(),
                   where(*x < -1.98f, std::numeric_limits<float>::quiet_NaN(), steps)));
    const auto sorted = sort_rows_with_ids(keys);
    *o.row_range(0, Int<16>{}) = where(sorted.values == sorted.values, sorted.values, 9.f);
    *o.row_range(16, Int<16>{}) = cast<float>(sorted.ids);
    *o.row_range(32, Int<16>{}) = cast<float>(argsort_rows(cast<int32_t>(*y * 8.f)));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    Matrix<float> keys = x;
    for (float& k : keys.elems) k = coarse(k) + 0.f;
    Matrix<int32_t> whole(kRows, kCols);
    for (std::size_t i = 0; i < whole.elems.size(); ++i)
      whole.elems[i] = static_cast<int32_t>(y.elems[i] * 8.f);
    for (int r = 0; r < kRows; ++r) {
      const std::vector<int> order = stable_order(keys, r, false);
      const std::vector<int> other = stable_order(whole, r, false);
      for (int c = 0; c < kCols; ++c) {
        const auto at = static_cast<std::size_t>(c);
        const float key = keys(r, order[at]);
        o(r, c) = key == key ? key : 9.f;
        o(16 + r, c) = static_cast<float>(order[at]);
        o(32 + r, c) = static_cast<float>(other[at]);
      }
    }
  }
};

struct TopK : Extents<16, 72> {
  static constexpr const char* kName = "top_k";
  static constexpr int kOutRows = 64;
  static constexpr int kOutCols = 5;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto coarse = load(cast<float>(cast<int32_t>(*x * 3.f)));
    const auto best = top_k<5>(coarse);
    *o.row_range(0, Int<16>{}) = best.values;
    *o.row_range(16, Int<16>{}) = cast<float>(best.ids);
    // Of infinities that are there.
    const auto masked = load(where(*y > 1.7f, *y, -std::numeric_limits<float>::infinity()));
    const auto few = top_k<5>(masked);
    *o.row_range(32, Int<16>{}) = few.values;
    *o.row_range(48, Int<16>{}) = cast<float>(few.ids);
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    Matrix<float> coarse = x;
    for (float& v : coarse.elems) v = std::trunc(v * 3.f) + 0.f;
    Matrix<float> masked = y;
    for (float& v : masked.elems) v = v > 1.7f ? v : -std::numeric_limits<float>::infinity();
    for (int r = 0; r < kRows; ++r) {
      const std::vector<int> order = stable_order(coarse, r, true);
      const std::vector<int> few = stable_order(masked, r, true);
      for (int n = 0; n < kOutCols; ++n) {
        const auto at = static_cast<std::size_t>(n);
        o(r, n) = coarse(r, order[at]);
        o(16 + r, n) = static_cast<float>(order[at]);
        o(32 + r, n) = masked(r, few[at]);
        o(48 + r, n) = static_cast<float>(few[at]);
      }
    }
  }
};

// Several together, as kernels have them.

struct Router : Extents<16, 64> {
  static constexpr const char* kName = "router";
  static constexpr int kOutCols = 4;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto, auto o, auto, auto) const {
    const auto e = load(exp(*x - row_max(*x)));
    const auto best = top_k<2>(load(e / row_sum(e)));
    *o = concat_cols(load(best.values / row_sum(best.values)), cast<float>(best.ids));
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>&, Matrix<float>& o) {
    for (int r = 0; r < kRows; ++r) {
      const float* const row = &x(r, 0);
      const float most = *std::max_element(row, row + kCols);
      Matrix<float> p(1, kCols);
      for (int c = 0; c < kCols; ++c)
        p(0, c) = static_cast<float>(std::exp(static_cast<double>(row[c] - most)));
      const float sum = lane_sum(kCols, [&](int c) { return p(0, c); });
      for (float& v : p.elems) v /= sum;
      const std::vector<int> order = stable_order(p, 0, true);
      const float both = p(0, order[0]) + p(0, order[1]);
      for (int n = 0; n < 2; ++n) {
        const int id = order[static_cast<std::size_t>(n)];
        o(r, n) = p(0, id) / both;
        o(r, 2 + n) = static_cast<float>(id);
      }
    }
  }
};

struct QuantisedProduct : Extents<16, 128, uint32_t, float> {
  static constexpr const char* kName = "quantised_product";
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto s, auto) const {
    const auto codes = unpack_rows<4>(*x.row_range(0, Int<2>{}));
    const auto scales = repeat_rows<8>(cast<float>(*y.row_range(0, Int<2>{}) & 3u) + 1.f);
    const auto table = lookup_table(0.f, 0.5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f, -0.f, -0.5f, -1.f,
                                    -1.5f, -2.f, -3.f, -4.f, -6.f);
    *s = lookup(codes, table) * scales;
    const auto left = load(cast<float>(*y.col_range(0, Int<16>{}) >> 28) - 7.5f);
    *o = load(dot(left, *s));
  }
  static void oracle(int, const Matrix<uint32_t>& x, const Matrix<uint32_t>& y, Matrix<float>& o) {
    const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        float sum = 0;
        for (int k = 0; k < 16; ++k) {
          const uint32_t code = x(k / 8, c) >> (k % 8 * 4) & 15u;
          const float weight = std::copysign(e2m1[code & 7], code < 8 ? 1.f : -1.f);
          const float scaled = weight * (static_cast<float>(y(k / 8, c) & 3u) + 1.f);
          sum = std::fma(static_cast<float>(y(r, k) >> 28) - 7.5f, scaled, sum);
        }
        o(r, c) = sum;
      }
    }
  }
};

struct GatedState : Extents<64, 128> {
  static constexpr const char* kName = "gated_state";
  static constexpr int kLead = 4;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto s, auto) const {
    const auto times = [](const auto& earlier, const auto& later) { return later * earlier; };
    *s.row(15) = 0.f;
    for (int chunk = 0; chunk < kLead; ++chunk) {
      const auto decay = load(*y.at(chunk) * 0.25f);
      const auto inside = linear_scan_rows(decay, *x.at(chunk));
      const auto h = load(inside + scan_rows(decay, times) * *s.row(15));
      *s.row_range(0, Int<16>{}) = h;
      *o.at(chunk) = h;
    }
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int c = 0; c < kCols; ++c) {
      float carried = 0;
      for (int chunk = 0; chunk < kLead; ++chunk) {
        float decay[16];
        float h[16];
        for (int t = 0; t < 16; ++t) {
          decay[t] = y(16 * chunk + t, c) * 0.25f;
          h[t] = x(16 * chunk + t, c);
        }
        for (int apart = 1; apart < 16; apart *= 2) {
          for (int t = 15; t >= apart; --t) {
            h[t] = decay[t] * h[t - apart] + h[t];
            decay[t] = decay[t] * decay[t - apart];
          }
        }
        for (int t = 0; t < 16; ++t) h[t] = o(16 * chunk + t, c) = h[t] + decay[t] * carried;
        carried = h[15];
      }
    }
  }
};

// Rows of more than one chunk of a reduction: several half-warps have one, in one CTA several
// teams.

template <int kR, int kC>
struct LongRows : Extents<kR, kC> {
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto d = *x - row_sum(*x) * (1.f / kC);
    const auto scaled = d * row_max(abs(d)) + row_min(*y);
    *o = where(col_ids(scaled) % 3 == 0, roll_cols(scaled, 5), scaled * row_sum(d * *y)) +
         cast<float>(row_argmax(*y)) + row_sum(row_max(*y)) + col_sum(*y);
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int r = 0; r < kR; ++r) {
      const float mean = lane_sum(kC, [&](int c) { return x(r, c); }) * (1.f / kC);
      const auto d = [&](int c) { return x(r, c) - mean; };
      float most = 0;
      float least = y(r, 0);
      float top = y(r, 0);
      int best = 0;
      for (int c = 0; c < kC; ++c) {
        most = std::max(most, std::abs(d(c)));
        least = std::min(least, y(r, c));
        best = y(r, c) > y(r, best) ? c : best;
        top = std::max(top, y(r, c));
      }
      const float along = lane_sum(kC, [&](int c) { return d(c) * y(r, c); });
      const auto scaled = [&](int c) { return d(c) * most + least; };
      for (int c = 0; c < kC; ++c) {
        const float v = c % 3 == 0 ? scaled((c + kC - 5) % kC) : scaled(c) * along;
        o(r, c) = v + static_cast<float>(best) + top + lane_sum(kR, [&](int i) { return y(i, c); });
      }
    }
  }
};

struct RowsOfTwoChunks : LongRows<8, 1024> {
  static constexpr const char* kName = "rows_of_two_chunks";
};
struct RowsOfLessThanTwo : LongRows<3, 700> {
  static constexpr bool kOnTpu = false;
  static constexpr const char* kName = "rows_of_less_than_two_chunks";
};
struct RowsOfManyChunks : LongRows<8, 1536> {
  static constexpr const char* kName = "rows_of_many_chunks";
};
struct OneLongRow : LongRows<1, 3000> {
  static constexpr bool kOnTpu = false;
  static constexpr const char* kName = "one_long_row";
};

/// More than a thread has registers for: ops wait until their elements are stored.
struct LongerRows : Extents<1, 20000, bf16, float> {
  static constexpr const char* kName = "longer_rows";
  static constexpr bool kOnTpu = false;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    const auto d = cast<float>(*x) * 0.125f + cast<float>(*y);
    *o = d * row_sum(d) - row_max(d);
  }
  static void oracle(int, const Matrix<bf16>& x, const Matrix<bf16>& y, Matrix<float>& o) {
    const auto d = [&](int c) {
      return static_cast<float>(x(0, c)) * 0.125f + static_cast<float>(y(0, c));
    };
    const float sum = lane_sum(kCols, d);
    float most = d(0);
    for (int c = 0; c < kCols; ++c) most = std::max(most, d(c));
    for (int c = 0; c < kCols; ++c) o(0, c) = d(c) * sum - most;
  }
};

/// Columns of more than one chunk.
struct LongColumns : Extents<1032, 8> {
  static constexpr const char* kName = "long_columns";
  static constexpr int kAccum = 1;
  static constexpr int kOutRows = 8;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto) const {
    *o.row(0) = col_sum(*x);
    *o.row(1) = col_max(*y);
    *o.row_range(2, Int<6>{}) = 0.f;
  }
  static void oracle(int, const Matrix<float>& x, const Matrix<float>& y, Matrix<float>& o) {
    for (int c = 0; c < kCols; ++c) {
      o(0, c) = lane_sum(kRows, [&](int r) { return x(r, c); });
      o(1, c) = y(0, c);
      for (int r = 0; r < kRows; ++r) o(1, c) = std::max(o(1, c), y(r, c));
      for (int r = 2; r < kOutRows; ++r) o(r, c) = 0;
    }
  }
};

// Beside tensor cores threads hold other elements of a tile.

struct OnTensorCores : Extents<64, 128, bf16, float> {
  static constexpr const char* kName = "on_tensor_cores";
  static constexpr int kOutRows = 72;
  static constexpr int kOutCols = 64;
  static constexpr bool kExchanges = true;
  TESSERA_FN void operator()(auto&, auto x, auto y, auto o, auto, auto acc) const {
    *acc = 0.f;
    *acc += dot(*x, transpose(*y));
    *acc -= 3.f;
    const auto halves = split_cols<2>(roll_rows(*acc, 7));
    const auto sums = load(concat_cols(halves.second, halves.first));
    *o.row_range(0, Int<64>{}) = sums + cast<float>(row_argmax(*acc)) + roll_cols(*acc, -3);
    *o.row(64) = col_sum(*acc);
    *o.row(65) = col_max(cumsum_rows(*acc));
    *o.row_range(66, Int<6>{}) = 0.f;
  }
  /// Small integers: every sum is exact.
  static void oracle(int, const Matrix<bf16>& x, const Matrix<bf16>& y, Matrix<float>& o) {
    Matrix<float> acc(64, 64);
    for (int r = 0; r < 64; ++r) {
      for (int c = 0; c < 64; ++c) {
        float sum = -3;
        for (int k = 0; k < kCols; ++k)
          sum += static_cast<float>(x(r, k)) * static_cast<float>(y(c, k));
        acc(r, c) = sum;
      }
    }
    for (int c = 0; c < 64; ++c) {
      float sum = 0;
      float most = acc(0, c);
      for (int r = 0; r < 64; ++r) {
        sum += acc(r, c);
        most = std::max(most, sum);
      }
      o(64, c) = sum;
      o(65, c) = most;
    }
    for (int r = 0; r < 64; ++r) {
      int best = 0;
      for (int c = 1; c < 64; ++c) best = acc(r, c) > acc(r, best) ? c : best;
      for (int c = 0; c < 64; ++c)
        o(r, c) =
            acc((r + 57) % 64, (c + 32) % 64) + static_cast<float>(best) + acc(r, (c + 3) % 64);
    }
  }
};

using Cases =
    std::tuple<PlacesAndFull, Recurrence, ScratchParts, PartsOfProducts, LoopOverRows, LeadingDims,
               BatchedProducts, RightFromRegisters, TurnedLeft, IntegerProducts,
               Fp8Products<f8e4m3fn>, Fp8Products<f8e5m2>, Tf32Products, MixedProducts, Columns,
               ArgReductions, RunningSums, Scans, Repeats, Interleaves, RotaryHalves, OddParts,
               Rolls, TransposedValue, SignedBits, UnsignedBits, Bits, UnpackedWords,
               PackedIntegers<i4>, PackedIntegers<u4>, PackedIntegers<i2>, PackedIntegers<u2>,
               Lookups, WrappingIntegers, FusedMultiplyAdd, Dropout, SortedRows, TopK, Router,
               QuantisedProduct, GatedState, RowsOfTwoChunks, RowsOfLessThanTwo, RowsOfManyChunks,
               OneLongRow, LongerRows, LongColumns, OnTensorCores>;

/// Inputs from a seed: f32 of [-2, 2), narrower floats from -4 to 3, integers of any bits.
template <class T>
void fill(std::vector<T>& elems, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (T& e : elems) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto word = static_cast<uint32_t>(state >> 32);
    if constexpr (std::is_same_v<T, float>)
      e = static_cast<float>(static_cast<int32_t>(word) >> 8) * 0x1p-22f;
    else if constexpr (kIsSmallFloat<T>)
      e = T(static_cast<float>(static_cast<int32_t>(word >> 29) - 4));
    else if constexpr (kIsSmallInt<T>)
      e = T(std::int64_t{word >> 28});
    else
      e = static_cast<T>(word);
  }
}

/// As an array holds them.
template <class T>
std::vector<std::byte> packed(const std::vector<T>& elems) {
  const auto n = static_cast<std::int64_t>(elems.size());
  std::vector<std::byte> bytes(static_cast<std::size_t>(packed_bytes(kDTypeOf<T>, n)));
  for (std::int64_t i = 0; i < n; ++i)
    store_element(bytes.data(), i, elems[static_cast<std::size_t>(i)]);
  return bytes;
}

/// All cells of a case: x and y of every cell one below the other, and what o is.
template <class Body>
struct Expected {
  using X = typename Body::X;
  using Out = typename Body::Out;
  static constexpr int kCells = Probe<Body>::kCells;
  std::vector<X> x;
  std::vector<X> y;
  std::vector<Out> o;

  explicit Expected(std::uint64_t seed)
      : x(std::size_t{kCells} * Body::kRows * Body::kCols), y(x.size()) {
    fill(x, seed);
    fill(y, seed + 1000);
    for (int cell = 0; cell < kCells; ++cell) {
      Matrix<X> some_x(Body::kRows, Body::kCols);
      Matrix<X> some_y(Body::kRows, Body::kCols);
      const std::size_t n = some_x.elems.size();
      std::copy_n(x.data() + n * cell, n, some_x.elems.data());
      std::copy_n(y.data() + n * cell, n, some_y.elems.data());
      Matrix<Out> some_o(Body::kOutRows, Body::kOutCols);
      Body::oracle(cell, some_x, some_y, some_o);
      o.insert(o.end(), some_o.elems.begin(), some_o.elems.end());
    }
  }
};

}  // namespace tessera::language
