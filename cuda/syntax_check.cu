// Instantiates every body for a device, over compile-time extents. Compiled, never linked or run:
// see cuda/CMakeLists.txt.
#include "cuda/static_tile.hpp"
#include "kernels/add_blocked.hpp"
#include "kernels/add_vectors.hpp"
#include "kernels/dma_matmul.hpp"
#include "kernels/flash_attention.hpp"
#include "kernels/grad_relu.hpp"
#include "kernels/grad_w.hpp"
#include "kernels/grad_x.hpp"
#include "kernels/grouped_matmul.hpp"
#include "kernels/matmul.hpp"
#include "kernels/matmul_layernorm_gelu.hpp"
#include "kernels/matmul_relu.hpp"
#include "kernels/pipelined_add.hpp"
#include "kernels/softmax_rows.hpp"
#include "sim/body/batched.hpp"

namespace tessera::cuda {

template <class T>
__device__ auto refs_of(const Scalars<T>&) {
  return std::tuple<>{};
}
/// The first extent of slots, 1 of anything else.
template <class... E>
__device__ constexpr int slots_of(const BlockDims<E...>& block) {
  if constexpr (sizeof...(E) == 3)
    return static_cast<int>(std::get<0>(block.extents));
  else
    return 1;
}
template <Role kRole, class T, class Block, class Map>
__device__ auto refs_of(const Operand<kRole, T, Block, Map>& op) {
  if constexpr (in_hbm(kRole)) {
    return std::tuple{StaticEnd<T, kRole != Role::hbm_in>{}};
  } else if constexpr (is_semaphore(kRole)) {
    return std::tuple{StaticSems{}};
  } else {
    constexpr int kRows = decltype(block_rows(op.block))::value;
    constexpr int kCols = decltype(block_cols(op.block))::value;
    if constexpr (kRole == Role::vmem)
      return std::tuple{StaticRef<T, kRole, kRows, kCols, slots_of(Block{})>{}};
    else
      return std::tuple{StaticRef<T, kRole, kRows, kCols>{}};
  }
}

template <class G, class Map>
__device__ long long first_index(const Map& map, const int* ids) {
  return static_cast<long long>(with_ids<G, G::kRank>(map, ids).index[0]);
}
template <class G, class T>
__device__ long long touch(const Scalars<T>&, const int*) {
  return 0;
}
template <class G, Role kRole, class T, class Block, class Map>
__device__ long long touch(const Operand<kRole, T, Block, Map>& op, const int* ids) {
  if constexpr (std::is_same_v<Map, NoMap>)
    return 0;
  else
    return first_index<G>(op.map, ids);
}

/// Evaluates the index maps and calls the body once.
template <class K, class... Extent>
__global__ void instantiate(K kernel, long long* sink, Extent... extents) {
  const auto spec = kernel.spec(extents...);
  using G = typename decltype(spec)::GridType;
  DeviceEnv env{};
  *sink = std::apply([&](const auto&... op) { return (0LL + ... + touch<G>(op, env.ids)); },
                     spec.operands);
  auto refs =
      std::apply([](const auto&... op) { return std::tuple_cat(refs_of(op)...); }, spec.operands);
  std::apply([&](auto... ref) { kernel(env, ref...); }, refs);
}

template <template <class> class K, class... Extent>
void check(Extent... extents) {
  instantiate<<<1, 1>>>(K<float>{}, nullptr, extents...);
  instantiate<<<1, 1>>>(K<bf16>{}, nullptr, extents...);
  instantiate<<<1, 1>>>(batched(K<float>{}, 2), nullptr, extents...);
}

void check_all() {
  const Int<64> b64;
  const Int<128> b128;
  check<kernels::AddVectors>(b128);
  check<kernels::AddBlocked>(b64, b128);
  check<kernels::Matmul>(b128, b128, b64);
  check<kernels::DmaMatmul>(b128, b128, b64);
  check<kernels::PipelinedAdd>(b64, b128, Int<3>{});
  check<kernels::MatmulRelu>(b128, b128, b64);
  check<kernels::GradRelu>(b64, b128);
  check<kernels::GradX>(b128, b128, b64);
  check<kernels::GradW>(b128, b128, b64);
  check<kernels::SoftmaxRows>(b64, b128);
  check<kernels::MatmulLayernormGelu>(b64, b128, b64);
  check<kernels::FlashAttention>(b64, b128, b64);
  check<kernels::GroupedMatmul>(b128, b128, b64);
}

}  // namespace tessera::cuda
