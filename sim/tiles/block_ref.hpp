// Blocks in VMEM, and the refs through which a body reads and writes them.
//
// `*ref` is the block as a tile: its value at that moment, even if the block is written later.
// `*ref = x`,
// `*ref += x` and the like write the whole block. ref.slice(ds(r, n), ds(c, m)), ref.row(t),
// ref.row_range(t, n) and ref.col_range(c, n) are refs to part of it; ref.store(x, mask) and
// ref.store_at(x, keep) write where the mask holds. Every read checks that what it reads was
// written (uninit-read, parallel-dependence); slices check bounds (oob-index) and, on devices with
// a native tile, alignment (misaligned-slice): columns start at multiples of the lanes, rows of
// packed types at those of the block's tile rows.
#pragma once

#include <cstring>

#include "sim/diagnostics/slugs.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"
#include "sim/pipeline/block.hpp"
#include "sim/tiles/tile.hpp"

namespace tessera {

/// Tells the machine, if there is one, of an access to part of a block (sim/tiles/async.cpp).
void track_access(Block& block, int row, int col, int rows, int cols, bool write);
inline void track(Block& block, int row, int col, int rows, int cols, bool write) {
  if (block.on != nullptr) track_access(block, row, col, rows, cols, write);
}
/// Raises use-after-scope (sim/tiles/async.cpp).
[[noreturn]] void fail_scope(MachineCore& core, const Buffer& block);

/// Raises uninit-read, or parallel-dependence if an earlier cell wrote the element.
[[noreturn]] void fail_missing(const BlockPart& part, const Shadow& shadow, std::int64_t first);
void check_slice(const OperandPlan& op, const DeviceSpec& device, int row, int col, int rows,
                 int cols, int of_rows, int of_cols, int base_row, int base_col);
[[noreturn]] void fail_scalar(const OperandPlan& op, std::int64_t index);
[[noreturn]] void fail_absent(const OperandPlan& op);
[[noreturn]] void fail_step(const OperandPlan& op);
[[noreturn]] void fail_no_slots(const OperandPlan& op);
[[noreturn]] void fail_slot(const OperandPlan& op, int slot, int slots);
/// How many rows of a block of three dims or more, of which `taken` have been chosen, one index of
/// the next dim has. Raises oob-index for an index beyond it, shape-mismatch if there is none.
int rows_at(const OperandPlan& op, int taken, int index, int rows);

/// What `*ref` of a block that can be written gives: a tile to read, a place to assign.
template <class T>
class BlockTile {
 public:
  using Backend = Interpreter;
  using Element = T;
  int rows;
  int cols;

  BlockTile(Block& block, int row, int col, int r, int c)
      : rows(r),
        cols(c),
        block_(&block),
        row_(row),
        col_(col),
        value_(block.data<T>() + row * block.stride + col, r, c, block.stride, block.storage()) {
    if (!block.shadow.all_init()) missing_ = block.shadow.first_missing(rect());
  }

  /// The value, once it is used.
  const Tile<T>& checked() const {
    track(*block_, row_, col_, rows, cols, false);
    if (missing_ >= 0)
      fail_missing({block_->plan, row_, col_, rows, cols}, block_->shadow, missing_);
    if (block_->has_bounds()) {
      value_ = Tile<T>(block_->data<T>() + row_ * block_->stride + col_, rows, cols, block_->stride,
                       block_->storage(), block_->read_bounds(row_, col_, rows, cols));
    }
    return value_;
  }
  operator Tile<T>() const { return checked(); }  // NOLINT(google-explicit-constructor)

  BlockTile(const BlockTile&) = default;

