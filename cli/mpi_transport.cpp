// The exchange between ranks over MPI: two-sided, by MPI_Alltoallv. A module of its own, loaded
// when tessera runs under mpirun, so that nobody else pays for MPI.
#include <mpi.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "cli/interface.hpp"
#include "cli/ranks.hpp"

namespace tessera::cli {

namespace {

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~MpiTransport() override { MPI_Finalize(); }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::vector<Message> exchange(std::vector<Message> outgoing) override {
    const auto n = static_cast<std::size_t>(ranks_);
    std::vector<std::int64_t> sends(n);
    std::vector<std::int64_t> receives(n);
    for (std::size_t i = 0; i < n; ++i) sends[i] = static_cast<std::int64_t>(outgoing[i].size());
    MPI_Alltoall(sends.data(), 1, MPI_INT64_T, receives.data(), 1, MPI_INT64_T, MPI_COMM_WORLD);
    std::vector<Message> incoming(n);
    for (std::size_t i = 0; i < n; ++i) incoming[i].resize(static_cast<std::size_t>(receives[i]));
    // Counts and displacements of MPI_Alltoallv are ints: large messages go in rounds.
    std::int64_t most = 0;
    for (std::size_t i = 0; i < n; ++i) most = std::max({most, sends[i], receives[i]});
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    const std::int64_t piece = std::numeric_limits<int>::max() / ranks_;
    for (std::int64_t done = 0; done < most; done += piece) {
      exchange_piece(outgoing, incoming, done, piece);
    }
    return incoming;
  }

 private:
  void exchange_piece(const std::vector<Message>& outgoing, std::vector<Message>& incoming,
                      std::int64_t done, std::int64_t piece) const {
    const auto n = static_cast<std::size_t>(ranks_);
    const auto lay_out = [&](const std::vector<Message>& messages, std::vector<int>& counts,
                             std::vector<int>& places) {
      counts.resize(n);
      places.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t left = static_cast<std::int64_t>(messages[i].size()) - done;
        counts[i] = static_cast<int>(std::clamp<std::int64_t>(left, 0, piece));
      }
      std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
      return static_cast<std::size_t>(places.back() + counts.back());
    };
    std::vector<int> send_counts;
    std::vector<int> send_places;
    std::vector<int> receive_counts;
    std::vector<int> receive_places;
    Message send(lay_out(outgoing, send_counts, send_places));
    Message receive(lay_out(incoming, receive_counts, receive_places));
    for (std::size_t i = 0; i < n; ++i) {
      std::copy_n(
          outgoing[i].begin() + std::min(done, static_cast<std::int64_t>(outgoing[i].size())),
          send_counts[i], send.begin() + send_places[i]);
    }
    MPI_Alltoallv(send.data(), send_counts.data(), send_places.data(), MPI_BYTE, receive.data(),
                  receive_counts.data(), receive_places.data(), MPI_BYTE, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < n; ++i) {
      std::copy_n(
          receive.begin() + receive_places[i], receive_counts[i],
          incoming[i].begin() + std::min(done, static_cast<std::int64_t>(incoming[i].size())));
    }
  }

  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace

}  // namespace tessera::cli

/// What cli/ranks.cpp looks up.
extern "C" tessera::Transport* tessera_mpi_transport() { return new tessera::cli::MpiTransport; }
extern "C" const char* tessera_interface() { return tessera::cli::kInterface.data(); }
