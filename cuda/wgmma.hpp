// One wgmma.mma_async: D (64 x kN, f32 in registers) += A (64 x 16) B (16 x kN), bf16 or f16.
//
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". B lies in shared memory, A there or
// in registers; both in 128-byte swizzled panels (cuda/packing.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/barrier.hpp"
#include "memory_model/dtype.hpp"

namespace tessera::cuda {

/// A matrix operand whose first byte is `ahead` after `begin`, and how it goes on. `along_k`: its
/// k's are neighbours in memory; else its rows (of a) or columns (of b) are, and `panel_bytes` is
/// from 64 of them to the next 64. Sums, so that constants meet and cost nothing.
__device__ __forceinline__ std::uint64_t matrix_descriptor(SharedAt begin, int ahead, bool along_k,
                                                           int panel_bytes) {
  constexpr std::uint64_t kSwizzle128 = 1;
  constexpr std::uint64_t kEightRows = 8 * 128;
  const int leading = along_k ? 16 : panel_bytes;
  const unsigned low = (begin >> 4) + static_cast<unsigned>((ahead >> 4) + (leading >> 4 << 16));
  return low | kEightRows >> 4 << 32 | kSwizzle128 << 62;
}

/// Registers written before are seen by the products after.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_wait_all() {
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// A row's elements lo[2 g], lo[2 g + 1] and those of the row eight below it, hi, for g = 0, 1, ...
#define TESSERA_D4(g) \
  "+f"(lo[2 * (g)]), "+f"(lo[2 * (g) + 1]), "+f"(hi[2 * (g)]), "+f"(hi[2 * (g) + 1])
#define TESSERA_D16(g) TESSERA_D4(g), TESSERA_D4((g) + 1), TESSERA_D4((g) + 2), TESSERA_D4((g) + 3)
#define TESSERA_D32(g) TESSERA_D16(g), TESSERA_D16((g) + 4)
#define TESSERA_D64(g) TESSERA_D32(g), TESSERA_D32((g) + 8)
#define TESSERA_D96(g) TESSERA_D64(g), TESSERA_D32((g) + 16)
#define TESSERA_D128(g) TESSERA_D64(g), TESSERA_D64((g) + 16)
#define TESSERA_R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define TESSERA_R32                                                                    \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22," \
  "%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define TESSERA_R64                                                                              \
  TESSERA_R32                                                                                    \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54" \
  ",%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define TESSERA_R96                                                                      \
  TESSERA_R64                                                                            \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84" \
  ",%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define TESSERA_R128                                                                     \
  TESSERA_R96                                                                            \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%1" \
  "13,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// One instruction with a in shared memory: the numbers of its operands after the accumulators.
#define TESSERA_WGMMA_SHARED(n, type, regs, dregs, a, b, add, ta, tb)                           \
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " add                                      \
               ", 0;\n\twgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" regs \
               "}, " a ", " b ", p, 1, 1, " ta ", " tb ";\n\t}"                                 \
               : dregs(0)                                                                       \
               : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(add_to)), "n"(kTransA ? 1 : 0), \
                 "n"(kTransB ? 1 : 0))
#define TESSERA_WGMMA_REGS(n, type, regs, dregs, a0, a1, a2, a3, b, add, tb)                    \
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " add                                      \
               ", 0;\n\twgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" regs \
               "}, {" a0 "," a1 "," a2 "," a3 "}, " b ", p, 1, 1, " tb ";\n\t}"                 \
               : dregs(0)                                                                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_desc),                       \
                 "r"(static_cast<int>(add_to)), "n"(kTransB ? 1 : 0))
