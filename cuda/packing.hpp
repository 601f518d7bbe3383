// How a tile lies in shared memory: one layout that the copy engine writes and that wgmma and
// ordinary loads read.
//
// Rows of a multiple of 128 bytes are cut into panels of 128 bytes. A panel's rows follow one
// another, and in each the 16-byte chunks are exchanged by the row: chunk n of row r lies at
// n ^ (r % 8) (the 128-byte swizzle of tensor maps and matrix descriptors), so that neither a row
// nor a column lies in one bank. Other tiles lie row after row.
#pragma once

#include "sim/body/cta.hpp"

namespace tessera::cuda {

using cta::kPanelBytes;

template <class T, int kR, int kC>
struct Packing {
  static constexpr cta::Tile kTile = cta::tile_of(kR, kC, kDTypeOf<T>);
  static constexpr int kSize = static_cast<int>(sizeof(T));
  static constexpr bool kPanelled = kTile.panelled;
  /// Elements in a row of a panel, panels, and elements from one to the next.
  static constexpr int kPanel = static_cast<int>(kTile.panel_cols);
  static constexpr int kPanels = static_cast<int>(kTile.panels);
  static constexpr int kPanelElems = static_cast<int>(kTile.panel_rows) * kPanel;
  static constexpr int kBytes = static_cast<int>(kTile.bytes);
  /// Elements of a 16-byte chunk.
  static constexpr int kChunk = 16 / kSize;

  static TESSERA_FN constexpr int offset(int r, int c) {
    if constexpr (kPanelled) {
      const int in_panel = c % kPanel;
      return c / kPanel * kPanelElems + r * kPanel + (in_panel / kChunk ^ (r & 7)) * kChunk +
             in_panel % kChunk;
    } else {
      return r * kC + c;
    }
  }
  /// True if elements c, c + 1, ... of a row lie side by side in `bytes` from any multiple of them.
  static constexpr bool together(int bytes) {
    return bytes <= 16 && (kPanelled || kC * kSize % bytes == 0);
  }
};

/// Element i of a packed array in HBM.
template <class T>
__device__ __forceinline__ T load_packed(const void* array, long long i) {
  constexpr int kBits = bit_width(kDTypeOf<T>);
  constexpr int kInByte = 8 / kBits;
  const unsigned byte = static_cast<const unsigned char*>(array)[i / kInByte];
  return from_pattern<T>(byte >> (i % kInByte * kBits) & kPatternMask<T>);
}
/// Other threads may be storing its neighbours. An array ends with a word.
template <class T>
__device__ __forceinline__ void store_packed(void* array, long long i, T value) {
  constexpr int kBits = bit_width(kDTypeOf<T>);
  constexpr int kInWord = 32 / kBits;
  unsigned* const word = static_cast<unsigned*>(array) + i / kInWord;
  const auto at = static_cast<int>(i % kInWord) * kBits;
  atomicAnd(word, ~(kPatternMask<T> << at));
  atomicOr(word, pattern_of(value) << at);
}

}  // namespace tessera::cuda
