// One function per way in which a kernel can be wrong. Each builds the whole message; its text is
// golden in tests/diagnostics/<slug>.txt. The grid step comes from the running thread's
// StepContext.
#pragma once

#include <cstdint>
#include <string>

#include "memory_model/ref.hpp"
#include "memory_model/semaphore.hpp"
#include "memory_model/shadow.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/diagnostics/missing.hpp"
#include "sim/diagnostics/stop.hpp"
#include "sim/pipeline/plan.hpp"

namespace tessera {

class Findings;
class Machine;
struct LostUpdate;
struct MachineCore;

/// Where the running thread is: set by the interpreter, read by diagnostics.
struct StepContext {
  const Plan* plan = nullptr;
  const int* ids = nullptr;  ///< program ids, plan->grid_rank of them; null outside a step
  std::string who;           ///< "matmul, case 1 (m=41, n=300)": kernel and parameters
  std::string command;  ///< "tessera run matmul --case 1": what reproduces it, "" if nothing does
  int device = -1;      ///< on a mesh: the device; -1 if there is one only
  int core = -1;        ///< of several cores of a device; -1 if there is one only
  const Here* line = nullptr;      ///< where the body is, if it is no C++; null where it is
  const StopFlag* stop = nullptr;  ///< set when the run shall end; or null
  Findings* findings = nullptr;    ///< where a run that goes on keeps them; null: it does not
};
inline thread_local const StepContext* step_context = nullptr;

/// Whether the thread's run shall end, and why.
inline Stop stop_asked() {
  const StepContext* const c = step_context;
  return c == nullptr || c->stop == nullptr ? Stop::none : c->stop->load(std::memory_order_relaxed);
}
/// Ends it then. Throws Stopped.
inline void stop_if_asked() {
  if (const Stop why = stop_asked(); why != Stop::none) [[unlikely]]
    stop(why);
}

/// Part of a block: rows x cols from (row, col).
struct BlockPart {
  const OperandPlan* op = nullptr;
  int row = 0;
  int col = 0;
  int rows = 0;
  int cols = 0;
};

Diagnostic oob_block(const OperandPlan& op, const std::int64_t* index);
Diagnostic oob_index(const OperandPlan& op, const char* dim, std::int64_t start, std::int64_t size,
                     std::int64_t extent);
Diagnostic uninit_read(const BlockPart& part, std::int64_t first_missing, std::int64_t missing);
/// Of an array that overwrites an input, not by blocks: uninit-read, since it began as what that
/// holds.
Diagnostic output_not_covered(const OperandPlan& op, std::int64_t first_missing,
                              std::int64_t missing);
/// `missing` of an output: undefined values that were read at `read` of `from` (null: of `memory`)
/// and written there. uninit-read, or parallel-dependence if another parallel cell had written what
/// was read.
Diagnostic undefined_output(const OperandPlan& op, const Missing& missing, const OperandPlan* from,
                            Here read, const std::string& memory);
/// `elems` elements of `to`, or whether the kernel fails as `ended` says, depend on what lies
/// beyond `from`.
Diagnostic read_beyond(const OperandPlan& from, const OperandPlan& to, std::int64_t elems,
                       std::int64_t first, const std::string& ended);
Diagnostic output_revisit(const OperandPlan& op, const std::int64_t* index);
Diagnostic parallel_dependence_scratch(const BlockPart& part, std::int64_t first_stale);
Diagnostic output_overlap(const OperandPlan& op, const std::int64_t* index);
Diagnostic parallel_dependence_output(const OperandPlan& op, const std::int64_t* index,
                                      std::int64_t earlier_cell);
Diagnostic vmem_capacity(const Plan& plan);
/// What a reader must know of a plan that fits only if XLA keeps operands in VMEM; "" if it fits.
std::string vmem_in_doubt(const Plan& plan);
Diagnostic smem_capacity(const Plan& plan);
Diagnostic illegal_block_shape(const Plan& plan, const OperandPlan& op, const std::string& fault);
Diagnostic misaligned_slice(const OperandPlan& op, const char* dim, int start, int unit);
/// `at`: index of the element.
Diagnostic nan_born(const char* op, const Shape& at, const std::string& operands);
Diagnostic shape_mismatch(const char* op, const std::string& operands);
Diagnostic check_failed(const char* message, Here at);

// Of the asynchronous machine.
Diagnostic race(const MachineCore& c, const Buffer& buffer, const Access& earlier,
                const Access& later);
/// `reached`: a buffer of the target core's device, which a device that has waited at a barrier has
/// not heard of.
Diagnostic not_entered(const MachineCore& c, int target, const std::string& reached,
                       const Site& site);
/// What is no race, though neither comes before the other: a note.
std::string writes_that_agree(const MachineCore& c, const Buffer& buffer, const Access& earlier,
                              const Access& later);
Diagnostic alias_hazard(const MachineCore& c, const Buffer& buffer, const Access& earlier,
                        const Access& later);
/// A step writes anew, from an aliased input's block, what an earlier step wrote: a note.
std::string stale_alias(const MachineCore& c, const Plan& plan, const LostUpdate& lost);
/// Every core is blocked or finished, some are blocked, and nothing under way helps. On a DMA
/// semaphore that holds too few bytes: dma-size-mismatch; on a barrier: barrier-divergence.
Diagnostic deadlock(const Machine& machine);
Diagnostic dma_not_awaited(const MachineCore& c, const Access& access);
/// Copies between refs that do not agree.
Diagnostic dma_size_mismatch(const std::string& what, const Site& site);
/// A count that is not back to zero: by kind and cause dma-not-awaited, dma-size-mismatch,
/// barrier-divergence or semaphore-leak.
Diagnostic semaphore_left(const MachineCore& c, const Semaphore& semaphore);
Diagnostic semaphore_underflow(const MachineCore& c, const Semaphore& semaphore,
                               std::int64_t amount, const Site& site);
Diagnostic bad_device_id(const MachineCore& c, std::int64_t device, std::int64_t core,
                         const Site& site);
Diagnostic oob_mesh_axis(int axis, int axes);
Diagnostic oob_mesh_coordinate(int axis, int coordinate, int extent);
Diagnostic use_after_scope(const std::string& name, const Site& site);

// The parts that messages share.

/// "kernel" field: who, with the grid step if there is one.
void add_kernel_field(Diagnostic& d);
/// "replay" field: the command with the grid step, if there is a command.
void add_replay_field(Diagnostic& d);
/// "x_ref: VMEM f32[8, 128] <- x: HBM f32[64, 300]"
std::string describe_ref(const OperandPlan& op);
/// "(i=0, k=3)"
std::string describe_step(const Plan& plan, const int* ids);
/// "12,345"
std::string with_commas(std::int64_t n);
/// "1.5 MiB"
std::string human_bytes(std::int64_t n);

}  // namespace tessera
