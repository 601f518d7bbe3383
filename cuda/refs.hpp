// What a body's operands are on the device: refs to blocks, arrays in HBM, semaphores and copies.
//
// Every computing thread runs the body and meets the others where a ref says so. A semaphore is an
// mbarrier: a copy from HBM into shared memory adds the bytes that it expects, a wait is the
// arrival that lets the phase end. Other copies are done when start() returns. Scratch in SMEM, and
// semaphores that no other device signals, are every thread's own.
#pragma once

#include "cuda/dot.hpp"
#include "cuda/fetch.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"

namespace tessera::cuda {

/// Refs to part of a block, as every block's slice() makes them.
template <class Self>
struct PartsOf {
  __device__ __forceinline__ auto row(int t) const {
    return self().slice(Ds<int, Int<1>>{t, {}}, whole_cols());
  }
  template <class Size>
  __device__ __forceinline__ auto row_range(int start, Size size) const {
    return self().slice(Ds<int, Size>{start, size}, whole_cols());
  }
  template <class Size>
  __device__ __forceinline__ auto col_range(int start, Size size) const {
    using Rows = std::remove_const_t<decltype(Self::rows)>;
    return self().slice(Ds<Int<0>, Rows>{{}, {}}, Ds<int, Size>{start, size});
  }

 private:
  __device__ __forceinline__ const Self& self() const { return static_cast<const Self&>(*this); }
  static __device__ __forceinline__ auto whole_cols() {
    using Cols = std::remove_const_t<decltype(Self::cols)>;
    return Ds<Int<0>, Cols>{{}, {}};
  }
};
/// Columns of a part that are all of the block's.
template <class Start, class Size, int kC>
inline constexpr bool kAllColumns = false;
template <int kC>
inline constexpr bool kAllColumns<Int<0>, Int<kC>, kC> = true;
template <class Size>
constexpr bool is_static() {
  static_assert(!std::is_same_v<Size, int>,
                "the extents of a slice that is a tile are compile-time: take .rows and .cols of a "
                "ref, or Int<N>");
  return true;
}

/// Part of an input block.
template <class Window>
struct InWindow : PartsOf<InWindow<Window>> {
  using Element = typename Window::Element;
  static constexpr bool kWritable = false;
  static constexpr auto rows = Window::rows;
  static constexpr auto cols = Window::cols;
  Window window;
  __device__ __forceinline__ auto operator*() const { return window; }
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ auto slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    return part_of(window, r, c);
  }

 private:
  template <class Th, class T, int kR, int kC, int kRows, int kCols, bool kAll, class R0, class RN,
            class C0, class CN>
  static __device__ __forceinline__ auto part_of(
      const SharedWindow<Th, T, kR, kC, kRows, kCols, kAll>& of, Ds<R0, RN> r, Ds<C0, CN> c) {
    static_assert(is_static<RN>() && is_static<CN>());
    using Part = SharedWindow<Th, T, kR, kC, RN::value, CN::value, kAll && kAllColumns<C0, CN, kC>>;
    return InWindow<Part>{
        {}, {of.data, of.row0 + static_cast<int>(r.start), of.col0 + static_cast<int>(c.start)}};
  }
};

/// An input block in shared memory.
template <class Th, class T, int kR, int kC>
struct InRef : PartsOf<InRef<Th, T, kR, kC>> {
  using Element = T;
  static constexpr bool kWritable = false;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  T* data;
  SharedAt address;
  __device__ __forceinline__ auto operator*() const {
    return SharedTile<Th, T, kR, kC>{data, address};
  }
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ auto slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    static_assert(is_static<RN>() && is_static<CN>());
    using Window = SharedWindow<Th, T, kR, kC, RN::value, CN::value, kAllColumns<C0, CN, kC>>;
    return InWindow<Window>{{}, {data, static_cast<int>(r.start), static_cast<int>(c.start)}};
  }
};

/// Of an input that an instance has or has not by type: without it, what reads it is compiled, to
/// be dropped behind `if (ref.there())`.
template <class Ref, bool kThere>
struct AskedRef : Ref {
  static constexpr bool there() { return kThere; }
};