  BlockTile& operator=(const BlockTile& x) && { return assign(x.checked()); }
  template <class X>
  BlockTile& operator=(X&& x) && {
    using Plain = std::remove_cvref_t<X>;
    if constexpr (ScalarPlace<Plain>) {
      return std::move(*this) = detail::operand(x);
    } else if constexpr (ScalarLike<Plain>) {
      T* to = target();
      const T value = convert<T>(x);
      for (int r = 0; r < rows; ++r) std::fill_n(to + r * block_->stride, cols, value);
      block_->store_bounds(row_, col_, rows, cols, nullptr);
      block_->shadow.mark_init(rect());
      return *this;
    } else if constexpr (kIsDot<Plain>) {
      static_assert(!std::is_lvalue_reference_v<X>, "assign the dot() itself, not a name for it");
      std::move(*this) = typename Plain::Accumulator(0);
      drop_value();
      return accumulate(std::forward<X>(x));
    } else {
      return assign(detail::operand(x));
    }
  }
  /// Give the value a name of its own instead: auto v = load(*ref).
  template <class X>
  BlockTile& operator=(X&&) & = delete;

  template <class X>
  BlockTile& operator+=(X&& x) && {
    using Plain = std::remove_cvref_t<X>;
    if constexpr (kIsDot<Plain>) {
      static_assert(
          !std::is_lvalue_reference_v<X>,
          "dot() is a right-hand side: write *acc += dot(a, b), or name it with load(dot(a, b))");
      checked();
      drop_value();
      return accumulate(std::forward<X>(x));
    } else {
      if (op_state.error_model != nullptr) return add_bounded(x);
      return std::move(*this) = Interpreter::map<Add>(*this, x);
    }
  }
  template <class X>
  BlockTile& operator-=(const X& x) && {
    return std::move(*this) = Interpreter::map<Sub>(*this, x);
  }
  template <class X>
  BlockTile& operator*=(const X& x) && {
    return std::move(*this) = Interpreter::map<Mul>(*this, x);
  }

  /// Writes x where keep(r, c).
  template <class Keep>
  void store_at(const Tile<T>& x, Keep keep) && {
    if (x.rows != rows || x.cols != cols) fail_shapes("store", {{rows, cols}, {x.rows, x.cols}});
    track(*block_, row_, col_, rows, cols, true);
    const Tile<T> held = x;  // x may be this block's own old value
    drop_value();
    T* to = block_->writable<T>(true) + row_ * block_->stride + col_;
    if (held.bounds() != nullptr || block_->has_bounds()) {
      const StorageHandle kept = bounds::choose(
          held.bounds(), block_->read_bounds(row_, col_, rows, cols), rows, cols, keep);
      block_->store_bounds(row_, col_, rows, cols, reinterpret_cast<const float*>(kept.bytes()));
    }
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        if (!keep(r, c)) continue;
        to[r * block_->stride + c] = held(r, c);
        if (!block_->shadow.all_init()) {
          block_->shadow.mark_init((row_ + r) * std::int64_t{block_->plan->cols} + col_ + c);
        }
      }
    }
  }

 private:
  Rect rect() const {
    const std::int64_t stride = block_->plan->cols;
    return {row_ * stride + col_, rows, cols, stride};
  }
  bool whole() const { return rows == block_->plan->rows && cols == block_->plan->cols; }
  /// Lets go of the old value: an assignment does not read it.
  void drop_value() { value_ = Tile<T>(); }
  T* target() {
    track(*block_, row_, col_, rows, cols, true);
    drop_value();
    return block_->writable<T>(!whole()) + row_ * block_->stride + col_;
  }

  /// x may be this block's own old value: it keeps the memory that it shares.
  BlockTile& assign(const Tile<T>& x) {
    write(x);
    block_->store_bounds(row_, col_, rows, cols, x.bounds());
    return *this;
  }
  void write(const Tile<T>& x) {
    if (x.rows != rows || x.cols != cols)
      fail_shapes("assignment", {{rows, cols}, {x.rows, x.cols}});
    T* to = target();
    for (int r = 0; r < rows; ++r) {
      std::memcpy(to + r * block_->stride, x.data() + r * x.stride(),
                  sizeof(T) * static_cast<std::size_t>(cols));
    }
    block_->shadow.mark_init(rect());
  }
  /// *ref += x, a term of a sum in any order.
  template <class X>
  BlockTile& add_bounded(const X& x) {
    const Tile<T> before = checked();
    const Tile<T> after = Interpreter::map<Add>(before, x);
    if constexpr (std::is_floating_point_v<T>) {
      T held{};
      bounds::add_term(before.view(), detail::lane_of<T>(detail::operand(x), held).view(),
                       block_->sum_bounds(row_, col_));
      write(after);
      return *this;
    } else {
      return assign(after);
    }
  }
  template <class U>
  BlockTile& assign(const Tile<U>&) {
    static_assert(std::is_same_v<T, U>, "element types differ: assign cast<T>(value)");
    return *this;
  }
  template <class D>
  BlockTile& accumulate(D&& d) {
    static_assert(
        std::is_same_v<T, typename std::remove_cvref_t<D>::Accumulator>,
        "dot() accumulates in f32 (f64 for f64, i32 for 8-bit integers): give it such a ref");
    if (d.rows != rows || d.cols != cols) fail_shapes("dot", {{rows, cols}, {d.rows, d.cols}});
    track(*block_, row_, col_, rows, cols, true);
    T* to = block_->writable<T>(true) + row_ * block_->stride + col_;
    bounds::SumView sum;
    if (std::is_floating_point_v<T> && op_state.error_model != nullptr)
      sum = block_->sum_bounds(row_, col_);
    std::forward<D>(d).accumulate(to, block_->stride, sum);
    return *this;
  }

  Block* block_;
  int row_;
  int col_;
  std::int64_t missing_ = -1;
  mutable Tile<T> value_;
};

