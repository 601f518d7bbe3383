// One core of the machine, taking a kernel through its part of the grid.
//
// The grid runs in row-major order. Before each step an input block whose index changed is fetched
// and an output block whose index changed is written back; a block that stays is elided. On a
// device that keeps blocks across cells (TPU) the accounting continues from the previous cell,
// whichever host thread ran it: a core that starts at cell c asks the index maps what cell c - 1
// left behind. run.cpp drives cores over OpenMP threads, run_machine.cpp over the machine's fibers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "sim/machine/machine.hpp"
#include "sim/pipeline/aliased_pair.hpp"
#include "sim/pipeline/body.hpp"
#include "sim/pipeline/core_cells.hpp"
#include "sim/pipeline/inner_cells.hpp"
#include "sim/pipeline/step_checksums.hpp"
#include "sim/pipeline/step_trace.hpp"

namespace tessera {

/// What the cores of a device share: per operand, its array in HBM.
struct DeviceIo {
  std::vector<std::byte*> hbm;  ///< null for scratch
  std::vector<float*> bounds;   ///< of outputs, where error bounds are kept; else null
  std::vector<std::vector<std::int32_t>>
      owner;                    ///< per OperandPlan::claims(): 1 + the cell that wrote it
  std::vector<Buffer*> arrays;  ///< on the machine: what copies or aliases reach
};

/// What a core is given.
struct CoreIo {
  DeviceIo* device = nullptr;
  bool keeps_blocks = true;
  bool trap_nan = false;
  Profile profile = Profile::exact;
  const ErrorModel* error_model = nullptr;
  bool keep_checksums = false;
  bool dry = false;  ///< there are no values but scalars
  bool keep_movements = false;
  std::int64_t trace_steps = 0;  ///< RunOptions::trace_steps, of bodies that count their work
  const std::vector<int>* at = nullptr;  ///< the watched grid step
  bool break_at = false;
  const std::function<void(const std::string&)>* on_step = nullptr;
  const std::function<void(double)>* progress = nullptr;
  const StepContext* context = nullptr;
  std::int64_t cells = 1;
  MachineCore* core = nullptr;  ///< on the asynchronous machine; else null
};

/// What a core counted.
struct CoreTotals {
  Ledger ledger;
  std::vector<Missing> missing;  ///< per operand: of the output blocks that were written back
  std::int64_t steps = 0;
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
  std::array<int, kMaxGridRank> extent{};
  Scopes scopes;
  StepChecksums checksums;
  StepTrace trace;
  std::string printed;
  /// Cells whose blocks held numbers from beyond an array that nobody declared, in order.
  std::vector<std::int64_t> beyond;
};

/// Made, run and destroyed on one thread: its blocks are that thread's memory.
class Pipeline : public CoreTotals {
 public:
  Pipeline(const Kernel& kernel, const Plan& plan, CoreIo& io);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  /// Runs cells [first, last), or those at these places; throws KernelError.
  void run_cells(std::int64_t first, std::int64_t last, const CoreCells* shared = nullptr);
  /// After the run of all cores: what semaphores hold that are results.
  void hand_on();
  /// Calls f(LostUpdate) for each output that lost something.
  template <class F>
  void for_each_lost(F&& f) const {
    for (const Pair& p : pairs_) {
      if (p.blocks->lost().steps > 0) f(p.blocks->lost());
    }
  }

 private:
  void check_semaphores_empty();
  /// A pipelined operand: where its block is.
  struct Window {
    int operand = 0;
    const OperandPlan* plan = nullptr;
    Block* block = nullptr;
    std::array<std::int64_t, kMaxRank> index{};
    bool resident = false;   ///< as the device sees it
    bool loaded = false;     ///< into this core's block
    bool again = false;      ///< an output block that was here before
    std::int32_t claim = 0;  ///< of an output block: 1 + the cell that has it
    bool beyond = false;     ///< it reaches beyond its array, where nobody said what it holds
    /// Along a run of steps of the last dim: index + t slope; else it is asked at every step.
    bool affine = false;
    std::array<std::int64_t, kMaxRank> slope{};
    std::set<std::array<std::int64_t, kMaxRank>> taken = {};  ///< where elements are counted
    struct Left {
      Shadow shadow;
      Missing missing;
    };
    std::map<std::int64_t, Left> left = {};  ///< blocks that are restored when they return
    AliasedPair* pair = nullptr;             ///< of which it is one block
  };

