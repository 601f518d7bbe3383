// The cross-entropy of a linear layer's logits and labels, or their divergence from a teacher's: no
// logits leave VMEM.
//
//   s = x @ w,   lse[i] = log sum_j exp(s[i,j]),   loss[i] = lse[i] - s[i, label[i]]
//   with a teacher, t = teacher_x @ teacher_w:
//   loss[i] = KL(softmax(t[i]) || softmax(s[i])) = sum_j softmax(t[i])[j] (t[i,j] - s[i,j]) +
//   lse[i]
//             - teacher_lse[i]
//
// A row whose label is no column of w is ignored: its loss is 0. Columns of w go by in blocks, each
// logit summed over all of k, under an online sum: Milakov & Gimelshein, arXiv:1805.02867; Wijmans
// et al., arXiv:2411.09009. Distillation: Hinton et al., arXiv:1503.02531; without logits in HBM as
// in Liger's fused linear losses, Hsu et al., arXiv:2410.10989. A teacher's rows are of a width of
// their own; steps of k run over the student's, then over the teacher's. lse, and the teacher's,
// are what a gradient needs to make the logits again.
#pragma once

#include <limits>

#include "kernels/by_tile.hpp"
#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/div.hpp"
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
      .summary =
          "cross-entropy of x @ w and labels, or KL divergence from a teacher; logits never stored",
      .math =
          "s = x @ w;  lse[i] = log sum_j exp(s[i,j]);  loss[i] = lse[i] - s[i,label[i]], 0 if "
          "there is none, or KL(softmax(teacher_x[i] @ teacher_w) || softmax(s[i]))",
      .cites = "arXiv:1805.02867, arXiv:2411.09009, arXiv:1503.02531, arXiv:2410.10989"};

  int m = 0;
  int n = 0;
  int k = 0;
  int teacher = 0;

  static constexpr auto sizes = params(
      size("m", &CrossEntropy::m, "rows of x"),
      size("n", &CrossEntropy::n, "columns of w: classes"),
      size("k", &CrossEntropy::k, "columns of x, rows of w"),
      size("teacher", &CrossEntropy::teacher, "columns of teacher_x; 0: labels, no teacher"));
  static constexpr auto tiles =
      tile_names(tile("bm"), tile("bn"), tile("bk"), tile("bt", "teacher"));
  static constexpr std::array cases{
      Case{"aligned", {128, 1024, 256, 0}, {32, 128, 128, 0}},
      Case{"ragged", {100, 300, 200, 0}, {32, 128, 128, 0}},
      Case{"whole k", {128, 500, 128, 0}, {32, 128, 128, 0}},
      Case{"a teacher", {64, 512, 256, 384}, {32, 128, 128, 128}},
      Case{"a teacher, ragged", {50, 300, 128, 200}, {32, 128, 128, 128}},
      Case{"degenerate", {1, 1, 1, 0}, {8, 128, 128, 0}}};

  const char* valid(Tiles t) const {
    return (t[3] != 0) == (teacher != 0)
               ? nullptr
               : "bt is a block of a teacher's columns, 0 where there is no teacher";
  }

  /// Steps over the teacher's columns.
  TESSERA_FN int taught_steps(int bt) const { return teacher > 0 ? ceil_div(teacher, bt) : 0; }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk, auto bt) const {
    auto rows = [](auto i, auto, auto) { return at(i, 0); };
    const auto of_rows = block(bm, Int<1>{});
    const auto of_teacher = extent_or(bt, bk);
    const int own = ceil_div(k, bk);
    const int taught = taught_steps(of_teacher);
    // The student's block stays where the teacher's go by, and the teacher's first waits.
    const auto student_k = [own](auto kk) { return lesser(kk, own - 1); };
    const auto teacher_k = [own](auto kk) { return greater(kk - own, 0); };
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), arbitrary(ceil_div(n, bn)).as("j"),
             arbitrary(own + taught).as("k")),
        in<T>("x", shape(m, k), block(bm, bk),
              [student_k](auto i, auto, auto kk) { return at(i, student_k(kk)); })
            .pad(0),
        in<T>("w", shape(k, n), block(bk, bn),
              [student_k](auto, auto j, auto kk) { return at(student_k(kk), j); })
            .pad(0),
        in<T>("teacher_x", shape(m, teacher), block(bm, of_teacher),
              [teacher_k](auto i, auto, auto kk) { return at(i, teacher_k(kk)); })
            .pad(0)
            .when(bt),
        in<T>("teacher_w", shape(teacher, n), block(of_teacher, bn),
              [teacher_k](auto, auto j, auto kk) { return at(teacher_k(kk), j); })
            .pad(0)
            .when(bt),
        in<int>("labels", shape(m, 1), of_rows, rows).pad(-1).uniform(-1, n).when(if_none(bt)),
        out<float>("loss", shape(m, 1), of_rows, rows),
        out<float>("lse", shape(m, 1), of_rows, rows),
        out<float>("teacher_lse", shape(m, 1), of_rows, rows).when(teacher != 0),
        accum<float>("acc", bm, bn), accum<float>("most", bm, Int<1>{}),
        accum<float>("sum", bm, Int<1>{}), accum<float>("hit", bm, Int<1>{}),
        accum<float>("teacher_acc", bm, bn).when(teacher != 0),
        accum<float>("teacher_most", bm, Int<1>{}).when(teacher != 0),
        accum<float>("teacher_sum", bm, Int<1>{}).when(teacher != 0));
  }

  /// A product's reads, and the teacher's; one k stays while j runs, on a device that empties its
  /// cells too.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = [&](int columns, int block) {
      return matmul_reads(m, n, columns, t[0], t[1], block, Target{true}).left +
             matmul_reads(m, n, columns, t[0], t[1], block, target).right;
    };
    const std::int64_t both = reads(k, t[2]) + (teacher != 0 ? reads(teacher, t[3]) : 0);
    return {both * kBytes<T> + (teacher != 0 ? 0 : m * kBytes<int>),
            (teacher != 0 ? 3 : 2) * m * kBytes<float>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class W, class TeacherX, class TeacherW, class Labels, class Loss,
            class Lse, class TeacherLse, class Acc, class Most, class Sum, class Hit,
            class TeacherAcc, class TeacherMost, class TeacherSum>
  TESSERA_FN void operator()(Env& env, X x, W w, TeacherX teacher_x, TeacherW teacher_w,
                             Labels labels, Loss loss, Lse lse, TeacherLse teacher_lse, Acc acc,
                             Most most, Sum sum, Hit hit, TeacherAcc teacher_acc,
                             TeacherMost teacher_most, TeacherSum teacher_sum) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const int columns = n;
    const auto j0 = env.program_id(1) * w.cols;
    const auto inside = [=](auto, auto c) { return j0 + c < columns; };
    if (env.first(1) && env.first(2)) {
      *most = kMinusInf;  // (bm, 1) f32
      *sum = 0.f;         // (bm, 1)
      *hit = 0.f;         // (bm, 1): the logit of the label, or sum_j exp(t - max t) (t - s)
      if (teacher_x.there()) {
        *teacher_most = kMinusInf;  // (bm, 1)
        *teacher_sum = 0.f;         // (bm, 1)
      }
    }
    if (env.first(2)) {
      *acc = 0.f;                                 // (bm, bn) f32
      if (teacher_x.there()) *teacher_acc = 0.f;  // (bm, bn) f32
    }
    // One FMA chain over all of k.
    if (teacher_x.there()) {
      if (env.program_id(2) < ceil_div(k, x.cols))
        *acc += dot(*x, *w);
      else
        *teacher_acc += dot(*teacher_x, *teacher_w);
    } else {
      *acc += dot(*x, *w);
    }
    if (env.last(2)) {
      *acc = where_at(*acc, inside, kMinusInf);
      if (teacher_x.there()) {
        *teacher_acc = where_at(*teacher_acc, inside, kMinusInf);
        const auto now = load(max(*teacher_most, row_max(*teacher_acc)));  // (bm, 1)
        const auto rescale = load(exp(*teacher_most - now));
        *hit = *hit * rescale +
               row_sum(exp(*teacher_acc - now) * where_at(*teacher_acc - *acc, inside, 0.f));
        *teacher_sum = *teacher_sum * rescale + row_sum(exp(*teacher_acc - now));
        *teacher_most = now;
      } else {
        *hit += row_sum(where(col_ids(*acc) + j0 == *labels, *acc, 0.f));
      }
      const auto now = load(max(*most, row_max(*acc)));  // (bm, 1)
      *sum = *sum * exp(*most - now) + row_sum(exp(*acc - now));
      *most = now;
      if (env.last(1)) {
        const auto all = load(*most + log(*sum));
        *lse = all;
        if (teacher_x.there()) {
          const auto taught = load(*teacher_most + log(*teacher_sum));
          *teacher_lse = taught;
          *loss = *hit / *teacher_sum + (all - taught);
        } else {
          *loss = where(*labels < 0, 0.f, where(*labels < columns, all - *hit, 0.f));
        }
      }
    }
  }
};

}  // namespace tessera::kernels
