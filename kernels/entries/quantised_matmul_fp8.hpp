#pragma once

#include "kernels/entries/quantised_matmul.hpp"
#include "kernels/quantised_matmul_fp8.hpp"

namespace tessera::kernels::entries {

constexpr auto quantised_matmul_fp8 =
    entry<QuantisedMatmulFp8>([](const auto& k, In in) { return quantised_oracle(k, in); });

}  // namespace tessera::kernels::entries