/// A block of three dims or more: kFirst and the others are all but its last two.
template <class Ref, int kFirst, int... kOthers>
struct Stacked : Ref {
  /// The i-th of the first dim.
  __device__ __forceinline__ auto at(int i) const {
    constexpr int kEach = static_cast<int>(Ref::rows) / kFirst;
    const auto part = Ref::row_range(i * kEach, Int<kEach>{});
    if constexpr (sizeof...(kOthers) == 0)
      return part;
    else
      return Stacked<std::remove_const_t<decltype(part)>, kOthers...>{part};
  }
};
template <class Ref, int... kLeading>
__device__ __forceinline__ auto stacked(const Ref& ref, std::integer_sequence<int, kLeading...>) {
  if constexpr (sizeof...(kLeading) == 0)
    return ref;
  else
    return Stacked<Ref, kLeading...>{ref};
}

/// Part of the rectangle of an array that a block is (Region in cuda/block.hpp), kC columns wide.
template <class Where, int kC>
struct PartOfRegion {
  Where all;
  int row0;
  int col0;
  __device__ __forceinline__ long long row(int r) const {
    const long long at = all.row(row0 + r);
    return at < 0 ? at : at + col0;
  }
  template <class T>
  __device__ __forceinline__ bool rows_aligned(const T* array, int bytes) const {
    return all.rows_aligned(array, bytes) && col0 * static_cast<int>(sizeof(T)) % bytes == 0;
  }
  __device__ __forceinline__ int columns() const {
    const int left = all.columns() - col0;
    return left < 0 ? 0 : left < kC ? left : kC;
  }
};

/// A region, or what works it out where it is wanted (RegionOfStep in cuda/kernel.hpp).
template <class Where>
__device__ __forceinline__ auto region_now(const Where& where) {
  if constexpr (requires { where(); })
    return where();
  else
    return where;
}

/// An output block: stores go to its place in HBM.
template <class Th, class T, int kR, int kC, class Where>
struct OutRef : PartsOf<OutRef<Th, T, kR, kC, Where>> {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  T* array;
  Where where;

  struct Place {
    const OutRef* ref;
    void operator=(const Place&) && = delete;  // an output is not read
    template <class X>
    __device__ __forceinline__ void operator=(const X& x) && {
      ref->store_where(Cta<Th>::template as_tile<T, kR, kC>(x), KeepAll{});
    }
    template <class X>
    __device__ __forceinline__ void operator+=(const X&) && {
      refuse<X>();
    }
    template <class X>
    __device__ __forceinline__ void operator-=(const X&) && {
      refuse<X>();
    }
    template <class X>
    __device__ __forceinline__ void operator*=(const X&) && {
      refuse<X>();
    }
    template <class X>
    static __device__ __forceinline__ void refuse() {
      static_assert(sizeof(X) == 0, "an output is written once per cell: sum in accum, then store");
    }
  };
  __device__ __forceinline__ Place operator*() const { return {this}; }
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ auto slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    static_assert(is_static<RN>() && is_static<CN>());
    using Part = PartOfRegion<decltype(region_now(where)), CN::value>;
    return OutRef<Th, T, RN::value, CN::value, Part>{
        {}, array, {region_now(where), static_cast<int>(r.start), static_cast<int>(c.start)}};
  }
  /// Where the mask tile holds.
  template <class X, class M>
  __device__ __forceinline__ void store(const X& x, const M& mask) const {
    const auto m = Cta<Th>::load(mask);
    store_where(x, KeepHeld<std::remove_const_t<decltype(m)>>{m});
  }
  /// Where keep(row, column) holds.
  template <class X, class Keep>
  __device__ __forceinline__ void store_at(const X& x, Keep keep) const {
    store_where(x, KeepAt<Keep>{keep});
  }

 private:
  template <class X, class Keep>
  __device__ __forceinline__ void store_where(const X& x, Keep keep) const {
    static_assert(kRowsOf<X> == kR && kColsOf<X> == kC, "extents differ");
    store_region<Th>(array, region_now(where), x, keep);
  }
};

