// Every kernel with its oracle. One line here makes a kernel exist: the CLI lists it, the tests
// hold every case to the oracle and to hbm_bytes, the CUDA build instantiates its body. Host only:
// nvcc never sees this file.
#pragma once

#include <tuple>

#include "kernels/add_blocked.hpp"
#include "kernels/add_vectors.hpp"
#include "kernels/all_gather_matmul.hpp"
#include "kernels/all_reduce.hpp"
#include "kernels/all_to_all.hpp"
#include "kernels/dma_matmul.hpp"
#include "kernels/entry.hpp"
#include "kernels/flash_attention.hpp"
#include "kernels/grad_relu.hpp"
#include "kernels/grad_w.hpp"
#include "kernels/grad_x.hpp"
#include "kernels/grouped_matmul.hpp"
#include "kernels/halo_exchange.hpp"
#include "kernels/matmul.hpp"
#include "kernels/matmul_layernorm_gelu.hpp"
#include "kernels/matmul_reduce_scatter.hpp"
#include "kernels/matmul_relu.hpp"
#include "kernels/pipelined_add.hpp"
#include "kernels/reduce_scatter.hpp"
#include "kernels/ring_all_gather.hpp"
#include "kernels/softmax_rows.hpp"
#include "reference/attention.hpp"
#include "reference/collectives.hpp"
#include "reference/elementwise.hpp"
#include "reference/matmul.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels {

template <class T>
reference::Expected attention_oracle(const FlashAttention<T>& kernel, const OracleInputs& in) {
  reference::AttentionMask mask;
  mask.causal = kernel.causal != 0;
  mask.window = kernel.window;
  mask.softcap = kernel.softcap;
  mask.kv_lengths = values_of(kernel.kv_lengths);
  if (kernel.segments != 0) {
    mask.q_segments = integers_of(in["q_seg"]);
    mask.kv_segments = integers_of(in["kv_seg"]);
  }
  mask.probabilities_in_bf16 = kBytes<T> == 2;
  return reference::attention(in["q"], in["k"], in["v"], mask);
}

/// What a sum that passes from device to device is rounded to.
template <template <class> class K, class T>
double sum_roundoff(const K<T>&) {
  return kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
}

// clang-format off
constexpr auto all() {
  using In = const OracleInputs&;
  return std::tuple{
      entry<AddBlocked>([](const auto&, In in) { return reference::add(in["x"], in["y"]); }),
      entry<AddVectors>([](const auto&, In in) { return reference::add(in["x"], in["y"]); }),
      entry<AllGatherMatmul>([](const auto& k, In in) { return reference::all_gather_matmul(in["x"], in["w"], k.devices); }),
      entry<AllReduce>([](const auto& k, In in) { return reference::all_reduce(in["x"], k.devices, sum_roundoff(k)); }),
      entry<AllToAll>([](const auto& k, In in) { return reference::all_to_all(in["x"], k.devices, values_of(k.counts), k.limits[0]); }),
      entry<DmaMatmul>([](const auto&, In in) { return reference::matmul(in["x"], in["y"]); }),
      entry<FlashAttention>([](const auto& k, In in) { return attention_oracle(k, in); }),
      entry<GradRelu>([](const auto&, In in) { return reference::grad_relu(in["dy"], in["y"]); }),
      entry<GradW>([](const auto&, In in) { return reference::grad_w(in["x"], in["dy"], in["y"]); }),
      entry<GradX>([](const auto&, In in) { return reference::grad_x(in["dy"], in["y"], in["w"]); }),
      entry<GroupedMatmul>([](const auto& k, In in) { return reference::grouped_matmul(in["x"], in["w"], values_of(k.offsets)); }),
      entry<HaloExchange>([](const auto&, In in) { return reference::three_rows(in["x"]); }),
      entry<Matmul>([](const auto&, In in) { return reference::matmul(in["x"], in["y"]); }),
      entry<MatmulLayernormGelu>([](const auto& k, In in) { return reference::matmul_layernorm_gelu(in["x"], in["w"], in["gamma"], in["beta"], k.eps); }),
      entry<MatmulReduceScatter>([](const auto& k, In in) { return reference::matmul_reduce_scatter(in["x"], in["w"], k.devices); }),
      entry<MatmulRelu>([](const auto&, In in) { return reference::matmul_relu(in["x"], in["w"]); }),
      entry<PipelinedAdd>([](const auto&, In in) { return reference::add(in["x"], in["y"]); }),
      entry<ReduceScatter>([](const auto& k, In in) { return reference::reduce_scatter(in["x"], k.devices, sum_roundoff(k)); }),
      entry<RingAllGather>([](const auto& k, In in) { return reference::all_gather(in["x"], k.devices); }),
      entry<SoftmaxRows>([](const auto&, In in) { return reference::softmax(in["x"]); }),
  };
}
// clang-format on

}  // namespace tessera::kernels
