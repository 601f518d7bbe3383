// What of arrays fits in this machine: asked before anything is allocated, as some allocators end a
// process that asks for more than they give.
#pragma once

#include <new>

namespace tessera {

/// Bytes of memory that this machine has.
double host_memory_bytes();

/// Throws std::bad_alloc if so many bytes are more than that.
inline void check_fits_host(double bytes) {
  if (bytes > host_memory_bytes()) throw std::bad_alloc();
}

}  // namespace tessera
