// Ops that take seconds, a product of large tiles say, come in parts.
#pragma once

namespace tessera {

/// Before each part, of a tenth of a second at most: ends a run that shall end (throws;
/// sim/diagnostics/stop.hpp).
void begin_part();

}  // namespace tessera
