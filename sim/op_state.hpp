// What the ops of a thread count and obey.
#pragma once

#include <cstdint>

#include "sim/profile.hpp"

namespace tessera {

struct ErrorModel;

struct OpState {
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
  bool trap_nan = false;  ///< stop at an op that makes a NaN from numbers
  Profile profile = Profile::exact;
  const ErrorModel* error_model = nullptr;  ///< keep error bounds (sim/bounds); null: none
};
inline thread_local constinit OpState op_state{};

}  // namespace tessera
