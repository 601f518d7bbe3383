// Counting without arithmetic and without data.
//
// The grid is walked run by run of its last dimension. Along a run an index map that is affine in
// that dimension's id (Body::along) gives bytes and transfers in closed form; any other is asked at
// every step. So the cost is that of the steps before the last dimension, whatever blocks hold.
//
// Bodies run without values (Body::count), once for all steps that look the same to them. Their
// copies count as the asynchronous machine's do. A body without copies that takes too many distinct
// steps is left out: bytes are known, work is not.
#pragma once

#include "sim/pipeline/run.hpp"

namespace tessera {

/// Counts what a run of a kernel would. `plan` is finished. Throws KernelError.
RunResult count(const Kernel& kernel, Plan plan, const RunOptions& options, StepContext& context);

/// Refuses a body that decides by values what it copies.
[[noreturn]] void fail_value_needed(const Plan& plan, const std::string& line = "");

}  // namespace tessera
