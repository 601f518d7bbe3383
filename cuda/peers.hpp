// Kernels on several devices of one host: memory that peers write, and semaphores in it.
//
// A GPU reaches the memory of its peers (over NVLink or PCIe), not their shared memory. A kernel on
// several devices therefore keeps its VMEM scratch and its semaphores in device memory, and
// multiplies by SIMT lanes. Semaphores are counters, those of copies count bytes. A copy is made by
// the threads that start it: it may land at any time after its start, so at once is right too.
#pragma once

#include "cuda/cell.hpp"
#include "cuda/refs.hpp"

namespace tessera::cuda {

/// Where the operands of every device lie, those of one after those of another; the entry after a
/// device's operands is its barrier semaphore.
struct Peers {
  void* const* entries;
  int operands;
  int device;
  int devices;

  __device__ __forceinline__ void* on(int which, int operand) const {
    return entries[which * (operands + 1) + operand];
  }
};

using Count = unsigned long long;

/// Semaphores of an operand from the n-th on.
template <class Th>
struct PeerSems {
  const Peers* peers;
  int operand;
  int n = 0;

  __device__ __forceinline__ PeerSems operator[](int i) const { return {peers, operand, n + i}; }
  /// By all threads: what they did before is seen by who takes it.
  __device__ __forceinline__ void add(int device, Count amount) const {
    Th::sync();
    if (threadIdx.x == 0) {
      __threadfence_system();
      asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(at(device)), "l"(amount)
                   : "memory");
    }
  }
  __device__ __forceinline__ void take(Count amount) const {
    if (threadIdx.x == 0) {
      Count* const sem = at(peers->device);
      Count value = 0;
      do {
        asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(sem) : "memory");
      } while (value < amount);
      const Count less = Count{0} - amount;
      asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(sem), "l"(less) : "memory");
      __threadfence_system();
    }
    Th::sync();
  }

 private:
  __device__ __forceinline__ Count* at(int device) const {
    return static_cast<Count*>(peers->on(device, operand)) + n;
  }
};

template <class Th>
__device__ __forceinline__ void semaphore_signal(const PeerSems<Th>& sem, int n, int device,
                                                 Here = Here::now()) {
  sem.add(device, static_cast<Count>(n));
}
template <class Th>
__device__ __forceinline__ void semaphore_wait(const PeerSems<Th>& sem, int n = 1,
                                               Here = Here::now()) {
  sem.take(static_cast<Count>(n));
}

/// Part of an array in HBM: rows of `pitch` elements.
template <class T, bool kCanWrite>
struct PeerArray {
  using Element = T;
  static constexpr bool kWritable = kCanWrite;
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T));
  T* data;  ///< of the part
  long long pitch;
  int operand;
  LeadingDims leading;
  int part_rows;
  int part_cols;

  __device__ __forceinline__ PeerArray at(int i) const {
    PeerArray one = *this;
    one.part_rows = leading.rows_of_one(part_rows);
    one.data += i * one.part_rows * pitch;
    one.leading = leading.others();
    return one;
  }
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ PeerArray slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    return {data + static_cast<int>(r.start) * pitch + static_cast<int>(c.start),
            pitch,
            operand,
            leading,
            static_cast<int>(r.size),
            static_cast<int>(c.size)};
  }
  __device__ __forceinline__ T* at(int r, int c) const { return data + r * pitch + c; }
  /// True if rows are whole 16-byte chunks at multiples of them.
  __device__ __forceinline__ bool in_chunks() const {
    return aligned16(data) && pitch % kChunk == 0 && part_cols % kChunk == 0;
  }
};

