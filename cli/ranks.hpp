// Under mpirun: the other ranks.
#pragma once

#include <memory>

#include "sim/machine/transport.hpp"

namespace tessera::cli {

/// The transport to the ranks that mpirun started beside this process; null if it started none.
/// Throws InputError if this build has no MPI.
std::unique_ptr<Transport> connect_ranks();

}  // namespace tessera::cli
