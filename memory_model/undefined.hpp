// Where an undefined value comes from, in a byte: shadow states and the registers of programs carry
// it.
//
// 0 is a value. Else the low bits number the read that found nothing written, as the front end
// numbers its reads; kStale: another parallel cell had written there; kComputed: an op has made
// another value of it since.
#pragma once

#include <cstdint>

namespace tessera {

using Origin = std::uint8_t;

inline constexpr Origin kStale = 0x40;
inline constexpr Origin kComputed = 0x80;
/// The highest number of a read: all that have no number of their own.
inline constexpr Origin kAnyRead = 60;

constexpr int read_of(Origin o) { return o & 0x3f; }
constexpr Origin computed_from(Origin o) { return o == 0 ? o : static_cast<Origin>(o | kComputed); }

}  // namespace tessera
