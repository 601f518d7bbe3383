// A matrix product whose right operand is stored in 4 or 8 bits and made whole in VMEM, block by
// block.
//
//   o = x @ w,   w[k,j] = (code[k,j] - zero[g,j]) scale[g,j],   g = k / group
//   NF4:         w[k,j] = level[code[k,j]] scale[g,j]
//   int8:        w[k,j] = byte[k,j] scale[g,j]
//   MXFP4:       w[k,j] = e2m1[code[k,j]] 2^(exponent[g,j] - 127),   group = 32
//
// Words of u32 hold eight codes of a column, rows 8 r to 8 r + 7, the lowest bits first, as GPTQ
// packs them (Frantar et al., arXiv:2210.17323); scales and zero points of a group of rows are f32,
// as HQQ has them. NF4: the quantiles of a normal distribution, Dettmers et al., arXiv:2305.14314,
// appendix E. int8: symmetric, Dettmers et al., arXiv:2208.07339. MXFP4: OCP Microscaling Formats
// Specification 1.0, whose exponents are e8m0: 255 is NaN. w is rounded to the type of x, whose
// products these are. A block of 8 bw rows has bg groups, or is part of one.
#pragma once

#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/bitcast.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/lookup.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/shift.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/unpack.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct QuantisedMatmul {
  static constexpr KernelInfo info{
      .name = "quantised_matmul",
      .summary = "matrix product with weights of 4 or 8 bits: affine, NF4, int8, MXFP4",
      .math =
          "o[i,j] = sum_k x[i,k] w[k,j],  w[k,j] = (code[k,j] - zero[k / group, j]) scale[k / "
          "group, j], or level[code[k,j]] scale[k / group, j]",
      .cites = "arXiv:2210.17323, arXiv:2305.14314, arXiv:2208.07339"};
  static constexpr bool exchanges = true;
  static constexpr int kFields = 8;  ///< codes of a word
  enum Format : int { kAffine, kNf4, kInt8, kMxfp4 };

  int m = 0;
  int n = 0;
  int k = 0;
  int group = 0;
  int format = kAffine;

  static constexpr auto sizes =
      params(size("m", &QuantisedMatmul::m, "rows of x and o"),
             size("n", &QuantisedMatmul::n, "columns of w and o"),
             size("k", &QuantisedMatmul::k, "columns of x, rows of w"),
             size("group", &QuantisedMatmul::group, "rows of w with one scale"),
             size("format", &QuantisedMatmul::format, "0: affine; 1: NF4; 2: int8; 3: MXFP4"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bw"), tile("bg"));
  static constexpr std::array cases{Case{"aligned", {64, 512, 1024, 128, 0}, {64, 128, 16, 1}},
                                    Case{"NF4", {64, 256, 512, 64, 1}, {32, 128, 16, 2}},
                                    Case{"ragged", {41, 200, 300, 64, 0}, {32, 128, 16, 2}},
                                    Case{"NF4, ragged", {90, 100, 300, 384, 1}, {64, 128, 16, 1}},
                                    Case{"int8", {64, 256, 256, 128, 2}, {64, 128, 16, 1}},
                                    Case{"int8, ragged", {41, 200, 150, 64, 2}, {32, 128, 16, 2}},
                                    Case{"MXFP4", {64, 256, 256, 32, 3}, {32, 128, 16, 4}},
                                    Case{"MXFP4, ragged", {50, 90, 100, 32, 3}, {32, 128, 16, 4}},
                                    Case{"degenerate", {1, 1, 1, 128, 0}, {8, 128, 16, 1}}};

  const char* valid(Tiles t) const {
    if (format < kAffine || format > kMxfp4) return "format is 0, 1, 2 or 3";
    if (t[2] % 4 != 0) return "bw must be a multiple of 4";  // rows of bytes: of 32
    if (format == kMxfp4 && group != 32) return "MXFP4 has an exponent for every 32 rows";
    const int rows = kFields * t[2];
    const bool part = t[3] == 1 && group > 0 && group % rows == 0;
    return part || group * t[3] == rows ? nullptr
                                        : "8 bw rows must be bg groups, or bg 1 and divide a group";
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bw, auto bg) const {
    const auto pair = bw + bw;
    const auto quad = pair + pair;
    const auto bk = quad + quad;
    const auto of_groups = shape(ceil_div(k, group), 1, n);
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
            .uniform(0, 0x1p32)
            .when(format != kInt8),
        in<std::int8_t>("bytes", shape(k, n), block(bk, bn),
                        [](auto, auto j, auto kk) { return at(kk, j); })
            .pad(0)
            .uniform(-128, 128)
            .when(format == kInt8),
        in<float>("scale", of_groups, block(bg, Int<1>{}, bn), scale_block)
            .uniform(0.5, 1.5)
            .when(format != kMxfp4),
        in<float>("zero", of_groups, block(bg, Int<1>{}, bn), scale_block)
            .uniform(0, 16)
            .when(format == kAffine),
        in<std::uint8_t>("exponent", of_groups, block(bg, Int<1>{}, bn), scale_block)
            .uniform(120, 135)
            .when(format == kMxfp4),
        out<T>("o", shape(m, n), block(bm, bn), [](auto i, auto j, auto) { return at(i, j); }),
        vmem<T>("w", bk, bn), accum<float>("acc", bm, bn));
  }

  /// A product whose right operand has words of eight rows, or bytes. Scales, zeros and exponents:
  /// once for every block of rows of x, unless one block of them is all there is and stays.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(m, n, k, t[0], t[1], kFields * t[2], target);
    const std::int64_t words =
        reads.right / (std::int64_t{k} * n) * std::int64_t{ceil_div(k, kFields)} * n;
    const std::int64_t codes = format == kInt8 ? reads.right : 4 * words;
    const int each = format == kAffine ? 8 : format == kMxfp4 ? 1 : 4;  // bytes of a group's column
    const int groups = ceil_div(k, group);
    const bool stays = target.keeps_blocks && groups <= t[3] && n <= t[1];
    const std::int64_t scales = std::int64_t{stays ? 1 : ceil_div(m, t[0])} * groups * n;
    return {reads.left * kBytes<T> + codes + each * scales, std::int64_t{m} * n * kBytes<T>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class Words, class ByteRef, class Scale, class Zero, class Exponent,
            class O, class W, class Acc>
  TESSERA_FN void operator()(Env& env, X x, Words words, ByteRef bytes, Scale scale, Zero zero,
                             Exponent exponent, O o, W w, Acc acc) const {
    if (env.first(2)) *acc = 0.f;                                               // (bm, bn) f32
    const auto last = ceil_div(k, group) - 1 - env.program_id(2) * scale.rows;  // if bg > 1
    const auto as_it_is = [](const auto& factor) { return factor; };
    const auto rows = load(row_ids(*w));  // (8 bw, bn)
    if (format == kInt8) {
      *w = cast<T>(cast<float>(*bytes) * of_rows(scale, rows, last, as_it_is));
    } else {
      const auto codes = load(cast<std::int32_t>(unpack_rows<32 / kFields>(*words)));  // (8 bw, bn)
      if (format == kNf4) {
        *w = cast<T>(lookup(codes, levels()) * of_rows(scale, rows, last, as_it_is));
      } else if (format == kMxfp4) {
        *w = cast<T>(lookup(codes, e2m1()) * of_rows(exponent, rows, last, Power{}));
      } else {
        *w = cast<T>((cast<float>(codes) - of_rows(zero, rows, last, as_it_is)) *
                     of_rows(scale, rows, last, as_it_is));
      }
    }
    *acc += dot(*x, *w);                  // one FMA chain over all of k
    if (env.last(2)) *o = cast<T>(*acc);  // (bm, bn) T
  }

  /// What the groups of a block have, in each row of theirs, as f32; beyond the last group x is
  /// zero.
  TESSERA_FN auto of_rows(const auto& groups, const auto& rows, auto last, auto factor) const {
    auto all = load(where(rows < 0, 0.f, factor(*groups.at(0))));
    for (int g = 1; g < groups.rows; ++g)
      all = load(where(rows < g * group, all, factor(*groups.at(lesser(g, last)))));
    return all;
  }
  /// 2^(exponent - 127), of a tile.
  struct Power {
    TESSERA_FN auto operator()(const auto& exponent) const {
      const auto e = load(cast<std::int32_t>(exponent));
      constexpr int kNan = 0x7fc00000;
      constexpr int kLeast = 0x00400000;  // 2^-127 is subnormal
      return load(bitcast<float>(where(e == 255, kNan, where(e == 0, kLeast, e << 23))));
    }
  };

  TESSERA_FN static constexpr auto levels() {
    return lookup_table(-1.f, -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f,
                        -0.09105004f, 0.f, 0.0795803f, 0.1609302f, 0.2461123f, 0.33791524f,
                        0.44070983f, 0.562617f, 0.72295684f, 1.f);
  }
  /// A sign, two bits of exponent, one of fraction.
  TESSERA_FN static constexpr auto e2m1() {
    return lookup_table(0.f, 0.5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f, -0.f, -0.5f, -1.f, -1.5f, -2.f,
                        -3.f, -4.f, -6.f);
  }
};

}  // namespace tessera::kernels
