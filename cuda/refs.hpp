// What a body's operands are on the device: refs to blocks, arrays in HBM, semaphores and copies.
//
// Every computing thread runs the body and meets the others where a ref says so. A semaphore is an
// mbarrier: a copy into shared memory adds the bytes that it expects, a wait is the arrival that
// lets the phase end. A copy out of shared memory is done when start() returns.
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
    using Part = PartOfRegion<Where, CN::value>;
    return OutRef<Th, T, RN::value, CN::value, Part>{
        {}, array, {where, static_cast<int>(r.start), static_cast<int>(c.start)}};
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
    store_region<Th>(array, where, x, keep);
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

/// Part of an array in HBM, row by row: an end of copies. `maps` has a tensor map for each VMEM
/// operand, of one panel of its tiles; bit n of `mapped` says whether the n-th is one.
template <class T, bool kCanWrite>
struct HbmPart {
  using Element = T;
  static constexpr bool kWritable = kCanWrite;
  static constexpr bool kInShared = false;
  T* data;  ///< of the array
  long long pitch;
  const CUtensorMap* maps;
  unsigned mapped;
  int part_rows;
  int part_cols;
  int row0 = 0;
  int col0 = 0;
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ HbmPart slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    return {data,
            pitch,
            maps,
            mapped,
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

template <class From, class To>
struct Copy;

/// HBM to shared memory.
template <class Th, class T, bool kCanWrite, int kR, int kC, class... Extents>
struct Copy<HbmPart<T, kCanWrite>, SharedPart<Th, T, kR, kC, Extents...>> {
  HbmPart<T, kCanWrite> from;
  SharedPart<Th, T, kR, kC, Extents...> to;
  SemsRef sem;
  using Box = PanelBox<T, kR, kC, BlockDims<Int<kR>, Int<kC>>>;

  __device__ __forceinline__ void start(int = 0, Here = Here::now()) const {
    Th::sync();  // nobody reads, and nobody fills, what it replaces
    if constexpr (Box::kMappable) {
      if (to.whole() && (from.mapped >> to.vmem & 1) != 0) {
        if (threadIdx.x == 0) {
          fence_async_proxy();
          expect(sem.barrier(), Box::kBytes);
          const int start[2] = {from.row0, from.col0};
          copy_box<Box>(to.address, from.maps[to.vmem], start, sem.barrier());
        }
        return;
      }
    }
    using Tile = Packing<T, kR, kC>;
    if (to.row0 == 0 && to.col0 == 0) {
      copy_rows<Th::kThreads, T, kR, kC>(
          to.data, static_cast<int>(threadIdx.x), to.part_rows, to.part_cols,
          [&](int r) { return from.row(r); }, nullptr);
    } else {
      for (int n = static_cast<int>(threadIdx.x); n < to.part_rows * to.part_cols;
           n += Th::kThreads) {
        const int r = n / to.part_cols;
        const int c = n % to.part_cols;
        to.data[Tile::offset(to.row0 + r, to.col0 + c)] = from.row(r)[c];
      }
    }
    fence_async_proxy();
    Th::sync();
  }
  __device__ __forceinline__ void wait(Here = Here::now()) const {
    if (threadIdx.x == 0) arrive(sem.barrier());
    cuda::wait(sem.barrier(), *sem.phases >> sem.n & 1);
    *sem.phases ^= 1u << sem.n;
  }
};

/// Shared memory to HBM.
template <class Th, class T, int kR, int kC, class... Extents>
struct Copy<SharedPart<Th, T, kR, kC, Extents...>, HbmPart<T, true>> {
  SharedPart<Th, T, kR, kC, Extents...> from;
  HbmPart<T, true> to;
  SemsRef sem;

  __device__ __forceinline__ void start(int = 0, Here = Here::now()) const {
    Th::sync();
    for (int n = static_cast<int>(threadIdx.x); n < to.part_rows * kC; n += Th::kThreads) {
      const int r = n / kC;
      const int c = n % kC;
      if (c < to.part_cols)
        to.row(r)[c] = from.data[Packing<T, kR, kC>::offset(from.row0 + r, from.col0 + c)];
    }
  }
  __device__ __forceinline__ void wait(Here = Here::now()) const { Th::sync(); }
};

template <class From, class To>
__device__ __forceinline__ auto make_async_copy(const From& from, const To& to, const SemsRef& sem,
                                                Here = Here::now()) {
  static_assert(std::is_same_v<typename From::Element, typename To::Element>, "one element type");
  static_assert(To::kWritable, "the destination of a copy is an input");
  static_assert(From::kInShared != To::kInShared, "a copy is between HBM and VMEM");
  return Copy<From, To>{from, to, sem};
}
template <class From, class To>
__device__ __forceinline__ auto async_copy(const From& from, const To& to, const SemsRef& sem,
                                           int priority = 0, Here at = Here::now()) {
  const auto copy = make_async_copy(from, to, sem, at);
  copy.start(priority, at);
  return copy;
}

}  // namespace tessera::cuda
