// Programs that are wrong in one way, each with a twin that is right: the line where kBad stands.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/all.hpp"

namespace tessera::twins {

/// A 64 x 256 copy in blocks of 8 x 128.
inline constexpr int kRows = 64;
inline constexpr int kCols = 256;

struct Tile8x128 {
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
};

template <bool kBad>
struct OobBlock : Tile8x128 {
  static constexpr KernelInfo info{.name = "oob_block", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(grid(parallel(8).as("i"), parallel(2).as("j")),
                         in<float>("x", shape(kRows, kCols), block(bm, bn),
                                   [](auto i, auto j) { return at(i + (kBad ? 1 : 0), j); }),
                         out<float>("o", shape(kRows, kCols), block(bm, bn),
                                    [](auto i, auto j) { return at(i, j); }));
  }
  void operator()(auto&, auto x, auto o) const { *o = *x; }
};

template <bool kBad>
struct OobSlice : Tile8x128 {
  static constexpr KernelInfo info{.name = "oob_slice", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i")),
        in<float>("x", shape(kRows, kCols), block(bm, 2 * bn), [](auto i) { return at(i, 0); }),
        out<float>("o", shape(kRows, 128), block(bm, bn), [](auto i) { return at(i, 0); }));
  }
  void operator()(auto&, auto x, auto o) const {
    *o = *x.slice(ds(0, 8), ds(kBad ? 256 : 128, 128));
  }
};

template <bool kBad>
struct OobScalar : Tile8x128 {
  static constexpr KernelInfo info{.name = "oob_scalar", .summary = "", .math = ""};
  static constexpr int kTable[3] = {0, 1, 2};
  Smem<int> table{kTable, 3, "table"};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(3).as("i")), scalars("table", table),
        out<float>("o", shape(24, 128), block(bm, bn), [](auto i) { return at(i, 0); }));
  }
  void operator()(auto& env, auto o) const {
    const int next = table[env.program_id(0) + (kBad ? 1 : 0)];
    *o = static_cast<float>(next);
  }
};

template <bool kBad>
struct UninitScratch : Tile8x128 {
  static constexpr KernelInfo info{.name = "uninit_scratch", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i"), arbitrary(2).as("k")),
        in<float>("x", shape(kRows, kCols), block(bm, bn), [](auto i, auto k) { return at(i, k); }),
        out<float>("o", shape(kRows, 128), block(bm, bn), [](auto i, auto) { return at(i, 0); }),
        accum<float>("acc", bm, bn));
  }
  void operator()(auto& env, auto x, auto o, auto acc) const {
    if (kBad ? env.last(1) : env.first(1)) *acc = 0.f;
    *acc += *x;
    if (env.last(1)) *o = *acc;
  }
};

template <bool kBad>
struct UninitOutput : Tile8x128 {
  static constexpr KernelInfo info{.name = "uninit_output", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i"), arbitrary(2).as("k")),
        in<float>("x", shape(kRows, kCols), block(bm, bn), [](auto i, auto k) { return at(i, k); }),
        out<float>("o", shape(kRows, 128), block(bm, bn), [](auto i, auto) { return at(i, 0); }));
  }
  void operator()(auto& env, auto x, auto o) const {
    if (!kBad && env.first(1)) *o = 0.f;
    *o += *x;
  }
};

template <bool kBad>
struct NotCovered : Tile8x128 {
  static constexpr KernelInfo info{.name = "not_covered", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(kBad ? 7 : 8).as("i"), parallel(2).as("j")),
        in<float>("x", shape(kRows, kCols), block(bm, bn), [](auto i, auto j) { return at(i, j); }),
        out<float>("o", shape(kRows, kCols), block(bm, bn),
                   [](auto i, auto j) { return at(i, j); }));
  }
  void operator()(auto&, auto x, auto o) const { *o = *x; }
};

/// Covered in part: a masked store that leaves a row of each block out.
template <bool kBad>
struct PartlyCovered : Tile8x128 {
  static constexpr KernelInfo info{.name = "partly_covered", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i"), parallel(2).as("j")),
        in<float>("x", shape(kRows, kCols), block(bm, bn), [](auto i, auto j) { return at(i, j); }),
        out<float>("o", shape(kRows, kCols), block(bm, bn),
                   [](auto i, auto j) { return at(i, j); }));
  }
  void operator()(auto&, auto x, auto o) const {
    o.store_at(*x, [](int r, int) { return r < (kBad ? 7 : 8); });
  }
};

