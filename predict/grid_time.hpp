// How long a GPU takes at least for a grid of programs of which totals alone are known, as of a
// Triton launch: what its programs asked of memory and computed.
//
// The launch itself and the first load's way, then the slowest of: the bytes touched at DRAM's
// rate, the bytes asked for at the L2's, and of the SM with the most programs their bytes and their
// FLOP. Constants are those of gpu_timeline.cpp. Left out: how many programs share an SM, warps,
// pipelining within a program, sectors that a warp asks for and does not use, functions. So it
// ranks block shapes and grids, and says nothing about num_warps and num_stages.
#pragma once

#include <cstdint>
#include <string>

#include "memory_model/device_spec.hpp"

namespace tessera::predict {

struct GridWork {
  std::int64_t programs = 0;
  std::int64_t requested_bytes = 0;  ///< by loads and stores
  std::int64_t touched_bytes = 0;    ///< each once
  std::int64_t flops = 0;
  double flops_per_second = 0;  ///< of the device, for these
};

struct GridTime {
  double seconds = 0;  ///< 0: not known
  std::string binds;   ///< "HBM", "L2", "an SM's loads and stores", "FLOP"; why, if not known
};

GridTime grid_time(const DeviceSpec& device, const GridWork& work);

}  // namespace tessera::predict
