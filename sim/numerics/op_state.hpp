// What the ops of a thread count and obey.
#pragma once

#include <cstdint>

#include "sim/numerics/core_use.hpp"
#include "sim/numerics/profile.hpp"

namespace tessera {

struct ErrorModel;

struct OpState {
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
  std::int64_t matrix_flops = 0;  ///< of `flops`: those of products, in bodies of modules
  std::int64_t elements = 0;      ///< of elementwise ops and row reductions, in bodies of modules
  CoreUse core{};                 ///< in bodies of modules, where a core is modelled
  bool trap_nan = false;          ///< stop at an op that makes a NaN from numbers
  Profile profile = Profile::exact;
  const ErrorModel* error_model = nullptr;  ///< keep error bounds (sim/bounds); null: none
};
inline thread_local constinit OpState op_state{};

}  // namespace tessera
