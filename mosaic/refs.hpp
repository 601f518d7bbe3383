// What a traced body is given: blocks, arrays left in HBM, semaphores, and copies between them.
//
// The counterparts of sim/tiles/block_ref.hpp and async.hpp, by the same names. A block is the
// window, or the scratch, of a module; `*ref` loads it, with the declared padding in place of what
// lies outside of the array. Slices may start anywhere and have a size that is known, in copies any
// size. What a module, or this build, does not have is unsupported: slices of blocks of several
// leading dims, SMEM scratch of other types than i32, bitcasts of arrays.
#pragma once

#include <functional>
#include <string>

#include "memory_model/here.hpp"
#include "mosaic/tile.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"

namespace tessera::mosaic {

/// An operand of the kernel as the module has it.
struct Operand {
  Role role = Role::in;
  DType dtype = DType::f32;
  std::string name;
  Shape array;
  std::vector<std::int64_t> block;  ///< extents of the memref: of a window, 1 where squeezed
  std::vector<int> kept;            ///< its dims that the body sees
  int rows = 1;
  int cols = 1;
  int buffers = 2;
  bool present = true;
  bool padded = false;
  double pad_value = 0;
  std::string alias;
  Value memref = kNoValue;
  std::function<std::vector<Number>()> index;  ///< of the window's block at this step

  std::string space() const;
  std::string element() const;
  /// Of the memref that the kernel's function takes.
  std::string type() const;
};

/// Memory for the time of the tpu.region in which this is called.
void allocate(Operand& op);

/// Part of a memref: a start and a size per dim.
struct Part {
  const Operand* of = nullptr;
  std::vector<Number> start;
  std::vector<Number> size;
  std::vector<bool> dropped;  ///< dims of size 1 that a copy does not see
};
Part whole(const Operand& op);
/// As an end of a copy whose other end is `other`: scratch in SMEM has one dim.
Part beside(Part part, const Part& other);
/// One index of the first dim of three or more.
Part leading(const Part& part, Number index);
/// Rows and columns of a part, as the body counts them.
Part slice(const Part& part, Number row, Number rows, Number col, Number cols);

/// Throws unsupported for a size that is not known.
AnyTile load(const Part& part, int rows, int cols);
/// Of SMEM scratch, which holds i32 here.
Number load_scalar(const Operand& op, Number index);
void store_scalar(const Operand& op, Number index, Number value);
/// Where the mask holds, if there is one, which has the tile's shape.
void store(const Part& part, const AnyTile& tile, const LaneMask* mask = nullptr);

template <class T>
concept IsSize = IsNumber<T> || IsInt<T>;

/// What `*ref` of a block that can be written gives: a tile to read, a place to assign.
template <class T>
class BlockTile : public Traced {
 public:
  using Backend = Emitter;
  using Element = T;
  int rows;
  int cols;
  Value value;

  BlockTile(const Part& part, int r, int c)
      : rows(r), cols(c), value(load(part, r, c).value), part_(part) {}
  BlockTile(const BlockTile&) = default;
  T operator()(int, int) const { refuse("a decision by an element of a tile"); }

  BlockTile& operator=(const BlockTile& x) && { return assign(x); }
  template <class X>
  BlockTile& operator=(X&& x) && {
    using Plain = std::remove_cvref_t<X>;
    if constexpr (ScalarLike<Plain>)
      store(part_, filled(convert<double>(convert<T>(x)), kDTypeOf<T>, rows, cols));
    else if constexpr (kIsTracedNumber<Plain>)
      store(part_, broadcast(number_beside(x, kDTypeOf<T>), rows, cols));
    else if constexpr (kIsDot<Plain>)
      accumulate(std::forward<X>(x), kNoValue);
    else
      assign(x);
    return *this;
  }
  /// Give the value a name of its own instead: auto v = load(*ref).
  template <class X>
  BlockTile& operator=(X&&) & = delete;

