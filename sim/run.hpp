// Running a kernel from a program of your own.
//
//   auto result = tessera::run(Matmul<float>{.m = 512, .n = 512, .k = 512}, tiles(128, 128, 128),
//                              arrays(x, y), {.device = load_device("tpu-v5e")});
//   if (!result.ok()) std::cerr << result.diagnostics[0].text();
//   result.outputs[0];                       // the first out() of the spec
//   result.ledger().hbm_read_bytes();        // every byte, per ref in result.ledger().refs()
//
// Inputs are given in the order of the spec's in() operands that are present. Options, results and
// errors: sim/pipeline/run.hpp.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/pipeline/run.hpp"
#include "sim/tiles/typed_body.hpp"

namespace tessera {

template <BodyTakesItsOperands K>
RunResult run(const K& kernel, Tiles tiles, const Inputs& inputs, const RunOptions& options = {}) {
  const auto spec = spec_of(kernel, tiles);
  return run(TypedKernel(kernel, spec), plan_of(kernel, tiles, options.device), inputs, options);
}
template <class K, int kArguments = detail::refs_taken<K>(),
          int kOperands = detail::operands_of<K>()>
requires(!BodyTakesItsOperands<K>)
    [[gnu::unavailable("the body takes kArguments arguments beside the env; its spec has kOperands "
                       "operands for it")]] RunResult
    run(const K&, Tiles, const Inputs&, const RunOptions& = {}) {
  return {};
}

}  // namespace tessera
