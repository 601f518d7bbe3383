#pragma once

#include "kernels/entry.hpp"
#include "kernels/matmul_epilogue.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto matmul_epilogue = entry<MatmulEpilogue>([](const auto& k, In in) {
  const Epilogue e{k.epilogue};
  const auto of = [&](bool there, const char* name) { return there ? &in[name] : nullptr; };
  return reference::matmul_epilogue(
      in["x"], in["w"],
      {static_cast<reference::Activation>(e.activation()), of(e.gated(), "v"),
       of(e.biased(), "bias"), of(e.normed(), "gamma"), of(e.normed(), "beta"), k.eps});
});

}  // namespace tessera::kernels::entries
