// What a step of a body takes of a multiprocessor, by the code that the CUDA build makes of it
// (cuda/simt_dot.hpp, mma_dot.hpp, tensor_dot.hpp, threads.hpp, fetch.hpp).
//
// A step's products are told from its counts and from the spec's accumulators and blocks: their
// extents, which operands lie in shared memory and which in registers, which is read across its
// rows. From those and from how many rows and columns a thread holds follow the instructions of a
// warp: fused multiply-adds, loads and shuffles, mma.sync, and what each of them waits for. A step
// is as long as that chain and what warps that share a quarter of the SM wait for each other, and
// no shorter than shared memory takes.
//
// Not here: what nvcc decides (which values live when, how far loops are unrolled) but for
// registers, of which a line is fitted.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "predict/gpu_model.hpp"
#include "predict/timeline.hpp"
#include "sim/body/cta.hpp"
#include "sim/pipeline/plan.hpp"
#include "sim/pipeline/step_trace.hpp"

namespace tessera::predict {

/// A product of a step, rows x depth by depth x cols.
struct StepProduct {
  double rows = 1;
  double cols = 1;
  double depth = 1;
  double times = 1;
  bool left_held = false;    ///< in registers
  bool right_held = false;   ///< likewise
  bool computed = false;     ///< what is in registers is made of two inputs
  bool left_turned = false;  ///< in shared memory with rows and columns exchanged
  bool right_turned = false;
};

/// Seconds of a step's body.
struct StepTime {
  double seconds = 0;  ///< of each of the CTAs that have the SM together
  double lag = 0;      ///< by which the last warpgroup is behind the first
  /// Of L1's port, which threads that fetch wait for too.
  double beside_fetch = 0;
  double local_dram = 0;   ///< bytes that DRAM gives for registers in local memory
  double local_bytes = 0;  ///< of local memory, of all CTAs that are there at a time
};

class GpuSteps {
 public:
  GpuSteps(const Plan& plan, const cta::Launch& launch, const GpuModel& model, DType dtype,
           const std::vector<Work>& works, std::optional<CompiledKernel> compiled = {});

  std::vector<StepProduct> products_of(const Work& work) const;
  /// What goes with each step of a CTA.
  struct Beside {
    double arrivals = 0;  ///< of threads at its blocks' barriers, where threads bring some
    double stores = 0;    ///< seconds: of what is stored at every step
    double before = 0;    ///< seconds: until it starts, in which other CTAs compute
  };
  StepTime time_of(const Work& work, double side_by_side, const Beside& beside) const;
  bool multiplies() const { return multiplies_; }
  /// Of its products at the peak rate.
  double product_seconds(const Work& work) const;
  /// Of an output block's stores, beside what memory takes. `ragged`: some of its columns lie
  /// outside of the array.
  double store_seconds(const OperandPlan& op, bool ragged) const;
  /// Until threads have brought a block of an input; 0 where the copy engine does. `shifts`: its
  /// rows begin at no multiple of 16 bytes.
  double fetch_seconds(const OperandPlan& op, bool shifts) const;
  /// Bytes of local memory that a CTA loads before it has stored anything there: DRAM gives them.
  double early_loads() const;
  /// Of code that is unrolled over a thread's elements.
  double code_bytes() const;
  /// CTAs that an SM holds.
  int resident() const { return resident_; }
  /// Of how few and how many there may be where registers are an estimate.
  std::pair<int, int> resident_between() const;
  /// Registers that a thread lacks: for accumulators, and for all that lives at once.
  struct Spilled {
    double sums = 0;
    double all = 0;
    double sum_elems = 1;
    double sum_cols = 1;
  };
  Spilled spilled(const Work& work) const;

 private:
  double figure(const char* name) const { return model_[name]; }
  double cycles(double n) const { return n / clock_; }
  double rows_held(double rows) const;
  double cols_held(double cols) const;
  /// Elements of a tile that a thread has.
  double held(double rows, double cols) const { return rows_held(rows) * cols_held(cols); }
  /// `of_estimate`: times the registers that are estimated.
  int resident_of(double of_estimate) const;
  /// Of a CTA, those that hold elements.
  double busy_warps(const Work& work) const;
  StepTime wgmma_time(const Work& work, double side_by_side) const;
  /// Cycles of one warp, and of the SM for all warps of a CTA.
  struct Cycles {
    double issue = 0;   ///< instructions of a warp
    double memory = 0;  ///< of shared memory's port, for a warp
    double tensor = 0;  ///< of a quarter's tensor core, for a warp
    double waits = 0;   ///< of a warp, in which it issues nothing
  };
  /// Cycles of one of so many alike that share a quarter of an SM: mean value analysis of its issue
  /// slots and its tensor core, which queue, and of waits, which do not (Reiser and Lavenberg,
  /// doi:10.1145/322186.322195). `before`: of waits, those before they begin.
  static double beside_others(const Cycles& c, double warps, double before);
  void add_fma(const StepProduct& p, Cycles& c) const;
  void add_mma(const StepProduct& p, Cycles& c) const;
  void add_handed(const StepProduct& p, Cycles& c) const;
  void add_elementwise(const Work& work, Cycles& c) const;
  /// As cuda/exchange.hpp reduces columns.
  void add_column_sum(double rows, double cols, Cycles& c) const;
  struct Local {
    double seconds = 0;
    double dram_read = 0;  ///< bytes
    double bytes = 0;      ///< of all CTAs that are there at a time
  };
  /// Of so many bytes of a CTA, those of all that are there at a time.
  double of_all_ctas(double places) const;
  /// Bytes a second that an SM gets of local memory; at most `most_of_many` times what it gets
  /// while all have some.
  double local_rate(double most_of_many) const;
  Local local(double bytes, double places, double most_of_many) const;
  Local wgmma_spills(const Work& work) const;
  // By nvcc's code, where there is some (predict/gpu_code_time.cpp).
  /// Instructions that multiply.
  double products_in(const CodePart& part) const;
  /// Of a warp, or of wgmma a warpgroup, for one k.
  double products_of_k(const StepProduct& p) const;
  /// How often a step runs the loops of the code.
  std::vector<double> trips(const Work& work) const;
  /// Of products' kernels, what a step's code moves to and from local memory.
  Local add_code(const Work& work, double side_by_side, Cycles& c) const;
  /// Of threads that are no warpgroups of wgmma's; returns what DRAM gives, and seconds that tiles
  /// take.
  Local add_spills(const Work& work, Cycles& c) const;

  const Plan& plan_;
  const cta::Launch launch_;
  const GpuModel& model_;
  const std::optional<CompiledKernel> compiled_;
  double clock_ = 1;
  double groups_ = 1;
  DType dtype_ = DType::f32;
  double tensor_rate_ = 1;
  // The largest tile that threads hold, and accumulators.
  double tile_rows_ = 1;
  double tile_cols_ = 1;
  double sum_rows_ = 1;
  double sum_cols_ = 1;
  int sums_ = 0;
  int statistics_ = 0;  ///< accumulators of one column: rows are reduced at every step
  int column_sums_ = 0;
  int inputs_ = 0;  ///< of more than one row and column
  bool functions_ = false;
  bool multiplies_ = false;
  std::int64_t most_elements_ = 0;   ///< of a step
  std::int64_t least_elements_ = 0;  ///< of steps with products
  std::int64_t least_functions_ = 0;
  std::int64_t element_bytes_ = 4;  ///< of operands of products
  int resident_ = 1;
};

}  // namespace tessera::predict
