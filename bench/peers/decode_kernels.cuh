// Attention of one new token per sequence over a long cache, as a user writes it: the query heads
// of a group are the rows of a block, the cache is split over cells, and what the splits found is
// merged in their order. bench/peers/decode_kernels.py builds, runs and compares them.
//
//   o[h] = sum_j softmax_j(q[h] . k[j] / sqrt(d)) v[j], per sequence; Dao et al., Flash-Decoding,
//   2023
#pragma once

#include <cmath>
#include <limits>

#include "cuda/launch.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/log2.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::decode {

/// Columns of a statistic of rows in HBM, all the same: the copy engine takes 16 bytes and more.
inline constexpr int kSame = 4;

/// Per split: its own softmax's result, and the logarithm (to base 2) of the sum that it divided
/// by.
template <class T>
struct Split {
  static constexpr KernelInfo info{.name = "decode_split", .summary = "", .math = ""};
  int batch = 1;
  int kv_heads = 1;
  int group = 1;
  int length = 0;
  int head_dim = 0;
  int splits = 1;
  static constexpr auto sizes =
      params(size("batch", &Split::batch, "sequences"), size("kv_heads", &Split::kv_heads, ""),
             size("group", &Split::group, "query heads of a key head"),
             size("length", &Split::length, "of the cache"), size("head_dim", &Split::head_dim, ""),
             size("splits", &Split::splits, "cells of a key head"));
  static constexpr auto tiles = tile_names(tile("bq"), tile("bk"), tile("bd"));

  TESSERA_FN int first_block(int split, int bk) const {
    return static_cast<int>(std::int64_t{ceil_div(length, bk)} * split / splits);
  }
  TESSERA_FN auto spec(auto bq, auto bk, auto bd) const {
    const auto self = *this;
    auto q_block = [](auto b, auto h, auto, auto) { return at(b, h, 0, 0); };
    auto kv_block = [](auto b, auto h, auto, auto kv) { return at(b, h, kv, 0); };
    auto o_block = [](auto b, auto h, auto s, auto) { return at(b, h, s, 0, 0); };
    return tessera::spec(
        grid(parallel(batch), parallel(kv_heads), parallel(splits),
             arbitrary([self, bk](auto, auto, auto s) { return self.first_block(s, bk); },
                       [self, bk](auto, auto, auto s) { return self.first_block(s + 1, bk); })),
        in<T>("q", shape(batch, kv_heads, group, head_dim), block(squeezed, squeezed, bq, bd),
              q_block)
            .pad(0),
        in<T>("k", shape(batch, kv_heads, length, head_dim), block(squeezed, squeezed, bk, bd),
              kv_block)
            .pad(0)
            .evict_first(),
        in<T>("v", shape(batch, kv_heads, length, head_dim), block(squeezed, squeezed, bk, bd),
              kv_block)
            .pad(0)
            .evict_first(),
        out<float>("part", shape(batch, kv_heads, splits, group, head_dim),
                   block(squeezed, squeezed, squeezed, bq, bd), o_block),
        out<float>("log_sum", shape(batch, kv_heads, splits, group, kSame),
                   block(squeezed, squeezed, squeezed, bq, Int<kSame>{}), o_block),
        accum<float>("acc", bq, bd), accum<float>("m", bq, Int<1>{}),
        accum<float>("l", bq, Int<1>{}));
  }
  template <class Env, class Q, class K, class V, class O, class Log, class Acc, class M, class L>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, O part, Log log_sum, Acc acc, M m,
                             L l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const float factor = 1.44269504f / sqrtf(static_cast<float>(head_dim));
    if (env.first(3)) {
      *acc = 0.f;      // (bq, bd) f32
      *m = kMinusInf;  // (bq, 1)
      *l = 0.f;        // (bq, 1)
    }
    auto s = load(dot(*q, transpose(*k)));  // (bq, bk) f32
    const auto k0 = env.program_id(3) * k.rows;
    if (k0 + k.rows > length)
      s = where_at(
          s, [=, this](auto, auto c) { return k0 + c < length; }, kMinusInf);
    auto m_new = load(max(*m, row_max(s)));
    auto shift = m_new * -factor;
    auto p = exp2(fma(s, factor, shift));
    auto rescale = exp2(fma(*m, factor, shift));
    *l = *l * rescale + row_sum(p);
    *acc = *acc * rescale;
    *acc += dot(cast<T>(p), *v);
    *m = m_new;
    if (env.last(3)) {
      *part = *acc / *l;
      *log_sum = full<float>(env, log_sum.rows, log_sum.cols, 0.f) + (*m * factor + log2(*l));
    }
  }
};

/// The splits' results by their weights, in their order; bs of them a step.
template <class T>
struct Merge {
  static constexpr KernelInfo info{.name = "decode_merge", .summary = "", .math = ""};
  int batch = 1;
  int kv_heads = 1;
  int group = 1;
  int head_dim = 0;
  int splits = 1;
  static constexpr auto sizes =
      params(size("batch", &Merge::batch, ""), size("kv_heads", &Merge::kv_heads, ""),
             size("group", &Merge::group, ""), size("head_dim", &Merge::head_dim, ""),
             size("splits", &Merge::splits, ""));
  static constexpr auto tiles = tile_names(tile("bq"), tile("bd"), tile("bs"));

  TESSERA_FN auto spec(auto bq, auto bd, auto bs) const {
    auto part_block = [](auto b, auto h, auto d, auto s) { return at(b, h, s, 0, d); };
    auto log_block = [](auto b, auto h, auto, auto s) { return at(b, h, s, 0, 0); };
    auto o_block = [](auto b, auto h, auto d, auto) { return at(b, h, 0, d); };
    return tessera::spec(
        grid(parallel(batch), parallel(kv_heads), parallel(ceil_div(head_dim, bd)),
             arbitrary(splits / bs)),
        in<float>("part", shape(batch, kv_heads, splits, group, head_dim),
                  block(squeezed, squeezed, bs, bq, bd), part_block),
        in<float>("log_sum", shape(batch, kv_heads, splits, group, kSame),
                  block(squeezed, squeezed, bs, bq, Int<kSame>{}), log_block),
        out<T>("o", shape(batch, kv_heads, group, head_dim), block(squeezed, squeezed, bq, bd),
               o_block),
        accum<float>("acc", bq, bd), accum<float>("m", bq, Int<1>{}),
        accum<float>("l", bq, Int<1>{}));
  }
  TESSERA_FN void operator()(auto& env, auto part, auto log_sum, auto o, auto acc, auto m,
                             auto l) const {
    constexpr int kAtOnce = decltype(part)::rows / decltype(o)::rows;
    if (env.first(3)) {
      *acc = 0.f;
      *m = -std::numeric_limits<float>::infinity();
      *l = 0.f;
    }
    using Rows = decltype(load(row_max(*log_sum.at(0))));  // (bq, 1)
    Rows log[kAtOnce];
    Rows m_new = load(*m);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      log[i] = load(row_max(*log_sum.at(i)));
      m_new = load(max(m_new, log[i]));
    }
    const auto rescale = load(exp2(*m - m_new));
    *l = *l * rescale;
    *acc = *acc * rescale;  // (bq, bd)
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const auto weight = load(exp2(log[i] - m_new));
      *l = *l + weight;
      *acc = *acc + *part.at(i) * weight;
    }
    *m = m_new;
    if (env.last(3)) *o = cast<T>(*acc / *l);
  }
};

}  // namespace tessera::decode
