// The launch that the CUDA build makes of a spec: threads, registers, slots of inputs, places in
// shared memory, the order of cells.
//
// nvcc asks it of the types of a spec, where all is constant (cuda/operands.hpp), the host of a
// Plan (sim/pipeline/plan.hpp), for what the ledger allocates and what the model of a GPU plays.
// tests/report holds the answers to launches that a GPU has reported (predict/measured).
//
// Some warpgroups of a CTA compute, one more fetches. Shared memory holds the tiles of inputs, in
// slots, and of scratch, then mbarriers, then where the next cell is told, then what threads
// exchange, then what chunks of long rows are reduced to, then what run_scoped makes. Several
// devices reach one another's scratch and semaphores: those lie in device memory (cuda/peers.hpp).
//
// Device code takes results that are constants, and calls what is marked TESSERA_FN.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memory_model/layout.hpp"
#include "sim/body/reduce_order.hpp"
#include "sim/body/spec.hpp"

namespace tessera::cta {

/// A streaming multiprocessor, and the build for it. Hopper's has TMA, wgmma and setmaxnreg; the
/// portable one of all others cp.async and mma.sync, and its CTAs leave out what of shared memory
/// lies below 1 KiB, where Hopper's begins (cuda/barrier.hpp).
struct Sm {
  std::int64_t shared_bytes = 0;  ///< that a CTA may have
  int reserved_bytes = 0;         ///< of shared memory, that every CTA takes besides
  int registers = 0;
  int thread_registers = 0;  ///< that a thread may have
  int threads = 0;
  int capability = 0;  ///< ten times the compute capability
  bool hopper = false;
  /// Of reserved_bytes, what a launch asks for with the others.
  constexpr int left_out_bytes() const { return hopper ? 0 : 1024; }
};
/// CUDA C++ Programming Guide, "Compute Capabilities"; the same in CCCL's cuda/arch_traits.h.
inline constexpr Sm kSm80{162 * 1024, 2048, 65536, 255, 2048, 80};
inline constexpr Sm kSm86{98 * 1024, 2048, 65536, 255, 1536, 86};
inline constexpr Sm kSm89{98 * 1024, 2048, 65536, 255, 1536, 89};
inline constexpr Sm kSm90{227 * 1024, 1024, 65536, 255, 2048, 90, true};
inline constexpr Sm kSm100{226 * 1024, 2048, 65536, 255, 2048, 100};
inline constexpr Sm kSm120{98 * 1024, 2048, 65536, 255, 1536, 120};

/// What code for a compute capability is built for: the newest of its generation that is not newer.
/// Null for one that nothing here runs on.
constexpr const Sm* sm_of(int capability) {
  const Sm* found = nullptr;
  for (const Sm* sm : {&kSm80, &kSm86, &kSm89, &kSm90, &kSm100, &kSm120}) {
    if (sm->capability / 10 == capability / 10 && sm->capability <= capability) found = sm;
  }
  return found;
}

inline constexpr int kWarpgroup = 128;
/// Threads that fetch.
inline constexpr int kProducers = kWarpgroup;
inline constexpr int kBarrierBytes = 8;
inline constexpr int kCellRing = 64;
inline constexpr int kPanelBytes = 128;
/// Longer rows are no operands of tensor cores: the copy engine brings each by itself.
inline constexpr int kLongestPanelled = 2048;
/// Of a kernel that moves elements from thread to thread, beyond what a warp's shuffles do.
inline constexpr int kExchangeBytes = 16 * 1024;
/// Of a kernel whose products are mma.sync's: left operands that lie in registers, then for each
/// warpgroup the lanes of 8 rows, which lie apart so that no bank has two of them.
inline constexpr int kHandBytes = 8 * 1024;
inline constexpr int kLanePitch = kReduceLanes + 8;
inline constexpr int kLaneBytes = 8 * kLanePitch * 4;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// A tile in shared memory (cuda/packing.hpp): rows of a multiple of 128 bytes, 2 KiB at most, are
/// cut into panels of 128 bytes, and swizzled; other rows follow one another.
struct Tile {
  bool panelled = false;
  std::int64_t panels = 1;
  std::int64_t panel_cols = 0;
  std::int64_t panel_rows = 0;
  std::int64_t align = 0;  ///< where it may begin: panels at multiples of 1024 bytes
  std::int64_t bytes = 0;
};
constexpr Tile tile_of(std::int64_t rows, std::int64_t cols, DType dtype) {
  // What is packed elsewhere has a byte each.
  const std::int64_t bits = std::max(8, bit_width(dtype));
  const std::int64_t row = cols * bits / 8;
  Tile t;
  t.panelled = rows > 1 && row % kPanelBytes == 0 && row <= kLongestPanelled;
  t.panels = t.panelled ? row / kPanelBytes : 1;
  t.panel_cols = t.panelled ? kPanelBytes * 8 / bits : cols;
  t.panel_rows = t.panelled ? round_up(rows, 8) : rows;
  t.align = t.panelled ? 1024 : 128;
  t.bytes = round_up(t.panel_rows * row, t.align);
  return t;
}

/// How many slots inputs have: those that arbitrary steps walk over, and those of a whole cell.
struct Stages {
  int of_step = 1;
  int of_cell = 1;
  int groups = 1;  ///< of warps that do runs of a sum side by side: each has slots of its own
};

/// What a launch has to know of an operand.
struct Operand {
  Role role = Role::smem;  ///< SMEM, scalars too, takes nothing here
  DType dtype = DType::f32;
  int rows = 1;          ///< of the block as the body sees it; 1 of what is none
  int cols = 1;          ///< likewise
  int count = 1;         ///< slots that scratch is declared in, all in `rows`; semaphores
  bool of_cell = false;  ///< an input that no arbitrary dimension moves

