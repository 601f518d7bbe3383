// What a kernel says about itself: name, equation, parameters, cases, closed-form bytes.
//
// A kernel is a struct with
//   info     KernelInfo
//   sizes    parameters: params(size("m", &K::m, "rows of x"), ...)
//   tiles    names of the arguments of spec(): tile_names(tile("bm"), ...)
//   devices  int, on a mesh: how many, a size of that name; the arrays of its spec are one
//            device's shards, cut along dim 0
//   cases    std::array of Case: sizes, then tiles, in the orders above; the first is the default
//   spec(tiles...), operator()(env, refs...), hbm_bytes(Tiles, Target)
// and may have
//   exchanges              true if the body reduces columns, moves elements
//                          (sim/ops/rearrange.hpp) or multiplies by a right operand that is no
//                          block: GPUs then keep 16 KiB of shared memory for it
//   scope_bytes            bytes of shared memory that GPUs keep for VMEM scratch of run_scoped
//   multiplies             false where accumulators wider than a column are no sums of products:
//                          GPUs then lay out threads as for rows, not for tensor cores
//   valid(Tiles)           const char*: why these sizes cannot run, or nullptr
//   prepare(host, Tiles)   builds scalar-prefetched arrays, and inputs other than random ones, on
//   the
//                          host (cli/host.hpp)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "memory_model/dtype.hpp"
#include "sim/body/extent.hpp"

namespace tessera {

struct KernelInfo {
  const char* name;
  const char* summary;
  const char* math;
  const char* cites = "";
};

inline constexpr int kMaxParams = 24;
inline constexpr int kMaxTiles = 6;

template <class K>
struct SizeParam {
  const char* name;
  int K::*integer;
  float K::*real;
  const char* what;
};
template <class K>
constexpr SizeParam<K> size(const char* name, int K::*member, const char* what) {
  return {name, member, nullptr, what};
}
template <class K>
constexpr SizeParam<K> size(const char* name, float K::*member, const char* what) {
  return {name, nullptr, member, what};
}
template <class First, class... Rest>
constexpr auto params(First first, Rest... rest) {
  return std::array<First, 1 + sizeof...(Rest)>{first, rest...};
}

struct TileParam {
  const char* name;
  const char* follows;  ///< size that this one equals unless given, or nullptr
};
constexpr TileParam tile(const char* name, const char* follows = nullptr) {
  return {name, follows};
}
template <class... Rest>
constexpr auto tile_names(TileParam first, Rest... rest) {
  return std::array<TileParam, 1 + sizeof...(Rest)>{first, rest...};
}

/// Of a kernel whose spec() takes no arguments.
inline constexpr std::array<TileParam, 0> kNoTiles{};

/// All of a kernel's sizes, then all of its tiles.
struct Case {
  const char* what;  ///< "aligned", "ragged", "degenerate", ...
  std::array<double, kMaxParams> sizes{};
  std::array<int, kMaxTiles> tiles{};
  std::size_t size_count;
  std::size_t tile_count;

  constexpr Case(const char* name, std::initializer_list<double> its_sizes,
                 std::initializer_list<int> its_tiles)
      : what(name), size_count(its_sizes.size()), tile_count(its_tiles.size()) {
    std::size_t i = 0;
    for (const double size : its_sizes) sizes[i++] = size;
    i = 0;
    for (const int tile : its_tiles) tiles[i++] = tile;
  }
};

struct Tiles {
  std::array<int, kMaxTiles> size{};
  constexpr int operator[](int i) const { return size[static_cast<std::size_t>(i)]; }
};
template <class... T>
constexpr Tiles tiles(T... sizes) {
  return Tiles{{static_cast<int>(sizes)...}};
}

/// Bytes out of HBM, into HBM, and from device to device, summed over the mesh.
struct Bytes {
  std::int64_t read = 0;
  std::int64_t write = 0;
  std::int64_t remote = 0;
  constexpr bool operator==(const Bytes&) const = default;
};

/// What the elision of fetches depends on: a TPU core keeps its blocks from one parallel cell to
/// the next, a GPU's CTA starts empty.
struct Target {
  bool keeps_blocks = true;
};

template <class T>
concept WholeBytes = (bit_width(kDTypeOf<T>) % 8 == 0);

template <WholeBytes T>
inline constexpr std::int64_t kBytes = bit_width(kDTypeOf<T>) / 8;

}  // namespace tessera
