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
#include <limits>
#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/arg_reduce.hpp"
#include "sim/ops/bitcast.hpp"
#include "sim/ops/bitwise.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/cumsum.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/mul_hi.hpp"
#include "sim/ops/philox.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/rem.hpp"
#include "sim/ops/shift.hpp"
#include "sim/ops/sub.hpp"
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

  TESSERA_FN auto spec() const {
    using B = Body;
    auto map = [](auto i) { return at(i, 0); };
    return tessera::spec(grid(parallel(kCells).as("i")),
                         in<typename B::X>("x", shape(kCells * B::kRows, B::kCols),
                                           block(Int<B::kRows>{}, Int<B::kCols>{}), map),
                         in<typename B::X>("y", shape(kCells * B::kRows, B::kCols),
                                           block(Int<B::kRows>{}, Int<B::kCols>{}), map),
                         out<typename B::Out>("o", shape(kCells * B::kOutRows, B::kOutCols),
                                              block(Int<B::kOutRows>{}, Int<B::kOutCols>{}), map),
                         vmem<float>("s", Int<B::kRows>{}, Int<B::kCols>{}),
                         accum<float>("acc", Int<B::kRows>{}, Int<B::kRows>{}));
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
  static constexpr bool kExchanges = false;
};

/// Sum in 32 lanes, as sim/ops/reduce.hpp states it.
template <class Get>
float lane_sum(int n, Get get) {
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

// Construct 6: rearrangements.

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

using Cases = std::tuple<PlacesAndFull, Recurrence, ScratchParts, PartsOfProducts, LoopOverRows,
                         Columns, ArgReductions, RunningSums, RotaryHalves, OddParts, Rolls,
                         TransposedValue, SignedBits, UnsignedBits, Bits, Dropout, OnTensorCores>;

/// Inputs from a seed: f32 of [-2, 2), bf16 from -4 to 3, integers of any bits.
template <class T>
void fill(std::vector<T>& elems, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (T& e : elems) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto word = static_cast<uint32_t>(state >> 32);
    if constexpr (std::is_same_v<T, float>)
      e = static_cast<float>(static_cast<int32_t>(word) >> 8) * 0x1p-22f;
    else if constexpr (std::is_same_v<T, bf16>)
      e = bf16(static_cast<float>(static_cast<int32_t>(word >> 29) - 4));
    else
      e = static_cast<T>(word);
  }
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
