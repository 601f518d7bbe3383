#include "memory_model/host_memory.hpp"

#include <unistd.h>

namespace tessera {

double host_memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace tessera
