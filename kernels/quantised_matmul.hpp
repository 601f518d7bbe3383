// A matrix product whose right operand is stored in 4 or 8 bits.
//
//   o = x @ w,   w[k,j] = (value[k,j] - zero[g,j]) factor[g,j],   g = k / group
//
// quantised_matmul: words of u32 hold eight codes of a column, rows 8 r to 8 r + 7, the lowest bits
// first, as GPTQ packs them (Frantar et al., arXiv:2210.17323).
//   affine: the value is the code; factors and zero points are f32, as HQQ has them
//   NF4:    one of 16 quantiles of a normal distribution (Dettmers et al., arXiv:2305.14314,
//           appendix E), no zero point
//   MXFP4:  e2m1, group = 32, the factor 2^(exponent - 127), an exponent of 255 is NaN (OCP
//           Microscaling Formats Specification 1.0)
//   NVFP4:  e2m1, group = 16, the factor an e4m3 (its bits) times an f32 of the whole tensor
//   (NVIDIA,
//           "Pretraining Large Language Models with NVFP4", arXiv:2509.25149)
// quantised_matmul_int8: bytes, factors are f32 (Dettmers et al., arXiv:2208.07339).
// quantised_matmul_fp8: e4m3, MXFP8 with MXFP4's factors, NVFP8 with NVFP4's.
//
// One group to a block (bg = 1) or a part of it, or fewer than 64 rows of x and groups of a
// multiple of 128 rows: a group's values as they are multiply x, and what they sum to takes zero
// and factor,
//   o += (x_g @ value_g - sum_k x_g zero_g) factor_g
// which costs rows of x, not rows of w. NF4's values are rounded to the type of x, the others are
// exact in it. Else w, of the bg groups of a block, is rounded to that type and made whole.
//
// splits > 1: cells of their own take equal runs of the blocks of k, and give a `part` each, which
// split_sum adds in their order: what few rows of x need to be many cells. A tile size, runs > 1: a
// cell's own blocks of k are as many runs, whose parts are added in the kernel (sim/body/runs.hpp).
#pragma once

#include "kernels/cases.hpp"
#include "kernels/matmul_bytes.hpp"
#include "sim/body/builds.hpp"
#include "sim/body/runs.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/bitcast.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/lookup.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/row_total.hpp"
#include "sim/ops/shift.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/unpack.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

/// `Stored`: words of u32 with eight codes each, int8 or f8e4m3fn. kFormat: the format that a build
/// is for, or kOfSize.
template <class T, class Stored, int kFormat = -1>
struct QuantisedProduct {
  static constexpr bool kWords = sizeof(Stored) == 4;
  static constexpr bool kInt8 = std::is_same_v<Stored, std::int8_t>;
  static constexpr KernelInfo info{
      .name = kWords  ? "quantised_matmul"
              : kInt8 ? "quantised_matmul_int8"
                      : "quantised_matmul_fp8",
      .summary = kWords  ? "matrix product with weights of 4 bits: affine, NF4, MXFP4, NVFP4"
                 : kInt8 ? "matrix product with weights of int8"
                         : "matrix product with weights of e4m3: MXFP8, NVFP8",
      .math = kWords ? "o[i,j] = sum_k x[i,k] w[k,j],  w[k,j] = (code[k,j] - zero[k / group, j]) "
                       "scale[k / group, j], or level[code[k,j]] scale[k / group, j]"
                     : "o[i,j] = sum_k x[i,k] w[k,j],  w[k,j] = byte[k,j] scale[k / group, j]",
      .cites = kWords  ? "arXiv:2210.17323, arXiv:2305.14314, arXiv:2509.25149"
               : kInt8 ? "arXiv:2208.07339"
                       : "arXiv:2509.25149"};
  static constexpr bool exchanges = true;
  static constexpr int kFields = kWords ? 8 : 1;  ///< rows of w in a row of what is stored
  enum Format : int { kOfSize = -1, kAffine, kNf4, kMxfp4, kNvfp4 };  ///< of words
  enum Fp8Format : int { kMxfp8, kNvfp8 };

  int m = 0;
  int n = 0;
  int k = 0;
  int group = 0;
  int format = 0;
  int splits = 1;

  int run = 0;  ///< rows of w that no split parts: of bg groups

