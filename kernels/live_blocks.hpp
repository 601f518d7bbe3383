// Which blocks of keys and queries meet under a mask that the host knows, for splash_attention and
// its gradients: the blocks where nothing is seen are in no list, those where all is seen have no
// mask, and equal masks are one, as on a diagonal.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/smem.hpp"
#include "sim/body/spec.hpp"

namespace tessera::kernels {

/// Whether query i sees key j.
struct LiveKeys {
  enum Kind : int { kFull, kCausal, kLocal, kCausalLocal, kGlobalLocal, kArray };
  int kind;
  int window;  ///< keys on each side, itself included; of kGlobalLocal: of a chunk, and seen by all

  bool operator()(int i, int j) const {
    switch (kind) {
      case kCausal:
        return j <= i;
      case kLocal:
        return j > i - window && j < i + window;
      case kCausalLocal:
        return j > i - window && j <= i;
      case kGlobalLocal:
        return j < window || i / window == j / window;
      default:
        return true;
    }
  }
};

/// A LiveKeys over q_len queries and kv_len keys, or an array in its place.
struct HostMask {
  LiveKeys object;
  int q_len;
  int kv_len;
  std::vector<std::int8_t> given;

  bool operator()(int i, int j) const {
    if (i >= q_len || j >= kv_len) return false;
    return object.kind == LiveKeys::kArray
               ? given[static_cast<std::size_t>(i) * static_cast<std::size_t>(kv_len) +
                       static_cast<std::size_t>(j)] != 0
               : object(i, j);
  }
};
/// Of kArray: input `mask` (q_len, kv_len), made up as about a third of the places of half of the
/// blocks.
template <class Host>
HostMask host_mask(Host& host, LiveKeys object, int q_len, int kv_len) {
  HostMask mask{object, q_len, kv_len, {}};
  if (object.kind != LiveKeys::kArray) return mask;
  for (int i = 0; i < q_len; ++i) {
    for (int j = 0; j < kv_len; ++j) {
      const bool live = (i / 32 + j / 32) % 2 == 0 && (i + 2 * j) % 3 == 0;
      mask.given.push_back(live ? 1 : 0);
    }
  }
  mask.given = host.template input<std::int8_t>("mask", shape(q_len, kv_len), mask.given);
  return mask;
}

/// For every block of rows, the blocks of columns that it meets, at least one.
struct Visits {
  Smem<int> start;   ///< first visit of each block of rows, and their number
  Smem<int> block;   ///< the block of columns of each
  Smem<int> masked;  ///< 1: not all is seen
  Smem<int> mask;    ///< its block of masks, the one before's if all is seen
  int masks = 0;     ///< different blocks of masks, input mask_blocks (masks, rows, columns)
};
/// `by_keys`: rows are keys and columns queries, else the other way round. Beyond the queries that
/// there are, all is as seen: those rows and columns are zero, or dropped.
template <class Host>
Visits live_blocks(Host& host, const HostMask& sees, int rows, int columns, bool by_keys) {
  const int row_end = by_keys ? sees.kv_len : sees.q_len;
  const int column_end = by_keys ? sees.q_len : sees.kv_len;
  const auto live = [&](int r, int c) { return by_keys ? sees(c, r) : sees(r, c); };
  const auto no_query = [&](int r, int c) { return (by_keys ? c : r) >= sees.q_len; };
  std::vector<int> start(1);
  std::vector<int> blocks;
  std::vector<int> masked;
  std::vector<int> which;
  std::vector<std::int8_t> distinct;
  std::map<std::vector<std::int8_t>, int> places;
  for (int r0 = 0; r0 < row_end; r0 += rows) {
    for (int c0 = 0; c0 < column_end; c0 += columns) {
      std::vector<std::int8_t> of_block;
      bool any = false;
      bool all = true;
      for (int r = r0; r < r0 + rows; ++r) {
        for (int c = c0; c < c0 + columns; ++c) {
          of_block.push_back(live(r, c) ? 1 : 0);
          any = any || of_block.back() != 0;
          all = all && (of_block.back() != 0 || no_query(r, c));
        }
      }
      const bool only =
          c0 + columns >= column_end && static_cast<int>(blocks.size()) == start.back();
      if (!any && !only) continue;
      blocks.push_back(c0 / columns);
      masked.push_back(all ? 0 : 1);
      if (all) {
        which.push_back(which.empty() ? 0 : which.back());
        continue;
      }
      const auto [place, fresh] = places.try_emplace(of_block, static_cast<int>(places.size()));
      if (fresh) distinct.insert(distinct.end(), of_block.begin(), of_block.end());
      which.push_back(place->second);
    }
    start.push_back(static_cast<int>(blocks.size()));
  }
  Visits visits;
  visits.masks = static_cast<int>(places.size());
  if (visits.masks > 0)
    host.template input<std::int8_t>("mask_blocks", shape(visits.masks, rows, columns), distinct);
  visits.start = host.keep("visit_start", std::move(start));
  visits.block = host.keep("visit_block", std::move(blocks));
  visits.masked = host.keep("visit_masked", std::move(masked));
  visits.mask = host.keep("visit_mask", std::move(which));
  return visits;
}

/// What a walk over visits brings: elements along the columns' side, and blocks of masks.
struct Brought {
  std::int64_t elems = 0;
  std::int64_t masks = 0;
};
struct VisitWalk {
  const Visits& visits;
  int column_end;
  int columns;
  Brought brought;
  std::int64_t there = -1;
  int mask_there = -1;

  void forget() { there = mask_there = -1; }
  /// The visits of block of rows r, their columns those of array `array`.
  void row(int r, std::int64_t array) {
    const int blocks = ceil_div(column_end, columns);
    for (int visit = visits.start[r]; visit < visits.start[r + 1]; ++visit) {
      const int c = visits.block[visit];
      if (array * blocks + c != there)
        brought.elems += lesser((c + 1) * columns, column_end) - c * columns;
      there = array * blocks + c;
      if (visits.masks > 0 && visits.mask[visit] != mask_there) ++brought.masks;
      mask_there = visits.mask[visit];
    }
  }
  std::int64_t lists() const {
    return std::int64_t{visits.start.size} + visits.block.size + visits.masked.size +
           visits.mask.size;
  }
};

}  // namespace tessera::kernels