template <bool kBad>
struct Revisit : Tile8x128 {
  static constexpr KernelInfo info{.name = "revisit", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(grid(arbitrary(2).as("a"), arbitrary(2).as("b")),
                         in<float>("x", shape(32, 128), block(bm, bn),
                                   [](auto a, auto b) { return at(2 * a + b, 0); }),
                         out<float>("o", shape(16, 128), block(bm, bn),
                                    [](auto a, auto b) { return at(kBad ? b : a, 0); }));
  }
  void operator()(auto&, auto x, auto o) const { *o = *x; }
};

template <bool kBad>
struct StaleScratch : Tile8x128 {
  static constexpr KernelInfo info{.name = "stale_scratch", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i"), arbitrary(2).as("k")),
        in<float>("x", shape(kRows, kCols), block(bm, bn), [](auto i, auto k) { return at(i, k); }),
        out<float>("o", shape(kRows, 128), block(bm, bn), [](auto i, auto) { return at(i, 0); }),
        accum<float>("acc", bm, bn));
  }
  void operator()(auto& env, auto x, auto o, auto acc) const {
    if (env.first(kBad ? 0 : 1)) *acc = 0.f;
    *acc += *x;
    if (env.last(1)) *o = *acc;
  }
};

template <bool kBad>
struct SharedOutput : Tile8x128 {
  static constexpr KernelInfo info{.name = "shared_output", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i"), parallel(2).as("j")),
        in<float>("x", shape(kRows, kCols), block(bm, bn), [](auto i, auto j) { return at(i, j); }),
        out<float>("o", shape(kRows, kCols), block(bm, kBad ? 2 * bn : bn),
                   [](auto i, auto j) { return at(i, j * (kBad ? 0 : 1)); }));
  }
  void operator()(auto&, auto x, auto o) const {
    if constexpr (kBad)
      *o = 1.f;
    else
      *o = *x;
  }
};

template <bool kBad>
struct VmemCapacity : Tile8x128 {
  static constexpr KernelInfo info{.name = "vmem_capacity", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(1).as("i")),
        out<float>("o", shape(8, 128), block(bm, bn), [](auto) { return at(0, 0); }),
        vmem<float>("table", kBad ? 262'144 : 131'072, 128));
  }
  void operator()(auto&, auto o, auto) const { *o = 1.f; }
};

template <bool kBad>
struct SmemCapacity : Tile8x128 {
  static constexpr KernelInfo info{.name = "smem_capacity", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(1).as("i")),
        out<float>("o", shape(8, 128), block(bm, bn), [](auto) { return at(0, 0); }),
        smem<int>("counts", kBad ? 262'145 : 262'144));
  }
  void operator()(auto&, auto o, auto) const { *o = 1.f; }
};

template <bool kBad>
struct IllegalBlock : Tile8x128 {
  static constexpr KernelInfo info{.name = "illegal_block", .summary = "", .math = ""};
  auto spec(auto bm, auto) const {
    return tessera::spec(grid(parallel(8).as("i"), parallel(kBad ? 4 : 2).as("j")),
                         out<float>("o", shape(kRows, kCols), block(bm, kBad ? 64 : 128),
                                    [](auto i, auto j) { return at(i, j); }));
  }
  void operator()(auto&, auto o) const { *o = 1.f; }
};

template <bool kBad>
struct Misaligned : Tile8x128 {
  static constexpr KernelInfo info{.name = "misaligned", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i")),
        in<float>("x", shape(kRows, 3 * kCols), block(bm, 6 * bn), [](auto i) { return at(i, 0); }),
        out<float>("o", shape(kRows, 128), block(bm, bn), [](auto i) { return at(i, 0); }));
  }
  void operator()(auto&, auto x, auto o) const {
    *o = *x.slice(ds(0, 8), ds(kBad ? 200 : 256, 128));
  }
};

/// Packed rows share sublanes: a bf16 slice starts at a multiple of 8.
template <bool kBad>
struct MisalignedRow : Tile8x128 {
  static constexpr KernelInfo info{.name = "misaligned_row", .summary = "", .math = ""};
  auto spec(auto, auto bn) const {
    return tessera::spec(
        grid(parallel(1).as("i")),
        out<bf16>("o", shape(16, 128), block(16, bn), [](auto) { return at(0, 0); }),
        vmem<bf16>("buf", 32, bn));
  }
  void operator()(auto&, auto o, auto buf) const {
    *buf = 1.f;
    *o = *buf.slice(ds(kBad ? 4 : 8, 16), ds(0, 128));
  }
};

