// Who used the barrier of a kernel on a mesh, and how far each device had come for certain when
// another one was through: what tells whether a later call may use the same one.
//
// The barrier of a collective id belongs to the device, not to a call. A device that runs ahead
// into the next call with that id signals there; one that still waits in the call before takes the
// signal for its own.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

namespace tessera {

struct BarrierUse {
  using Pair = std::pair<int, int>;  ///< devices
  /// From whom to whom, with the line of the first.
  std::map<Pair, std::string> signals;
  /// (i, j): device i may end the call while j still waits at its barrier.
  std::set<Pair> behind;
};

}  // namespace tessera
