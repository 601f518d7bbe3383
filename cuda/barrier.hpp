// What the warps of a CTA wait for: mbarriers, named barriers, and fences between ordinary accesses
// and those of the copy engine and the tensor cores.
#pragma once

#include <cuda/ptx>

namespace tessera::cuda {

namespace ptx = ::cuda::ptx;

using Barrier = std::uint64_t;

__device__ __forceinline__ void init_barrier(Barrier* barrier, int arrivals) {
  ptx::mbarrier_init(barrier, static_cast<unsigned>(arrivals));
}
__device__ __forceinline__ void arrive(Barrier* barrier) { ptx::mbarrier_arrive(barrier); }
/// One arrival, and the bytes of copies that complete the phase.
__device__ __forceinline__ void arrive_expecting(Barrier* barrier, int bytes) {
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier,
                                 static_cast<unsigned>(bytes));
}
/// Bytes that the phase waits for, without an arrival.
__device__ __forceinline__ void expect(Barrier* barrier, int bytes) {
  ptx::mbarrier_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, barrier,
                          static_cast<unsigned>(bytes));
}
/// Until the phase of this parity is over.
__device__ __forceinline__ void wait(Barrier* barrier, unsigned parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}
/// The arrival of a whole warp, counted as one.
__device__ __forceinline__ void arrive_warp(Barrier* barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(barrier);
}

/// Ordinary writes to shared memory before, the copy engine's and tensor cores' reads after.
__device__ __forceinline__ void fence_async_proxy() {
  ptx::fence_proxy_async(ptx::space_shared);
}

/// A barrier of `kThreads` threads of the CTA; 0 is __syncthreads'.
enum class Meeting : int { consumers = 1, producers = 2 };
template <Meeting kMeeting, int kThreads>
__device__ __forceinline__ void meet() {
  asm volatile("bar.sync %0, %1;" ::"n"(static_cast<int>(kMeeting)), "n"(kThreads) : "memory");
}

/// A place in a ring of kSlots: the n-th use of it, and the parity of that use.
template <int kSlots>
struct RingPlace {
  int slot;
  unsigned parity;
  __device__ __forceinline__ explicit RingPlace(unsigned n)
      : slot(static_cast<int>(n % kSlots)), parity(n / kSlots & 1) {}
};

}  // namespace tessera::cuda
