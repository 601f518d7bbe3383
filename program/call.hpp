// Running a program: the arrays of one call.
//
//   Call call{.program = &program};
//   call.inputs = ...;                     // after dynamic grid bounds and prefetched scalars
//   RunResult r = run_call(call, options);
//
// Operands of a call are, in order, one i32 scalar per dynamic extent of the grid, the prefetched
// arrays, and the inputs. On a mesh each is sharded over dim 0, but for the scalars. Results: what
// the program leaves undefined holds NaN, or -0x5a5a5a5a; RunResult::undefined says how many
// elements of each. An undefined value that reaches a result is uninit-read, or parallel-dependence
// if another parallel cell had written it; what is not written, output-not-covered, unless data
// says where the program writes, its grid is dynamic or its reads are not checked. A dry run runs
// scalars, copies and control; vectors have no values there, and a body that decides by them is
// refused (if it copies) or has its blocks counted without its work.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "memory_model/array.hpp"
#include "program/program.hpp"
#include "sim/run.hpp"

namespace tessera::program {

struct Alias {
  int input = 0;  ///< counted among the inputs
  int result = 0;
};

struct Call {
  const Program* program = nullptr;
  std::vector<std::int64_t> bounds;  ///< of the grid's dynamic dims, in order
  std::vector<Array> prefetched;
  std::vector<Array> inputs;
  std::vector<Array> results;  ///< shapes and types wanted; empty: inferred
  std::vector<Alias> aliases;
  std::int64_t vmem_limit = 0;  ///< the author's vmem_limit_bytes; 0: the compiler's default
  bool alone = true;            ///< no other op of its program makes or takes its arrays
  int collective_id = 0;
  bool unchecked_bounds =
      false;              ///< the author's disable_bounds_checks: reads outside are undefined
  bool jax_0_11 = false;  ///< made by JAX 0.11 or a newer one, whose compiler has code for more
  bool skip_device_barrier = false;  ///< devices do not meet before the kernel starts
  std::vector<std::string> names;    ///< of inputs, then of results; made up if empty
};

/// The array of all devices: their parts one after the other along dim 0, scalars as one number
/// each. Throws InputError for parts of several shapes.
Array join_parts(std::vector<Array> parts);

/// What a kernel works on: the type of its first operand of floats, else of its first.
DType main_dtype(const Program& program);
/// How many of a call's operands come before the inputs: the dynamic extents of the grid and
/// the prefetched arrays.
std::size_t operands_before_inputs(const Program& program);
/// All of them, and the results.
std::size_t operand_count(const Program& program);
/// The type of a call's operand, or of a result behind the operands.
DType operand_dtype(const Program& program, std::size_t operand);
/// A module's integers have no sign: an array of others of their width becomes one of `wanted`.
void retype_integers(Array& array, DType wanted);
/// A call with all of its operands, in their order, and its (operand, result) aliases.
Call make_call(const Program& program, std::vector<Array> operands,
               const std::vector<std::pair<std::size_t, int>>& aliases = {});

/// The shapes of inputs and results that the grid's blocks need, for arrays that nobody gives.
/// Throws InputError if data or a caller decides them.
std::vector<Shape> smallest_shapes(const Program& program);
/// Bytes of VMEM that a core needs for it. Throws what a run would throw before its first step.
std::int64_t planned_vmem_bytes(const Call& call, const RunOptions& options);
/// Throws InputError for arrays that do not fit the module.
RunResult run_call(const Call& call, const RunOptions& options);

}  // namespace tessera::program
