// What a body's operands are on the device: refs to blocks, arrays in HBM, semaphores and copies.
//
// Every thread of the CTA runs the body and meets the others where a ref says so. A copy into
// shared memory arrives at the mbarrier of its semaphore; one copy at a time per semaphore. A copy
// out of shared memory is done when start() returns.
#pragma once

#include <cuda/ptx>

#include "cuda/block.hpp"
#include "cuda/dot.hpp"

namespace tessera::cuda {

/// An input block in shared memory.
template <class Th, class T, int kR, int kC>
struct InRef {
  using Element = T;
  static constexpr bool kWritable = false;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  const T* data;
  __device__ __forceinline__ auto operator*() const {
    return SharedTile<Th, T, kR, kC, kPitchOf<T, kC>>{data};
  }
};

/// An output block: stores go to its place in HBM.
template <class Th, class T, int kR, int kC, class Where>
struct OutRef {
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
      ref->store_at(Simt<Th>::template as_tile<T, kR, kC>(x), [](int, int) { return true; });
    }
  };
  __device__ __forceinline__ Place operator*() const { return {this}; }
  /// Where the mask tile holds.
  template <class X, class M>
  __device__ __forceinline__ void store(const X& x, const M& mask) const {
    const auto m = Simt<Th>::load(mask);
    store_at(x, [&](int r, int c) {
      constexpr int kHigh = Th::kHigh;
      return m.at(r / kHigh, 2 * (c / Th::kApart) + c % 2);
    });
  }
  /// Where keep(row, column) holds.
  template <class X, class Keep>
  __device__ __forceinline__ void store_at(const X& x, Keep keep) const {
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
  RegTile<Th, T, kR, kC>* held;

  struct Place {
    using Backend = Simt<Th>;
    using Element = T;
    static constexpr Int<kR> rows{};
    static constexpr Int<kC> cols{};
    RegTile<Th, T, kR, kC>* held;
    __device__ __forceinline__ T at(int i, int j) const { return held->at(i, j); }
    template <class X>
    __device__ __forceinline__ void operator=(const X& x) && {
      if constexpr (kIsProduct<X>)
        *held = Simt<Th>::load(x);
      else
        Simt<Th>::assign(*held, x);
    }
    template <class X>
    __device__ __forceinline__ void operator+=(const X& x) && {
      if constexpr (kIsProduct<X>)
        multiply_add(x, *held);
      else
        *held = Simt<Th>::template map<Add>(*held, x);
    }
  };
  __device__ __forceinline__ Place operator*() const { return {held}; }
};

/// Part of an array in HBM, row by row: an end of copies.
template <class T, bool kCanWrite>
struct HbmPart {
  using Element = T;
  static constexpr bool kWritable = kCanWrite;
  static constexpr bool kInShared = false;
  T* data;
  long long pitch;
  int part_rows;
  int part_cols;
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ HbmPart slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    return {data + static_cast<int>(r.start) * pitch + static_cast<int>(c.start), pitch,
            static_cast<int>(r.size), static_cast<int>(c.size)};
  }
};

/// Part of scratch in shared memory: the other end. Rows kPitch elements apart.
template <class Th, class T, int kR, int kC>
struct SharedPart {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr bool kInShared = true;
  T* data;
  int part_rows;
  int part_cols;
};

/// Scratch in shared memory, in slots.
template <class Th, class T, int kR, int kC, int kSlots = 1>
struct VmemRef {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr int kPitch = kPitchOf<T, kC>;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  T* data;

