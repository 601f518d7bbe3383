// Tiny programs of copies, signals, waits, loads and stores, for the machine and for brute force.
#pragma once

#include <string>
#include <vector>

namespace tessera::tiny {

/// Memory is a few cells per device, one unit each; every device has the same semaphores.
inline constexpr int kCells = 4;
inline constexpr int kDmaSemaphores = 2;

struct Op {
  enum class Kind { load, store, copy, remote_copy, wait_dma, signal, wait_signal };
  Kind kind = Kind::load;
  int cell = 0;    ///< load, store; source of a copy
  int to = 0;      ///< destination cell of a copy
  int sem = 0;     ///< of a local copy or a wait; the sender's of a remote copy
  int recv = 0;    ///< the receiver's of a remote copy
  int amount = 1;  ///< of a wait
  int device = 0;  ///< target of a remote copy or signal
};

/// Ops of each device's core.
using Program = std::vector<std::vector<Op>>;

inline std::string text(const Op& op) {
  const auto n = [](int i) { return std::to_string(i); };
  switch (op.kind) {
    case Op::Kind::load:
      return "load " + n(op.cell);
    case Op::Kind::store:
      return "store " + n(op.cell);
    case Op::Kind::copy:
      return "copy " + n(op.cell) + "->" + n(op.to) + " sem " + n(op.sem);
    case Op::Kind::remote_copy:
      return "remote copy " + n(op.cell) + "->" + n(op.to) + " of device " + n(op.device) +
             " send " + n(op.sem) + " recv " + n(op.recv);
    case Op::Kind::wait_dma:
      return "wait dma " + n(op.sem) + " for " + n(op.amount);
    case Op::Kind::signal:
      return "signal device " + n(op.device);
    case Op::Kind::wait_signal:
      return "wait signal";
  }
  return "";
}

}  // namespace tessera::tiny
