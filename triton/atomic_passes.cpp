#include "triton/atomic_passes.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace tessera::triton {

void AtomicPasses::add(std::int64_t address, std::int64_t passes) {
  passes_[static_cast<std::size_t>(address / kUnit & (kUnits - 1))] += passes;
}

void AtomicPasses::note_sorted(const std::int64_t* first, const std::int64_t* end) {
  while (first != end) {
    const std::int64_t sector = *first / kSector;
    std::int64_t passes = 0;
    while (first != end && *first / kSector == sector) {
      const std::int64_t* const other =
          std::find_if(first, end, [&](auto a) { return a != *first; });
      passes = std::max<std::int64_t>(passes, other - first);
      first = other;
    }
    add(sector * kSector, passes);
  }
}

void AtomicPasses::note(const std::vector<std::int64_t>& addresses) {
  const std::lock_guard lock(mutex_);
  passes_.resize(kUnits);
  for (std::size_t i = 0; i < addresses.size(); i += kWarp) {
    const std::size_t n = std::min(kWarp, addresses.size() - i);
    std::array<std::int64_t, kWarp> lanes;
    std::copy_n(addresses.data() + i, n, lanes.data());
    if (!std::is_sorted(lanes.data(), lanes.data() + n)) std::sort(lanes.data(), lanes.data() + n);
    note_sorted(lanes.data(), lanes.data() + n);
  }
}

std::int64_t AtomicPasses::all() const {
  return std::accumulate(passes_.begin(), passes_.end(), std::int64_t{0});
}

std::int64_t AtomicPasses::most() const {
  return passes_.empty() ? 0 : *std::max_element(passes_.begin(), passes_.end());
}

}  // namespace tessera::triton
