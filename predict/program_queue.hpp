// How long a GPU takes for programs that queue for its multiprocessors, in the order of the grid.
//
// Each SM takes as many at once as it has room for, the first ones in turns; whoever is done makes
// room for the next. All that share an SM go at one rate, which depends on how many they are, so
// that the last ones, which have it for themselves, are faster. Left out: SMs of unequal pace.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::predict {

/// `lengths`: units of work of each program in turn, from the first again if they are fewer than
/// programs. `seconds[k]`: of a unit where k + 1 programs share an SM; as many as it has room for.
double queue_seconds(std::int64_t programs, std::span<const double> lengths, std::int64_t sms,
                     std::span<const double> seconds);

}  // namespace tessera::predict