/// Part of a tile: an end of copies, and a tile itself if its extents are static.
template <class Th, class T, int kR, int kC, class RN, class CN>
struct PeerPart : PartsOf<PeerPart<Th, T, kR, kC, RN, CN>> {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T));
  static constexpr RN rows{};
  static constexpr CN cols{};
  T* data;  ///< of the tile
  int operand;
  int row0;
  int col0;
  RN part_rows;
  CN part_cols;

  __device__ __forceinline__ T* at(int r, int c) const {
    return data + Packing<T, kR, kC>::offset(row0 + r, col0 + c);
  }
  __device__ __forceinline__ bool in_chunks() const {
    return Packing<T, kR, kC>::together(16) && col0 % kChunk == 0 &&
           static_cast<int>(part_cols) % kChunk == 0;
  }
  template <class R0, class SN, class C0, class DN>
  __device__ __forceinline__ auto slice(Ds<R0, SN> r, Ds<C0, DN> c) const {
    return PeerPart<Th, T, kR, kC, SN, DN>{
        {},     data,  operand, row0 + static_cast<int>(r.start), col0 + static_cast<int>(c.start),
        r.size, c.size};
  }
  __device__ __forceinline__ auto operator*() const {
    static_assert(is_static<RN>() && is_static<CN>());
    using Window = SharedWindow<Th, T, kR, kC, RN::value, CN::value, false>;
    return SharedPlace<Th, Window>{{data, row0, col0}, {}};
  }
};

/// Scratch in device memory, in slots: each a tile.
template <class Th, class T, int kR, int kC, int kSlots = 1>
struct PeerVmemRef : PartsOf<PeerVmemRef<Th, T, kR, kC, kSlots>> {
  using Element = T;
  static constexpr bool kWritable = true;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  T* data;
  int operand;

  __device__ __forceinline__ Int<kSlots> slots() const { return {}; }
  __device__ __forceinline__ auto at(int i) const {
    static_assert(kSlots > 1, "scratch of two dims has no slots");
    return slot(i);
  }
  __device__ __forceinline__ auto slot(int i) const {
    using Slot = Packing<T, kR / kSlots, kC>;
    return PeerVmemRef<Th, T, kR / kSlots, kC>{
        {}, data + i * (Slot::kBytes / Slot::kSize), operand};
  }
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ auto slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    static_assert(kSlots == 1, "scratch in slots: take slot(i) first");
    return PeerPart<Th, T, kR, kC, RN, CN>{
        {}, data, operand, static_cast<int>(r.start), static_cast<int>(c.start), r.size, c.size};
  }
  __device__ __forceinline__ auto operator*() const {
    static_assert(kSlots == 1, "scratch in slots: take slot(i) first");
    return typename VmemRef<Th, T, kR, kC>::Place{{data, 0}, {}};
  }
};

/// An input block, in shared memory, that copies can start from.
template <class Th, class T, int kR, int kC>
struct PeerInRef : InRef<Th, T, kR, kC> {
  template <class R0, class RN, class C0, class CN>
  __device__ __forceinline__ auto slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    return PeerPart<Th, T, kR, kC, RN, CN>{
        {}, this->data, -1, static_cast<int>(r.start), static_cast<int>(c.start), r.size, c.size};
  }
};

template <class Th, class T, int kR, int kC, int kRows, int kCols, bool kAll>
__device__ __forceinline__ auto part_of(
    const SharedWindow<Th, T, kR, kC, kRows, kCols, kAll>& window) {
  return PeerPart<Th, T, kR, kC, Int<kRows>, Int<kCols>>{{},          window.data, -1, window.row0,
                                                         window.col0, {},          {}};
}
/// The end of a copy that a ref is: parts are, blocks and scratch are parts of themselves.
template <class X>
__device__ __forceinline__ auto whole(const X& x) {
  if constexpr (requires { x.part_rows; })
    return x;
  else if constexpr (requires { x.window; })
    return part_of(x.window);
  else
    return x.slice(Ds<int, std::remove_const_t<decltype(X::rows)>>{0, X::rows},
                   Ds<int, std::remove_const_t<decltype(X::cols)>>{0, X::cols});
}

/// A copy whose destination is on `device`, by the threads that start it.
template <class Th, class From, class To>
struct PeerCopy {
  From from;
  To to;
  PeerSems<Th> sent;
  PeerSems<Th> received;
  int device;
  bool remote;

