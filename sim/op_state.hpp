// What the ops of a thread count and obey.
#pragma once

#include <cstdint>

#include "sim/profile.hpp"

namespace tessera {

struct OpState {
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
  bool trap_nan = false;  ///< stop at an op that makes a NaN from numbers
  Profile profile = Profile::exact;
};
inline thread_local constinit OpState op_state{};

}  // namespace tessera
