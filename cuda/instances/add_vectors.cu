#include "cuda/launch.hpp"
#include "kernels/add_vectors.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::AddVectors, TileSizes<8192>, TileSizes<1024>, TileSizes<1>>(to);
});

}  // namespace tessera::cuda
