#include "cli/ranks.hpp"

#include <cstdlib>
#include <string>

#include "cli/libraries.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

std::unique_ptr<Transport> connect_ranks() {
  // Open MPI, MPICH and SLURM tell the processes that they start how many there are.
  int ranks = 1;
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(variable);
    if (text != nullptr) ranks = std::max(ranks, std::atoi(text));
  }
  if (ranks == 1) return nullptr;
  using Make = Transport* (*)();
  auto* const make =
      reinterpret_cast<Make>(symbol_of_library("libtessera_mpi.so", "tessera_mpi_transport"));
  if (make == nullptr) {
    throw InputError("bad-input", "this tessera was built without MPI, and mpirun started several",
                     "apt-get install libopenmpi-dev openmpi-bin, then build again");
  }
  return std::unique_ptr<Transport>(make());
}

}  // namespace tessera::cli