  constexpr std::int64_t elems() const { return std::int64_t{rows} * cols; }
  constexpr int tile_rows() const { return role == Role::vmem ? rows / count : rows; }
  constexpr Tile tile() const { return tile_of(tile_rows(), cols, dtype); }
  constexpr int slots(Stages stages) const {
    if (role == Role::vmem) return count * stages.groups;
    return role != Role::in ? count : of_cell ? stages.of_cell : stages.of_step * stages.groups;
  }
};

struct Operands;

/// A kernel whose blocks have the same rows, or one, and more columns than one chunk of a reduction
/// (sim/ops/reduce.hpp): half a warp for a chunk, side by side, so that a thread has 32 elements of
/// a row.
struct LongRows {
  int half_warps = 1;  ///< of a row; 1 where rows are not long
  int warpgroups = 1;
  int held = 0;                  ///< elements of a block that a thread has
  int sums = 0;                  ///< blocks of sums in registers besides
  std::int64_t chunk_bytes = 0;  ///< of what reductions of rows hand over
  bool narrow = true;            ///< all that it reads and writes are floats of 16 bits or less

  constexpr bool are() const { return half_warps > 1; }
  /// CTAs that a multiprocessor's registers are for: 512 threads that compute, or 384; 256 where
  /// two sums take registers too.
  constexpr int resident() const {
    if (sums > 1) return warpgroups == 1 ? 2 : 1;
    return warpgroups == 1 ? 3 : warpgroups == 2 ? 2 : 1;
  }
};
constexpr LongRows long_rows_of(const Operands& operands);
/// Bytes of shared memory that rows, or products, are handed over in.
constexpr std::int64_t handed_bytes(const Operands& operands);

/// Operands in the order of the spec.
struct Operands {
  const Operand* first = nullptr;
  int size = 0;
  bool has_steps = false;  ///< the grid has arbitrary dimensions
  bool peers = false;      ///< the kernel runs on several devices
  bool exchanges = false;  ///< its threads have kExchangeBytes to hand elements to one another
  int scope_bytes = 0;     ///< for what its body makes by run_scoped
  bool multiplies = true;  ///< its accumulators are sums of products, if they are wide
  int runs = 0;  ///< of a cell's sum, if one dimension walks over each (sim/body/runs.hpp)

