// A resource that serves one request after the other, at a rate that whoever asks knows.
#pragma once

#include <algorithm>

namespace tessera::report {

struct Server {
  double free = 0;  ///< when it has served all
  double busy = 0;  ///< seconds of serving
  /// Until when `seconds` of work last that are asked for at `from`.
  double serve(double from, double seconds) {
    free = std::max(free, from) + seconds;
    busy += seconds;
    return free;
  }
};

}  // namespace tessera::report
