// Rotary position embedding: each pair of a head's columns is turned by its position's angle.
//
//   o[.., a] = x[.., a] cos[i, a] - x[.., b] sin[i, a]
//   o[.., b] = x[.., b] cos[i, a] + x[.., a] sin[i, a],   a < half_dim,  b = a + half_dim
//
// Su et al., arXiv:2104.09864; column a goes with column a + half_dim, as in GPT-NeoX and in
// Llama. The tables hold one angle per position and pair. The gradient turns back: `back` is 1.
// Heads are the innermost steps, so that a block of the tables serves them all.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/sub.hpp"

namespace tessera::kernels {

template <class T>
struct Rope {
  static constexpr KernelInfo info{
      .name = "rope",
      .summary = "rotary position embedding, and its gradient",
      .math =
          "o[a] = x[a] cos[i,a] - x[b] sin[i,a];  o[b] = x[b] cos[i,a] + x[a] sin[i,a],  b = "
          "a + half_dim",
      .cites = "arXiv:2104.09864"};
  static constexpr bool exchanges = true;

  int batch = 1;
  int heads = 1;
  int len = 0;
  int half_dim = 0;
  int back = 0;

  static constexpr auto sizes =
      params(size("batch", &Rope::batch, "sequences"), size("heads", &Rope::heads, "heads"),
             size("len", &Rope::len, "positions"),
             size("half_dim", &Rope::half_dim, "angles: half of the columns of x and o"),
             size("back", &Rope::back, "1: by the opposite angles, the gradient"));
  static constexpr auto tiles = tile_names(tile("bs"), tile("bh", "half_dim"));
  static constexpr std::array cases{Case{"aligned", {2, 4, 512, 64, 0}, {128, 64}},
                                    Case{"gradient", {1, 2, 256, 32, 1}, {128, 32}},
                                    Case{"ragged", {2, 3, 41, 40, 0}, {16, 40}},
                                    Case{"degenerate", {1, 1, 1, 1, 0}, {1, 1}}};

  const char* valid(Tiles t) const {
    return t[1] == half_dim ? nullptr : "bh must be half_dim: a block has whole rows";
  }

  TESSERA_FN auto spec(auto bs, auto bh) const {
    auto head_block = [](auto i, auto b, auto h) { return at(b, h, i, 0); };
    auto table_block = [](auto i, auto, auto) { return at(i, 0); };
    const auto heads_of_x = shape(batch, heads, len, 2 * half_dim);
    return tessera::spec(
        grid(parallel(ceil_div(len, bs)).as("i"), parallel(batch).as("b"),
             arbitrary(heads).as("h")),
        in<T>("x", heads_of_x, block(squeezed, squeezed, bs, bh + bh), head_block),
        in<float>("cos", shape(len, half_dim), block(bs, bh), table_block).uniform(-1, 1),
        in<float>("sin", shape(len, half_dim), block(bs, bh), table_block).uniform(-1, 1),
        out<T>("o", heads_of_x, block(squeezed, squeezed, bs, bh + bh), head_block));
  }

  /// x and o once; each block of the tables once, in each cell of a device that empties it.
  Bytes hbm_bytes(Tiles, Target target) const {
    const std::int64_t x = std::int64_t{batch} * heads * len * 2 * half_dim * kBytes<T>;
    const std::int64_t tables = 2 * std::int64_t{len} * half_dim * kBytes<float>;
    return {x + (target.keeps_blocks ? 1 : batch) * tables, x};
  }

  TESSERA_FN void operator()(auto&, auto x, auto cosines, auto sines, auto o) const {
    const auto v = load(cast<float>(*x));  // (bs, 2 bh) f32
    const auto halves = split_cols<2>(v);
    const auto s = load(*sines * (back != 0 ? -1.f : 1.f));  // (bs, bh)
    *o = cast<T>(concat_cols(halves.first * *cosines - halves.second * s,
                             halves.second * *cosines + halves.first * s));  // (bs, 2 bh) T
  }
};

}  // namespace tessera::kernels