  __device__ __forceinline__ Int<kSlots> slots() const { return {}; }
  __device__ __forceinline__ auto slot(int i) const {
    return VmemRef<Th, T, kR / kSlots, kC>{data + i * (kR / kSlots) * kPitch};
  }
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ auto slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    return SharedPart<Th, T, kR, kC>{
        data + static_cast<int>(r.start) * kPitch + static_cast<int>(c.start),
        static_cast<int>(r.size), static_cast<int>(c.size)};
  }

  struct Place : SharedTile<Th, T, kR, kC, kPitch> {
    T* to;
    template <class X>
    __device__ __forceinline__ void operator=(const X& x) && {
      const auto tile = Simt<Th>::template as_tile<T, kR, kC>(x);
      __syncthreads();  // nobody reads what it replaces
#pragma unroll
      for (int i = 0; i < tile.kHeldRows; ++i) {
#pragma unroll
        for (int j = 0; j < tile.kHeldCols; ++j) {
          const int r = Th::template row<kR>(i);
          const int c = Th::template col<kC>(j);
          const bool mine = (kR > 1 || Th::y() == 0) && (kC > 1 || Th::x() == 0);
          if (mine && Th::template inside<kR, kC>(r, c)) to[r * kPitch + c] = tile.v[i][j];
        }
      }
      __syncthreads();
    }
  };
  __device__ __forceinline__ Place operator*() const { return {{data}, data}; }
};

/// mbarriers, and for each the phase that this thread waits for next.
struct SemsRef {
  std::uint64_t* barriers;
  unsigned* phases;
  __device__ __forceinline__ SemsRef operator[](int i) const { return {barriers + i, phases + i}; }
};

template <class Th>
__device__ __forceinline__ void init_semaphore(std::uint64_t* barrier) {
  ::cuda::ptx::mbarrier_init(barrier, Th::kThreads);
}

template <class From, class To>
struct Copy;

/// HBM to shared memory.
template <class Th, class T, bool kCanWrite, int kR, int kC>
struct Copy<HbmPart<T, kCanWrite>, SharedPart<Th, T, kR, kC>> {
  HbmPart<T, kCanWrite> from;
  SharedPart<Th, T, kR, kC> to;
  SemsRef sem;

  __device__ __forceinline__ void start(int = 0, Here = Here::now()) const {
    __syncthreads();  // nobody reads, and nobody fills, what it replaces
    constexpr int kPitch = kPitchOf<T, kC>;
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    constexpr int kChunks = (kC + kVector - 1) / kVector;
    for (int n = static_cast<int>(threadIdx.x); n < to.part_rows * kChunks; n += Th::kThreads) {
      const int r = n / kChunks;
      const int c = n % kChunks * kVector;
      const T* const source = from.data + r * from.pitch + c;
      T* const target = to.data + r * kPitch + c;
      if (c + kVector <= to.part_cols && aligned16(source) && aligned16(target)) {
        __pipeline_memcpy_async(target, source, 16);
        continue;
      }
      for (int e = 0; e < kVector && c + e < to.part_cols; ++e)
        copy_element(target + e, source + e);
    }
    const auto barrier = static_cast<unsigned>(__cvta_generic_to_shared(sem.barriers));
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
  }
  __device__ __forceinline__ void wait(Here = Here::now()) const {
    while (!::cuda::ptx::mbarrier_try_wait_parity(sem.barriers, *sem.phases)) {
    }
    *sem.phases ^= 1;
    __syncthreads();  // the elements that threads copied themselves
  }
};

/// Shared memory to HBM.
template <class Th, class T, int kR, int kC>
struct Copy<SharedPart<Th, T, kR, kC>, HbmPart<T, true>> {
  SharedPart<Th, T, kR, kC> from;
  HbmPart<T, true> to;
  SemsRef sem;

  __device__ __forceinline__ void start(int = 0, Here = Here::now()) const {
    __syncthreads();
    constexpr int kPitch = kPitchOf<T, kC>;
    for (int n = static_cast<int>(threadIdx.x); n < to.part_rows * kC; n += Th::kThreads) {
      const int r = n / kC;
      const int c = n % kC;
      if (c < to.part_cols) to.data[r * to.pitch + c] = from.data[r * kPitch + c];
    }
  }
  __device__ __forceinline__ void wait(Here = Here::now()) const { __syncthreads(); }
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
