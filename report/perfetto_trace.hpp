// A timeline as a trace that ui.perfetto.dev opens (protobuf of perfetto/protos/perfetto/trace,
// TrackEvents): per core, what is fetched, computed and written when, of which ref and how many
// bytes; flows from a step's fetches to its work; how busy each resource is, as counters.
#pragma once

#include <string>

#include "memory_model/ledger.hpp"
#include "predict/timeline.hpp"

namespace tessera::report {

/// The bytes of a .pftrace file. `core`: what the device calls a core.
std::string perfetto_trace_of(const predict::Timeline& timeline, const Ledger& ledger,
                              const std::string& kernel, const std::string& core);

}  // namespace tessera::report