  __device__ __forceinline__ Count bytes() const {
    return static_cast<Count>(static_cast<int>(to.part_rows)) *
           static_cast<unsigned>(static_cast<int>(to.part_cols)) * sizeof(typename To::Element);
  }
  __device__ __forceinline__ void start(int = 0, Here = Here::now()) const {
    const Peers& peers = *received.peers;
    Th::sync();  // what the threads wrote is copied; nobody reads what it replaces
    To there = to;
    if (device != peers.device) {
      const auto apart = static_cast<unsigned char*>(peers.on(device, to.operand)) -
                         static_cast<unsigned char*>(peers.on(peers.device, to.operand));
      there.data = reinterpret_cast<typename To::Element*>(
          reinterpret_cast<unsigned char*>(to.data) + apart);
    }
    if (from.in_chunks() && there.in_chunks())
      copy<To::kChunk, int4>(there);
    else
      copy<1, typename To::Element>(there);
    received.add(device, bytes());
    if (remote) sent.add(peers.device, bytes());
  }
  __device__ __forceinline__ void wait_send(Here = Here::now()) const { sent.take(bytes()); }
  __device__ __forceinline__ void wait_recv(Here = Here::now()) const { received.take(bytes()); }
  __device__ __forceinline__ void wait(Here = Here::now()) const {
    if (remote) wait_send();
    wait_recv();
  }

 private:
  /// Loads of a thread on their way at a time: a CTA moves what its threads have in flight.
  static constexpr int kInFlight = 8;

  /// A row per warp, kElems at a time.
  template <int kElems, class Move>
  __device__ __forceinline__ void copy(const To& there) const {
    const int rows = to.part_rows;
    const int cols = to.part_cols;
    for (int r = static_cast<int>(threadIdx.x) / 32; r < rows; r += Th::kThreads / 32) {
      for (int first = static_cast<int>(threadIdx.x) % 32 * kElems; first < cols;
           first += kInFlight * 32 * kElems) {
        Move moved[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
          const int c = first + i * 32 * kElems;
          if (c < cols) moved[i] = *reinterpret_cast<const Move*>(from.at(r, c));
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
          const int c = first + i * 32 * kElems;
          if (c < cols) *reinterpret_cast<Move*>(there.at(r, c)) = moved[i];
        }
      }
    }
  }
};

template <class Th, class From, class To>
__device__ __forceinline__ auto make_async_remote_copy(const From& from, const To& to,
                                                       const PeerSems<Th>& send,
                                                       const PeerSems<Th>& recv, int device,
                                                       Here = Here::now()) {
  static_assert(std::is_same_v<typename From::Element, typename To::Element>, "one element type");
  static_assert(To::kWritable, "the destination of a copy is an input");
  const auto source = whole(from);
  const auto target = whole(to);
  return PeerCopy<Th, std::remove_const_t<decltype(source)>, std::remove_const_t<decltype(target)>>{
      source, target, send, recv, device, true};
}
template <class Th, class From, class To>
__device__ __forceinline__ auto make_async_copy(const From& from, const To& to,
                                                const PeerSems<Th>& sem, Here = Here::now()) {
  auto copy = make_async_remote_copy(from, to, sem, sem, sem.peers->device);
  copy.remote = false;
  return copy;
}
template <class Th, class From, class To>
__device__ __forceinline__ auto async_copy(const From& from, const To& to, const PeerSems<Th>& sem,
                                           int priority = 0, Here at = Here::now()) {
  const auto copy = make_async_copy(from, to, sem, at);
  copy.start(priority, at);
  return copy;
}

/// What a body on several devices knows about where it runs.
template <class G, class Th, int kScope = 0>
struct PeerEnv : Env<G, Th, kScope> {
  const Peers* peers;
  template <class Body, class... Op>
  __device__ __forceinline__ void run_scoped(Body&&, const Op&...) const {
    static_assert(sizeof(Body) == 0, "run_scoped on several devices is not mapped to CUDA");
  }
  __device__ __forceinline__ int device_id() const { return peers->device; }
  __device__ __forceinline__ int num_devices() const { return peers->devices; }
  __device__ __forceinline__ PeerSems<Th> barrier_semaphore(int = 0) const {
    return {peers, peers->operands};
  }
};

}  // namespace tessera::cuda