/// What the body of a kernel is given for each operand of its spec.
template <class T, Role kRole>
class BlockRef {
 public:
  int rows;
  int cols;

  explicit BlockRef(Block& block)
      : rows(block.plan->rows),
        cols(block.plan->cols),
        block_(&block),
        generation_(block.generation) {}

  bool there() const { return block_->plan->present; }
  auto operator*() const {
    static_assert(kRole != Role::smem, "SMEM is read by element: ref[i]");
    check_scope();
    if (!block_->plan->present) fail_absent(*block_->plan);
    if constexpr (kRole == Role::in) {
      track(*block_, row_, col_, rows, cols, false);
      return Tile<T>(block_->data<T>() + row_ * block_->stride + col_, rows, cols, block_->stride,
                     block_->storage());
    } else {
      return BlockTile<T>(*block_, row_, col_, rows, cols);
    }
  }

  template <class R0, class RN, class C0, class CN>
  BlockRef slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    static_assert(kRole != Role::accum,
                  "an accumulator is read and written whole; use vmem scratch");
    check_scope();
    if (r.step != 1 || c.step != 1) fail_step(*block_->plan);
    BlockRef part = *this;
    part.row_ += static_cast<int>(r.start);
    part.col_ += static_cast<int>(c.start);
    part.rows = static_cast<int>(r.size);
    part.cols = static_cast<int>(c.size);
    check_slice(*block_->plan, *block_->device_spec, static_cast<int>(r.start),
                static_cast<int>(c.start), part.rows, part.cols, rows, cols, row_ - lead_row_,
                col_);
    return part;
  }
  /// The i-th of the first dim of a block of three dims or more: a ref to the others. It may be
  /// any: leading dims are not tiled. Of scratch: its slot.
  BlockRef at(int i) const {
    static_assert(kRole == Role::in || kRole == Role::out || kRole == Role::vmem,
                  "at(i) is of inputs, outputs and vmem scratch");
    if constexpr (kRole == Role::vmem) return slot(i);
    check_scope();
    BlockRef part = *this;
    part.rows = rows_at(*block_->plan, taken_, i, rows);
    part.row_ += i * part.rows;
    part.lead_row_ = part.row_;
    ++part.taken_;
    return part;
  }

  /// One row, some rows or some columns of the ref: a ref to them.
  BlockRef row(int t) const { return slice(ds(t, 1), ds(0, cols)); }
  template <class Size>
  BlockRef row_range(int start, Size size) const {
    return slice(ds(start, size), ds(0, cols));
  }
  template <class Size>
  BlockRef col_range(int start, Size size) const {
    return slice(ds(0, rows), ds(start, size));
  }

  int slots() const { return static_cast<int>(block_->plan->block[0]); }
  /// One of the slots of vmem(name, slots, rows, cols).
  BlockRef slot(int i) const {
    static_assert(kRole == Role::vmem, "only vmem scratch has slots");
    check_scope();
    if (block_->plan->block.rank != 3) fail_no_slots(*block_->plan);
    if (i < 0 || i >= slots()) fail_slot(*block_->plan, i, slots());
    BlockRef part = *this;
    part.rows = rows / slots();
    part.row_ += i * part.rows;
    return part;
  }

  /// Its part of the block as a source or destination of copies.
  Ref ref() const {
    static_assert(kRole != Role::accum, "accumulators may lie in registers: copy vmem scratch");
    static_assert(!kIsPacked<T>, "copies of packed types are not supported");
    check_scope();
    return Ref(*block_).slice(0, row_, rows).slice(1, col_, cols);
  }
  static constexpr bool kWritable = kRole != Role::in;
  using Element = T;

  /// Writes x where the mask holds; the rest of the block keeps what it has.
  template <class X, class M>
  void store(const X& x, const M& mask) const {
    const Tile<bool> m = detail::operand(mask);
    if ((m.rows != rows && m.rows != 1) || (m.cols != cols && m.cols != 1)) {
      fail_shapes("store", {{rows, cols}, {m.rows, m.cols}});
    }
    store_at(x, [&m](int r, int c) { return m(m.rows == 1 ? 0 : r, m.cols == 1 ? 0 : c); });
  }
  /// Writes x where keep(r, c), rows and columns counted in the ref.
  template <class X, class Keep>
  void store_at(const X& x, Keep keep) const {
    static_assert(kRole != Role::in, "an input block is read-only");
    check_scope();
    BlockTile<T>(*block_, row_, col_, rows, cols).store_at(detail::operand(x), keep);
  }

  /// A scalar of SMEM scratch.
  class Scalar {
   public:
    using ScalarType = T;
    Scalar(Block& block, std::int64_t index) : block_(&block), index_(index) {}
    Scalar(const Scalar&) = default;
    operator T() const {  // NOLINT(google-explicit-constructor)
      track(*block_, 0, static_cast<int>(index_), 1, 1, false);
      if (block_->shadow.at(index_) != Shadow::init) {
        fail_missing({block_->plan, 0, static_cast<int>(index_), 1, 1}, block_->shadow, index_);
      }
      return block_->data<T>()[index_];
    }
    Scalar& operator=(T value) {
      track(*block_, 0, static_cast<int>(index_), 1, 1, true);
      block_->writable<T>(true)[index_] = value;
      block_->shadow.mark_init(index_);
      return *this;
    }
    /// The value, not the place.
    Scalar& operator=(const Scalar& x) { return *this = static_cast<T>(x); }

   private:
    Block* block_;
    std::int64_t index_;
  };
  Scalar operator[](int index) const {
    static_assert(kRole == Role::smem, "only SMEM is read by element; a block is a tile, *ref");
    check_scope();
    if (index < 0 || index >= cols) fail_scalar(*block_->plan, index);
    return Scalar(*block_, index);
  }

 private:
  void check_scope() const {
    stop_if_asked();
    if (block_->generation != generation_) fail_scope(*block_->on, *block_);
  }

  Block* block_;
  std::uint32_t generation_;
  int row_ = 0;
  int col_ = 0;
  int lead_row_ = 0;  ///< the first row of what at() chose
  int taken_ = 0;     ///< leading dims that it chose from
};

}  // namespace tessera
