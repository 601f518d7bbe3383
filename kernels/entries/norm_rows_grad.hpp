#pragma once

#include "kernels/entry.hpp"
#include "kernels/norm_rows_grad.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> norm_rows_grad_oracle(const NormRowsGrad<T>& k,
                                                       const OracleInputs& in) {
  std::vector<std::size_t> part_rows;
  for (int p = 0; p < k.parts; ++p)
    part_rows.push_back(static_cast<std::size_t>(k.first_row(p + 1) - k.first_row(p)));
  return reference::norm_rows_grad(in["dy"], in["h"], in["gamma"],
                                   k.residual != 0 ? &in["dh_out"] : nullptr, k.eps, k.rms != 0,
                                   part_rows);
}

constexpr auto norm_rows_grad =
    entry<NormRowsGrad>([](const auto& k, In in) { return norm_rows_grad_oracle(k, in); });

}  // namespace tessera::kernels::entries