  static constexpr auto sizes = params(
      size("m", &QuantisedProduct::m, "rows of x and o"),
      size("n", &QuantisedProduct::n, "columns of w and o"),
      size("k", &QuantisedProduct::k, "columns of x, rows of w"),
      size("group", &QuantisedProduct::group, "rows of w with one scale"),
      size("format", &QuantisedProduct::format, kWords ? "0: affine; 1: NF4; 2: MXFP4" : "0: int8"),
      size("splits", &QuantisedProduct::splits, "runs of blocks of k, a cell and a part each"));
  static constexpr auto tiles =
      tile_names(tile("bm"), tile("bn"), tile("bw"), tile("bg"), tile("runs"));
  static constexpr std::array word_cases{
      Case{"aligned", {64, 512, 1024, 128, 0, 1}, {64, 128, 16, 1, 1}},
      Case{"NF4", {64, 256, 512, 64, 1, 1}, {32, 128, 16, 2, 1}},
      Case{"ragged", {41, 200, 300, 64, 0, 1}, {32, 128, 16, 2, 1}},
      Case{"few rows, splits", {16, 300, 1100, 128, 0, 4}, {16, 256, 16, 1, 1}},
      Case{"few rows, groups", {9, 300, 1500, 128, 0, 3}, {16, 256, 32, 2, 1}},
      Case{"NF4, ragged", {90, 100, 300, 384, 1, 1}, {64, 128, 16, 1, 1}},
      Case{"NF4, few rows, splits", {7, 128, 700, 256, 1, 2}, {8, 128, 16, 1, 1}},
      Case{"MXFP4", {64, 256, 256, 32, 2, 1}, {32, 128, 16, 4, 1}},
      Case{"MXFP4, ragged", {50, 90, 100, 32, 2, 1}, {32, 128, 16, 4, 1}},
      Case{"NVFP4", {40, 256, 256, 16, 3, 1}, {32, 128, 16, 8, 1}},
      Case{"NVFP4, ragged", {9, 100, 170, 16, 3, 1}, {32, 128, 16, 8, 1}},
      Case{"few rows, runs", {16, 300, 1100, 128, 0, 1}, {16, 128, 16, 1, 4}},
      Case{"NF4, runs of splits", {11, 150, 1024, 128, 1, 2}, {16, 128, 16, 1, 4}},
      Case{"degenerate", {1, 1, 1, 128, 0, 1}, {8, 128, 16, 1, 1}}};
  static constexpr std::array int8_cases{
      Case{"aligned", {64, 256, 256, 128, 0, 1}, {64, 128, 128, 1, 1}},
      Case{"ragged", {41, 200, 150, 64, 0, 1}, {32, 128, 128, 2, 1}},
      Case{"few rows, splits", {16, 200, 800, 256, 0, 3}, {16, 128, 128, 1, 1}},
      Case{"degenerate", {1, 1, 1, 128, 0, 1}, {8, 128, 128, 1, 1}}};
  static constexpr std::array fp8_cases{
      Case{"aligned", {64, 256, 256, 32, 0, 1}, {32, 128, 128, 4, 1}},
      Case{"NVFP8, ragged", {41, 200, 150, 16, 1, 1}, {32, 128, 128, 8, 1}},
      Case{"few rows", {16, 128, 100, 32, 0, 1}, {16, 128, 128, 4, 1}},
      Case{"degenerate", {1, 1, 1, 32, 0, 1}, {8, 128, 128, 4, 1}}};
  static constexpr auto cases =
      cases_of<kWords>(word_cases, cases_of<kInt8>(int8_cases, fp8_cases));

  const char* valid(Tiles t) const {
    const int rows = kFields * t[2];
    if (format < 0 || format > (kWords ? kNvfp4 : kInt8 ? 0 : kNvfp8))
      return "there is no such format";
    if (rows % 32 != 0) return "a block has a multiple of 32 rows of w";
    if (of_exponents() && group != 32) return "MXFP4 and MXFP8 have an exponent for every 32 rows";
    if (of_scale8() && group != 16) return "NVFP4 and NVFP8 have a scale for every 16 rows";
    const bool part = t[3] == 1 && group > 0 && group % rows == 0;
    if (!part && group * t[3] != rows)
      return "rows of a block must be bg groups, or bg 1 and divide a group";
    return splits < 1 || t[4] < 1 || splits * t[4] > ceil_div(k, group * t[3])
               ? "splits and runs are 1 or more, and no more than k has blocks of groups"
               : nullptr;
  }

  TESSERA_FN int known_format() const { return kFormat == kOfSize ? format : kFormat; }
  /// What factors are made of, if not of f32.
  TESSERA_FN bool of_exponents() const {
    return kWords ? known_format() == kMxfp4 : !kInt8 && known_format() == kMxfp8;
  }
  TESSERA_FN bool of_scale8() const {
    return kWords ? known_format() == kNvfp4 : !kInt8 && known_format() == kNvfp8;
  }
  TESSERA_FN bool affine() const { return kWords && known_format() == kAffine; }

