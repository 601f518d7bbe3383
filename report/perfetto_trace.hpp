// A timeline as a trace that ui.perfetto.dev opens (protobuf of perfetto/protos/perfetto/trace,
// TrackEvents): per device and core, what is fetched, computed and written when and what is waited
// for, of which ref and block, how many bytes and at which line; per link of a mesh, what crosses
// it. Flows lead from a step's fetches to its work and from copies to the waits that they end. How
// busy each resource is and how much VMEM is in use are counters.
#pragma once

#include <string>

#include "memory_model/ledger.hpp"
#include "predict/timeline.hpp"
#include "sim/pipeline/plan.hpp"

namespace tessera::report {

/// The bytes of a .pftrace file. `core`: what the device calls a core.
std::string perfetto_trace_of(const predict::Timeline& timeline, const Plan& plan,
                              const Ledger& ledger, const std::string& kernel,
                              const std::string& core);

}  // namespace tessera::report
