// The gradient of cross_entropy (kernels/cross_entropy.hpp) by the rows of x: no logits leave VMEM.
//
//   dx = ds @ w^T,   ds[i,j] = (exp(s[i,j] - lse[i]) - (j = label[i])) dloss[i],   s = x @ w
//   with a teacher:  ds[i,j] = (exp(s[i,j] - lse[i]) - exp(t[i,j] - teacher_lse[i])) dloss[i],
//   t = teacher_x @ teacher_w, which has no gradient
//
// Wijmans et al., arXiv:2411.09009. lse is the forward pass's log-sum-exp, from which logits are
// made again, block by block; a row whose label is no column of w has no gradient. A block of w has
// all of k, for both products. kernels/cross_entropy_grad_w.hpp has the other gradient.
#pragma once

#include "kernels/by_tile.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct CrossEntropyGradX {
  static constexpr KernelInfo info{
      .name = "cross_entropy_grad_x",
      .summary = "gradient of cross_entropy by the rows of x",
      .math =
          "ds[i,j] = (exp(s[i,j] - lse[i]) - (j = label[i])) dloss[i], or with exp(t[i,j] - "
          "teacher_lse[i]) of a teacher,  s = x @ w;  dx = ds @ w^T",
      .cites = "arXiv:2411.09009"};

  int m = 0;
  int n = 0;
  int k = 0;
  int teacher = 0;

  static constexpr auto sizes = params(
      size("m", &CrossEntropyGradX::m, "rows of x"),
      size("n", &CrossEntropyGradX::n, "columns of w: classes"),
      size("k", &CrossEntropyGradX::k, "columns of x, rows of w"),
      size("teacher", &CrossEntropyGradX::teacher, "columns of teacher_x; 0: labels, no teacher"));
  static constexpr auto tiles =
      tile_names(tile("bm"), tile("bn"), tile("bk", "k"), tile("bt", "teacher"));
  static constexpr std::array cases{
      Case{"aligned", {128, 512, 64, 0}, {32, 128, 64, 0}},
      Case{"ragged", {100, 300, 64, 0}, {32, 128, 64, 0}},
      Case{"one block of columns", {130, 60, 64, 0}, {32, 128, 64, 0}},
      Case{"a teacher, ragged", {50, 300, 64, 128}, {32, 128, 64, 128}},
      Case{"degenerate", {1, 1, 1, 0}, {1, 1, 1, 0}}};

  const char* valid(Tiles t) const {
    return t[2] == k && t[3] == teacher
               ? nullptr
               : "bk must be k, and bt teacher: a block has whole rows of x and teacher_x";
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk, auto bt) const {
    auto rows = [](auto i, auto) { return at(i, 0); };
    auto columns = [](auto, auto j) { return at(0, j); };
    const auto of_rows = block(bm, Int<1>{});
    const auto of_teacher = extent_or(bt, bk);
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), arbitrary(ceil_div(n, bn)).as("j")),
        in<T>("x", shape(m, k), block(bm, bk), rows).pad(0),
        in<T>("w", shape(k, n), block(bk, bn), columns).pad(0),
        in<T>("teacher_x", shape(m, teacher), block(bm, of_teacher), rows).pad(0).when(bt),
        in<T>("teacher_w", shape(teacher, n), block(of_teacher, bn), columns).pad(0).when(bt),
        in<int>("labels", shape(m, 1), of_rows, rows).pad(-1).uniform(-1, n).when(if_none(bt)),
        in<float>("lse", shape(m, 1), of_rows, rows).pad(0).uniform(4, 6),
        in<float>("teacher_lse", shape(m, 1), of_rows, rows).pad(0).uniform(4, 6).when(bt),
        in<float>("dloss", shape(m, 1), of_rows, rows).pad(0),
        out<T>("dx", shape(m, k), block(bm, bk), rows), accum<float>("acc", bm, bk));
  }

  /// x, dx and what rows have once; w for every block of rows, unless one block of it is all.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const bool stays = target.keeps_blocks && ceil_div(n, t[1]) == 1;
    const std::int64_t sweeps = stays ? 1 : ceil_div(m, t[0]);
    const std::int64_t x = std::int64_t{m} * k * kBytes<T>;
    const std::int64_t taught = (m + sweeps * n) * teacher * kBytes<T>;  // the same of a teacher
    return {x + sweeps * k * n * kBytes<T> + taught + m * (kBytes<int> + 2 * kBytes<float>), x};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class W, class TeacherX, class TeacherW, class Labels, class Lse,
            class TeacherLse, class Dloss, class Dx, class Acc>
  TESSERA_FN void operator()(Env& env, X x, W w, TeacherX teacher_x, TeacherW teacher_w,
                             Labels labels, Lse lse, TeacherLse teacher_lse, Dloss dloss, Dx dx,
                             Acc acc) const {
    const int columns = n;
    const auto j0 = env.program_id(1) * w.cols;
    if (env.first(1)) *acc = 0.f;      // (bm, bk) f32
    const auto s = load(dot(*x, *w));  // (bm, bn) f32
    if (teacher_x.there()) {
      const auto t = load(dot(*teacher_x, *teacher_w));  // (bm, bn) f32
      *acc += dot(cast<T>((exp(s - *lse) - exp(t - *teacher_lse)) * *dloss), transpose(*w));
    } else {
      const auto hit = where(col_ids(s) + j0 == *labels, 1.f, 0.f);
      const auto by = where(*labels < 0, 0.f, where(*labels < columns, *dloss, 0.f));  // (bm, 1)
      *acc += dot(cast<T>((exp(s - *lse) - hit) * by), transpose(*w));
    }
    if (env.last(1)) *dx = cast<T>(*acc);  // (bm, bk) T
  }
};

}  // namespace tessera::kernels
