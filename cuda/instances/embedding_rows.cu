#include "cuda/launch.hpp"
#include "kernels/embedding_rows.hpp"

namespace tessera::cuda {

static const Adds added([](std::vector<Instance>& to) {
  add_instances<kernels::EmbeddingRows, TileSizes<16, 256>, TileSizes<16, 300>, TileSizes<1, 1>>(
      to);
});

}  // namespace tessera::cuda
