// Blocks from HBM into shared memory: by the copy engine (TMA) where an array's alignment and a
// block's extents allow, else by threads. The portable build has no copy engine: there threads
// start asynchronous copies of 16 bytes (cp.async) where rows begin at multiples of them.
//
// The copy engine fills what lies outside the array with zeros, and cp.async does; threads do where
// a block's padding is another value. A block of one row is one bulk copy. Packed elements come by
// threads, which give each a byte.
#pragma once

#include <cuda.h>
#include <cuda_pipeline_primitives.h>

#include "cuda/block.hpp"

namespace tessera::cuda {

/// What the portable build knows of an array instead of a tensor map: where it lies, or its copy,
/// and the elements from one row to the next.
struct ChunkedArray {
  const void* array;
  long long row_elems;
};
using ArrayMap = std::conditional_t<kHopper, CUtensorMap, ChunkedArray>;

/// The box of a tensor map that is one panel of a block: extents by array dim.
template <class T, int kR, int kC, class Block>
struct PanelBox;
template <class T, int kR, int kC, class... E>
struct PanelBox<T, kR, kC, BlockDims<E...>> {
  using Place = Packing<T, kR, kC>;
  static constexpr int kRank = sizeof...(E);
  static constexpr Shape kBox = cta::box_of(Shape{detail::block_extent(E{})...}, Place::kTile);
  static constexpr bool kMappable =
      cta::is_box(kBox, detail::last_kept<E...>() != kRank - 1, kDTypeOf<T>);
  static constexpr int kBytes = Place::kPanels * kR * Place::kPanel * Place::kSize;
};

/// ptx::cp_async_bulk_tensor of what makes room in L2 first.
template <int kRank>
__device__ __forceinline__ void copy_tensor_evicted_first(SharedAt to, const CUtensorMap& map,
                                                          const int (&corner)[kRank],
                                                          SharedAt barrier) {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  int at[5] = {};
#pragma unroll
  for (int d = 0; d < kRank; ++d) at[d] = corner[d];
#define TESSERA_COPY(DIMS, CORNER)                                                               \
  asm volatile("cp.async.bulk.tensor." DIMS                                                      \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], " \
               "[%1, " CORNER "], [%2], %3;" ::"r"(to),                                          \
               "l"(&map), "r"(barrier), "l"(policy), "r"(at[0]), "r"(at[1]), "r"(at[2]),         \
               "r"(at[3]), "r"(at[4])                                                            \
               : "memory")
  if constexpr (kRank == 1) TESSERA_COPY("1d", "{%4}");
  if constexpr (kRank == 2) TESSERA_COPY("2d", "{%4, %5}");
  if constexpr (kRank == 3) TESSERA_COPY("3d", "{%4, %5, %6}");
  if constexpr (kRank == 4) TESSERA_COPY("4d", "{%4, %5, %6, %7}");
  if constexpr (kRank == 5) TESSERA_COPY("5d", "{%4, %5, %6, %7, %8}");
#undef TESSERA_COPY
}

/// The block at `start` (by array dim), panel by panel. One thread calls it; the bytes are
/// expected.
template <class Box, class Start>
__device__ __forceinline__ void copy_box(SharedAt to, const CUtensorMap& map, const Start& start,
                                         SharedAt barrier, bool once = false) {
  using Place = typename Box::Place;
#pragma unroll
  for (int panel = 0; panel < Place::kPanels; ++panel) {
    // In the map's order: innermost first.
    int corner[Box::kRank];
#pragma unroll
    for (int d = 0; d < Box::kRank; ++d) corner[Box::kRank - 1 - d] = static_cast<int>(start[d]);
    corner[0] += panel * Place::kPanel;
    const SharedAt there = to + panel * Place::kPanelElems * Place::kSize;
    if (once)
      copy_tensor_evicted_first(there, map, corner, barrier);
    else
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, pointer_to(there), &map,
                                corner, static_cast<Barrier*>(pointer_to(barrier)));
  }
}
/// The first copy will not wait for its map.
__device__ __forceinline__ void fetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
/// `bytes` from an address to another, multiples of 16 all.
__device__ __forceinline__ void copy_line(SharedAt to, const void* from, int bytes,
                                          SharedAt barrier) {
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, pointer_to(to), from,
                     static_cast<unsigned>(bytes), static_cast<Barrier*>(pointer_to(barrier)));
}