/// An accumulator in registers: an operand, and a place to write whole.
template <class Th, class T, int kR, int kC>
struct AccumRef {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  RegTile<Th, T, kR, kC>* sum;

  struct Place : OnDevice {
    using Backend = Cta<Th>;
    using Element = T;
    static constexpr Int<kR> rows{};
    static constexpr Int<kC> cols{};
    RegTile<Th, T, kR, kC>* sum;
    __device__ __forceinline__ T at(int i, int j) const { return sum->at(i, j); }
    /// Elements, not the place.
    __device__ __forceinline__ void operator=(const Place& x) && {
      std::move(*this).template operator=<Place>(x);
    }
    template <class X>
    __device__ __forceinline__ void operator=(const X& x) && {
      if constexpr (kIsProduct<X>)
        multiply_add<true>(x, *sum);
      else
        Cta<Th>::assign(*sum, x);
      // A branch around this stays one: a select per element and step would cost as much as the
      // products of a step.
      if constexpr ((ScalarLike<X> || Th::kTensorCores) && std::is_same_v<T, float>) pin(*sum);
    }
    template <class X>
    __device__ __forceinline__ void operator+=(const X& x) && {
      if constexpr (kIsProduct<X>)
        multiply_add<false>(x, *sum);
      else
        Cta<Th>::assign(*sum, Cta<Th>::template map<Add>(*sum, x));
    }
    template <class X>
    __device__ __forceinline__ void operator-=(const X& x) && {
      Cta<Th>::assign(*sum, Cta<Th>::template map<Sub>(*sum, x));
    }
    template <class X>
    __device__ __forceinline__ void operator*=(const X& x) && {
      Cta<Th>::assign(*sum, Cta<Th>::template map<Mul>(*sum, x));
    }
  };
  __device__ __forceinline__ Place operator*() const { return {{}, sum}; }
};

/// Extents of an array's dims but its last two.
struct LeadingDims {
  int extent[kMaxRank];
  int count;
  __device__ __forceinline__ explicit LeadingDims(const Shape& shape)
      : count(shape.rank > 2 ? shape.rank - 2 : 0) {
#pragma unroll
    for (int d = 0; d < kMaxRank; ++d) extent[d] = d < count ? static_cast<int>(shape[d]) : 1;
  }
  /// Rows of one index of the first of them, of a part that has `rows`.
  __device__ __forceinline__ int rows_of_one(int rows) const {
    if (count == 0) __trap();  // the interpreter says why
    return rows / extent[0];
  }
  __device__ __forceinline__ LeadingDims others() const {
    LeadingDims rest = *this;
#pragma unroll
    for (int d = 0; d + 1 < kMaxRank; ++d) rest.extent[d] = extent[d + 1];
    --rest.count;
    return rest;
  }
  /// Behind one more, of extent 1.
  __device__ __forceinline__ LeadingDims behind_one() const {
    LeadingDims all = *this;
#pragma unroll
    for (int d = kMaxRank - 1; d > 0; --d) all.extent[d] = extent[d - 1];
    all.extent[0] = 1;
    ++all.count;
    return all;
  }
};

