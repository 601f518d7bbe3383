#pragma once

#include "kernels/entries/quantised_matmul.hpp"
#include "kernels/quantised_matmul_int8.hpp"

namespace tessera::kernels::entries {

constexpr auto quantised_matmul_int8 =
    entry<QuantisedMatmulInt8>([](const auto& k, In in) { return quantised_oracle(k, in); });

}  // namespace tessera::kernels::entries