__device__ __forceinline__ bool aligned16(const void* p) {
  return (reinterpret_cast<unsigned long long>(p) & 15) == 0;
}

/// One element from HBM to shared memory: asynchronously where the hardware can.
template <class T>
__device__ __forceinline__ void copy_element(T* to, const T* from) {
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8)
    __pipeline_memcpy_async(to, from, sizeof(T));
  else
    *to = *from;
}

/// 16 bytes from any multiple of an element's size, out of the one or two aligned 16 bytes that
/// have them: no byte is read but those beside a byte that is wanted.
struct Shifted16 {
  uint4 low;
  uint4 high;
  unsigned apart;  ///< bytes from the first of `low` to the first that is wanted

  __device__ __forceinline__ void load(const void* from) {
    const auto at = reinterpret_cast<unsigned long long>(from);
    const auto* const aligned = reinterpret_cast<const uint4*>(at & ~15ull);
    apart = static_cast<unsigned>(at & 15);
    low = *aligned;
    high = apart == 0 ? make_uint4(0, 0, 0, 0) : aligned[1];
  }
  __device__ __forceinline__ uint4 wanted() const {
    unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int words = 2; words > 0; words /= 2) {
      const bool moves = (apart / 4 & static_cast<unsigned>(words)) != 0;
#pragma unroll
      for (int i = 0; i + words < 8; ++i) w[i] = moves ? w[i + words] : w[i];
    }
    const unsigned bits = apart % 4 * 8;
    return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                      __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
  }
};

/// 16 bytes on their way, of which those after the first `bytes` are zeros.
__device__ __forceinline__ void copy_chunk(SharedAt to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}
__device__ __forceinline__ void copy_chunk(SharedAt to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
/// All of a tile whose rows are whole chunks: row(r) is where row r begins.
template <int kThreads, class T, int kR, int kC, class Row>
__device__ __forceinline__ void copy_chunks_of(SharedAt to, int thread, Row&& row) {
  using Place = Packing<T, kR, kC>;
  constexpr int kVector = 16 / Place::kSize;
  constexpr int kVectors = kC / kVector;
  for (int n = thread; n < kR * kVectors; n += kThreads) {
    const int r = n / kVectors;
    const int c = n % kVectors * kVector;
    copy_chunk(to + static_cast<unsigned>(Place::offset(r, c) * Place::kSize), row(r) + c);
  }
}
/// A block of an array, zeros outside: thread `thread` of kThreads starts its part. Rows begin at
/// multiples of 16 bytes in the array, and are whole chunks in the block.
template <int kThreads, class T, int kR, int kC, class Where>
__device__ __forceinline__ void copy_chunks(SharedAt to, int thread, const Where& where,
                                            const T* array) {
  using Place = Packing<T, kR, kC>;
  constexpr int kSize = Place::kSize;
  constexpr int kVector = 16 / kSize;
  constexpr int kVectors = kC / kVector;
  const auto bytes_at = [&](int c) {
    const int left = (where.columns() - c) * kSize;
    return left < 0 ? 0 : left < 16 ? left : 16;
  };
  const auto place = [&](int r, int c) {
    return to + static_cast<unsigned>(Place::offset(r, c) * kSize);
  };
  if constexpr (Where::kRowDims <= 1 && kThreads % kVectors == 0) {
    // A thread's chunks are of the same columns, kApart rows from one to the next.
    constexpr int kApart = kThreads / kVectors;
    constexpr int kEach = (kR + kApart - 1) / kApart;
    const int c = thread % kVectors * kVector;
    const int r = thread / kVectors;
    const T* from = array + where.offset + r * where.row_stride() + c;
    const long long apart = kApart * where.row_stride();
    // The rows of a swizzle, eight, are the same for all where kApart is a multiple of them.
    const SharedAt first = place(r, c);
    const auto place_of = [&](int i) {
      if constexpr (kApart % 8 == 0 && Place::kPanelled)
        return first + static_cast<unsigned>(i * kApart * kPanelBytes);
      else
        return place(r + i * kApart, c);
    };
    constexpr bool kEven = kR % kApart == 0;
    if (where.whole()) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (kEven || r + i * kApart < kR) copy_chunk(place_of(i), from);
        from += apart;
      }
    } else {
      const int bytes = bytes_at(c);
      const long long rows = where.rows_left();
#pragma unroll 4
      for (int i = 0; i < kEach; ++i) {
        const int at = r + i * kApart;
        const bool there = at < rows && bytes > 0;
        if (kEven || at < kR) copy_chunk(place_of(i), there ? from : array, there ? bytes : 0);
        from += apart;
      }
    }
  } else {
#pragma unroll 4
    for (int n = thread; n < kR * kVectors; n += kThreads) {
      const int r = n / kVectors;
      const int c = n % kVectors * kVector;
      const long long begin = where.row(r);
      const int bytes = begin < 0 ? 0 : bytes_at(c);
      copy_chunk(place(r, c), bytes > 0 ? array + begin + c : array, bytes);
    }
  }
}

