#include "cuda/launch.hpp"
#include "kernels/complex_recurrence.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::ComplexRecurrence, TileSizes<32, 128>, TileSizes<1, 1>>(to);
});

}  // namespace tessera::cuda
