#pragma once

#include "kernels/complex_recurrence.hpp"
#include "kernels/entry.hpp"
#include "reference/recurrence.hpp"

namespace tessera::kernels::entries {

constexpr auto complex_recurrence = entry<ComplexRecurrence>([](const auto& k, In in) {
  return reference::complex_recurrence({in["a_re"], in["a_im"]}, {in["b_re"], in["b_im"]},
                                       {in["h0_re"], in["h0_im"]}, k.reverse != 0);
});

}  // namespace tessera::kernels::entries