/// Part of an array in HBM, row by row: an end of copies. `maps` has a tensor map for each VMEM
/// operand, of one panel of its tiles; bit n of `mapped` says whether the n-th is one.
template <class T, bool kCanWrite>
struct HbmPart {
  using Element = T;
  static constexpr bool kWritable = kCanWrite;
  static constexpr bool kInShared = false;
  T* data;  ///< of the array
  long long pitch;
  const ArrayMap* maps;
  unsigned mapped;
  LeadingDims leading;
  int part_rows;
  int part_cols;
  int row0 = 0;
  int col0 = 0;
  /// Index i of the first dim of three or more.
  __device__ __forceinline__ HbmPart at(int i) const {
    HbmPart one = *this;
    one.part_rows = leading.rows_of_one(part_rows);
    one.row0 += i * one.part_rows;
    one.leading = leading.others();
    return one;
  }
  template <class C0, class CN>
  __device__ __forceinline__ HbmPart slice(Ds<C0, CN> c) const {
    return slice(Ds<int, int>{0, 1}, c);
  }
  template <class S0, class SN, class... More>
  requires(sizeof...(More) >= 2) __device__ __forceinline__ HbmPart
      slice(Ds<S0, SN> first, More... others)
  const {
    static_assert(std::is_same_v<SN, Int<1>>,
                  "a slice of an array of more than two dims has one index of the first of them "
                  "on a GPU: at(i), or ds(i, Int<1>{})");
    HbmPart part = at(static_cast<int>(first.start)).slice(others...);
    part.leading = part.leading.behind_one();
    return part;
  }
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ HbmPart slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    return {data,
            pitch,
            maps,
            mapped,
            leading,
            static_cast<int>(r.size),
            static_cast<int>(c.size),
            row0 + static_cast<int>(r.start),
            col0 + static_cast<int>(c.start)};
  }
  __device__ __forceinline__ T* row(int r) const { return data + (row0 + r) * pitch + col0; }
};

/// A tile in shared memory that bodies write: `Tile` is a SharedTile or a SharedWindow.
template <class Th, class Tile>
struct SharedPlace : Tile, OnDevice {
  using T = typename Tile::Element;
  static constexpr int kR = Tile::rows;
  static constexpr int kC = Tile::cols;
  /// Elements, not the place.
  __device__ __forceinline__ void operator=(const SharedPlace& x) && {
    std::move(*this).template operator=<SharedPlace>(x);
  }
  template <class X>
  __device__ __forceinline__ void operator=(const X& x) && {
    put(Cta<Th>::template as_tile<T, kR, kC>(x));
  }
  template <class X>
  __device__ __forceinline__ void operator+=(const X& x) && {
    if constexpr (kIsProduct<X>) {
      RegTile<Th, T, kR, kC> sum;
      Cta<Th>::assign(sum, tile());
      multiply_add<false>(x, sum);
      put(sum);
    } else {
      put(Cta<Th>::load(Cta<Th>::template map<Add>(tile(), x)));
    }
  }
  template <class X>
  __device__ __forceinline__ void operator-=(const X& x) && {
    put(Cta<Th>::load(Cta<Th>::template map<Sub>(tile(), x)));
  }
  template <class X>
  __device__ __forceinline__ void operator*=(const X& x) && {
    put(Cta<Th>::load(Cta<Th>::template map<Mul>(tile(), x)));
  }

 private:
  __device__ __forceinline__ const Tile& tile() const { return *this; }
  template <class X>
  __device__ __forceinline__ void put(const X& x) const {
    Th::sync();  // nobody reads what it replaces
    store_shared<Th>(tile(), x);
    fence_async_proxy();
    Th::sync();
  }
};

/// Part of a tile of scratch in shared memory: the other end, and a tile if its extents are static.
template <class Th, class T, int kR, int kC, class R0 = int, class RN = int, class C0 = int,
          class CN = int>
struct SharedPart : PartsOf<SharedPart<Th, T, kR, kC, R0, RN, C0, CN>> {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr bool kInShared = true;
  static constexpr RN rows{};
  static constexpr CN cols{};
  T* data;  ///< of the tile
  SharedAt address;
  int vmem;  ///< which VMEM operand it is of
  RN part_rows;
  CN part_cols;
  int row0;
  int col0;
  __device__ __forceinline__ auto operator*() const {
    static_assert(is_static<RN>() && is_static<CN>());
    using Window = SharedWindow<Th, T, kR, kC, RN::value, CN::value, kAllColumns<C0, CN, kC>>;
    return SharedPlace<Th, Window>{{data, row0, col0}, {}};
  }
  template <class S0, class SN, class D0, class DN>
  __device__ __forceinline__ auto slice(Ds<S0, SN> r, Ds<D0, DN> c) const {
    constexpr bool kFromFirst = std::is_same_v<C0, Int<0>> && std::is_same_v<D0, Int<0>>;
    return SharedPart<Th, T, kR, kC, int, SN, std::conditional_t<kFromFirst, Int<0>, int>, DN>{
        {},
        data,
        address,
        vmem,
        r.size,
        c.size,
        row0 + static_cast<int>(r.start),
        col0 + static_cast<int>(c.start)};
  }
  __device__ __forceinline__ bool whole() const {
    return row0 == 0 && col0 == 0 && part_rows == kR && part_cols == kC;
  }
};

