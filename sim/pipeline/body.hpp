// What a front end gives the pipeline: a kernel's index maps, bounds and bodies.
//
// The pipeline (pipeline.hpp) walks the grid, moves blocks and keeps accounts; of the kernel it
// knows the Plan and this. C++ bodies (sim/tiles/typed_body.hpp) and Mosaic modules (pallas/)
// implement it.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "sim/diagnostics/slugs.hpp"
#include "sim/pipeline/block.hpp"
#include "sim/pipeline/scopes.hpp"

namespace tessera {

struct CountedCore;

/// A core as its body sees it. Addresses stay the same from the body's making to its end.
struct CoreView {
  const Plan* plan = nullptr;
  MachineCore* core = nullptr;  ///< of the asynchronous machine, or null
  StepContext* context = nullptr;
  bool dry = false;  ///< there are no values but scalars
  std::array<int, kMaxGridRank> ids{};
  std::array<int, kMaxGridRank> lo{};  ///< of each dim, at the ids of the dims before it
  std::array<int, kMaxGridRank> hi{};
  std::int64_t cell = 0;  ///< of all parallel dims: what others leave is not its own
  // By operand of the plan; null, or empty, where it is something else.
  std::vector<Block*> blocks;
  std::vector<Buffer*> arrays;
  std::vector<std::vector<Semaphore*>> semaphores;
  std::string* printed = nullptr;
  Scopes* scopes = nullptr;
  std::vector<std::int64_t>* ran = nullptr;  ///< StepTrace::ran of this core's trace, or null
};

/// A kernel on one core.
class Body {
 public:
  Body() = default;
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  virtual ~Body() = default;

  /// Of a dim that Plan::bounds leaves to the kernel: its steps at the ids of the dims before it.
  virtual Range bounds(int dim, const int* ids) = 0;
  /// The index of the block that a pipelined operand has at a step: a number per dim of its array.
  virtual void index(int operand, const int* ids, std::int64_t* index) = 0;
  /// The same for steps of the last dim from ids on: index + t slope. False if it is not affine.
  virtual bool along(int operand, const int* ids, std::int64_t* index, std::int64_t* slope) = 0;
  /// Runs the body at CoreView::ids.
  virtual void run() = 0;
  /// Runs it without values at the ids of `counted`, and says there what it did and which ids it
  /// looked at. Throws ValueNeeded.
  virtual void count(CountedCore& counted) = 0;
};

/// A read of memory that held no value.
struct UndefinedRead {
  Here line;
  int operand = -1;                             ///< of the plan; -1: none of its operands
  std::string memory = "memory of run_scoped";  ///< what it is then
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  /// The view has what the plan says, but for counting: then no blocks, arrays or semaphores.
  virtual std::unique_ptr<Body> body(CoreView& view) const = 0;
  /// True if what a body does follows from the program ids: else a dry run takes all steps in turn.
  virtual bool counts() const { return true; }
  /// Where an undefined value comes from. Of bodies that stop at the first read of one: nowhere.
  virtual UndefinedRead undefined_read(Origin) const { return {}; }
};

/// Thrown by a body that asks for the asynchronous machine while it runs without one: the run
/// starts again on one.
struct NeedsMachine {};
/// Thrown where a body without values asks for one.
struct ValueNeeded {};

}  // namespace tessera
