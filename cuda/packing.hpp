// How a tile lies in shared memory: one layout that the copy engine writes and that wgmma and
// ordinary loads read.
//
// Rows of a multiple of 128 bytes are cut into panels of 128 bytes. A panel's rows follow one
// another, and in each the 16-byte chunks are exchanged by the row: chunk n of row r lies at
// n ^ (r % 8) (the 128-byte swizzle of tensor maps and matrix descriptors), so that neither a row
// nor a column lies in one bank. Other tiles lie row after row.
#pragma once

#include "sim/body/extent.hpp"

namespace tessera::cuda {

constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

inline constexpr int kPanelBytes = 128;

template <class T, int kR, int kC>
struct Packing {
  static constexpr int kSize = static_cast<int>(sizeof(T));
  static constexpr bool kPanelled = kR > 1 && kC* kSize % kPanelBytes == 0;
  /// Elements in a row of a panel, panels, and elements from one to the next.
  static constexpr int kPanel = kPanelled ? kPanelBytes / kSize : kC;
  static constexpr int kPanels = kC / kPanel;
  static constexpr int kPanelElems = (kPanelled ? round_up(kR, 8) : kR) * kPanel;
  /// Where a tile may begin: swizzled panels at multiples of 1024 bytes.
  static constexpr int kAlign = kPanelled ? 1024 : 128;
  static constexpr int kBytes = round_up(kPanels * kPanelElems * kSize, kAlign);
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

}  // namespace tessera::cuda
