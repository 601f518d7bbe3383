// Parts of attention over parts of the keys, put together in their order.
//
//   o[i] = sum_s exp(lse[s,i] - m[i]) part[s,i] / sum_s exp(lse[s,i] - m[i]),   m[i] = max_s
//   lse[s,i]
//
// What splits of paged_attention give (Flash-Decoding, Dao et al., 2023), or devices with a part of
// the keys each (Liu et al., arXiv:2310.01889). A part whose lse is -inf saw no key: it counts
// nothing, and a row that no part saw is zero.
#pragma once

#include <limits>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct AttentionMerge {
  static constexpr KernelInfo info{
      .name = "attention_merge",
      .summary = "parts of attention, put together by their log-sum-exp",
      .math =
          "o[i] = sum_s exp(lse[s,i] - m[i]) part[s,i] / sum_s exp(lse[s,i] - m[i]),  m[i] = "
          "max_s lse[s,i]",
      .cites = "arXiv:2205.14135, arXiv:2310.01889"};

  int batch = 1;
  int parts = 1;
  int rows = 0;
  int d = 0;

  static constexpr auto sizes =
      params(size("batch", &AttentionMerge::batch, "sequences"),
             size("parts", &AttentionMerge::parts, "parts of each"),
             size("rows", &AttentionMerge::rows, "rows of each, heads or queries"),
             size("d", &AttentionMerge::d, "columns of part and o"));
  static constexpr auto tiles = tile_names(tile("br"), tile("bd", "d"));
  static constexpr std::array cases{Case{"aligned", {3, 4, 16, 128}, {8, 128}},
                                    Case{"ragged", {2, 3, 13, 80}, {8, 80}},
                                    Case{"degenerate", {1, 1, 1, 1}, {1, 1}}};

  const char* valid(Tiles t) const {
    return t[1] == d ? nullptr : "blocks have whole rows: bd = d";
  }

  TESSERA_FN auto spec(auto br, auto bd) const {
    auto of_part = [](auto b, auto i, auto s) { return at(b, s, i, 0); };
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(ceil_div(rows, br)).as("i"),
             arbitrary(parts).as("part")),
        in<float>("part", shape(batch, parts, rows, d), block(squeezed, squeezed, br, bd), of_part)
            .pad(0),
        in<float>("lse", shape(batch, parts, rows, 1), block(squeezed, squeezed, br, Int<1>{}),
                  of_part)
            .pad(0),
        out<T>("o", shape(batch, rows, d), block(squeezed, br, bd),
               [](auto b, auto i, auto) { return at(b, i, 0); }),
        accum<float>("acc", br, bd), accum<float>("m", br, Int<1>{}),
        accum<float>("l", br, Int<1>{}));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t all = std::int64_t{batch} * rows;
    return {all * parts * (d + 1) * kBytes<float>, all * d * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto part, auto lse, auto o, auto acc, auto m,
                             auto l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    if (env.first(2)) {
      *acc = 0.f;      // (br, bd) f32
      *m = kMinusInf;  // (br, 1)
      *l = 0.f;        // (br, 1)
    }
    auto m_new = load(max(*m, *lse));                              // (br, 1)
    auto shift = where(m_new == kMinusInf, 0.f, m_new * -kLog2E);  // no key yet
    auto weight = load(exp2(fma(*lse, kLog2E, shift)));            // (br, 1), in [0, 1]
    auto rescale = load(exp2(fma(*m, kLog2E, shift)));             // (br, 1)
    *l = *l * rescale + weight;
    *acc = *acc * rescale + *part * weight;  // (br, bd) f32
    *m = m_new;
    if (env.last(2)) *o = cast<T>(*acc / where(*l == 0.f, 1.f, *l));  // (br, bd) T
  }
};

}  // namespace tessera::kernels
