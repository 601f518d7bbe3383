// Multi-head latent attention with its projections absorbed: the decoding step. kernels/mla.hpp has
// the body and the equations of both.
#pragma once

#include "kernels/mla.hpp"

namespace tessera::kernels {

template <class T>
using MlaAbsorbed = LatentAttention<T, true>;

}  // namespace tessera::kernels