/// Scratch in shared memory, in slots: each a tile.
template <class Th, class T, int kR, int kC, int kSlots = 1>
struct VmemRef : PartsOf<VmemRef<Th, T, kR, kC, kSlots>> {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  T* data;
  SharedAt address;
  int vmem;  ///< which VMEM operand it is

  __device__ __forceinline__ Int<kSlots> slots() const { return {}; }
  __device__ __forceinline__ auto at(int i) const {
    static_assert(kSlots > 1, "scratch of two dims has no slots");
    return slot(i);
  }
  __device__ __forceinline__ auto slot(int i) const {
    using Slot = Packing<T, kR / kSlots, kC>;
    return VmemRef<Th, T, kR / kSlots, kC>{{},
                                           data + i * (Slot::kBytes / Slot::kSize),
                                           address + static_cast<unsigned>(i) * Slot::kBytes,
                                           vmem};
  }
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ auto slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    static_assert(kSlots == 1, "scratch in slots: take slot(i) first");
    return SharedPart<Th, T, kR, kC, R0, RN, C0, CN>{{},
                                                     data,
                                                     address,
                                                     vmem,
                                                     r.size,
                                                     c.size,
                                                     static_cast<int>(r.start),
                                                     static_cast<int>(c.start)};
  }

  using Place = SharedPlace<Th, SharedTile<Th, T, kR, kC>>;
  __device__ __forceinline__ Place operator*() const {
    static_assert(kSlots == 1, "scratch in slots: take slot(i) first");
    return Place{{data, address}, {}};
  }
};

/// Scratch in SMEM: every thread has all of it, and they all run the body.
template <class Th, class T, int kElems>
struct SmemRef {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr int kCount = kElems;
  T* elems;
  __device__ __forceinline__ T& operator[](int i) const { return elems[i]; }
};
template <class T, int kElems>
struct OwnElements {
  T elem[kElems] = {};
};

/// Counts of semaphores that this device alone signals.
struct OwnSems {
  int* counts;
  int n = 0;
  __device__ __forceinline__ OwnSems operator[](int i) const { return {counts, n + i}; }
};
__device__ __forceinline__ void semaphore_signal(const OwnSems& sem, int n = 1, int = 0,
                                                 Here = Here::now()) {
  sem.counts[sem.n] += n;
}
/// Nobody else signals: a count that is too small is a deadlock, which the host ends.
__device__ __forceinline__ void semaphore_wait(const OwnSems& sem, int n = 1, Here = Here::now()) {
  while (*static_cast<volatile int*>(sem.counts + sem.n) < n) __nanosleep(1000);
  sem.counts[sem.n] -= n;
}
__device__ __forceinline__ int semaphore_read(const OwnSems& sem, Here = Here::now()) {
  return sem.counts[sem.n];
}

/// The semaphore of copies that threads make: they are done when they have started.
struct NoSem {
  __device__ __forceinline__ NoSem operator[](int) const { return {}; }
};

/// mbarriers from the n-th of an operand's, and for each of the operand's, as bits, the phase that
/// this thread waits for next.
struct SemsRef {
  SharedAt barriers;
  unsigned* phases;
  int n = 0;
  __device__ __forceinline__ SemsRef operator[](int i) const { return {barriers, phases, n + i}; }
  __device__ __forceinline__ SharedAt barrier() const {
    return barriers + static_cast<unsigned>(n) * kBarrierBytes;
  }
};