  template <class X>
  BlockTile& operator+=(X&& x) && {
    if constexpr (kIsDot<std::remove_cvref_t<X>>)
      return accumulate(std::forward<X>(x), value);
    else
      return assign(Emitter::map<Add>(*this, x));
  }
  template <class X>
  BlockTile& operator-=(const X& x) && {
    return assign(Emitter::map<Sub>(*this, x));
  }
  template <class X>
  BlockTile& operator*=(const X& x) && {
    return assign(Emitter::map<Mul>(*this, x));
  }

 private:
  template <class X>
  BlockTile& assign(const X& x) {
    static_assert(std::is_same_v<T, typename X::Element>,
                  "element types differ: assign cast<T>(value)");
    if (x.rows != rows || x.cols != cols)
      fail_shapes("assignment", {{rows, cols}, {x.rows, x.cols}});
    store(part_, any_tile(x));
    return *this;
  }
  template <class D>
  BlockTile& accumulate(D&& d, Value sum) {
    static_assert(!std::is_lvalue_reference_v<D>,
                  "dot() is a right-hand side: write *acc += dot(a, b), or name it with load()");
    static_assert(
        std::is_same_v<T, typename std::remove_cvref_t<D>::Accumulator>,
        "dot() accumulates in f32 (f64 for f64, i32 for 8-bit integers): give it such a ref");
    if (d.rows != rows || d.cols != cols) fail_shapes("dot", {{rows, cols}, {d.rows, d.cols}});
    store(part_,
          product(d.a, d.a_transposed, d.b, d.b_transposed, {sum, rows, cols, kDTypeOf<T>, 0}));
    return *this;
  }
  Part part_;
};

/// Raised for an operand that is not there (`.when(false)`), or without slots.
[[noreturn]] void fail_absent(const Operand& op);

template <class T, Role kRole>
class BlockRef {
 public:
  using Element = T;
  static constexpr bool kWritable = kRole != Role::in;
  int rows;
  int cols;

  explicit BlockRef(const Operand& op) : rows(op.rows), cols(op.cols), part_(whole(op)) {}

  bool there() const { return part_.of->present; }
  auto operator*() const {
    if (!part_.of->present) fail_absent(*part_.of);
    if constexpr (kRole == Role::in)
      return tile_of<T>(load(part_, rows, cols));
    else
      return BlockTile<T>(part_, rows, cols);
  }
  template <IsSize R0, class RN, IsSize C0, class CN>
  BlockRef slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    static_assert(kRole != Role::accum,
                  "an accumulator is read and written whole; use vmem scratch");
    if (r.step != 1 || c.step != 1) refuse("a slice of a block with a step");
    BlockRef part = *this;
    const Number size_rows = number(r.size);
    const Number size_cols = number(c.size);
    part.rows = static_cast<int>(size_rows.hi);
    part.cols = static_cast<int>(size_cols.hi);
    part.part_ = mosaic::slice(part_, number(r.start), size_rows, number(c.start), size_cols);
    return part;
  }
  template <IsSize I>
  BlockRef row(I t) const {
    return slice(Ds<I, int>{t, 1}, Ds<int, int>{0, cols});
  }
  template <IsSize I, class Size>
  BlockRef row_range(I start, Size size) const {
    return slice(Ds<I, Size>{start, size}, Ds<int, int>{0, cols});
  }
  template <IsSize I, class Size>
  BlockRef col_range(I start, Size size) const {
    return slice(Ds<int, int>{0, rows}, Ds<I, Size>{start, size});
  }
  /// The i-th of the first dim of a block of three dims or more.
  template <IsSize I>
  BlockRef at(I i) const {
    static_assert(kRole == Role::in || kRole == Role::out || kRole == Role::vmem,
                  "at(i) is of inputs, outputs and vmem scratch");
    if constexpr (kRole == Role::vmem) return slot(i);
    BlockRef part = *this;
    part.part_ = leading(part_, number(i));
    part.rows = 1;
    const auto& kept = part_.of->kept;
    for (std::size_t k = 0; k + 1 < kept.size(); ++k) {
      const auto d = static_cast<std::size_t>(kept[k]);
      if (!part.part_.dropped[d]) part.rows *= static_cast<int>(part_.of->block[d]);
    }
    return part;
  }
  int slots() const { return static_cast<int>(part_.of->block[0]); }
  template <IsSize I>
  BlockRef slot(I i) const {
    static_assert(kRole == Role::vmem, "only vmem scratch has slots");
    if (part_.of->block.size() != 3) refuse(part_.of->name + " has no slots");
    BlockRef part = *this;
    part.rows = rows / slots();
    part.part_.start[0] = number(i);
    part.part_.size[0] = known(1);
    part.part_.dropped[0] = true;
    return part;
  }
  const Part& part() const { return part_; }

