// Named regions of bodies, summed over a run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tessera {

struct ScopeTotals {
  std::int64_t entries = 0;
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
};
using Scopes = std::map<std::string, ScopeTotals>;

}  // namespace tessera
