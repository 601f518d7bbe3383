// What a spec says, with its types erased: operands, scalars, memory use. Checked against a device
// once, before the first step.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory_model/array.hpp"
#include "memory_model/device_spec.hpp"
#include "memory_model/ledger.hpp"
#include "memory_model/moved_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/pipeline/core_model.hpp"

namespace tessera {

namespace cta {
struct Launch;
}

struct MovedBytes {
  std::int64_t bytes = 0;         ///< elements in bounds x element size
  std::int64_t padded_bytes = 0;  ///< what the tiled layout moves
};

struct OperandPlan {
  std::string name;
  Role role = Role::in;
  DType dtype = DType::f32;
  Here at;
  Here used_at;               ///< of a module: the line of its body that accesses it first
  Space space = Space::vmem;  ///< where the block lives
  Shape array;                ///< extents in HBM; of scratch, its own
  Shape block;                ///< one extent per array dim, 1 where squeezed
  std::array<bool, kMaxRank> squeezed{};
  Shape kept;    ///< the block without its squeezed dims
  Shape blocks;  ///< blocks per array dim; of a window counted in elements, its places
  /// Index maps give the window's first element in the array with its padding (pl.Element), not
  /// the number of a block.
  bool by_element = false;
  Shape pad_low;   ///< per array dim; zeros unless by_element
  Shape pad_high;  ///< likewise
  int rows = 0;    ///< of the block as the body sees it
  int cols = 0;
  int buffers = 1;
  bool of_cell = false;  ///< its block depends on parallel dimensions alone
  bool present = true;
  bool built = true;    ///< false: a GPU has nothing of it (`.when(tile)`, sim/body/spec.hpp)
  bool of_run = false;  ///< scratch that a run of a sum has for itself (sim/body/runs.hpp)
  bool padded = false;
  double pad_value = 0;
  /// What a block holds beyond its array: numbers (the pad, or ones that show), or nothing defined.
  enum class Outside : std::uint8_t { numbers, undefined };
  Outside outside = Outside::numbers;
  /// When an output block may come back after it has left: never; if all of it is then written
  /// anew; as it was, fetched again; or it never leaves, since every cell writes it and the last
  /// one's is the result.
  enum class Returns : std::uint8_t { never, rewritten, restored, lingers };
  Returns returns = Returns::never;
  bool dense = false;    ///< its memory has its own shape, packed (sim/pipeline/block.hpp)
  bool reached = false;  ///< other cores may reach its memory
  bool by_data = false;  ///< of an output: where it is written depends on data
  bool written = false;  ///< of an input: the body writes it too
  // Semaphores that are operands: what they hold (i32) comes with the call, or is a result of it.
  bool given = false;
  bool handed_on = false;
  const char* alias = nullptr;  ///< of an output: the input whose array it overwrites
  const char* same = nullptr;   ///< of an input: the input before it whose array it is
  Spread spread;                ///< what made-up arrays of it hold
  int aliased = -1;             ///< the operand that shares its array, of an aliased pair
  int ledger_ref = -1;
  std::int64_t full_bytes = 0;         ///< of a whole block
  std::int64_t full_padded_bytes = 0;  ///< what moving a whole block moves
  Shape strides;                       ///< of the array, in elements