  /// Beside 16 warps that multiply a thread has no registers for what other formats ask of it: with
  /// runs, a GPU has a build for each that blocks of one long group have.
  template <int, int, int, int kGroups, int kRuns>
  using Builds = std::conditional_t<
      kFormat == kOfSize && kWords && kGroups == 1 && (kRuns > 1),
      tessera::Builds<QuantisedProduct<T, Stored, kAffine>, QuantisedProduct<T, Stored, kNf4>>,
      tessera::Builds<QuantisedProduct>>;
  bool is_build() const { return known_format() == format; }

  /// The blocks [begin, end) of a part of `parts`. `together`: of a block of scales, which
  /// no part ends in.
  TESSERA_FN auto part_begin(auto part, int parts, int bk, int together) const {
    return part * ceil_div(k, bk * together) / parts * together;
  }
  TESSERA_FN auto part_end(auto part, int parts, int bk, int together) const {
    return lesser(part_begin(part + 1, parts, bk, together), ceil_div(k, bk));
  }

  /// The block of scales of block `id` of k. Divisions take long.
  template <class I>
  TESSERA_FN static auto block_of(I id, int together) {
    if constexpr (std::is_same_v<I, decltype(id / together)>)
      return together == 1 ? id : id / together;
    else
      return id / together;
  }
  /// Rows of w, or of what is stored, that a group has.
  TESSERA_FN static int of_each(int rows, int groups) { return rows / groups; }
  template <int kRows, int kGroups>
  TESSERA_FN static auto of_each(Int<kRows>, Int<kGroups>) {
    return Int<kRows / kGroups>{};
  }
  /// Whether sums take zero and factor.
  TESSERA_FN static constexpr bool in_sums(int rows_of_x, int rows_of_group, int groups) {
    return groups == 1 || (rows_of_x < 64 && rows_of_group % 128 == 0);
  }
  /// Rows of w in VMEM: none if it is not made.
  TESSERA_FN static int made_rows(int bm, int bk, int bg) {
    return in_sums(bm, bk / bg, bg) ? 1 : bk;
  }
  template <int kM, int kK, int kGroups>
  TESSERA_FN static auto made_rows(Int<kM>, Int<kK>, Int<kGroups>) {
    return Int < in_sums(kM, kK / kGroups, kGroups) ? 1 : kK > {};
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bw, auto bg, auto of_runs) const {
    const auto self = *this;
    const auto bk = fields(bw);
    const auto of_groups = shape(ceil_div(k, group), 1, n);
    const int blocks = group * bg / bk;  // of a block of scales
    const int each = of_runs;
    const int parts = splits * each;
    auto scale_block = [blocks](auto, auto j, auto, auto, auto kk) {
      return at(block_of(kk, blocks), 0, j);
    };
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j"),
             parallel(splits).as("split"), runs(of_runs).as("run"),
             arbitrary(
                 [self, bk, blocks, each, parts](auto, auto, auto split, auto of_split) {
                   return self.part_begin(split * each + of_split, parts, bk, blocks);
                 },
                 [self, bk, blocks, each, parts](auto, auto, auto split, auto of_split) {
                   return self.part_end(split * each + of_split, parts, bk, blocks);
                 })
                 .as("k")),
        in<T>("x", shape(m, k), block(bm, bk),
              [](auto i, auto, auto, auto, auto kk) { return at(i, kk); })
            .pad(0),
        in<Stored>(kWords ? "words" : "bytes", shape(ceil_div(k, kFields), n), block(bw, bn),
                   [](auto, auto j, auto, auto, auto kk) { return at(kk, j); })
            .pad(0)
            .uniform(kWords ? 0 : -128, kWords ? 0x1p32 : 128),
        in<float>("scale", of_groups, block(bg, Int<1>{}, bn), scale_block)
            .uniform(0.5, 1.5)
            .when(!of_exponents() && !of_scale8()),
        in<float>("zero", of_groups, block(bg, Int<1>{}, bn), scale_block)
            .uniform(0, 16)
            .when(affine()),
        in<std::uint8_t>("exponent", of_groups, block(bg, Int<1>{}, bn), scale_block)
            .uniform(120, 135)
            .when(of_exponents()),
        in<std::uint8_t>("scale8", of_groups, block(bg, Int<1>{}, bn), scale_block)
            .uniform(30, 80)
            .when(of_scale8()),
        in<float>("tensor_scale", shape(1, 1), block(Int<1>{}, Int<1>{}),
                  [](auto, auto, auto, auto, auto) { return at(0, 0); })
            .uniform(0.5, 1.5)
            .when(of_scale8()),
        out<T>("o", shape(m, n), block(bm, bn),
               [](auto i, auto j, auto, auto, auto) { return at(i, j); })
            .when(splits == 1),
        out<float>("part", shape(splits, m, n), block(squeezed, bm, bn),
                   [](auto i, auto j, auto split, auto, auto) { return at(split, i, j); })
            .when(splits > 1),
        vmem<T>("w", made_rows(bm, bk, bg), bn), accum<float>("acc", bm, bn),
        total<float>("total", of_runs, bm, bn));
  }
  TESSERA_FN static auto fields(auto rows) {
    const auto pair = rows + rows;
    const auto quad = pair + pair;
    if constexpr (kWords)
      return quad + quad;
    else
      return rows;
  }

  /// A product whose right operand has words of eight rows, or bytes. Scales, zeros and exponents:
  /// once for every block of rows of x, unless one block of them is all there is and stays. What is
  /// tensor_scale likewise.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(m, n, k, t[0], t[1], kFields * t[2], target);
    const std::int64_t stored =
        reads.right / (std::int64_t{k} * n) * std::int64_t{ceil_div(k, kFields)} * n;
    // Bytes of a group's column.
    const int each = affine() ? 8 : of_exponents() || of_scale8() ? 1 : 4;
    const int groups = ceil_div(k, group);
    const bool stays = target.keeps_blocks && groups <= t[3] && n <= t[1];
    const std::int64_t scales = std::int64_t{stays ? 1 : ceil_div(m, t[0])} * groups * n;
    const std::int64_t results = std::int64_t{m} * n;
    const std::int64_t cells = std::int64_t{ceil_div(m, t[0])} * ceil_div(n, t[1]) * splits;
    const std::int64_t globals = of_scale8() ? (target.keeps_blocks ? 1 : cells) : 0;
    return {
        reads.left * kBytes<T> + stored * kBytes<Stored> + each * scales + globals * kBytes<float>,
        splits == 1 ? results * kBytes<T> : splits * results * kBytes<float>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class Codes, class Scale, class Zero, class Exponent, class Scale8,
            class TensorScale, class O, class Part, class W, class Acc, class Total>
  TESSERA_FN void operator()(Env& env, X x, Codes codes, Scale scale, Zero zero, Exponent exponent,
                             Scale8 scale8, TensorScale tensor_scale, O o, Part part, W w, Acc acc,
                             Total total) const {
    if (env.first(4)) *acc = 0.f;  // (bm, bn) f32
    const auto factor = factors(scale, exponent, scale8, tensor_scale);
    const auto of_x = of_each(x.cols, scale.rows);
    if (in_sums(x.rows, of_x, scale.rows)) {
      // A block as it lies, where it is one group's.
      if (scale.rows == 1)
        with_values(*codes, add_group(*x, zero, factor, acc, 0));
      else if constexpr (known<decltype(scale.rows)>() != 1 && known<decltype(x.rows)>() < 64)
        add_groups<0>(scale.rows, x, codes, zero, factor, acc, last_group(env, scale.rows));
    } else if constexpr (known<decltype(w.rows)>() != 1) {
      // Beyond the last group x is zero.
      const auto last = last_group(env, scale.rows);
      const auto rows = load(row_ids(*w));  // (bk, bn)
      const auto of_rows = [&](auto of_group) {
        auto all = load(where(rows < 0, 0.f, of_group(0)));
        for (int g = 1; g < scale.rows; ++g)
          all = load(where(rows < g * group, all, of_group(lesser(g, last))));
        return all;
      };
      with_values(*codes, [&](const auto& values) {
        if (affine()) {
          const auto zeros = of_rows([&](auto g) { return load(*zero.at(g)); });
          *w = cast<T>((values - zeros) * of_rows(factor));
        } else {
          *w = cast<T>(values * of_rows(factor));
        }
      });
      *acc += dot(*x, *w);
    }
    if (env.last(4)) {
      sum_runs(env, 3, total, acc, [&](const auto& sum, auto first) {
        if (splits == 1)
          *o.col_range(first, sum.cols) = cast<T>(sum);  // (bm, bn) T
        else
          *part.col_range(first, sum.cols) = sum;  // (bm, bn) f32
      });
    }
  }
  // Not lambdas: what is called at several places nvcc would not inline, and what a lambda
  // captures, accumulators and the spec, lie in memory then.
  /// Of a group: (1, bn) f32.
  template <class Scale, class Exponent, class Scale8, class TensorScale>
  struct Factors {
    const QuantisedProduct& kernel;
    Scale scale;
    Exponent exponent;
    Scale8 scale8;
    TensorScale tensor_scale;
    TESSERA_FN auto operator()(auto g) const {
      if (kernel.of_exponents()) return load(Power{}(*exponent.at(g)));
      if (kernel.of_scale8()) return load(E4m3{}(*scale8.at(g)) * *tensor_scale);
      return load(*scale.at(g));
    }
  };
  template <class Scale, class Exponent, class Scale8, class TensorScale>
  TESSERA_FN auto factors(Scale scale, Exponent exponent, Scale8 scale8,
                          TensorScale tensor_scale) const {
    return Factors<Scale, Exponent, Scale8, TensorScale>{*this, scale, exponent, scale8,
                                                         tensor_scale};
  }
  /// Adds what a group's columns of x and values give.
  template <class X, class Zero, class Factor, class Acc, class G>
  struct AddGroup {
    const QuantisedProduct& kernel;
    X columns;
    Zero zero;
    Factor factor;
    Acc acc;
    G g;
    TESSERA_FN void operator()(const auto& values) const {
      const auto sums = load(dot(columns, cast<T>(values)));  // (bm, bn) f32
      if (kernel.affine()) {
        const auto total = load(row_total(columns) * -1.f);  // (bm, 1)
        *acc = fma(fma(*zero.at(g), total, sums), factor(g), *acc);
      } else {
        *acc = fma(sums, factor(g), *acc);
      }
    }
  };
  template <class X, class Zero, class Factor, class Acc, class G>
  TESSERA_FN auto add_group(X columns, Zero zero, Factor factor, Acc acc, G g) const {
    return AddGroup<X, Zero, Factor, Acc, G>{*this, columns, zero, factor, acc, g};
  }
  /// Of those of a block, what an array has.
  template <class Env>
  TESSERA_FN auto last_group(const Env& env, int groups) const {
    return ceil_div(k, group) - 1 - env.program_id(4) * groups;
  }
  /// An extent that is known when this is compiled, or 0.
  template <class N>
  static constexpr int known() {
    if constexpr (requires { N::value; })
      return N::value;
    else
      return 0;
  }
  /// Group after group of a block.
  template <int kG, class Groups, class X, class Codes, class Zero, class Factor, class Acc,
            class Last>
  TESSERA_FN void add_groups(Groups groups, X x, Codes codes, Zero zero, Factor factor, Acc acc,
                             Last last) const {
    if constexpr (known<Groups>() == 0) {
      for (int g = 0; g < groups; ++g) add_group_at(g, groups, x, codes, zero, factor, acc, last);
    } else if constexpr (kG < known<Groups>()) {
      add_group_at(kG, groups, x, codes, zero, factor, acc, last);
      add_groups<kG + 1>(groups, x, codes, zero, factor, acc, last);
    }
  }
  template <class Groups, class X, class Codes, class Zero, class Factor, class Acc, class Last>
  TESSERA_FN void add_group_at(int g, Groups groups, X x, Codes codes, Zero zero, Factor factor,
                               Acc acc, Last last) const {
    const auto of_x = of_each(x.cols, groups);
    const auto of_codes = of_each(codes.rows, groups);
    with_values(*codes.row_range(g * of_codes, of_codes),
                add_group(*x.col_range(g * of_x, of_x), zero, factor, acc, lesser(g, last)));
  }

  template <class Host>
  void prepare(Host&, Tiles t) {
    run = group * t[3];
  }

  /// use(values of rows of w, f32)
  template <class Codes, class Use>
  TESSERA_FN void with_values(const Codes& stored, Use use) const {
    if constexpr (!kWords) {
      use(cast<float>(stored));
    } else {
      const auto codes = cast<std::int32_t>(unpack_rows<32 / kFields>(stored));
      if (known_format() == kNf4)
        use(lookup(codes, levels()));
      else if (known_format() != kAffine)
        use(lookup(codes, e2m1()));
      else
        use(cast<float>(codes));
    }
  }

  /// The number that the bits of an e4m3 are, of a tile.
  struct E4m3 {
    TESSERA_FN auto operator()(const auto& bits) const {
      const auto all = load(cast<std::int32_t>(bits));
      const auto size = load(all & 127);
      constexpr int kNan = 0x7fc00000;
      constexpr int kBias = (127 - 7) << 23;
      const auto normal = load(bitcast<float>(where(size == 127, kNan, (size << 20) + kBias)));
      const auto number = load(where(size < 8, cast<float>(size) * 0x1p-9f, normal));
      return load(where(all < 128, number, number * -1.f));
    }
  };
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

template <class T>
using QuantisedMatmul = QuantisedProduct<T, std::uint32_t>;

}  // namespace tessera::kernels
