// The gradient of cross_entropy (kernels/cross_entropy.hpp) by the columns of w: no logits leave
// VMEM.
//
//   dw = x^T @ ds,   ds[i,j] = (exp(s[i,j] - lse[i]) - (j = label[i])) dloss[i],   s = x @ w,
//   or with a teacher
//
// Wijmans et al., arXiv:2411.09009. Rows go by in blocks, in order, so that there is one sum for
// every build; ds is made as kernels/cross_entropy_grad_x.hpp makes it. A block of x has all of k,
// for both products.
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
struct CrossEntropyGradW {
  static constexpr KernelInfo info{
      .name = "cross_entropy_grad_w",
      .summary = "gradient of cross_entropy by the columns of w",
      .math =
          "ds[i,j] = (exp(s[i,j] - lse[i]) - (j = label[i])) dloss[i], or with exp(t[i,j] - "
          "teacher_lse[i]) of a teacher,  s = x @ w;  dw = x^T @ ds",
      .cites = "arXiv:2411.09009"};

  int m = 0;
  int n = 0;
  int k = 0;
  int teacher = 0;

  static constexpr auto sizes = params(
      size("m", &CrossEntropyGradW::m, "rows of x"),
      size("n", &CrossEntropyGradW::n, "columns of w: classes"),
      size("k", &CrossEntropyGradW::k, "columns of x, rows of w"),
      size("teacher", &CrossEntropyGradW::teacher, "columns of teacher_x; 0: labels, no teacher"));
  static constexpr auto tiles =
      tile_names(tile("bm"), tile("bn"), tile("bk", "k"), tile("bt", "teacher"));
  static constexpr std::array cases{Case{"aligned", {128, 512, 32, 0}, {32, 128, 32, 0}},
                                    Case{"ragged", {100, 300, 32, 0}, {32, 128, 32, 0}},
                                    Case{"one block of rows", {30, 200, 32, 0}, {32, 128, 32, 0}},
                                    Case{"a teacher, ragged", {50, 300, 32, 64}, {32, 128, 32, 64}},
                                    Case{"degenerate", {1, 1, 1, 0}, {1, 1, 1, 0}}};

  const char* valid(Tiles t) const {
    return t[2] == k && t[3] == teacher
               ? nullptr
               : "bk must be k, and bt teacher: a block has whole rows of x and teacher_x";
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk, auto bt) const {
    auto rows = [](auto, auto i) { return at(i, 0); };
    auto columns = [](auto j, auto) { return at(0, j); };
    const auto of_rows = block(bm, Int<1>{});
    const auto of_teacher = extent_or(bt, bk);
    return tessera::spec(
        grid(parallel(ceil_div(n, bn)).as("j"), arbitrary(ceil_div(m, bm)).as("i")),
        in<T>("x", shape(m, k), block(bm, bk), rows).pad(0),
        in<T>("w", shape(k, n), block(bk, bn), columns).pad(0),
        in<T>("teacher_x", shape(m, teacher), block(bm, of_teacher), rows).pad(0).when(bt),
        in<T>("teacher_w", shape(teacher, n), block(of_teacher, bn), columns).pad(0).when(bt),
        in<int>("labels", shape(m, 1), of_rows, rows).pad(-1).uniform(-1, n).when(if_none(bt)),
        in<float>("lse", shape(m, 1), of_rows, rows).pad(0).uniform(4, 6),
        in<float>("teacher_lse", shape(m, 1), of_rows, rows).pad(0).uniform(4, 6).when(bt),
        in<float>("dloss", shape(m, 1), of_rows, rows).pad(0),
        out<T>("dw", shape(k, n), block(bk, bn), columns), vmem<T>("ds", bm, bn),
        accum<float>("acc", bk, bn));
  }

  /// w and dw once; x and what rows have for every block of columns, unless one block of them is
  /// all.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const bool stays = target.keeps_blocks && ceil_div(m, t[0]) == 1;
    const std::int64_t sweeps = stays ? 1 : ceil_div(n, t[1]);
    const std::int64_t w = std::int64_t{k} * n * kBytes<T>;
    const std::int64_t taught = (n + sweeps * m) * teacher * kBytes<T>;
    return {w + taught + sweeps * m * (k * kBytes<T> + kBytes<int> + 2 * kBytes<float>), w};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class W, class TeacherX, class TeacherW, class Labels, class Lse,
            class TeacherLse, class Dloss, class Dw, class Ds, class Acc>
  TESSERA_FN void operator()(Env& env, X x, W w, TeacherX teacher_x, TeacherW teacher_w,
                             Labels labels, Lse lse, TeacherLse teacher_lse, Dloss dloss, Dw dw,
                             Ds ds, Acc acc) const {
    const int columns = n;
    const auto j0 = env.program_id(0) * w.cols;
    if (env.first(1)) *acc = 0.f;      // (bk, bn) f32
    const auto s = load(dot(*x, *w));  // (bm, bn) f32
    if (teacher_x.there()) {
      const auto t = load(dot(*teacher_x, *teacher_w));                 // (bm, bn) f32
      *ds = cast<T>((exp(s - *lse) - exp(t - *teacher_lse)) * *dloss);  // (bm, bn) T
    } else {
      const auto hit = where(col_ids(s) + j0 == *labels, 1.f, 0.f);
      const auto by = where(*labels < 0, 0.f, where(*labels < columns, *dloss, 0.f));  // (bm, 1)
      *ds = cast<T>((exp(s - *lse) - hit) * by);                                       // (bm, bn) T
    }
    *acc += dot(transpose(*x), *ds);
    if (env.last(1)) *dw = cast<T>(*acc);  // (bk, bn) T
  }
};

}  // namespace tessera::kernels
