// Source lines of addresses, kept in the user's cache from one process to the next: reading the
// debug information of a library takes tenths of a second.
//
// A library's lines are in lines/HASH: a line each of offset, line and file. HASH is of the
// library's path, size and time of its last change, and of the working directory, to which paths in
// debug information may be relative. A cache that cannot be read or written is none.
#pragma once

#include <functional>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera {

/// The line of an address in a loaded library, or the program; what `find` says of it where nobody
/// has asked before. Threads may ask at the same time.
SourceLine cached_line(const void* address, const std::function<SourceLine()>& find);

}  // namespace tessera
