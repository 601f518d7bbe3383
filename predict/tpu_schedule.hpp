// What a kernel takes on a TPU core by the schedule that the TPU's compiler made of it.
//
//   const Listing listing = read_listing(bundles, utilization);
//   const TpuSchedule s = schedule_of(listing, operands, device);   // s.timeline.seconds
//
// The listing (predict/tpu_listing.hpp) is played from the call's operands
// (predict/tpu_player.hpp), so trip counts and copies are exact; copies take the HBM at the core's
// share of its published bandwidth (predict/tpu_transfers.hpp). Cycles become time by the
// device's `model_clock`. Where the compiler shares the grid among the cores of a chip, each is
// played by itself, bytes are those of all, the rest is said of the slowest. Nobody has measured it
// on a TPU.
#pragma once

#include <optional>

#include "predict/timeline.hpp"
#include "predict/tpu_player.hpp"

namespace tessera::predict {

/// Share of each unit's slots that are used; by Unit.
using UnitShares = std::array<double, kUnits>;

/// A stretch of bundles between branches and waits.
struct ScheduleRegion {
  int begin = 0;  ///< bundles [begin, end)
  int end = 0;
  std::int64_t times = 0;  ///< that it ran
  double cycles = 0;       ///< of all times, waits included
  double waiting = 0;      ///< of them
  UnitShares used{};
  std::string binds;  ///< "VALU", "HBM" where it waits for most of its time, "latency"
};

struct ScheduleOperand {
  int index = 0;     ///< in the call
  std::string name;  ///< for whoever knows it; "" of extents and prefetched arrays
  bool output = false;
  std::string space;  ///< where XLA put it: "hbm", "vmem", "smem"
  std::string type;   ///< as XLA names it: "f32", "s8"
  Shape shape;
  OperandBytes bytes;
};

struct TpuSchedule {
  std::string unmodelled;  ///< why there is none; empty: there is
  double clock_hz = 0;
  std::int64_t bundles = 0;  ///< of the listing
  double cycles = 0;         ///< from the first bundle to the last, or to the last copy's end
  double issued = 0;         ///< cycles in which bundles ran: cycles - waits
  double waiting = 0;
  double overhead = 0;  ///< issued cycles that keep the pipeline going: scalars around vector work
  UnitShares used{};    ///< of the slots of issued bundles
  std::string unit;     ///< the one that is used most
  std::int64_t spill_stores = 0;  ///< of vector registers, that ran
  std::int64_t spill_loads = 0;
  std::vector<ScheduleRegion> regions;  ///< the longest first
  std::vector<ScheduleOperand> operands;
  Timeline timeline;
};

/// `values`: of the call's operands by index, null where they are not known. What is not modelled
/// is said in `unmodelled`.
TpuSchedule schedule_of(const Listing& listing, const std::vector<const Array*>& values,
                        const DeviceSpec& device, std::size_t most_spans = 0);

}  // namespace tessera::predict
