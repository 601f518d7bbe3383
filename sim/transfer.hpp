// Blocks between HBM and VMEM: where a block lies in its array, and the copies of its in-bounds
// part.
#pragma once

#include <cstring>
#include <limits>

#include "sim/block.hpp"

namespace tessera {

/// Calls f(element offset in the array, element offset in the block, run length) for every run of
/// the in-bounds part of a block.
template <class F>
void for_each_run(const OperandPlan& op, const std::int64_t* index, const Shape& in_bounds, F&& f) {
  Shape tile_strides = op.block;
  std::int64_t step = 1;
  for (int d = op.block.rank - 1; d >= 0; --d) {
    tile_strides[d] = op.squeezed[static_cast<std::size_t>(d)] ? 0 : step;
    if (!op.squeezed[static_cast<std::size_t>(d)]) step *= op.block[d];
  }
  const int last = op.block.rank - 1;
  std::int64_t from = op.offset(index);
  std::int64_t to = 0;
  if (op.by_element) {
    if (in_bounds.elems() == 0) return;
    const Shape before = op.outside_before(index);
    for (int d = 0; d <= last; ++d) to += before[d] * tile_strides[d];
  }
  Shape at = in_bounds;
  for (int d = 0; d < at.rank; ++d) at[d] = 0;
  for (;;) {
    f(from, to, in_bounds[last]);
    int d = last - 1;
    for (; d >= 0; --d) {
      from += op.strides[d];
      to += tile_strides[d];
      if (++at[d] < in_bounds[d]) break;
      from -= op.strides[d] * in_bounds[d];
      to -= tile_strides[d] * in_bounds[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

/// True if the rows of a whole block lie a constant stride apart in HBM, elements adjacent: then a
/// block of an input is that view, not a copy. (Nothing else can write an input while the kernel
/// runs, unless an output aliases it.)
inline bool viewable(const OperandPlan& op) {
  if (bit_width(op.dtype) < 8 || op.kept.rank > 2 || op.aliased >= 0) return false;
  return op.kept.rank == 0 || !op.squeezed[static_cast<std::size_t>(op.block.rank - 1)];
}
inline std::int64_t row_stride(const OperandPlan& op) {
  for (int d = 0; d < op.block.rank - 1; ++d) {
    if (!op.squeezed[static_cast<std::size_t>(d)]) return op.strides[d];
  }
  return op.cols;
}

/// What lies beyond the array in a ragged input block: the declared pad, or poison that shows.
template <class T>
T pad_of(const OperandPlan& op) {
  if (op.padded) return convert<T>(op.pad_value);
  if constexpr (kIsFloat<T>)
    return convert<T>(std::numeric_limits<float>::quiet_NaN());
  else if constexpr (std::is_same_v<T, bool>)
    return true;
  else
    return convert<T>(std::int64_t{-0x5a5a5a5a});
}

/// n elements from `at` on, out of packed memory and into it.
template <class T>
void load_elements(const std::byte* hbm, std::int64_t at, T* to, std::int64_t n) {
  if constexpr (kIsPacked<T>) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = load_element<T>(hbm, at + i);
  } else {
    std::memcpy(to, hbm + at * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T) * static_cast<std::size_t>(n));
  }
}
template <class T>
void store_elements(std::byte* hbm, std::int64_t at, const T* from, std::int64_t n) {
  if constexpr (kIsPacked<T>) {
    for (std::int64_t i = 0; i < n; ++i) store_element(hbm, at + i, from[i]);
  } else {
    std::memcpy(hbm + at * static_cast<std::int64_t>(sizeof(T)), from,
                sizeof(T) * static_cast<std::size_t>(n));
  }
}

/// Brings block `index` of an input.
template <class T>
void fetch_block(Block<T>& block, const std::byte* hbm, const std::int64_t* index,
                 const Shape& in_bounds) {
  const OperandPlan& op = *block.plan;
  if (in_bounds == op.block && viewable(op)) {
    block.storage = StorageHandle();
    // A body cannot write an input block: BlockRef<T, Role::in> gives Tile<T>, which is const.
    block.data = const_cast<T*>(reinterpret_cast<const T*>(hbm)) + op.offset(index);
    block.stride = row_stride(op);
    return;
  }
  if (!block.storage || block.storage.shared()) block.allocate();
  block.data = reinterpret_cast<T*>(block.storage.bytes());
  block.stride = op.cols;
  if (!(in_bounds == op.block)) {
    std::fill_n(block.data, std::int64_t{op.rows} * op.cols, pad_of<T>(op));
  }
  for_each_run(op, index, in_bounds, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    load_elements(hbm, from, block.data + to, n);
  });
}

/// Brings the error bounds of a block's elements from those of its array.
template <class T>
void fetch_bounds(Block<T>& block, const float* hbm, const std::int64_t* index,
                  const Shape& in_bounds) {
  const OperandPlan& op = *block.plan;
  block.clear_bounds();
  block.bounds.assign(static_cast<std::size_t>(std::int64_t{op.rows} * op.cols), 0.f);
  for_each_run(op, index, in_bounds, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    std::copy_n(hbm + from, n, block.bounds.begin() + to);
  });
}

/// Elements of an output that no step wrote.
struct Missing {
  std::int64_t count = 0;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();  ///< in row-major order
  void add(std::int64_t elems, std::int64_t at) {
    count += elems;
    if (elems > 0 && at < first) first = at;
  }
  void add(const Missing& other) { add(other.count, other.first); }
};

/// Writes the error bounds of a block's elements to those of its array.
template <class T>
void write_back_bounds(Block<T>& block, float* hbm, const std::int64_t* index,
                       const Shape& in_bounds) {
  block.settle_bounds();
  for_each_run(*block.plan, index, in_bounds,
               [&](std::int64_t to, std::int64_t from, std::int64_t n) {
                 if (block.bounds.empty())
                   std::fill_n(hbm + to, n, 0.f);
                 else
                   std::copy_n(block.bounds.begin() + from, n, hbm + to);
               });
}

/// Writes block `index` of an output back; what the block does not hold is missing for good, since
/// a block is written back once.
template <class T>
Missing write_back(const Block<T>& block, std::byte* hbm, const std::int64_t* index,
                   const Shape& in_bounds) {
  const OperandPlan& op = *block.plan;
  const bool whole = block.shadow.all_init();
  Missing missing;
  for_each_run(op, index, in_bounds, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    if (whole) {
      store_elements(hbm, to, block.data + from, n);
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (block.shadow.at(from + i) == Shadow::init)
        store_elements(hbm, to + i, block.data + from + i, 1);
      else
        missing.add(1, to + i);
    }
  });
  return missing;
}

}  // namespace tessera