/// Brings rows x columns elements of a tile, of which row(r) is where row r begins, null outside.
/// Thread `thread` of kThreads; what lies outside the rows or `columns` becomes `pad`, if there is
/// one. Returns when this thread's part has landed. Where rows begin at no multiple of 16 bytes,
/// threads shift what they read, kAtATime loads on their way.
template <int kThreads, int kAtATime, class T, int kR, int kC, class Row>
__device__ __forceinline__ void copy_rows(T* to, int thread, int rows, int columns, Row&& row,
                                          const T* pad) {
  using Place = Packing<T, kR, kC>;
  constexpr int kVector = Place::together(16) ? 16 / static_cast<int>(sizeof(T)) : 1;
  constexpr int kVectors = (kC + kVector - 1) / kVector;
  const int copied = pad != nullptr ? kR : rows;
  for (int first = thread; first < copied * kVectors; first += kAtATime * kThreads) {
    Shifted16 shifted[kAtATime];
    T* shifted_to[kAtATime] = {};
#pragma unroll
    for (int i = 0; i < kAtATime; ++i) {
      const int n = first + i * kThreads;
      if (n >= copied * kVectors) continue;
      const int r = n / kVectors;
      const int c = n % kVectors * kVector;
      const T* const from = r < rows ? row(r) : nullptr;
      T* const there = to + Place::offset(r, c);
      if (kVector > 1 && from != nullptr && c + kVector <= columns) {
        if (aligned16(from + c)) {
          __pipeline_memcpy_async(there, from + c, 16);
        } else {
          shifted[i].load(from + c);
          shifted_to[i] = there;
        }
        continue;
      }
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (from != nullptr && c + e < columns)
          copy_element(there + e, from + c + e);
        else if (pad != nullptr && c + e < kC)
          there[e] = *pad;
      }
    }
    if constexpr (kVector > 1) {
#pragma unroll
      for (int i = 0; i < kAtATime; ++i) {
        if (shifted_to[i] != nullptr)
          *reinterpret_cast<uint4*>(shifted_to[i]) = shifted[i].wanted();
      }
    }
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

/// The same of all rows of a block of packed elements: row(r) is the place in the array where row r
/// begins, negative outside.
template <int kThreads, class T, int kR, int kC, class Row>
__device__ __forceinline__ void unpack_rows(T* to, int thread, int columns, Row&& row,
                                            const void* array, T pad) {
  for (int n = thread; n < kR * kC; n += kThreads) {
    const long long begin = row(n / kC);
    const int c = n % kC;
    to[Packing<T, kR, kC>::offset(n / kC, c)] =
        begin >= 0 && c < columns ? load_packed<T>(array, begin + c) : pad;
  }
}

}  // namespace tessera::cuda