  /// Of an output: what steps claim before they write it, blocks or elements.
  const Shape& claims() const { return by_element ? array : blocks; }
  bool pipelined() const { return role == Role::in || role == Role::out; }
  /// The user's arrays: given to the run, or given back.
  bool is_input() const { return role == Role::in || role == Role::hbm_in || given; }
  bool is_output() const { return role == Role::out || role == Role::hbm_out || handed_on; }
  /// Block `index` among all, in row-major order.
  std::int64_t number_of(const std::int64_t* index) const {
    std::int64_t n = 0;
    for (int d = 0; d < blocks.rank; ++d) n = n * blocks[d] + index[d];
    return n;
  }
  /// What moving the part `inside` of a block moves.
  MovedBytes moved(const Shape& inside, const DeviceSpec& device) const {
    if (inside == block) return {full_bytes, full_padded_bytes};
    return {packed_bytes(dtype, inside.elems()), window_bytes(device, dtype, array, inside)};
  }
  /// True if all of block `index` lies inside the array. Fast.
  bool whole(const std::int64_t* index) const {
    for (int d = 0; d < block.rank; ++d) {
      if ((index[d] + 1) * block[d] > array[d]) return false;
    }
    return !by_element;
  }
  /// Elements of block `index` that lie inside the array, per dim.
  Shape in_bounds(const std::int64_t* index) const;
  /// Elements of block `index` before the first that lies inside the array, per dim.
  Shape outside_before(const std::int64_t* index) const;
  /// The first element of block `index` that lies inside the array, along a dim.
  std::int64_t first(int dim, const std::int64_t* index) const;
  /// The same along all dims.
  std::int64_t offset(const std::int64_t* index) const;
};

/// Steps [lo, hi) of a dim of the grid.
struct Range {
  int lo = 0;
  int hi = 0;
};

struct ScalarPlan {
  std::string name;
  DType dtype = DType::i32;
  std::int64_t elems = 0;
  Here at;
  int ledger_ref = -1;
};

struct Plan {
  std::string kernel;
  DeviceSpec device;
  std::vector<OperandPlan> operands;
  std::vector<ScalarPlan> scalars;
  std::vector<Allocation> allocations;
  std::array<const char*, kMaxGridRank> labels{};
  int grid_rank = 0;
  int parallel_rank = 0;  ///< dims of the grid before the arbitrary ones
  int runs = 0;           ///< of a cell's sum, steps of the first arbitrary dim; 0: that has none
  /// Dims behind an arbitrary one whose steps may run on several cores too, in turns.
  std::array<bool, kMaxGridRank> inner_parallel{};
  std::array<std::optional<Range>, kMaxGridRank> bounds{};  ///< none: outer ids decide
  bool copies = false;         ///< bodies copy or signal, whatever operands say
  bool counts_in_run = false;  ///< ops count all of a body's work as it runs, not only FLOP
  /// The kernel runs on several devices, which reach one another's scratch: on GPUs it lies in
  /// device memory. The ledger counts copies of it as where it lies in VMEM: the end that is an
  /// array, and what goes to other devices. HBM reads and writes are without it.
  bool peers = false;
  /// Undefined values may be read, selected away and stored; who finds them in an output reports
  /// them.
  bool leaves_undefined = false;
  bool exchanges = false;       ///< the kernel's: on GPUs it takes shared memory (sim/body/cta.hpp)
  int scope_bytes = 0;          ///< likewise, for run_scoped
  bool multiplies = true;       ///< false: its accumulators are no sums of products
  std::int64_t vmem_limit = 0;  ///< bytes of VMEM that it may take; 0: all that there are
  bool author_limits = false;   ///< vmem_limit is the author's; else the compiler's default
  /// XLA may keep operands that fit in what vmem_limit leaves of VMEM, where they need no windows.
  bool operands_in_vmem = false;
  bool writes_agree = false;   ///< Machine::let_writes_agree()
  bool writes_inputs = false;  ///< bodies do, or scalars: the next step finds what they left
  bool compact = false;        ///< arrays of few rows have tiles of few rows, as Mosaic's
  int scoped_ref = -1;         ///< row of the ledger for buffers of run_scoped
  CoreModel core;              ///< of a TPU's cores, if there is one for what bodies do
  Ledger ledger;               ///< the refs, no movements yet

  /// Steps of the parallel dims.
  std::int64_t cells() const;
  /// Steps of the parallel dims behind an arbitrary one; 1 if there are too many to tell apart.
  std::int64_t inner_cells() const;
  /// True if the spec asks for what only the asynchronous machine has.
  bool asynchronous() const;
  /// Bytes of VMEM that one buffer of an operand takes.
  std::int64_t vmem_bytes(const OperandPlan& op) const {
    return compact ? device.compact_bytes(op.dtype, op.kept)
                   : device.padded_bytes(op.dtype, op.kept);
  }

  /// What it may take of VMEM.
  std::int64_t vmem_capacity() const {
    return vmem_limit > 0 ? std::min(vmem_limit, device.vmem_bytes) : device.vmem_bytes;
  }
  std::int64_t vmem_bytes() const { return bytes_in(allocations, Space::vmem); }
  /// True of an operand that XLA may keep in VMEM.
  bool may_be_in_vmem(const OperandPlan& op) const {
    return operands_in_vmem && op.pipelined() && op.space == Space::vmem &&
           device.compact_bytes(op.dtype, op.array) <= device.vmem_bytes - vmem_capacity();
  }
  /// Of vmem_bytes(), the windows of such operands.
  std::int64_t vmem_bytes_in_doubt() const {
    std::int64_t bytes = 0;
    for (const OperandPlan& op : operands) {
      if (op.present && may_be_in_vmem(op)) bytes += op.buffers * vmem_bytes(op);
    }
    return bytes;
  }
  std::int64_t smem_bytes() const { return bytes_in(allocations, Space::smem); }
};

/// Derives extents, bytes and allocations; checks block shapes and capacities (illegal-block-shape,
/// vmem-capacity, smem-capacity). Throws KernelError.
void finish_plan(Plan& plan);
/// Refuses a grid that nobody could see the end of. `counted`: without the steps of its last dim,
/// which have a closed form. Throws KernelError.
void check_grid(const Plan& plan, bool counted);
/// The launch that the CUDA build makes of a plan whose operands have their extents
/// (sim/body/cta.hpp).
cta::Launch launch_of(const Plan& plan);
/// Gives scratch in VMEM rows in the ledger: on the asynchronous machine copies may count on them.
void count_scratch(Plan& plan);

}  // namespace tessera
