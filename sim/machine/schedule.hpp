// When cores run and when bytes land: the choices that hardware makes and a program must survive.
//
//   eager        a transfer lands where it starts, a signal arrives where it is sent
//   on_wait      a transfer lands when a wait on its semaphore needs it, oldest first
//   adversarial  transfers and signals wait until every core is blocked; then the newest one that
//                somebody waits for arrives
//   random:SEED  at every asynchronous call, a core or something under way, drawn from SEED
//   explore:N    eager, on_wait, adversarial, then random ones: N schedules that differ; tessera
//                stops at the first that fails and names it
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct Schedule {
  enum class Kind : std::uint8_t { eager, on_wait, adversarial, random, explore };
  Kind kind = Kind::eager;
  std::uint64_t number = 0;  ///< the seed of random, the count of explore

  bool operator==(const Schedule&) const = default;
};

/// "random:7"
std::string to_string(const Schedule& s);
/// Throws InputError[bad-input] that lists the schedules.
Schedule parse_schedule(const std::string& text);

}  // namespace tessera