  constexpr const Operand* begin() const { return first; }
  constexpr const Operand* end() const { return first + size; }

  constexpr std::int64_t bytes(const Operand& op, Stages stages) const {
    const bool here = op.role == Role::in || (op.role == Role::vmem && !peers);
    return here ? op.slots(stages) * op.tile().bytes : 0;
  }
  /// mbarriers: full and empty of each slot of an input, one of a semaphore.
  constexpr std::int64_t barriers(const Operand& op, Stages stages) const {
    if (op.role == Role::in) return 2 * op.slots(stages);
    return op.role == Role::dma_sem && !peers ? op.count : 0;
  }
  /// Where the tiles of operand i begin.
  constexpr std::int64_t tiles_at(int i, Stages stages) const {
    const std::int64_t end = tiles_before(i, stages);
    return bytes(first[i], stages) > 0 ? round_up(end, first[i].tile().align) : end;
  }
  /// Where the mbarriers of operand i begin.
  constexpr std::int64_t barriers_at(int i, Stages stages) const {
    std::int64_t n = 0;
    for (int o = 0; o < i; ++o) n += barriers(first[o], stages);
    return round_up(tiles_before(size, stages), 128) + kBarrierBytes * n;
  }
  constexpr std::int64_t cell_ring_at(Stages stages) const { return barriers_at(size, stages); }
  constexpr std::int64_t exchange_at(Stages stages) const {
    return round_up(cell_ring_at(stages) + kCellRing, 1024);  // tensor cores read panels there
  }
  /// Where what chunks of long rows are reduced to begins, or what mma.sync's threads hand over.
  constexpr std::int64_t chunks_at(Stages stages) const {
    return round_up(
        exchanges ? exchange_at(stages) + kExchangeBytes : cell_ring_at(stages) + kCellRing,
        handed_bytes(*this) > 0 ? 16 : 1);
  }
  /// Where scratch of run_scoped begins.
  constexpr std::int64_t scope_at(Stages stages) const {
    return round_up(chunks_at(stages) + handed_bytes(*this), scope_bytes > 0 ? 1024 : 1);
  }
  constexpr std::int64_t shared_bytes(Stages stages) const {
    return scope_at(stages) + scope_bytes;
  }

