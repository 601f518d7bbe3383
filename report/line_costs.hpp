// What each source line costs: the bytes that it has moved, the time that cores compute for it, and
// the time that they wait there.
//
// Bytes are those of device 0: of a copy at the line that starts it; of a block that the pipeline
// brings or writes back at the operand's line in the spec, of a module at the first line of the
// body that accesses the operand. What the pipeline waits for before a body begins counts at that
// line too, since the body would not go on there without it.
//
// Which lines compute is known of modules on devices whose units are modelled
// (predict::Timeline::lines), of nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "predict/timeline.hpp"
#include "sim/pipeline/run.hpp"

namespace tessera::report {

struct LineCost {
  std::string file;  ///< "": the pipeline's own, no line's
  int line = 0;
  std::string text;                    ///< of the line, if its file is there
  std::int64_t read_bytes = 0;         ///< from HBM
  std::int64_t write_bytes = 0;        ///< to HBM
  std::int64_t remote_bytes = 0;       ///< to other devices
  double compute_seconds = 0;          ///< 0 where it is not known
  std::vector<predict::Stall> stalls;  ///< mean over the device's cores
  double stalled_seconds() const;
};

/// The costliest first: by time, then by bytes. Empty if the run kept no trace.
std::vector<LineCost> line_costs(const RunResult& result, const predict::Timeline& timeline,
                                 int cores);

}  // namespace tessera::report
