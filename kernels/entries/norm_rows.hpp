#pragma once

#include "kernels/entry.hpp"
#include "kernels/norm_rows.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto norm_rows = entry<NormRows>([](const auto& k, In in) {
  return reference::norm_rows(in["x"], {in["gamma"], k.rms != 0 ? nullptr : &in["beta"],
                                        k.residual != 0 ? &in["residual"] : nullptr, k.eps});
});

}  // namespace tessera::kernels::entries
