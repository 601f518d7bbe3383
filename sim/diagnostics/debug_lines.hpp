// Source lines from DWARF, as -g1 writes it, by elfutils' libdw. A library's functions are found
// once: an address then costs microseconds, where a search of the whole unit takes a millisecond.
#pragma once

#include <vector>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera {

/// Where the code at an address was written: its own line, and then the calls that inlined it,
/// inner first. Empty where there is no debug information. Each thread reads its own.
std::vector<SourceLine> source_lines(const void* address);

}  // namespace tessera
