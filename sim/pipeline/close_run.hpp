// The end of a run or of a count: what the ledger and the plan learn then.
#pragma once

#include "sim/machine/machine.hpp"
#include "sim/pipeline/run.hpp"

namespace tessera {

/// What a ledger holds besides the movements: scalars, of the devices that are `here`, and elided
/// transfers.
void close_ledger(const Plan& plan, Ledger& ledger, int devices, std::int64_t steps,
                  const std::function<bool(int)>& here);
/// Puts what scopes took at most among the allocations.
void add_scoped_peaks(const Machine& machine, Plan& plan);
/// Where the steps of a device's cores are kept; null: nowhere.
StepTrace* trace_for(RunResult& result, std::int64_t trace_steps, int device);

}  // namespace tessera
