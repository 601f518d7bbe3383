#include "cuda/launch.hpp"
#include "kernels/rnn.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::Rnn, TileSizes<64, 64, 4>, TileSizes<64, 64, 3>, TileSizes<64, 64, 1>,
                TileSizes<1, 1, 4>>(to);
});

}  // namespace tessera::cuda