  template <class X, class M>
  void store(const X& x, const M& mask) const {
    put(x, LaneMask{broadcast(any_tile(mask), rows, cols).value, rows, cols});
  }
  template <class X, class Keep>
  void store_at(const X& x, Keep keep) const {
    put(x, mask_of(keep, rows, cols));
  }

  /// A scalar of SMEM scratch: a number, and a place to assign.
  struct Scalar : Number {
    const Operand* of;
    Number at;
    template <IsSize X>
    const Scalar& operator=(X x) const {
      store_scalar(*of, at, number(x));
      return *this;
    }
    const Scalar& operator=(const Scalar& x) const { return *this = static_cast<Number>(x); }
    Scalar(const Operand& op, Number index) : Number(load_scalar(op, index)), of(&op), at(index) {}
    Scalar(const Scalar&) = default;
  };
  template <IsSize I>
  Scalar operator[](I i) const {
    static_assert(kRole == Role::smem, "only SMEM is read by element; a block is a tile, *ref");
    return Scalar(*part_.of, number(i));
  }

 private:
  template <class X>
  void put(const X& x, const LaneMask& mask) const {
    static_assert(kRole != Role::in, "an input block is read-only");
    if (x.rows != rows || x.cols != cols) fail_shapes("store", {{rows, cols}, {x.rows, x.cols}});
    mosaic::store(part_, any_tile(x), &mask);
  }
  Part part_;
};

/// An array left in HBM, or part of it.
template <class T, Role kRole>
class HbmRef {
 public:
  using Element = T;
  static constexpr bool kWritable = kRole != Role::hbm_in;
  explicit HbmRef(const Operand& op) : part_(whole(op)) {}

  template <IsSize I>
  HbmRef at(I i) const {
    HbmRef one = *this;
    std::size_t d = 0;
    while (d < part_.dropped.size() && part_.dropped[d]) ++d;
    one.part_.start[d] = part_.start[d] + number(i);
    one.part_.size[d] = known(1);
    one.part_.dropped[d] = true;
    return one;
  }
  template <class... Start, class... Size>
  HbmRef slice(Ds<Start, Size>... runs) const {
    HbmRef some = *this;
    std::size_t d = 0;
    const auto take = [&](Number start, Number size, int step) {
      if (step != 1) refuse("a slice of an array with a step");
      while (d < part_.dropped.size() && part_.dropped[d]) ++d;
      if (d == part_.dropped.size()) refuse("a slice of more dims than " + part_.of->name + " has");
      some.part_.start[d] = part_.start[d] + start;
      some.part_.size[d] = size;
      ++d;
    };
    (take(number(runs.start), number(runs.size), runs.step), ...);
    return some;
  }
  template <class U>
  HbmRef<U, kRole> bitcast() const {
    refuse("a bitcast of an array");
  }
  const Part& part() const { return part_; }

 private:
  Part part_;
};

/// An array of semaphores, or one of them.
class SemRef {
 public:
  explicit SemRef(const Operand& op) : of_(&op) {}
  explicit SemRef(Value barrier) : barrier_(barrier) {}
  template <IsSize I>
  SemRef operator[](I i) const {
    SemRef one = *this;
    one.at_ = at_ + number(i);
    return one;
  }
  /// The one that it names, as a memref without dims.
  Value one() const;

 private:
  const Operand* of_ = nullptr;
  Number at_ = known(0);
  Value barrier_ = kNoValue;
};

