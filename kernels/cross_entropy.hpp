// The cross-entropy of a linear layer's logits and labels: no logits leave VMEM.
//
//   s = x @ w,   lse[i] = log sum_j exp(s[i,j]),   loss[i] = lse[i] - s[i, label[i]]
//
// A row whose label is no column of w is ignored: its loss is 0. Columns of w go by in blocks, each
// logit summed over all of k, under an online sum: Milakov & Gimelshein, arXiv:1805.02867; Wijmans
// et al., arXiv:2411.09009. lse is what a gradient needs to make the logits again.
#pragma once

#include <limits>

#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/log.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct CrossEntropy {
  static constexpr KernelInfo info{
      .name = "cross_entropy",
      .summary = "cross-entropy of x @ w and labels, logits never stored",
      .math =
          "s = x @ w;  lse[i] = log sum_j exp(s[i,j]);  loss[i] = lse[i] - s[i,label[i]], 0 if "
          "there is none",
      .cites = "arXiv:1805.02867, arXiv:2411.09009"};

  int m = 0;
  int n = 0;
  int k = 0;

  static constexpr auto sizes = params(size("m", &CrossEntropy::m, "rows of x"),
                                       size("n", &CrossEntropy::n, "columns of w: classes"),
                                       size("k", &CrossEntropy::k, "columns of x, rows of w"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bk"));
  static constexpr std::array cases{Case{"aligned", {128, 1024, 256}, {32, 128, 128}},
                                    Case{"ragged", {100, 300, 200}, {32, 128, 128}},
                                    Case{"whole k", {128, 500, 128}, {32, 128, 128}},
                                    Case{"degenerate", {1, 1, 1}, {8, 128, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    auto rows = [](auto i, auto, auto) { return at(i, 0); };
    const auto of_rows = block(bm, Int<1>{});
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), arbitrary(ceil_div(n, bn)).as("j"),
             arbitrary(ceil_div(k, bk)).as("k")),
        in<T>("x", shape(m, k), block(bm, bk), [](auto i, auto, auto kk) { return at(i, kk); })
            .pad(0),
        in<T>("w", shape(k, n), block(bk, bn), [](auto, auto j, auto kk) { return at(kk, j); })
            .pad(0),
        in<int>("labels", shape(m, 1), of_rows, rows).pad(-1).uniform(-1, n),
        out<float>("loss", shape(m, 1), of_rows, rows),
        out<float>("lse", shape(m, 1), of_rows, rows), accum<float>("acc", bm, bn),
        accum<float>("most", bm, Int<1>{}), accum<float>("sum", bm, Int<1>{}),
        accum<float>("hit", bm, Int<1>{}));
  }

  /// A product's reads; one k stays while j runs, on a device that empties its cells too.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto left = matmul_reads(m, n, k, t[0], t[1], t[2], Target{true}).left;
    const auto right = matmul_reads(m, n, k, t[0], t[1], t[2], target).right;
    return {(left + right) * kBytes<T> + m * kBytes<int>, 2 * m * kBytes<float>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class W, class Labels, class Loss, class Lse, class Acc, class Most,
            class Sum, class Hit>
  TESSERA_FN void operator()(Env& env, X x, W w, Labels labels, Loss loss, Lse lse, Acc acc,
                             Most most, Sum sum, Hit hit) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const int columns = n;
    const auto j0 = env.program_id(1) * w.cols;
    if (env.first(1) && env.first(2)) {
      *most = kMinusInf;  // (bm, 1) f32
      *sum = 0.f;         // (bm, 1)
      *hit = 0.f;         // (bm, 1): the logit of the label
    }
    if (env.first(2)) *acc = 0.f;  // (bm, bn) f32
    *acc += dot(*x, *w);           // one FMA chain over all of k
    if (env.last(2)) {
      *acc = where_at(
          *acc, [=](auto, auto c) { return j0 + c < columns; }, kMinusInf);
      *hit += row_sum(where(col_ids(*acc) + j0 == *labels, *acc, 0.f));
      const auto now = load(max(*most, row_max(*acc)));  // (bm, 1)
      *sum = *sum * exp(*most - now) + row_sum(exp(*acc - now));
      *most = now;
      if (env.last(1)) {
        const auto all = load(*most + log(*sum));
        *lse = all;
        *loss = where(*labels < 0, 0.f, where(*labels < columns, all - *hit, 0.f));
      }
    }
  }
};

}  // namespace tessera::kernels
