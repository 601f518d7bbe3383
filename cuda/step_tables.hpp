// Checksums of accumulators (cuda/checksums.hpp) from the device to the host.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/checksums.hpp"
#include "cuda/device.hpp"
#include "cuda/operands.hpp"

namespace tessera::cuda {

/// The tables of a launch, one per device of its mesh; none unless the build keeps checksums and
/// the launch asks for them.
template <class S>
class StepTables {
  static constexpr int kAccums = SpecTraits<S>::kAccums;
  static constexpr bool kThere = kKeepsChecksums && kAccums > 0;

 public:
  StepTables(const Launch& given, std::int64_t cells, const std::string& what)
      : steps_(given.steps_per_cell), cells_(cells), what_(what) {}

  /// Of the next device, whose GPU is in use.
  StepTable add() {
    if constexpr (kThere) {
      if (steps_ == 0 || rows() == 0) return {};
      const DeviceArray& table = tables_.emplace_back(nullptr, rows() * sizeof(StepRow), what_);
      table.clear(what_);
      return {static_cast<StepRow*>(table.get()), steps_};
    }
    return {};
  }
  std::vector<StepSum> collect() const {
    std::vector<StepSum> sums;
    if constexpr (kThere) {
      for (std::size_t device = 0; device < tables_.size(); ++device) {
        std::vector<StepRow> kept(rows());
        check(cudaMemcpy(kept.data(), tables_[device].get(), kept.size() * sizeof(StepRow),
                         cudaMemcpyDeviceToHost),
              "cudaMemcpy", what_);
        for (std::size_t i = 0; i < kept.size(); ++i) {
          if (kept[i].used == 0) continue;
          sums.push_back({static_cast<int>(device),
                          {kept[i].ids, kept[i].ids + S::GridType::kRank},
                          kPlaces[i % kPlaces.size()],
                          kept[i].checksum});
        }
      }
    }
    return sums;
  }

 private:
  std::size_t rows() const {
    return static_cast<std::size_t>(cells_) * static_cast<std::size_t>(steps_) * kAccums;
  }
  /// Where accumulators stand among the operands that the body gets.
  static constexpr auto kPlaces = []<std::size_t... kI>(std::index_sequence<kI...>) {
    const bool accum[] = {OperandTraits<S, kI>::kAccum...};
    const bool passed[] = {OperandTraits<S, kI>::kPassed...};
    std::array<int, kAccums> places{};
    int place = 0;
    std::size_t n = 0;
    for (std::size_t i = 0; i < sizeof...(kI); ++i) {
      if (accum[i]) places[n++] = place;
      place += passed[i] ? 1 : 0;
    }
    return places;
  }
  (OperandIndices<S>{});

  int steps_;
  std::int64_t cells_;
  const std::string& what_;
  std::deque<DeviceArray> tables_;
};

}  // namespace tessera::cuda