template <bool kBad>
struct NanBorn : Tile8x128 {
  static constexpr KernelInfo info{.name = "nan_born", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i"), parallel(2).as("j")),
        in<float>("x", shape(kRows, kCols), block(bm, bn), [](auto i, auto j) { return at(i, j); }),
        out<float>("o", shape(kRows, kCols), block(bm, bn),
                   [](auto i, auto j) { return at(i, j); }));
  }
  void operator()(auto&, auto x, auto o) const {
    auto shifted = *x - (kBad ? 9.f : 0.f);
    *o = sqrt(shifted) + 1.f;
  }
};

template <bool kBad>
struct Shapes : Tile8x128 {
  static constexpr KernelInfo info{.name = "shapes", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(8).as("i"), parallel(2).as("j")),
        in<float>("x", shape(kRows, kCols), block(bm, bn), [](auto i, auto j) { return at(i, j); }),
        out<float>("o", shape(kRows, kCols), block(bm, bn),
                   [](auto i, auto j) { return at(i, j); }),
        vmem<float>("bias", kBad ? 4 : 1, bn));
  }
  void operator()(auto&, auto x, auto o, auto bias) const {
    *bias = 1.f;
    *o = *x + *bias;
  }
};

template <bool kBad>
struct Checks : Tile8x128 {
  static constexpr KernelInfo info{.name = "checks", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(grid(parallel(8).as("i"), parallel(2).as("j")),
                         out<float>("o", shape(kRows, kCols), block(bm, bn),
                                    [](auto i, auto j) { return at(i, j); }));
  }
  void operator()(auto& env, auto o) const {
    env.check(env.program_id(0) < (kBad ? 3 : 8), "only three rows were promised");
    *o = 1.f;
  }
};

/// What a sum finds beyond the end of a row.
enum class Tail { zeros, ones, anything };

/// The sum of each row, over a block wider than the row: its tail needs a padding.
template <class T, Tail kTail>
struct RaggedSum {
  static constexpr KernelInfo info{
      .name = "ragged_sum", .summary = "", .math = "o[i] = sum_j x[i,j]"};
  int m = 0;
  int n = 0;
  static constexpr auto sizes =
      params(size("m", &RaggedSum::m, "rows"), size("n", &RaggedSum::n, "columns"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  static constexpr std::array cases{Case{"ragged", {20, 200}, {8, 256}}};
  auto spec(auto bm, auto bn) const {
    auto x = in<T>("x", shape(m, n), block(bm, bn), [](auto i) { return at(i, 0); });
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i")),
        kTail == Tail::anything ? x : x.pad(kTail == Tail::ones ? 1 : 0),
        out<float>("o", shape(m, 1), block(bm, Int<1>{}), [](auto i) { return at(i, 0); }));
  }
  Bytes hbm_bytes(Tiles, Target) const {
    return {static_cast<std::int64_t>(sizeof(T)) * m * n, std::int64_t{4} * m};
  }
  void operator()(auto&, auto x, auto o) const { *o = row_sum(cast<float>(*x)); }
};
template <class T>
using UnpaddedSum = RaggedSum<T, Tail::anything>;
template <class T>
using SumWithOnes = RaggedSum<T, Tail::ones>;
template <class T>
using GoodRaggedSum = RaggedSum<T, Tail::zeros>;

/// Says that it reads whole blocks, where the edge of the array ends a transfer.
template <class T>
struct CountsPadding : GoodRaggedSum<T> {
  Bytes hbm_bytes(Tiles t, Target) const {
    return {static_cast<std::int64_t>(sizeof(T)) * this->m * t[1], std::int64_t{4} * this->m};
  }
};

/// The same of a kernel that copies: from one scratch to the other.
template <class T, Tail kTail>
struct CopiedRaggedSum : RaggedSum<T, kTail> {
  auto spec(auto bm, auto bn) const {
    auto x = in<T>("x", shape(this->m, this->n), block(bm, bn), [](auto i) { return at(i, 0); });
    return tessera::spec(
        grid(parallel(ceil_div(this->m, bm)).as("i")), kTail == Tail::anything ? x : x.pad(0),
        out<float>("o", shape(this->m, 1), block(bm, Int<1>{}), [](auto i) { return at(i, 0); }),
        vmem<float>("sums", bm, Int<1>{}), vmem<float>("copy", bm, Int<1>{}), dma_sem("sem"));
  }
  void operator()(auto&, auto x, auto o, auto sums, auto copy, auto sem) const {
    *sums = row_sum(cast<float>(*x));
    auto copied = make_async_copy(sums, copy, sem);
    copied.start();
    copied.wait();
    *o = *copy;
  }
};
template <class T>
using UnpaddedCopiedSum = CopiedRaggedSum<T, Tail::anything>;
template <class T>
using GoodCopiedSum = CopiedRaggedSum<T, Tail::zeros>;

}  // namespace tessera::twins
