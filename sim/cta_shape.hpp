// The launch that the CUDA build makes of a spec on a GPU: threads, slots in shared memory.
//
// cuda/operands.hpp and cuda/kernel.hpp decide the same at compile time; tests/report holds this to
// launches that a GPU has reported (report/measured).
#pragma once

#include <cstdint>

namespace tessera {

struct Plan;

struct CtaShape {
  bool tensor_cores = false;
  int warpgroups = 0;   ///< that compute
  int threads = 0;      ///< with those that fetch
  int step_stages = 1;  ///< slots of an input that arbitrary dimensions move
  int cell_stages = 1;  ///< of one that stays for a parallel cell
  std::int64_t shared_bytes = 0;
  int registers = 0;  ///< that a computing thread may have
  int resident = 1;   ///< CTAs that a multiprocessor holds at a time
};

/// Of a plan whose operands have their extents.
CtaShape cta_shape(const Plan& plan);

}  // namespace tessera