/// A whole block or tile of scratch as an end of copies; arrays and parts are ends.
inline constexpr int kNoMaps = -1;  ///< of what is no VMEM operand
template <class X>
__device__ __forceinline__ const X& end_of_copy(const X& x) {
  return x;
}
template <class Th, class T, int kR, int kC>
__device__ __forceinline__ auto end_of_copy(const VmemRef<Th, T, kR, kC>& x) {
  return x.slice(Ds<Int<0>, Int<kR>>{{}, {}}, Ds<Int<0>, Int<kC>>{{}, {}});
}
template <class Th, class T, int kR, int kC>
__device__ __forceinline__ auto end_of_copy(const InRef<Th, T, kR, kC>& x) {
  return SharedPart<Th, T, kR, kC, Int<0>, Int<kR>, Int<0>, Int<kC>>{{}, x.data, x.address, kNoMaps,
                                                                     {}, {},     0,         0};
}
template <class Ref, int kFirst, int... kOthers>
__device__ __forceinline__ auto end_of_copy(const Stacked<Ref, kFirst, kOthers...>& x) {
  return end_of_copy(static_cast<const Ref&>(x));
}
template <class Th, class T, int kR, int kC, int kRows, int kCols, bool kAll>
__device__ __forceinline__ auto end_of_copy(
    const InWindow<SharedWindow<Th, T, kR, kC, kRows, kCols, kAll>>& x) {
  return SharedPart<Th, T, kR, kC, int, Int<kRows>, int, Int<kCols>>{
      {}, x.window.data, 0, kNoMaps, {}, {}, x.window.row0, x.window.col0};
}

/// Where element (r, c) of an end is.
template <class T, bool kCanWrite>
__device__ __forceinline__ T* place_of(const HbmPart<T, kCanWrite>& end, int r, int c) {
  return end.row(r) + c;
}
template <class Th, class T, int kR, int kC, class... Extents>
__device__ __forceinline__ T* place_of(const SharedPart<Th, T, kR, kC, Extents...>& end, int r,
                                       int c) {
  return end.data + Packing<T, kR, kC>::offset(end.row0 + r, end.col0 + c);
}

/// By the threads that start it: done when start() returns. A copy between ends that lie alike but
/// for their dims goes element by element in row-major order.
template <class Th, class From, class To>
struct CopyByThreads {
  From from;
  To to;

  __device__ __forceinline__ void start(int = 0, Here = Here::now()) const {
    Th::sync();  // what the threads wrote is copied; nobody reads what it replaces
    const int cols = to.part_cols;
    const int elems = static_cast<int>(to.part_rows) * cols;
    for (int n = static_cast<int>(threadIdx.x); n < elems; n += Th::kThreads)
      *place_of(to, n / cols, n % cols) = *place_of(from, n / static_cast<int>(from.part_cols),
                                                    n % static_cast<int>(from.part_cols));
    fence_async_proxy();
    Th::sync();
  }
  __device__ __forceinline__ void wait(Here = Here::now()) const {}
};

/// HBM to shared memory, by the copy engine where it can; `from` has the tile's columns.
template <class Th, class From, class To>
struct CopyByEngine;
template <class Th, class T, bool kCanWrite, int kR, int kC, class... Extents>
struct CopyByEngine<Th, HbmPart<T, kCanWrite>, SharedPart<Th, T, kR, kC, Extents...>> {
  HbmPart<T, kCanWrite> from;
  SharedPart<Th, T, kR, kC, Extents...> to;
  SemsRef sem;
  using Box = PanelBox<T, kR, kC, BlockDims<Int<kR>, Int<kC>>>;

