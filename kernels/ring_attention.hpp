// Attention over a sequence whose blocks lie on a ring of devices, two each.
//
//   o[i] = sum_j softmax_j(scale q[i] . k[j]) v[j] over the keys of all devices;  causal: j <= i
//
// Liu et al., arXiv:2310.01889: keys and values go around the ring by remote copies, a step ahead
// of the products, while each device keeps running maxima and sums of its queries. Of 2n blocks in
// their order device d has blocks d and 2n - 1 - d (zigzag, as Llama 3's context parallelism,
// arXiv:2407.21783, section 3.3.2): under a causal mask every device then has two whole blocks of
// scores to make of what each step brings, and its own of the first step; none waits for another.
// A block of queries of the second half of the sequence sees every block of the first half; of
// what comes from device s, s < d has its first block seen by both of d's, s > d both of its seen
// by d's second. Arrays of a device: its first block, then its second.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/attention_blocks.hpp"
#include "kernels/ring.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/log.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct RingAttention {
  static constexpr KernelInfo info{
      .name = "ring_attention",
      .summary = "attention over a sequence that lies on a ring of devices, in zigzag order",
      .math = "o[i] = sum_j softmax_j(mask(scale q[i] . k[j])) v[j] over the keys of all devices",
      .cites = "arXiv:2310.01889, arXiv:2407.21783"};

  int devices = 1;
  int heads = 1;
  int kv_heads = 1;
  int rows = 0;
  int head_dim = 0;
  int causal = 0;
  int missing = 0;

  float scale = 0;  ///< 1 / sqrt(head_dim)

  static constexpr auto sizes = params(
      size("devices", &RingAttention::devices, "devices of the ring"),
      size("heads", &RingAttention::heads, "query heads, of all batch entries"),
      size("kv_heads", &RingAttention::kv_heads, "key and value heads; divides heads"),
      size("rows", &RingAttention::rows, "rows of a block, of which a device has two"),
      size("head_dim", &RingAttention::head_dim, "columns of q, k, v and o"),
      size("causal", &RingAttention::causal, "1: no key after the query"),
      size("missing", &RingAttention::missing, "keys at the sequence's end that nothing sees"));
  static constexpr auto tiles = tile_names(tile("bg"), tile("br", "rows"), tile("bd", "head_dim"));
  static constexpr std::array cases{
      Case{"aligned, causal", {4, 2, 2, 64, 64, 1, 0}, {2, 64, 64}},
      Case{"full, grouped queries", {3, 4, 2, 32, 64, 0, 0}, {4, 32, 64}},
      Case{"ragged, prime ring", {5, 2, 1, 16, 40, 1, 37}, {4, 16, 40}},
      Case{"ragged, full, two devices", {2, 1, 1, 32, 72, 0, 45}, {2, 32, 72}},
      Case{"degenerate", {1, 1, 1, 16, 1, 1, 0}, {2, 16, 1}}};

  const char* valid(Tiles t) const {
    if (rows % 16 != 0) return "rows is a multiple of 16";
    if (kv_heads < 1 || heads % kv_heads != 0) return "kv_heads divides heads";
    if (t[0] != 2 * (heads / kv_heads)) return "bg is 2 heads / kv_heads: the blocks of a key head";
    if (t[1] != rows || t[2] != head_dim)
      return "br and bd are rows and head_dim: blocks lie in VMEM whole";
    if (missing < 0 || missing >= 2 * devices * rows)
      return "some key is there: missing < all rows";
    return nullptr;
  }

  TESSERA_FN auto spec(auto bg, auto br, auto bd) const {
    const int blocks = 2 * (heads / kv_heads);
    auto head_block = [](auto h, auto) { return at(h, 0, 0, 0); };
    const auto keys = shape(kv_heads, 2 * rows, head_dim);
    return tessera::spec(grid(arbitrary(kv_heads).as("h"), arbitrary(devices).as("step")),
                         hbm_in<T>("q", shape(kv_heads, blocks, rows, head_dim)),
                         hbm_in<T>("k", keys), hbm_in<T>("v", keys),
                         out<T>("o", shape(kv_heads, blocks, rows, head_dim),
                                block(squeezed, bg, br, bd), head_block),
                         out<float>("lse", shape(kv_heads, blocks, rows, 1),
                                    block(squeezed, bg, br, Int<1>{}), head_block),
                         vmem<T>("queries", bg, br, bd), vmem<T>("keys", Int<4>{}, br, bd),
                         vmem<T>("values", Int<4>{}, br, bd), vmem<float>("acc", bg, br, bd),
                         vmem<float>("m", bg, br, Int<1>{}), vmem<float>("l", bg, br, Int<1>{}),
                         dma_sem("local"), dma_sem("send", Int<2>{}), dma_sem("recv", Int<2>{}),
                         sem("freed"));
  }

  /// Everything once per device; the keys and values of n - 1 devices over each link.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t n = devices;
    const std::int64_t queries = std::int64_t{heads} * 2 * rows;
    const std::int64_t keys = std::int64_t{2} * kv_heads * 2 * rows * head_dim * kBytes<T>;
    return {n * (queries * head_dim * kBytes<T> + keys),
            n * queries * (head_dim * kBytes<T> + kBytes<float>), n * (n - 1) * keys};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class O, class Lse, class Queries, class Keys,
            class Values, class Acc, class M, class L, class Local, class Sems, class Freed>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, O o, Lse lse, Queries queries, Keys keys,
                             Values values, Acc acc, M m, L l, Local local, Sems send, Sems recv,
                             Freed freed) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    const int group = heads / kv_heads;
    const auto me = env.device_id();
    const auto h = env.program_id(0);
    const auto step = env.program_id(1);
    const auto slot = step % 2;  // blocks 2 slot and 2 slot + 1 of keys and values
    const auto from = ring_mod(me - step, devices);
    if (env.first(1)) {
      for (int half = 0; half < 2; ++half) {
        const auto part = ds(half * rows, rows);
        async_copy(k.at(h).slice(part, ds(0, head_dim)), keys.slot(half), local).wait();
        async_copy(v.at(h).slice(part, ds(0, head_dim)), values.slot(half), local).wait();
      }
      env.loop(0, 2 * group, [&](auto i) {
        async_copy(q.at(h).at(i), queries.slot(i), local).wait();
        *acc.slot(i) = 0.f;      // (br, bd) f32
        *m.slot(i) = kMinusInf;  // (br, 1)
        *l.slot(i) = 0.f;        // (br, 1)
      });
      ring_barrier(env);  // the neighbours have done with the head before
    }
    const auto pass = [&](const auto& blocks, int half) {
      return make_async_remote_copy(blocks.slot(slot * 2 + half),
                                    blocks.slot((1 - slot) * 2 + half), send[slot], recv[1 - slot],
                                    ring_mod(me + 1, devices));
    };
    const auto passes = step + 1 < devices;
    if (passes) {
      if (step >= 1) semaphore_wait(freed, 1);  // the neighbour is done with those
      for (int half = 0; half < 2; ++half) {
        pass(keys, half).start();
        pass(values, half).start();
      }
    }
    const int all = 2 * devices * rows;
    const SeenKeys seen{all, all, causal != 0, 0};
    // What queries of this device's block `mine` have of block `theirs` of what has come.
    const auto visit = [&](auto mine, auto theirs) {
      const auto q0 = (me + mine * (2 * devices - 1 - 2 * me)) * rows;
      const auto k0 = (from + theirs * (2 * devices - 1 - 2 * from)) * rows;
      const int length = all - missing;
      const float factor = scale * kLog2E;
      env.loop(0, group, [&](auto g) {
        const auto i = g * 2 + mine;
        auto s =
            load(dot(*queries.slot(i), transpose(*keys.slot(slot * 2 + theirs))));  // (br, br) f32
        if (!seen.all_seen(length, q0, rows, k0, rows)) {
          s = where_at(
              s, [=](auto r, auto c) { return seen.sees(length, q0 + r, k0 + c); }, kMinusInf);
        }
        const auto m_new = load(max(*m.slot(i), row_max(s)));                      // (br, 1)
        const auto shift = load(where(m_new == kMinusInf, 0.f, m_new * -factor));  // no key yet
        const auto p = load(exp2(fma(s, factor, shift)));                 // (br, br), in [0, 1]
        const auto rescale = load(exp2(fma(*m.slot(i), factor, shift)));  // (br, 1)
        *l.slot(i) = *l.slot(i) * rescale + row_sum(p);
        *acc.slot(i) = *acc.slot(i) * rescale;
        *acc.slot(i) += dot(cast<T>(p), *values.slot(slot * 2 + theirs));
        *m.slot(i) = m_new;
      });
    };
    const auto other = lesser(greater(step - me, 0), 1);  // 1: what has come is from behind
    visit(1, 0);
    visit(other, other);
    if (causal == 0) visit(0, 1);
    if (causal == 0 || step == 0) visit(1 - other, 1 - other);
    if (passes) {
      for (int half = 0; half < 2; ++half) {
        pass(keys, half).wait_send();
        pass(values, half).wait_send();
      }
      if (step + 2 < devices) semaphore_signal(freed, 1, ring_mod(me - 1, devices));
      for (int half = 0; half < 2; ++half) {
        pass(keys, half).wait_recv();
        pass(values, half).wait_recv();
      }
    }
    if (env.last(1)) {
      env.loop(0, 2 * group, [&](auto i) {
        *o.at(i) = cast<T>(*acc.slot(i) / where(*l.slot(i) == 0.f, 1.f, *l.slot(i)));  // (br, bd)
        *lse.at(i) = *m.slot(i) * scale + log(*l.slot(i));                             // (br, 1)
      });
    }
  }

  template <class Host>
  void prepare(Host&, Tiles) {
    scale = 1.f / std::sqrt(static_cast<float>(head_dim));
  }
};

}  // namespace tessera::kernels
