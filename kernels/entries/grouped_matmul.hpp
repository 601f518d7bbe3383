#pragma once

#include "kernels/entry.hpp"
#include "kernels/grouped_matmul.hpp"
#include "reference/matmul.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto grouped_matmul = entry<GroupedMatmul>([](const auto& k, In in) {
  const Epilogue e{k.epilogue};
  const auto of = [&](bool there, const char* name) { return there ? &in[name] : nullptr; };
  const reference::AfterProduct after{static_cast<reference::Activation>(e.activation()),
                                      of(e.gated(), "v"),
                                      of(e.biased(), "bias"),
                                      of(e.normed(), "gamma"),
                                      of(e.normed(), "beta"),
                                      k.eps};
  return reference::grouped_matmul(in["x"], in["w"], values_of(k.offsets),
                                   {of(k.existing != 0, "existing"), k.existing == 2},
                                   k.epilogue != 0 ? &after : nullptr);
});

}  // namespace tessera::kernels::entries
