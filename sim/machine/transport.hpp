// How the ranks of a mesh that is spread over processes talk: one collective exchange.
//
// Rank r of R has devices [D r / R, D (r + 1) / R). Each rank runs its cores until none can go on,
// then all exchange what was sent to other ranks, in rounds, until a round in which nobody sent
// anything: what is then blocked is blocked for good. cli/mpi_transport.cpp has the one over MPI.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

class Transport {
 public:
  using Message = std::vector<std::uint8_t>;

  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Gives outgoing[i] to rank i and returns what each rank gave to this one. All ranks call it.
  virtual std::vector<Message> exchange(std::vector<Message> outgoing) = 0;
};

/// The rank that has a device.
inline int rank_of_device(int device, int devices, int ranks) {
  for (int r = 0; r < ranks; ++r) {
    if (device < static_cast<int>(std::int64_t{devices} * (r + 1) / ranks)) return r;
  }
  return ranks - 1;
}

}  // namespace tessera