  __device__ __forceinline__ void start(int = 0, Here = Here::now()) const {
    Th::sync();  // nobody reads, and nobody fills, what it replaces
    if constexpr (!kHopper) {
      if constexpr (Packing<T, kR, kC>::together(16)) {
        constexpr int kSize = static_cast<int>(sizeof(T));
        if (to.whole() && aligned16(from.row(0)) && from.pitch * kSize % 16 == 0) {
          copy_chunks_of<Th::kThreads, T, kR, kC>(to.address, static_cast<int>(threadIdx.x),
                                                  [&](int r) { return from.row(r); });
          expect_copied(sem.barrier());
          return;
        }
      }
    } else if constexpr (Box::kMappable) {
      if (to.vmem != kNoMaps && to.whole() && (from.mapped >> to.vmem & 1) != 0) {
        if (threadIdx.x == 0) {
          fence_async_proxy();
          expect(sem.barrier(), Box::kBytes);
          const int start[2] = {from.row0, from.col0};
          copy_box<Box>(to.address, from.maps[to.vmem], start, sem.barrier());
        }
        return;
      }
    }
    if (to.row0 == 0 && to.col0 == 0) {
      copy_rows<Th::kThreads, 1, T, kR, kC>(
          to.data, static_cast<int>(threadIdx.x), to.part_rows, to.part_cols,
          [&](int r) { return from.row(r); }, nullptr);
      fence_async_proxy();
      Th::sync();
    } else {
      CopyByThreads<Th, HbmPart<T, kCanWrite>, SharedPart<Th, T, kR, kC, Extents...>>{from, to}
          .start();
    }
  }
  __device__ __forceinline__ void wait(Here = Here::now()) const {
    if constexpr (!kHopper) Th::sync();  // all have said what to wait for
    if (threadIdx.x == 0) arrive(sem.barrier());
    cuda::wait(sem.barrier(), *sem.phases >> sem.n & 1);
    *sem.phases ^= 1u << sem.n;
  }
};

/// To SMEM, of which every thread has its own.
template <class Th, class From, class T, int kElems>
struct CopyToSmem {
  From from;
  SmemRef<Th, T, kElems> to;

  __device__ __forceinline__ void start(int = 0, Here = Here::now()) const {
    Th::sync();
    for (int n = 0; n < kElems; ++n)
      to.elems[n] = *place_of(from, n / static_cast<int>(from.part_cols),
                              n % static_cast<int>(from.part_cols));
    Th::sync();  // nobody replaces what another reads
  }
  __device__ __forceinline__ void wait(Here = Here::now()) const {}
};

/// The layout of the threads of an end in shared memory.
template <class X>
struct LayoutOf {
  using type = void;
};
template <class Th, class T, int kR, int kC, class... Extents>
struct LayoutOf<SharedPart<Th, T, kR, kC, Extents...>> {
  using type = Th;
};
template <class Th, class T, int kElems>
struct LayoutOf<SmemRef<Th, T, kElems>> {
  using type = Th;
};

template <class Sem>
inline constexpr bool kIsCopySem = std::is_same_v<Sem, SemsRef> || std::is_same_v<Sem, NoSem>;

template <class From, class To, class Sem>
requires(kIsCopySem<Sem>) __device__ __forceinline__
    auto make_async_copy(const From& from, const To& to, const Sem& sem, Here = Here::now()) {
  static_assert(std::is_same_v<typename From::Element, typename To::Element>, "one element type");
  static_assert(To::kWritable, "the destination of a copy is an input");
  const auto source = end_of_copy(from);
  const auto target = end_of_copy(to);
  using Source = std::remove_const_t<decltype(source)>;
  using Target = std::remove_const_t<decltype(target)>;
  using FromTh = typename LayoutOf<Source>::type;
  using ToTh = typename LayoutOf<Target>::type;
  using Th = std::conditional_t<std::is_void_v<FromTh>, ToTh, FromTh>;
  static_assert(!std::is_void_v<Th>, "a copy from HBM to HBM goes through VMEM on a GPU");
  if constexpr (requires { target.elems; })
    return CopyToSmem<Th, Source, typename To::Element, Target::kCount>{source, target};
  else if constexpr (std::is_same_v<Sem, SemsRef> && std::is_void_v<FromTh>)
    return CopyByEngine<Th, Source, Target>{source, target, sem};
  else
    return CopyByThreads<Th, Source, Target>{source, target};
}
template <class From, class To, class Sem>
requires(kIsCopySem<Sem>) __device__ __forceinline__
    auto async_copy(const From& from, const To& to, const Sem& sem, int priority = 0,
                    Here at = Here::now()) {
  const auto copy = make_async_copy(from, to, sem, at);
  copy.start(priority, at);
  return copy;
}

}  // namespace tessera::cuda
