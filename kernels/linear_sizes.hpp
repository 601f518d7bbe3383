// Sizes of linear attention and of its gradients, and the rows of a chunk that a sequence has.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/smem.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/cumsum.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/min.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

/// Scalars `decays`, logarithms of what each head keeps in a step, from fast to slow as Lightning
/// Attention has them; nothing unless they are wanted.
template <class Host>
Smem<float> decays_of_heads(Host& host, bool wanted, int heads) {
  std::vector<float> made;
  for (int h = 0; wanted && h < heads; ++h)
    made.push_back(-std::exp2(-8.f * static_cast<float>(h + 1) / static_cast<float>(heads)));
  if (!wanted) return host.keep("decays", std::move(made));
  const Smem<float> decays = host.scalars("decays", std::move(made));
  if (decays.size != heads) host.fail("decays has one entry per head");
  for (int h = 0; h < heads; ++h) {
    if (!(decays[h] <= 0)) host.fail("decays are logarithms of factors of at most 1");
  }
  return decays;
}

/// Rows [begin, end) of a chunk.
template <class Begin, class End>
struct RowsOfChunk {
  Begin begin;
  End end;
};

struct LinearSizes {
  int batch = 1;
  int heads = 1;
  int len = 0;
  int dk = 0;
  int dv = 0;
  int gate = 0;
  int stateful = 0;
  int sequences = 1;
  int bonus = 0;
  int decay_grad = 0;  ///< of linear_attention_dkv alone: nvcc lists members of one class only

  float scale = 0;     ///< 1 / sqrt(dk)
  Smem<float> decays;  ///< gate 1: g of each head
  Smem<int> starts;    ///< of several sequences: the first step of each, and len

  static constexpr auto sizes =
      params(size("batch", &LinearSizes::batch, "sequences"),
             size("heads", &LinearSizes::heads, "heads"), size("len", &LinearSizes::len, "steps"),
             size("dk", &LinearSizes::dk, "columns of q, k, g and their gradients"),
             size("dv", &LinearSizes::dv, "columns of v, o and their gradients"),
             size("gate", &LinearSizes::gate, "0: none; 1: of heads (--input decays=); 2: input g"),
             size("stateful", &LinearSizes::stateful, "1: from a state; gradients: also to it"),
             size("sequences", &LinearSizes::sequences,
                  "that lie one after the other along len (--input starts=); batch is 1 then"),
             size("bonus", &LinearSizes::bonus,
                  "1: input u weighs a step's own term, which no gate does"));
  static constexpr auto tiles = tile_names(tile("bt"), tile("bk", "dk"), tile("bv", "dv"),
                                           tile("state", "stateful"), tile("own", "bonus"));

  const char* valid(Tiles t) const {
    return t[1] != dk || t[2] != dv ? "blocks have whole rows: bk = dk, bv = dv" : fault(t);
  }
  /// Why these sizes cannot run with these tiles, their columns aside, or nullptr.
  const char* fault(Tiles t) const {
    if (t[3] != stateful) return "a build begins with a state, or has none: state = stateful";
    if (t[4] != bonus || bonus < 0 || bonus > 1)
      return "a build has a bonus, 1, or none, 0: own = bonus";
    if (sequences < 1 || (sequences > 1 && batch > 1))
      return "several sequences lie in one batch entry: batch = 1";
    return gate >= 0 && gate <= 2 ? nullptr : "gate is 0, 1 or 2";
  }

  /// Chunks [lo, hi) of steps that sequence `n` has rows of; at least one. Those of the next begin
  /// with the last of them, or behind.
  TESSERA_FN auto first_chunk(auto n, int bt) const {
    const int chunks = ceil_div(len, bt);
    auto lo = lesser(n, 0);
    if (sequences > 1) lo = lesser(starts[n] / bt, chunks - 1);
    return lo;
  }
  TESSERA_FN auto end_chunk(auto n, int bt) const {
    auto hi = greater(n, 0) * 0 + ceil_div(len, bt);
    if (sequences > 1) hi = greater(ceil_div(starts[n + 1], bt), first_chunk(n, bt) + 1);
    return hi;
  }
  /// Rows of a chunk that are sequence n's.
  TESSERA_FN auto rows_of(auto n, auto chunk, int bt) const {
    auto begin = lesser(n, 0);
    auto end = lesser(len - chunk * bt, bt);
    if (sequences > 1) {
      begin = lesser(greater(starts[n] - chunk * bt, 0), bt);
      end = lesser(greater(starts[n + 1] - chunk * bt, 0), bt);
    }
    return RowsOfChunk<decltype(begin), decltype(end)>{begin, end};
  }

