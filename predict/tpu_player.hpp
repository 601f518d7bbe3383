// Plays a schedule: which bundles run how often, how long they wait, and what they copy.
//
// A bundle takes a cycle, and a wait for a copy until the copy has landed. Played are scalars,
// predicates, branches, sync flags and copies; vector slots only take their place. Scalars start
// from the call's operands (dynamic extents, prefetched arrays), so trip counts are exact. What
// depends on data of vectors is not known, and a schedule whose control needs it is refused, with
// the slot; so is one with a slot that is not known, by name. Left out: stalls other than for sync
// flags (the compiler places bundles so that there are none), other cores and devices. Where empty
// bundles in a row are listed as one (ListedChip::folds_empty), that one takes a cycle.
#pragma once

#include <functional>
#include <vector>

#include "predict/tpu_transfers.hpp"

namespace tessera::predict {

/// A stretch of bundles that run one after the other, and wait in the first alone: [begin, end).
struct BlockOfBundles {
  int begin = 0;
  int end = 0;
};

/// One time that a block ran.
struct BlockRun {
  int block = 0;
  double begin = 0;  ///< cycles
  double end = 0;    ///< waits included
  double waited = 0;
};

struct Played {
  std::vector<BlockOfBundles> blocks;
  std::vector<std::int64_t> executed;  ///< times that each bundle ran
  std::vector<double> waited;          ///< cycles, of each bundle
  double cycles = 0;                   ///< until the last bundle, and the last copy
  double waiting = 0;                  ///< cycles, of all
  std::vector<OperandBytes> bytes;     ///< by operand of the listing
  std::vector<Copied> copies;          ///< the first, as many as were asked for
  Busy hbm;                            ///< seconds
};

struct PlayOptions {
  int core = 0;                                                        ///< its number
  std::size_t most_copies = 0;                                         ///< to keep
  std::int64_t most_bundles = std::int64_t{1} << 28;                   ///< to run
  std::function<void(const BlockOfBundles&, const BlockRun&)> on_run;  ///< told of every one
};

/// Throws ListingError.
Played play(const Listing& listing, const std::vector<const Array*>& values,
            const DeviceSpec& device, double clock_hz, const PlayOptions& options);

}  // namespace tessera::predict
