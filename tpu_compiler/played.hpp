// What an accepted module takes by the schedule that the compiler made of it
// (predict/tpu_schedule.hpp).
#pragma once

#include <string>

#include "predict/tpu_schedule.hpp"
#include "program/call.hpp"
#include "tpu_compiler/verdict.hpp"

namespace tessera::tpu_compiler {

/// Why the schedule of a kernel on a mesh is not played.
inline constexpr const char* kOneDevice =
    "the compiler's schedule of one device does not say what the others send";

/// Why there is none is said in `unmodelled`. `libtpu`: the compiler's version, "0.0.42.1". Of the
/// call's operands the extents of the grid are always known, prefetched arrays and inputs if
/// `operands_known`.
predict::TpuSchedule played_schedule(const std::string& libtpu, const Verdict& accepted,
                                     const program::Call& call, bool operands_known,
                                     const DeviceSpec& device, std::size_t most_spans = 0);

}  // namespace tessera::tpu_compiler
