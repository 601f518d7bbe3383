// How long a device takes for a run, and what it waits for: a discrete-event model of its transfers
// and its units, step by step.
//
// In: the blocks of every step and what its body does (sim/pipeline/step_trace.hpp), and the
// figures of the device. On a GPU the model is that of the CUDA build (predict/gpu_timeline.cpp),
// its constants fitted to a GPU (`model_` figures of the spec; predict/ACCURACY.md has the fit and
// how well it predicts what it was not fitted to). On a TPU it is the pipeline of Pallas and what
// bodies copy by themselves, on one device or many (predict/tpu_timeline.cpp), at the rates that
// are published; what bodies of modules compute takes as long as a model says that was fitted to
// the schedules of the TPU's compiler, where there is one (CoreModel). Nobody has measured it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "predict/gpu_code.hpp"
#include "sim/pipeline/plan.hpp"
#include "sim/pipeline/step_trace.hpp"

namespace tessera::predict {

/// A time in which one unit of a core is busy with one step.
struct Span {
  /// From `mxu` on: of a TPU's core, by its compiler's schedule (predict/tpu_schedule.hpp).
  enum class Unit : std::uint8_t {
    fetch,
    compute,
    write,
    remote,
    mxu,
    xlu,
    valu,
    eup,
    load,
    store,
    scalar,
    wait,  ///< of a body, for a semaphore
    link,  ///< of a torus: `core` is the device that sends, `step` the one that it goes to
  };
  int core = 0;
  Unit unit = Unit::fetch;
  std::int64_t step = 0;
  double begin = 0;  ///< seconds from the launch
  double end = 0;
  int ref = -1;            ///< of a transfer: its row of the ledger; -1: several, or not known
  std::int64_t bytes = 0;  ///< that it moves, as the tiled layout has them
  int device = 0;
  Here at = {};             ///< of a body's copy or wait, its line; of a block, the operand's
  std::int64_t block = -1;  ///< of a block, its number in row-major order; -1: something else
};

constexpr const char* name(Span::Unit u) {
  constexpr const char* kNames[] = {"fetch", "compute", "write", "remote", "MXU",  "XLU", "VALU",
                                    "EUP",   "load",    "store", "scalar", "wait", "link"};
  return kNames[static_cast<int>(u)];
}

struct Resource {
  std::string name;
  double busy = 0;           ///< fraction of the time
  std::vector<double> over;  ///< likewise, of kParts equal parts of the time
  static constexpr std::size_t kParts = 48;
};

/// A time in which one resource is the one that nothing else hides.
struct Phase {
  double begin = 0;
  double end = 0;
  std::string binds;
};

/// A time in which cores wait, by what they wait for.
struct Stall {
  enum class Why : std::uint8_t {
    block,   ///< an input's block is on its way
    buffer,  ///< an output's buffer is still being written back
    copy,    ///< a copy that the body started, within the device
    remote,  ///< one from or to another device
    signal,  ///< a semaphore that no copy counts on
  };
  Why why = Why::block;
  int ref = -1;        ///< its row of the ledger; -1 of a signal
  double seconds = 0;  ///< mean over the device's cores
  /// Of what a body waits for: its line. The pipeline waits before a body begins: none.
  std::string file = {};
  int line = 0;
};

/// A time in which cores compute what a line asks for, as a model of their units divides it.
struct LineTime {
  std::string file;
  int line = 0;
  double seconds = 0;  ///< mean over the device's cores
};

constexpr const char* name(Stall::Why w) {
  constexpr const char* kNames[] = {"block", "buffer", "copy", "remote", "signal"};
  return kNames[static_cast<int>(w)];
}

struct Timeline {
  std::string unmodelled;      ///< why there is none; empty: there is
  std::string model;           ///< what says how long computing takes, in words
  std::string why_model = {};  ///< why no better one does, in words; may be empty
  double seconds = 0;          ///< from launch to end
  /// Between which nine in ten kernels that the model was not fitted to lie; 0: nobody knows.
  double least_seconds = 0;
  double most_seconds = 0;

  // Means over the cores that had work.
  double compute_seconds = 0;  ///< computing
  double exposed_seconds = 0;  ///< waiting for a block, a copy or a signal
  double idle_seconds = 0;     ///< with no step to do: launch, tail
  /// Of a TPU's core that computes longest.
  double longest_compute_seconds = 0;

  std::string left_out;  ///< work that takes no time here, in words; may be empty
  std::string warning;   ///< what the model expects to go wrong, in words; may be empty

  std::string binds;  ///< the resource that nothing else hides, in words
  std::vector<Phase> phases;
  std::vector<Resource> busy;
  /// The fraction of CTAs that compute, of as many parts as a resource has; empty: `busy` says all.
  std::vector<double> computing;

  /// What `exposed_seconds` is made of, the longest first; of a TPU's pipeline and of its bodies'
  /// own copies, empty elsewhere.
  std::vector<Stall> stalls;

  /// What `compute_seconds` is made of where the model knows lines (CoreModel::lines), by file and
  /// line; with `pipeline_seconds`, what the pipeline itself takes. Empty elsewhere.
  std::vector<LineTime> lines;
  double pipeline_seconds = 0;

  // Bytes behind the ledger's, on a GPU.
  std::int64_t l2_to_core_bytes = 0;  ///< as L2 gives them: sectors of 32 bytes
  std::int64_t dram_read_bytes = 0;
  std::int64_t dram_write_bytes = 0;
  std::string dram_left_out;  ///< what DRAM's bytes are without, in words; may be empty

  /// Of a GPU: what nvcc made of the kernel, where registers are not an estimate.
  std::optional<CompiledKernel> compiled = {};

  /// Of the first cores, as many steps as a picture holds.
  std::vector<Span> spans;
  /// From copies to the waits that they end, as indices of `spans`.
  std::vector<std::pair<std::size_t, std::size_t>> flows;
};

struct TimelineOptions {
  std::size_t most_spans = 0;                   ///< to keep
  int cores = 1;                                ///< of a TPU's device, as the run had them
  std::vector<int> mesh = {};                   ///< devices along each axis, as the run had them
  std::optional<CompiledKernel> compiled = {};  ///< of a GPU's kernel; without it a line is fitted
};

/// Why no run with this plan has a timeline; empty: one may.
std::string unmodelled(const Plan& plan, DType dtype);
/// The prediction for device 0 of a run with this plan.
Timeline timeline_of(const Plan& plan, const StepTrace& trace, DType dtype,
                     const TimelineOptions& options = {});

}  // namespace tessera::predict
