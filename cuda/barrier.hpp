// What the warps of a CTA wait for: mbarriers, named barriers, and fences between ordinary accesses
// and those of the copy engine and the tensor cores.
//
// Shared memory is addressed by 32 bits here (PTX's shared state space), from where a CTA's dynamic
// part begins: a constant, so that an address in a loop costs nothing.
#pragma once

#include <cuda/ptx>

#include "sim/body/cta.hpp"

namespace tessera::cuda {

namespace ptx = ::cuda::ptx;

/// What is compiled for: Hopper, unless the build says another (cmake/tessera_cuda.cmake).
#ifdef TESSERA_SM
inline constexpr cta::Sm kSm = *cta::sm_of(TESSERA_SM);
#else
inline constexpr cta::Sm kSm = cta::kSm90;
#endif
/// The copy engine, wgmma, registers that move; without them cp.async and mma.sync.
inline constexpr bool kHopper = kSm.hopper;
/// A build that keeps checksums of steps (cuda/checksums.hpp).
#ifdef TESSERA_STEP_CHECKSUMS
inline constexpr bool kKeepsChecksums = true;
#else
inline constexpr bool kKeepsChecksums = false;
#endif
/// Every thread that read a slot gives it back, not one for its warp: what racecheck asks.
#ifdef TESSERA_EVERY_THREAD_ARRIVES
inline constexpr bool kEveryThreadArrives = true;
#else
inline constexpr bool kEveryThreadArrives = false;
#endif

/// Place of an mbarrier, or of anything else, in shared memory: bytes.
using SharedAt = unsigned;

/// Dynamic shared memory begins here where there is no static one: the first KiB is the system's
/// (CUDA C++ Programming Guide, "Shared Memory" of compute capability 9.0). Below 9.0 it may begin
/// earlier: a launch asks for a KiB more, and what lies before is left out. A kernel makes sure.
inline constexpr SharedAt kSharedBegin = 1024;
/// Of shared memory, that a launch asks for.
constexpr int launched_bytes(int bytes) { return bytes + kSm.left_out_bytes(); }

/// As a pointer, for calls that take one.
__device__ __forceinline__ void* pointer_to(SharedAt at) { return __cvta_shared_to_generic(at); }

using Barrier = std::uint64_t;
using cta::kBarrierBytes;
static_assert(kBarrierBytes == sizeof(Barrier));

__device__ __forceinline__ void init_barrier(SharedAt barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(SharedAt barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// One arrival, and the bytes of copies that complete the phase.
__device__ __forceinline__ void arrive_expecting(SharedAt barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Bytes that the phase waits for, without an arrival.
__device__ __forceinline__ void expect(SharedAt barrier, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// An arrival when the copies (cp.async) that this thread has started are done: one of those that
/// the barrier counts.
__device__ __forceinline__ void arrive_when_copied(SharedAt barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
/// The phase waits for them too, besides the arrivals that it counts.
__device__ __forceinline__ void expect_copied(SharedAt barrier) {
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
/// Until the phase of this parity is over. kPatient: in no hurry; where the hardware does not let a
/// thread rest in its wait, it looks again after a while, and takes less from the others.
template <bool kPatient = false>
__device__ __forceinline__ void wait(SharedAt barrier, unsigned parity) {
  if constexpr (kHopper) {
    asm volatile(
        "{\n\t.reg .pred over;\n"
        "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "\t@!over bra again;\n\t}" ::"r"(barrier),
        "r"(parity)
        : "memory");
  } else {
    for (;;) {
      unsigned over;
      asm volatile(
          "{\n\t.reg .pred over;\n"
          "\tmbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
          "\tselp.u32 %0, 1, 0, over;\n\t}"
          : "=r"(over)
          : "r"(barrier), "r"(parity)
          : "memory");
      if (over != 0) break;
      if constexpr (kPatient) __nanosleep(64);
    }
  }
}

/// Ordinary writes to shared memory before, the copy engine's and tensor cores' reads after: those
/// that are not ordinary accesses.
__device__ __forceinline__ void fence_async_proxy() {
  if constexpr (kHopper) ptx::fence_proxy_async(ptx::space_shared);
}

/// True for one thread of a warp, all of which call it.
__device__ __forceinline__ bool elected() {
  unsigned is;
  asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}"
               : "=r"(is));
  return is != 0;
}

/// Until kThreads threads of the CTA are here: those that compute. Barrier 0 is __syncthreads'.
template <int kThreads>
__device__ __forceinline__ void meet() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

/// A place in a ring of kSlots, and the parity of its use.
template <int kSlots>
struct Ring {
  unsigned slot = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

}  // namespace tessera::cuda