  /// An aliased pair and its windows.
  struct Pair {
    std::unique_ptr<AliasedPair> blocks;
    const Window* in = nullptr;
    const Window* out = nullptr;
  };

  /// True of memory whose values a dry run does not have.
  bool unknown(const Block& block) const { return io_.dry && block.space != Space::smem; }

  // Making.
  void make_block(const OperandPlan& op, std::size_t i);
  void make_semaphores(const OperandPlan& op, std::size_t i);
  void begin_trace();
  void pair_aliased();

  // Cells and steps.
  void set_bounds(int dim);
  void note_beyond();
  void recall(std::int64_t first);
  void walk();
  void walk_dim(int dim);
  void begin_run();
  void step();
  template <class Work>
  bool attempt(Work&& work);
  template <class Work>
  void attempt_step(Work&& work);
  void stop_between_steps();
  void enter_inner_cell();
  void observed_step();
  void end_cell();
  void watch();
  void report_step();

  // Blocks.
  void advance_all();
  void find_moving(int run);
  void move_on(Window& w);
  void advance(Window& w);
  void move_to(Window& w, const std::int64_t* index, bool elided);
  void leave(Window& w);
  void restore(Window& w, const std::int64_t* index);
  void claim(Window& w, const std::int64_t* index);
  void claim_elements(Window& w, const std::int64_t* index);
  void record(const OperandPlan& op, const Shape& inside, Space from, Space to, Why why);
  void add_checksum(std::size_t operand, const std::int64_t* index, const Shape& inside);
  void sum_scratch();

  // Of the automatic pipeline, on the machine.
  void touch(const OperandPlan& op, Buffer& block, bool write, const char* kind);
  void access(const OperandPlan& op, Buffer& buffer, const Box& box, bool write, const char* kind,
              const Clock& clock, std::shared_ptr<TransferHalf> half);
  void pass_time();
  void fetched(const OperandPlan& op, const std::int64_t* index, const Shape& inside);
  void written_back(const OperandPlan& op, const std::int64_t* index, const Shape& inside);
  Ref array_ref(const OperandPlan& op, const std::int64_t* index, const Shape& inside);

  // The trace.
  bool tracing() const { return trace.most > 0 && trace.complete; }
  void trace_step(const OpState& before);

  const Plan& plan_;
  CoreIo& io_;
  StepContext context_;
  CoreView view_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Semaphore>> semaphores_;
  std::unique_ptr<Body> body_;
  std::vector<Window> windows_;               ///< in the order in which they move
  std::vector<Window*> moving_;               ///< along the current run of steps of the last dim
  bool lingering_ = false;                    ///< some output lingers
  int stopping_ = 0;                          ///< steps begun since the run was to end
  bool plain_ = false;                        ///< nobody watches the steps
  std::array<int, kMaxGridRank> body_ids_{};  ///< of the last step that ran, for checksums
  std::int64_t cell_ = 0;
  std::int64_t place_ = 0;        ///< of the cell, among those of all cores
  std::int64_t first_place_ = 0;  ///< of this device, or of this core of the machine
  std::int64_t last_place_ = 0;   ///< of this call of run_cells
  bool cell_start_ = true;
  InnerCells inner_;
  Script script_;  ///< of this step

  // Aliased operands: what the core knew at the start of its last steps, and write-backs on their
  // way with the step by which they have landed.
  static constexpr std::size_t kKnownSteps = 16;
  bool aliases_ = false;
  std::vector<Pair> pairs_;
  std::deque<Clock> known_;
  std::deque<std::pair<std::int64_t, std::shared_ptr<TransferHalf>>> writing_back_;
};

/// Steps [lo, hi) of a dim at the ids in `ids`.
Range bounds_of(const Plan& plan, Body& body, int dim, const int* ids);
/// Sets the ids of the parallel dims to those of a cell.
void set_cell(const Plan& plan, std::int64_t cell, int* ids);

}  // namespace tessera