/// A copy, which is written down where it is started, and again where it is waited for.
class AsyncCopy {
 public:
  AsyncCopy(const Part& from, const Part& to, const SemRef& landed)
      : from_(beside(from, to)), to_(beside(to, from)), landed_(landed), sent_(landed) {}
  AsyncCopy(const Part& from, const Part& to, const SemRef& sent, const SemRef& landed,
            Number device)
      : from_(from), to_(to), landed_(landed), sent_(sent), remote_(true), device_(device) {}
  void start(int priority = 0) const;
  void wait() const {
    if (remote_) wait_send();
    wait_recv();
  }
  void wait_send() const { wait_for(remote_ ? sent_ : landed_); }
  void wait_recv() const { wait_for(landed_); }

 private:
  void wait_for(const SemRef& semaphore) const;
  Part from_;
  Part to_;
  SemRef landed_;
  SemRef sent_;
  bool remote_ = false;
  Number device_{};
};

template <class From, class To>
AsyncCopy make_async_copy(const From& from, const To& to, const SemRef& sem) {
  static_assert(To::kWritable, "the destination of a copy is an input, which is read-only");
  return AsyncCopy(from.part(), to.part(), sem);
}
/// Started at once.
template <class From, class To>
AsyncCopy async_copy(const From& from, const To& to, const SemRef& sem, int priority = 0) {
  const AsyncCopy copy = make_async_copy(from, to, sem);
  copy.start(priority);
  return copy;
}
template <class From, class To, IsSize Device>
AsyncCopy make_async_remote_copy(const From& from, const To& to, const SemRef& send,
                                 const SemRef& recv, Device device) {
  static_assert(To::kWritable, "the destination of a copy is an input, which is read-only");
  return AsyncCopy(from.part(), to.part(), send, recv, number(device));
}

void signal(const SemRef& sem, Number n, const Number* device);
void wait(const SemRef& sem, Number n);
Number read(const SemRef& sem);

template <IsSize N = int>
void semaphore_signal(const SemRef& sem, N n = 1) {
  signal(sem, number(n), nullptr);
}
template <IsSize N, IsSize Device>
void semaphore_signal(const SemRef& sem, N n, Device device) {
  const Number to = number(device);
  signal(sem, number(n), &to);
}
template <IsSize N = int>
void semaphore_wait(const SemRef& sem, N n = 1) {
  wait(sem, number(n));
}
inline Number semaphore_read(const SemRef& sem) { return read(sem); }

/// An operand of a spec, or of run_scoped.
template <class Op>
Operand operand_of(const Op& op) {
  Operand o;
  o.role = Op::kRole;
  o.dtype = kDTypeOf<typename Op::Element>;
  o.name = op.name.text;
  o.array = op.shape;
  o.buffers = op.buffers;
  o.present = op.present;
  o.padded = op.padded;
  o.pad_value = op.pad_value;
  o.alias = op.alias == nullptr ? "" : op.alias;
  if constexpr (in_hbm(Op::kRole)) {
    for (int d = 0; d < op.shape.rank; ++d) o.block.push_back(op.shape[d]);
  } else {
    std::apply(
        [&](const auto&... e) {
          [[maybe_unused]] const auto add = [&](const auto& extent) {
            if (!std::is_same_v<std::remove_cvref_t<decltype(extent)>, Squeezed>)
              o.kept.push_back(static_cast<int>(o.block.size()));
            o.block.push_back(tessera::detail::block_extent(extent));
          };
          (add(e), ...);
        },
        op.block.extents);
    o.rows = static_cast<int>(block_rows(op.block));
    o.cols = static_cast<int>(block_cols(op.block));
  }
  return o;
}

/// What the body gets of it, which must outlive that.
template <class Op>
auto ref_of(const Operand& op) {
  constexpr Role kRole = Op::kRole;
  if constexpr (is_semaphore(kRole))
    return SemRef(op);
  else if constexpr (in_hbm(kRole))
    return HbmRef<typename Op::Element, kRole>(op);
  else
    return BlockRef<typename Op::Element, kRole>(op);
}

}  // namespace tessera::mosaic