  /// A: the sum of g from the chunk's first row of the sequence, (bt, bk) f32; 0 before, and what
  /// it is in the end behind. `g` is the block of gates, which only gate 2 reads.
  template <class Env, class Ref, class G, class Rows>
  TESSERA_FN auto sums_of_gates(Env& env, const Ref& like, G g, const Rows& rows, auto h) const {
    auto sum = load(full<float>(env, like.rows, like.cols, 0.f));
    const auto begin = rows.begin;
    const auto end = rows.end;
    if (gate == 1) {
      if (sequences > 1)
        sum = load(cast<float>(max(min(row_ids(sum) + 1, end) - begin, 0)) * decays[h]);
      else
        sum = load(cast<float>(min(row_ids(sum) + 1, end)) * decays[h]);
    }
    if (gate == 2) {
      if (sequences > 1)
        sum = load(cumsum_rows(where_at(
            *g, [=](auto r, auto) { return begin <= r && r < end; }, 0.f)));
      else
        sum = load(cumsum_rows(*g));
    }
    return sum;
  }
  /// Of sums of gates, those before each step's own gate: what queries see with a bonus.
  template <class Sum, class G>
  TESSERA_FN auto sums_before(const Sum& sum, G g, auto h) const {
    auto before = sum;
    if (gate == 1) before = load(sum - decays[h]);
    if (gate == 2) before = load(sum - *g);
    return before;
  }
  /// Bytes of the bonus, (heads, dk) f32: it changes with the head.
  std::int64_t bonus_bytes(Target target) const {
    const int times = heads == 1 && target.keeps_blocks ? 1 : batch;
    return bonus != 0 ? std::int64_t{times} * heads * dk * kBytes<float> : 0;
  }
  /// Of several sequences, leaves nothing in the rows of others.
  template <class Ref, class Rows>
  TESSERA_FN void clear_others(Ref ref, const Rows& rows) const {
    const auto begin = rows.begin;
    const auto end = rows.end;
    if (sequences > 1) {
      *ref = where_at(
          *ref, [=](auto r, auto) { return begin <= r && r < end; }, 0.f);
    }
  }
  /// Stores what a sequence has of a chunk: the others store theirs when it is their turn.
  template <class Ref, class Value, class Rows>
  TESSERA_FN void store_rows(Ref ref, const Value& value, const Rows& rows) const {
    const auto begin = rows.begin;
    const auto end = rows.end;
    if (sequences > 1)
      ref.store_at(value, [=](auto r, auto) { return begin <= r && r < end; });
    else
      *ref = value;
  }

  /// Made-up starts: uneven ones from the seed, the second sequence empty.
  template <class Host>
  void prepare(Host& host, Tiles) {
    scale = 1.f / std::sqrt(static_cast<float>(dk));
    decays = decays_of_heads(host, gate == 1, heads);
    std::vector<int> made;
    if (sequences == 1) {
      starts = host.keep("starts", std::move(made));
      return;
    }
    made = {0, len};
    for (int n = 1; n < sequences; ++n) made.push_back(n == 2 ? made[2] : host.random(0, len));
    for (std::size_t a = 0; a < made.size(); ++a) {
      for (std::size_t b = a + 1; b < made.size(); ++b) {
        if (made[b] < made[a]) std::swap(made[a], made[b]);
      }
    }
    starts = host.scalars("starts", std::move(made));
    if (starts.size != sequences + 1) host.fail("starts has an entry per sequence, and len");
    for (int n = 0; n < sequences; ++n) {
      if (starts[n] > starts[n + 1]) host.fail("starts do not descend");
    }
    if (starts[0] != 0 || starts[sequences] != len) host.fail("starts go from 0 to len");
  }
};

}  // namespace tessera::kernels
