// The gradient of attention by its sinks (kernels/flash_attention.hpp): logits of heads that no
// value has.
//
//   dsink[h] = -sum_b sum_i exp(sink[h] - lse[b,h,i]) delta[b,h,i],   delta = dout . o
//
// Xiao et al., arXiv:2309.17453: a sink is a score whose value is zero, so that its ds is p (0 -
// delta). Batch entries in order, of each the blocks of queries in order, of a block the order of
// row_sum. lse and delta are the arrays that the other gradients read.
#pragma once

#include <limits>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"

namespace tessera::kernels {

template <class T>
struct AttentionSinkGrad {
  static constexpr KernelInfo info{
      .name = "attention_sink_grad",
      .summary = "gradient of attention by its sinks",
      .math = "dsink[h] = -sum_{b,i} exp(sink[h] - lse[b,h,i]) delta[b,h,i]",
      .cites = "arXiv:2309.17453"};

  int batch = 1;
  int heads = 1;
  int q_len = 0;

  using Self = AttentionSinkGrad;
  static constexpr auto sizes =
      params(size("batch", &Self::batch, "sequences"), size("heads", &Self::heads, "query heads"),
             size("q_len", &Self::q_len, "queries"));
  static constexpr auto tiles = tile_names(tile("bh"), tile("bq"));
  static constexpr std::array cases{Case{"aligned", {2, 16, 512}, {8, 128}},
                                    Case{"ragged", {3, 10, 300}, {8, 128}},
                                    Case{"degenerate", {1, 1, 1}, {8, 128}}};

  TESSERA_FN auto spec(auto bh, auto bq) const {
    const auto rows = shape(batch, heads, q_len);
    const auto of_rows = block(squeezed, bh, bq);
    auto row_block = [](auto h, auto b, auto i) { return at(b, h, i); };
    auto head_block = [](auto h, auto, auto) { return at(h, 0); };
    const auto of_heads = block(bh, Int<1>{});
    return tessera::spec(
        grid(parallel(ceil_div(heads, bh)).as("h"), arbitrary(batch).as("b"),
             arbitrary(ceil_div(q_len, bq)).as("q")),
        in<float>("sink", shape(heads, 1), of_heads, head_block).pad(0),
        in<float>("lse", rows, of_rows, row_block)
            .pad(std::numeric_limits<double>::infinity())  // exp of any sink less that is 0
            .uniform(4, 6),
        in<float>("delta", rows, of_rows, row_block).pad(0),
        out<float>("dsink", shape(heads, 1), of_heads, head_block),
        accum<float>("acc", bh, Int<1>{}));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t rows = std::int64_t{batch} * heads * q_len;
    return {(2 * rows + heads) * kBytes<float>, heads * kBytes<float>};
  }

  TESSERA_FN void operator()(auto& env, auto sink, auto lse, auto delta, auto dsink,
                             auto acc) const {
    if (env.first(1) && env.first(2)) *acc = 0.f;       // (bh, 1) f32
    *acc = *acc - row_sum(exp(*sink - *lse) * *delta);  // (bh, bq) to (bh, 1)
    if (env.last(1) && env.last(2)) *dsink = *acc;
  }
};

}  // namespace tessera::kernels
