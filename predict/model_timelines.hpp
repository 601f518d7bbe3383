// The timelines by kind of device: what timeline_of() picks from.
#pragma once

#include "predict/timeline.hpp"

namespace tessera::predict {

Timeline gpu_timeline(const Plan& plan, const StepTrace& trace, DType dtype,
                      const TimelineOptions& options);
Timeline tpu_timeline(const Plan& plan, const StepTrace& trace, DType dtype,
                      const TimelineOptions& options);

/// Fills in `binds` and `phases` from `busy` and `seconds`.
void say_what_binds(Timeline& line);

}  // namespace tessera::predict