 private:
  constexpr std::int64_t tiles_before(int i, Stages stages) const {
    std::int64_t at = 0;
    // What lies in registers takes no room, but its tile is aligned all the same.
    for (int o = 0; o < i; ++o) at = round_up(at, first[o].tile().align) + bytes(first[o], stages);
    return at;
  }
};

/// As many slots as fit into what each of `resident` CTAs has.
constexpr Stages stages_of(const Operands& operands, const Sm& sm, int resident = 1,
                           int groups = 1) {
  constexpr int kMost = 8;
  // Of all that there is, reserved bytes too; a device without limits has the most that a number
  // holds.
  const std::int64_t each = sm.shared_bytes / resident - sm.reserved_bytes +
                            (sm.shared_bytes % resident + sm.reserved_bytes) / resident;
  // A cell's inputs come while the cell before is computed, if two of each fit.
  for (int c = 2; c > 0; --c) {
    for (int s = kMost; s > 1; --s) {
      const Stages stages{s, operands.has_steps ? c : s, groups};
      if (operands.shared_bytes(stages) <= each) return stages;
    }
  }
  return {1, 1, groups};
}

/// True if wgmma can read it, or it is no operand of a product: 16-bit floats in panels, 16 or more
/// k's. A block of one row or column is none.
constexpr bool for_tensor_cores(const Operand& op) {
  if (op.role != Role::in && op.role != Role::vmem) return true;
  if (op.rows == 1 || op.cols == 1 || !is_float(op.dtype) || op.dtype == DType::f32) return true;
  const bool half = op.dtype == DType::bf16 || op.dtype == DType::f16;
  return half && op.tile().panelled && op.tile_rows() % 16 == 0;
}

/// True if mma.sync can read it, or it is no operand of a product.
constexpr bool for_mma_sync(const Operand& op) {
  if (op.role != Role::in && op.role != Role::vmem) return true;
  if (op.rows == 1 || op.cols == 1 || !is_float(op.dtype)) return true;
  return op.dtype == DType::f32 || op.dtype == DType::bf16 || op.dtype == DType::f16;
}

/// The warpgroups that compute, with what, and half-warps of a row.
struct Computing {
  bool tensor_cores = false;
  int warpgroups = 1;
  int half_warps = 1;
  bool fast_functions = false;  ///< the hardware's: what is read and written does not show them
  bool mma_sync = false;        ///< the tensor cores' instruction, instead of wgmma
  int held = 0;                 ///< with it: elements of a tile that a thread has
  int groups = 1;               ///< with it: of warps, each of which does a run of a sum
  int across = 4;               ///< warps of a group, side by side along columns
};
/// Groups of warps that do the runs of a sum of few rows side by side, where threads have room to
/// hand over what each gives: warps of 32 columns, or of as many as let all runs have one. Bytes
/// are made factors of products there too, by all threads.
constexpr Computing side_by_side(const Operands& operands, std::int64_t rows, std::int64_t cols,
                                 std::int64_t elems, Computing one) {
  constexpr int kMostWarps = 16;
  constexpr int kWarpsOfGroup = kWarpgroup / 32;
  constexpr int kFew = 16;
  constexpr int kColumns = 32;
  const int runs = operands.runs;
  if (runs < 2 || runs > kMostWarps || !operands.exchanges || operands.scope_bytes > 0 ||
      rows > kFew || cols % kColumns != 0 || cols % (2 * runs) != 0 ||
      rows * cols * 4 > kExchangeBytes)
    return one;
  for (const Operand& op : operands) {
    if (is_semaphore(op.role) || in_hbm(op.role)) return one;
    if (op.role == Role::in && op.rows > 1 && bit_width(op.dtype) == 8) return one;
  }
  for (int across = kWarpsOfGroup; across > 0; across /= 2) {
    const int warps = runs * across;
    const bool narrower = across > 1 && kColumns * across > cols && warps / 2 % kWarpsOfGroup == 0;
    if (warps > kMostWarps || warps % kWarpsOfGroup != 0 || narrower) continue;
    one.warpgroups = warps / kWarpsOfGroup;
    one.groups = runs;
    one.across = across;
    one.held = static_cast<int>(ceil_div(elems, 32 * across));
    return one;
  }
  return one;
}
constexpr LongRows long_rows_of(const Operands& operands) {
  int rows = 1;
  int cols = 1;
  for (const Operand& op : operands) {
    if (!is_block(op.role)) continue;
    rows = std::max(rows, op.tile_rows());
    cols = std::max(cols, op.cols);
  }
  bool suits = cols > kReduceChunk && !operands.peers;
  for (const Operand& op : operands)
    suits = suits && (!is_block(op.role) || op.tile_rows() == 1 || op.tile_rows() == rows);
  LongRows l;
  if (!suits) return l;
  for (const Operand& op : operands) {
    l.sums += op.role == Role::accum && op.cols > kReduceChunk ? 1 : 0;
    const bool array = op.role == Role::in || op.role == Role::out || in_hbm(op.role);
    l.narrow = l.narrow && (!array || (is_float(op.dtype) && bit_width(op.dtype) <= 16));
  }
  constexpr int kInWarpgroup = kWarpgroup / 16;
  constexpr int kMostWarpgroups = 4;
  const auto chunks = static_cast<int>(ceil_div(cols, kReduceChunk));
  while (l.half_warps < chunks && l.half_warps < kInWarpgroup * kMostWarpgroups) l.half_warps *= 2;
  while (l.warpgroups < kMostWarpgroups && l.warpgroups * kInWarpgroup < rows * l.half_warps)
    l.warpgroups *= 2;
  const int high = l.warpgroups * kInWarpgroup / l.half_warps;
  const auto rows_held = static_cast<int>(ceil_div(rows, high));
  l.held = rows_held * static_cast<int>(ceil_div(chunks, l.half_warps)) * (kReduceChunk / 16);
  l.chunk_bytes = std::int64_t{rows_held} * high * chunks * 4;
  return l;
}
constexpr Computing computing_of(const Operands& operands) {
  // The largest accumulator: what tensor cores would sum into.
  std::int64_t sum_rows = 0;
  std::int64_t sum_elems = 0;
  std::int64_t elems = 0;  // of what threads hold
  std::int64_t statistic_rows = 1;
  std::int64_t in_rows = 1;
  bool suits = !operands.peers && operands.multiplies;
  bool suits_mma_sync = suits;
  bool halves = false;
  for (const Operand& op : operands) {
    const bool vmem = op.role == Role::vmem;
    if (op.role == Role::accum && op.cols > 1) {
      sum_rows = std::max<std::int64_t>(sum_rows, op.rows);
      sum_elems = std::max(sum_elems, op.elems());
      suits = suits && op.cols % 64 == 0;
      suits_mma_sync = suits_mma_sync && op.rows % 8 == 0 && op.cols % 8 == 0;
    }
    if (op.role == Role::accum || op.role == Role::out) elems = std::max(elems, op.elems());
    if (vmem && operands.peers) elems = std::max(elems, std::int64_t{op.tile_rows()} * op.cols);
    if (op.role == Role::accum && op.cols == 1)
      statistic_rows = std::max<std::int64_t>(statistic_rows, op.rows);
    if (op.role == Role::in) in_rows = std::max<std::int64_t>(in_rows, op.rows);
    suits = suits && for_tensor_cores(op);
    suits_mma_sync = suits_mma_sync && for_mma_sync(op);
    halves =
        halves || ((op.role == Role::in || vmem) && is_float(op.dtype) && bit_width(op.dtype) < 32);
  }
  // Tensor cores: an accumulator of 64 rows per warpgroup, operands of 16-bit floats in panels.
  if (suits && halves && sum_elems > 1 && sum_rows % 64 == 0) {
    // As few warpgroups as hold a sum of at most 128 elements per thread; two where there can be.
    for (int n = 2; n <= 4; ++n) {
      if (sum_rows % (64 * n) == 0 && sum_elems <= 128 * kWarpgroup * n) return {true, n, 1, true};
    }
    return {true, 1, 1, true};
  }
  // Beside a running statistic of rows, a body makes tiles as wide as an input has rows: scores.
  const std::int64_t tile_elems =
      statistic_rows > 1 ? std::max(elems, statistic_rows * in_rows) : elems;
  // mma.sync takes few rows, and any 8 columns: warpgroups, of 16 rows at a time, until a thread
  // has at most 64 elements of a tile.
  if (suits_mma_sync && halves && sum_elems > 1) {
    int n = 1;
    while (n < 4 && tile_elems > 64 * kWarpgroup * n && 16 * n < sum_rows) ++n;
    const auto held = static_cast<int>(ceil_div(tile_elems, kWarpgroup * n));
    if (held <= 96) {
      const Computing one{true, n, 1, true, true, held};
      return side_by_side(operands, sum_rows, sum_elems / sum_rows, tile_elems, one);
    }
  }
  const LongRows rows = long_rows_of(operands);
  if (rows.are()) return {false, rows.warpgroups, rows.half_warps, rows.narrow};
  elems = tile_elems;
  // SIMT: as many threads as keep a register tile within 64 elements each, 128 to 512.
  int warpgroups = 1;
  while (warpgroups < 4 && elems > 64 * kWarpgroup * warpgroups) warpgroups *= 2;
  return {false, warpgroups};
}

constexpr std::int64_t handed_bytes(const Operands& operands) {
  const Computing computing = computing_of(operands);
  if (computing.groups > 1) return 0;
  if (computing.mma_sync) return kHandBytes + std::int64_t{kLaneBytes} * computing.warpgroups;
  return computing.tensor_cores ? 0 : long_rows_of(operands).chunk_bytes;
}

/// Of a thread: setmaxnreg moves those of producing threads to computing ones.
struct Registers {
  static constexpr int kProducing = 64;
  int at_launch = 0;  ///< of every thread: more than that in all would never come free
  int computing = 0;
  bool move = false;
};
constexpr Registers registers_of(int warpgroups, const Sm& sm, int resident = 1) {
  constexpr int kMost = 240;
  const int fair = sm.registers / resident / kWarpgroup / (warpgroups + 1) / 8 * 8;
  if (!sm.hopper) return {fair, std::min(fair, sm.thread_registers), false};
  // Where every thread can have as many there is nothing to move.
  if (fair >= kMost) return {fair, sm.thread_registers, false};
  const int left = (fair * (warpgroups + 1) - Registers::kProducing) / warpgroups / 8 * 8;
  return {fair, std::min(left, kMost), true};
}

struct Launch : Computing {
  int threads = 0;  ///< with those that fetch
  Stages stages{};
  std::int64_t shared_bytes = 0;
  int registers = 0;  ///< that a computing thread may have
  int resident = 1;   ///< CTAs that a multiprocessor holds at a time
  int at_least = 1;   ///< CTAs for which registers are kept
};
/// CTAs side by side hide what each waits for; fewer where two slots do not fit.
constexpr Launch launch_side_by_side(Launch l, int most, const Operands& operands, const Sm& sm) {
  for (l.resident = most; l.resident > 0; --l.resident) {
    l.stages = stages_of(operands, sm, l.resident);
    if (l.stages.of_step > 1 || l.resident == 1) break;
  }
  l.at_least = l.resident;
  l.shared_bytes = operands.shared_bytes(l.stages);
  l.registers = registers_of(l.warpgroups, sm, l.at_least).computing;
  return l;
}
/// The CTAs that registers are kept for, of a kernel of rows or elements whose threads hold some
/// elements each: nvcc would take 56 to 250 for them, which leave room for one to four, and needs
/// no more than three leave where threads that fetch give theirs away. 1: it has them all.
/// (softmax_rows and norm_rows of 128 to 512 columns: 1.0 to 2.4 times as fast, cuda/RESULTS.md.)
constexpr int room_of_rows(const Operands& operands, const Computing& computing) {
  constexpr int kLanes = 16;  // that share a row
  int held = 0;
  bool sums = false;
  for (const Operand& op : operands) {
    if (!is_block(op.role)) continue;
    const auto rows = static_cast<int>(ceil_div(op.tile_rows(), kWarpgroup / kLanes));
    const int cols = op.cols > 1 ? 2 * static_cast<int>(ceil_div(op.cols, 2 * kLanes)) : 1;
    held = std::max(held, rows * cols);
    sums = sums || (op.role == Role::accum && op.cols > 1);
  }
  const bool products = sums && operands.multiplies;
  if (computing.warpgroups > 1 || products || operands.peers || held > 64) return 1;
  // Sums of columns are held beside what they are of.
  if (sums || held > 32) return 2;
  return held > 8 ? 3 : 4;
}
/// Without runs where shared memory has no two slots for each of those that would be side by side.
constexpr Operands with_room_for_runs(Operands operands, const Sm& sm) {
  const int groups = computing_of(operands).groups;
  if (groups > 1 && stages_of(operands, sm, 1, groups).of_step < 2) operands.runs = 0;
  return operands;
}
constexpr Launch launch_of(const Operands& given, const Sm& sm) {
  const Operands operands = with_room_for_runs(given, sm);
  Launch l{computing_of(operands)};
  l.threads = kWarpgroup * l.warpgroups + kProducers;
  if (l.half_warps > 1)
    return launch_side_by_side(l, long_rows_of(operands).resident(), operands, sm);
  // Few elements leave registers for a second CTA of one warpgroup.
  constexpr int kFew = 32;
  if (l.groups > 1) {
    l.stages = stages_of(operands, sm, 1, l.groups);
    l.shared_bytes = operands.shared_bytes(l.stages);
    l.registers = registers_of(l.warpgroups, sm).computing;
    return l;
  }
  if (l.mma_sync)
    return launch_side_by_side(l, l.warpgroups == 1 && l.held <= kFew ? 2 : 1, operands, sm);
  const int room = sm.hopper && !l.tensor_cores ? room_of_rows(operands, l) : 1;
  if (room > 1) return launch_side_by_side(l, room, operands, sm);
  l.stages = stages_of(operands, sm);
  l.shared_bytes = operands.shared_bytes(l.stages);
  l.registers = registers_of(l.warpgroups, sm).computing;
  // Products of tensor cores take all registers. nvcc gives elementwise kernels 80.
  constexpr int kUsualRegisters = 80;
  if (l.tensor_cores) return l;
  const std::int64_t by_memory =
      1 + (sm.shared_bytes - l.shared_bytes) / (l.shared_bytes + sm.reserved_bytes);
  const std::int64_t by_threads =
      std::min(sm.threads / l.threads, sm.registers / (kUsualRegisters * l.threads));
  l.resident = static_cast<int>(
      std::clamp<std::int64_t>(by_memory, 1, std::max<std::int64_t>(1, by_threads)));
  return l;
}

/// The extents of the boxes in which the copy engine brings a block, panel by panel. `block`: 1
/// where squeezed.
constexpr Shape box_of(Shape block, const Tile& tile) {
  if (block.rank > 0) block[block.rank - 1] = tile.panel_cols;
  return block;
}
/// What cuTensorMapEncodeTiled asks of a box; rows of the tile are runs of the array's.
constexpr bool is_box(const Shape& box, bool last_squeezed, DType dtype) {
  bool is = box.rank >= 2 && box.rank <= 5 && !last_squeezed;
  for (int d = 0; d < box.rank; ++d) is = is && box[d] <= 256;
  return is && bit_width(dtype) >= 8 && packed_bytes(dtype, box[box.rank - 1]) % 16 == 0;
}
/// What it asks of an array.
constexpr bool is_mappable(const Shape& array, DType dtype) {
  if (array.rank < 1 || array.rank > 5) return false;
  std::int64_t stride = bit_width(dtype) / 8;
  for (int d = array.rank - 1; d >= 0; --d) {
    if (array[d] < 1 || array[d] >= std::int64_t{1} << 32) return false;
    stride *= array[d];
    if (d > 0 && (stride % 16 != 0 || stride >= std::int64_t{1} << 40)) return false;
  }
  return true;
}

/// Cells that run together share blocks in L2 if they are near in both of the last two parallel
/// dims: bands of this many rows, a column of a band after the other.
constexpr int band_rows(int parallel_dims) { return parallel_dims == 2 ? 16 : 8; }
template <class I>
struct Place {
  I row;
  I column;
};
/// The n-th cell of a plane.
template <class I>
TESSERA_FN constexpr Place<I> place_in_bands(I n, I rows, I columns, I band_rows) {
  const I band = n / (band_rows * columns);
  const I in_band = n % (band_rows * columns);
  const I left = rows - band * band_rows;
  const I height = left < band_rows ? left : band_rows;
  return {band * band_rows + in_band % height, in_band / height};
}

}  // namespace tessera::cta