#define TESSERA_WGMMA_SHAPES(type)                                                                 \
  if constexpr (kN == 256)                                                                         \
    TESSERA_WGMMA_SHARED("256", type, TESSERA_R128, TESSERA_D128, "%128", "%129", "%130", "%131",  \
                         "%132");                                                                  \
  else if constexpr (kN == 192)                                                                    \
    TESSERA_WGMMA_SHARED("192", type, TESSERA_R96, TESSERA_D96, "%96", "%97", "%98", "%99",        \
                         "%100");                                                                  \
  else if constexpr (kN == 128)                                                                    \
    TESSERA_WGMMA_SHARED("128", type, TESSERA_R64, TESSERA_D64, "%64", "%65", "%66", "%67",        \
                         "%68");                                                                   \
  else if constexpr (kN == 64)                                                                     \
    TESSERA_WGMMA_SHARED("64", type, TESSERA_R32, TESSERA_D32, "%32", "%33", "%34", "%35", "%36"); \
  else                                                                                             \
    TESSERA_WGMMA_SHARED("32", type, TESSERA_R16, TESSERA_D16, "%16", "%17", "%18", "%19", "%20")
#define TESSERA_WGMMA_SHAPES_REGS(type)                                                           \
  if constexpr (kN == 256)                                                                        \
    TESSERA_WGMMA_REGS("256", type, TESSERA_R128, TESSERA_D128, "%128", "%129", "%130", "%131",   \
                       "%132", "%133", "%134");                                                   \
  else if constexpr (kN == 192)                                                                   \
    TESSERA_WGMMA_REGS("192", type, TESSERA_R96, TESSERA_D96, "%96", "%97", "%98", "%99", "%100", \
                       "%101", "%102");                                                           \
  else if constexpr (kN == 128)                                                                   \
    TESSERA_WGMMA_REGS("128", type, TESSERA_R64, TESSERA_D64, "%64", "%65", "%66", "%67", "%68",  \
                       "%69", "%70");                                                             \
  else if constexpr (kN == 64)                                                                    \
    TESSERA_WGMMA_REGS("64", type, TESSERA_R32, TESSERA_D32, "%32", "%33", "%34", "%35", "%36",   \
                       "%37", "%38");                                                             \
  else                                                                                            \
    TESSERA_WGMMA_REGS("32", type, TESSERA_R16, TESSERA_D16, "%16", "%17", "%18", "%19", "%20",   \
                       "%21", "%22")

/// kN columns of rows lo and hi: += (or =, unless add_to) a b. kTransA, kTransB: the operand's k's
/// are not neighbours in memory.
template <class T, int kN, bool kTransA, bool kTransB>
__device__ __forceinline__ void wgmma(float* lo, float* hi, std::uint64_t a_desc,
                                      std::uint64_t b_desc, bool add_to) {
  static_assert(kN == 32 || kN == 64 || kN == 128 || kN == 192 || kN == 256);
  if constexpr (std::is_same_v<T, bf16>) {
    TESSERA_WGMMA_SHAPES("bf16");
  } else {
    TESSERA_WGMMA_SHAPES("f16");
  }
}
template <class T, int kN, bool kTransB>
__device__ __forceinline__ void wgmma(float* lo, float* hi, const unsigned (&a)[4],
                                      std::uint64_t b_desc, bool add_to) {
  static_assert(kN == 32 || kN == 64 || kN == 128 || kN == 192 || kN == 256);
  if constexpr (std::is_same_v<T, bf16>) {
    TESSERA_WGMMA_SHAPES_REGS("bf16");
  } else {
    TESSERA_WGMMA_SHAPES_REGS("f16");
  }
}

#undef TESSERA_D4
#undef TESSERA_D16
#undef TESSERA_D32
#undef TESSERA_D64
#undef TESSERA_D96
#undef TESSERA_D128
#undef TESSERA_R16
#undef TESSERA_R32
#undef TESSERA_R64
#undef TESSERA_R96
#undef TESSERA_R128
#undef TESSERA_WGMMA_SHARED
#undef TESSERA_WGMMA_REGS
#undef TESSERA_WGMMA_SHAPES
#undef TESSERA_WGMMA_SHAPES_REGS

}  // namespace tessera::cuda
