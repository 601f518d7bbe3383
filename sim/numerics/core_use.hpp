// What a TPU core's units do, counted: cycles, and slots of each unit in them.
//
// Filled where a model of the core is asked for (program/unit_count.hpp); zeros elsewhere.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace tessera {

/// Units of a TPU core that ops use, as the compiler's listings name them.
enum class CoreUnit : std::uint8_t { mxu, xlu, valu, vpop, eup, load, store, scalar };
inline constexpr std::size_t kCoreUnits = 8;
inline constexpr std::array<const char*, kCoreUnits> kCoreUnitNames = {
    "MXU", "XLU", "VALU", "VPOP", "EUP", "load", "store", "scalar"};

struct CoreUse {
  std::int64_t cycles = 0;
  std::array<std::int64_t, kCoreUnits> slots{};

  CoreUse& add(const CoreUse& o, std::int64_t times) {
    cycles += times * o.cycles;
    for (std::size_t u = 0; u < kCoreUnits; ++u) slots[u] += times * o.slots[u];
    return *this;
  }
  auto operator<=>(const CoreUse&) const = default;
};

}  // namespace tessera
