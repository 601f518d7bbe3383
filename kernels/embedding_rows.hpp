// Rows of a table by their numbers: an embedding, and its mean-pooled form.
//
//   o[i] = table[ids[i]]
//   pooled:  o[i] = sum_t table[ids[t]] / (starts[i + 1] - starts[i]),   starts[i] <= t < starts[i
//   + 1];   weighted:  o[i] = sum_t weights[t] table[ids[t]] of the same t
//
// The mean of no row is 0. The table stays in HBM: numbers lie in SMEM, and each row that is named
// comes by a copy of its own, kSlots of them under way, whatever rows of o they are for. A row is
// an index of a leading dim, which no TPU tiles. Pooling: the mean mode of Facebook's and Google's
// "bags" of embeddings, Naumov et al., arXiv:1906.00091.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/mul.hpp"

namespace tessera::kernels {

template <class T>
struct EmbeddingRows {
  static constexpr KernelInfo info{
      .name = "embedding_rows",
      .summary = "rows of a table by their numbers, or means or weighted sums of several",
      .math =
          "o[i] = table[ids[i]], or mean of table[ids[t]], or sum of weights[t] table[ids[t]], "
          "starts[i] <= t < starts[i + 1]",
      .cites = "arXiv:1906.00091"};
  static constexpr int kSlots = 4;

  int m = 0;
  int n = 0;
  int d = 0;
  int bag = 0;
  int weighted = 0;

  Smem<int> ids;        ///< rows of the table, in the order of the rows of o
  Smem<int> starts;     ///< pooled: (m + 1), the first id of each row of o
  Smem<float> counts;   ///< pooled: ids of each row of o; 1 if it has none
  Smem<float> weights;  ///< weighted: of each id

  static constexpr auto sizes = params(
      size("m", &EmbeddingRows::m, "rows of o"), size("n", &EmbeddingRows::n, "rows of the table"),
      size("d", &EmbeddingRows::d, "columns"),
      size("bag", &EmbeddingRows::bag,
           "ids of a row of o, on average (or --input starts=); 0: one each, not pooled"),
      size("weighted", &EmbeddingRows::weighted,
           "1: pooled to sums by weights (or --input weights=), not to means"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bd", "d"));
  static constexpr std::array cases{Case{"aligned", {64, 512, 256, 0, 0}, {16, 256}},
                                    Case{"pooled", {40, 200, 256, 5, 0}, {16, 256}},
                                    Case{"ragged, pooled", {41, 97, 300, 3, 0}, {16, 300}},
                                    Case{"weighted", {33, 60, 256, 4, 1}, {16, 256}},
                                    Case{"degenerate", {1, 1, 1, 0, 0}, {1, 1}}};

  const char* valid(Tiles t) const {
    if (weighted != 0 && bag == 0) return "weights are of ids that are pooled: bag";
    return t[1] == d ? nullptr : "bd must be d: whole rows are copied";
  }

  TESSERA_FN auto spec(auto bm, auto bd) const {
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i")), scalars("ids", ids), scalars("starts", starts),
        scalars("counts", counts), scalars("weights", weights), hbm_in<T>("table", shape(n, 1, d)),
        out<T>("o", shape(m, 1, d), block(bm, Int<1>{}, bd), [](auto i) { return at(i, 0, 0); }),
        vmem<T>("rows", Int<kSlots>{}, Int<1>{}, bd), dma_sem("sems", Int<kSlots>{}),
        accum<float>("sum", Int<1>{}, bd));
  }

  /// A row of the table for every id, o once, numbers once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t row = d * kBytes<T>;
    const std::int64_t scalars = std::int64_t{ids.size} + starts.size + counts.size + weights.size;
    return {(bag > 0 ? starts[m] - starts[0] : m) * row + scalars * 4, m * row};
  }

  TESSERA_FN void operator()(auto& env, auto table, auto o, auto rows, auto sems, auto sum) const {
    const auto first = env.program_id(0) * o.rows;
    const auto last = lesser(first + o.rows, m);
    const auto copy = [&](auto t) {
      return make_async_copy(table.at(ids[t]), rows.slot(t % kSlots), sems[t % kSlots]);
    };
    // Row t, with those after it under way, up to `end`.
    const auto arrive = [&](auto t, auto end) {
      if (t + (kSlots - 1) < end) copy(t + (kSlots - 1)).start();
      copy(t).wait();
    };
    const auto begin = [&](auto from, auto end) {
      env.loop(from, lesser(from + (kSlots - 1), end), [&](auto t) { copy(t).start(); });
    };
    if (bag == 0) {
      begin(first, last);
      env.loop(first, last, [&](auto t) {
        arrive(t, last);
        *o.at(t - first) = *rows.slot(t % kSlots);  // (1, bd) T
      });
    } else {
      const auto end = starts[last];
      begin(starts[first], end);
      env.loop(first, last, [&](auto i) {
        *sum = 0.f;  // (1, bd) f32
        env.loop(starts[i], starts[i + 1], [&](auto t) {
          arrive(t, end);
          if (weighted != 0)
            *sum += cast<float>(*rows.slot(t % kSlots)) * weights[t];
          else
            *sum += cast<float>(*rows.slot(t % kSlots));
        });
        if (weighted == 0) *sum = *sum / counts[i];
        *o.at(i - first) = cast<T>(*sum);  // (1, bd) T
      });
    }
  }

  /// Bags of uneven sizes, some of them empty.
  template <class Host>
  void prepare(Host& host, Tiles) {
    std::vector<int> bounds;
    std::vector<float> sizes_of;
    int named = m;
    if (bag > 0) {
      bounds.assign(static_cast<std::size_t>(m), 0);
      for (std::size_t i = 1; i < bounds.size(); ++i) bounds[i] = host.random(0, m * bag);
      std::sort(bounds.begin(), bounds.end());
      bounds.push_back(m * bag);
      starts = host.scalars("starts", std::move(bounds));
      if (starts.size != m + 1) host.fail("starts has m + 1 entries");
      for (int i = 0; i < m; ++i) {
        if (starts[i] < 0 || starts[i + 1] < starts[i]) host.fail("starts rise from 0 or more");
        sizes_of.push_back(static_cast<float>(greater(starts[i + 1] - starts[i], 1)));
      }
      named = starts[m];
    } else {
      starts = host.keep("starts", std::move(bounds));
    }
    counts = host.keep("counts", std::move(sizes_of));
    std::vector<float> shares;
    for (int t = 0; weighted != 0 && t < named; ++t)
      shares.push_back(static_cast<float>(host.random(0, 1 << 20)) * 0x1p-20f);
    weights = weighted != 0 ? host.scalars("weights", std::move(shares))
                            : host.keep("weights", std::move(shares));
    if (weighted != 0 && weights.size < named) host.fail("there are as many weights as ids");
    std::vector<int> drawn;
    for (int t = 0; t < named; ++t) drawn.push_back(host.random(0, n - 1));
    ids = host.scalars("ids", std::move(drawn));
    if (ids.size < named) host.fail("there are as many ids as rows of o ask for");
    for (int t = 0; t < ids.size; ++t) {
      if (ids[t] < 0 || ids[t] >= n) host.fail("ids name rows of the table");
    }
  }
};

}  // namespace tessera::kernels
