// A matrix product whose right operand is stored in 4 bits and made whole in VMEM, block by block.
//
//   o = x @ w,   w[k,j] = (code[k,j] - zero[g,j]) scale[g,j],   g = k / group
//   NF4:         w[k,j] = level[code[k,j]] scale[g,j]
//
// Words of u32 hold eight codes of a column, rows 8 r to 8 r + 7, the lowest bits first, as GPTQ
// packs them (Frantar et al., arXiv:2210.17323); scales and zero points of a group of rows are f32,
// as HQQ has them. NF4: the quantiles of a normal distribution, Dettmers et al., arXiv:2305.14314,
// appendix E. w is rounded to the type of x, whose products these are. A block of 8 bw rows has bg
// groups, or is part of one.
#pragma once

#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/lookup.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/unpack.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct QuantisedMatmul {
  static constexpr KernelInfo info{
      .name = "quantised_matmul",
      .summary = "matrix product with 4-bit weights: affine in groups, or NF4",
      .math =
          "o[i,j] = sum_k x[i,k] w[k,j],  w[k,j] = (code[k,j] - zero[k / group, j]) scale[k / "
          "group, j], or level[code[k,j]] scale[k / group, j]",
      .cites = "arXiv:2210.17323, arXiv:2305.14314"};
  static constexpr bool exchanges = true;
  static constexpr int kFields = 8;  ///< codes of a word
  static constexpr int kWords = 2;   ///< rows of words that are made whole at a time

  int m = 0;
  int n = 0;
  int k = 0;
  int group = 0;
  int nf4 = 0;

  static constexpr auto sizes =
      params(size("m", &QuantisedMatmul::m, "rows of x and o"),
             size("n", &QuantisedMatmul::n, "columns of w and o"),
             size("k", &QuantisedMatmul::k, "columns of x, rows of w"),
             size("group", &QuantisedMatmul::group, "rows of w with one scale"),
             size("nf4", &QuantisedMatmul::nf4, "1: codes are places of NF4's levels"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bw"), tile("bg"));
  static constexpr std::array cases{Case{"aligned", {64, 512, 1024, 128, 0}, {64, 128, 16, 1}},
                                    Case{"NF4", {64, 256, 512, 64, 1}, {32, 128, 16, 2}},
                                    Case{"ragged", {41, 200, 300, 64, 0}, {32, 128, 16, 2}},
                                    Case{"NF4, ragged", {90, 100, 300, 384, 1}, {64, 128, 16, 1}},
                                    Case{"degenerate", {1, 1, 1, 128, 0}, {8, 128, 16, 1}}};

  const char* valid(Tiles t) const {
    if (t[2] % kWords != 0) return "bw must be even";
    const int rows = kFields * t[2];
    const bool part = t[3] == 1 && group > 0 && group % rows == 0;
    return part || group * t[3] == rows ? nullptr
                                        : "8 bw rows must be bg groups, or bg 1 and divide a group";
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bw, auto bg) const {
    const auto pair = bw + bw;
    const auto quad = pair + pair;
    const auto bk = quad + quad;
    const int groups = ceil_div(k, group);
    const int blocks = group * bg / bk;  // of a block of scales
    auto scale_block = [blocks](auto, auto j, auto kk) { return at(kk / blocks, 0, j); };
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary(ceil_div(k, bk)).as("k")),
        in<T>("x", shape(m, k), block(bm, bk), [](auto i, auto, auto kk) { return at(i, kk); })
            .pad(0),
        in<std::uint32_t>("words", shape(ceil_div(k, kFields), n), block(bw, bn),
                          [](auto, auto j, auto kk) { return at(kk, j); })
            .pad(0)
            .uniform(0, 0x1p32),
        in<float>("scale", shape(groups, 1, n), block(bg, Int<1>{}, bn), scale_block)
            .uniform(0.5, 1.5),
        in<float>("zero", shape(groups, 1, n), block(bg, Int<1>{}, bn), scale_block)
            .uniform(0, 16)
            .when(nf4 == 0),
        out<T>("o", shape(m, n), block(bm, bn), [](auto i, auto j, auto) { return at(i, j); }),
        vmem<T>("w", bk, bn), accum<float>("acc", bm, bn));
  }

  /// A product whose right operand has words of eight rows. Scales and zeros: once for every block
  /// of rows of x, unless one block of them is all there is and stays.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(m, n, k, t[0], t[1], kFields * t[2], target);
    const std::int64_t words =
        reads.right / (std::int64_t{k} * n) * std::int64_t{ceil_div(k, kFields)} * n;
    const int groups = ceil_div(k, group);
    const bool stays = target.keeps_blocks && groups <= t[3] && n <= t[1];
    const std::int64_t scales = std::int64_t{stays ? 1 : ceil_div(m, t[0])} * groups * n;
    return {reads.left * kBytes<T> + 4 * (words + (nf4 != 0 ? 1 : 2) * scales),
            std::int64_t{m} * n * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto words, auto scale, auto zero, auto o, auto w,
                             auto acc) const {
    if (env.first(2)) *acc = 0.f;                                               // (bm, bn) f32
    const auto last = ceil_div(k, group) - 1 - env.program_id(2) * scale.rows;  // if bg > 1
    for (int part = 0; part < words.rows / kWords; ++part) {
      const auto few = words.row_range(part * kWords, Int<kWords>{});
      const auto some = w.row_range(part * kWords * kFields, Int<kWords * kFields>{});
      const auto codes = load(cast<std::int32_t>(unpack_rows<32 / kFields>(*few)));  // (16, bn)
      const auto rows = load(row_ids(codes) + part * kWords * kFields);
      if (nf4 != 0)
        *some = cast<T>(lookup(codes, levels()) * of_rows(scale, rows, last));
      else
        *some =
            cast<T>((cast<float>(codes) - of_rows(zero, rows, last)) * of_rows(scale, rows, last));
    }
    *acc += dot(*x, *w);                  // one FMA chain over all of k
    if (env.last(2)) *o = cast<T>(*acc);  // (bm, bn) T
  }

  /// What the groups of a block have, in each row of theirs; beyond the last group x is zero.
  TESSERA_FN auto of_rows(const auto& groups, const auto& rows, auto last) const {
    auto all = load(where(rows < 0, 0.f, *groups.at(0)));
    for (int g = 1; g < groups.rows; ++g)
      all = load(where(rows < g * group, all, *groups.at(lesser(g, last))));
    return all;
  }

  TESSERA_FN static constexpr auto levels() {
    return lookup_table(-1.f, -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f,
                        -0.09105004f, 0.f, 0.0795803f, 0.1609302f, 0.2461123f, 0.33791524f,
                        0.44070983f, 0.562617f, 0.72295684f, 1.f);
  }
};

}  // namespace tessera::kernels
