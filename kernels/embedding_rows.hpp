// Rows of a table by their numbers: an embedding, and its mean-pooled form.
//
//   o[i] = table[ids[i]]
//   pooled:  o[i] = sum_t table[ids[t]] / (starts[i + 1] - starts[i]),   starts[i] <= t < starts[i
//   + 1];   weighted:  o[i] = sum_t weights[t] table[ids[t]] of the same t
//
// back: their gradient by the table, from dy by o,
//   dtable[j] = sum of weight(t) dy[row(t)] over ids[t] = j,   weight(t): 1, that of a mean, or
//   weights[t]
// which are sums of rows of dy by numbers that the host has sorted by id: in the order of t, each
// row of the result written once, those that no id names as zeros.
//
// The mean of no row is 0. The table, or dy, stays in HBM: numbers lie in SMEM, and each row that
// is named comes by a copy of its own, kSlots of them under way, whatever rows of o they are for. A
// row is an index of a leading dim, which no TPU tiles. Pooling: the mean mode of Facebook's and
// Google's "bags" of embeddings, Naumov et al., arXiv:1906.00091.
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
          "starts[i] <= t < starts[i + 1]; back: dtable[j] = sum of dy[row of t], weighted "
          "likewise, over ids[t] = j",
      .cites = "arXiv:1906.00091"};
  static constexpr int kSlots = 4;

  int m = 0;
  int n = 0;
  int d = 0;
  int bag = 0;
  int weighted = 0;
  int back = 0;

  Smem<int> ids;        ///< rows of what is read, in the order of those of the result
  Smem<int> starts;     ///< sums: the first id of each row of the result, and their end
  Smem<float> counts;   ///< means: ids of each row of the result; 1 if it has none
  Smem<float> weights;  ///< weighted sums: of each id

  Smem<int> forward_ids;  ///< back: the host's, of what this is the gradient of
  Smem<int> forward_starts;
  Smem<float> forward_weights;

  static constexpr auto sizes = params(
      size("m", &EmbeddingRows::m, "rows of o"), size("n", &EmbeddingRows::n, "rows of the table"),
      size("d", &EmbeddingRows::d, "columns"),
      size("bag", &EmbeddingRows::bag,
           "ids of a row of o, on average (or --input starts=); 0: one each, not pooled"),
      size("weighted", &EmbeddingRows::weighted,
           "1: pooled to sums by weights (or --input weights=), not to means"),
      size("back", &EmbeddingRows::back, "1: the gradient by the table of all this, from dy"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bd", "d"));
  static constexpr std::array cases{
      Case{"aligned", {64, 512, 256, 0, 0, 0}, {16, 256}},
      Case{"pooled", {40, 200, 256, 5, 0, 0}, {16, 256}},
      Case{"ragged, pooled", {41, 97, 300, 3, 0, 0}, {16, 300}},
      Case{"weighted", {33, 60, 256, 4, 1, 0}, {16, 256}},
      Case{"gradient", {90, 64, 256, 0, 0, 1}, {16, 256}},
      Case{"gradient, pooled, ragged", {41, 37, 300, 3, 0, 1}, {16, 300}},
      Case{"gradient, weighted", {33, 60, 256, 4, 1, 1}, {16, 256}},
      Case{"degenerate", {1, 1, 1, 0, 0, 0}, {1, 1}}};

  const char* valid(Tiles t) const {
    if (weighted != 0 && bag == 0) return "weights are of ids that are pooled: bag";
    return t[1] == d ? nullptr : "bd must be d: whole rows are copied";
  }

  /// Rows of what is read, and of the result.
  TESSERA_FN int from() const { return back != 0 ? m : n; }
  TESSERA_FN int to() const { return back != 0 ? n : m; }
  TESSERA_FN bool sums() const { return bag > 0 || back != 0; }
  TESSERA_FN bool means() const { return bag > 0 && weighted == 0 && back == 0; }
  TESSERA_FN bool by_weights() const { return weighted != 0 || (bag > 0 && back != 0); }

  TESSERA_FN auto spec(auto bm, auto bd) const {
    return tessera::spec(grid(parallel(ceil_div(to(), bm)).as("i")), scalars("ids", ids),
                         scalars("starts", starts), scalars("counts", counts),
                         scalars("weights", weights),
                         hbm_in<T>(back != 0 ? "dy" : "table", shape(from(), 1, d)),
                         out<T>(back != 0 ? "dtable" : "o", shape(to(), 1, d),
                                block(bm, Int<1>{}, bd), [](auto i) { return at(i, 0, 0); }),
                         vmem<T>("rows", Int<kSlots>{}, Int<1>{}, bd),
                         dma_sem("sems", Int<kSlots>{}), accum<float>("sum", Int<1>{}, bd));
  }

  /// A row of what is read for every id, the result once, numbers once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t row = d * kBytes<T>;
    const std::int64_t scalars = std::int64_t{ids.size} + starts.size + counts.size + weights.size;
    return {(sums() ? starts[to()] - starts[0] : m) * row + scalars * 4, to() * row};
  }

  TESSERA_FN void operator()(auto& env, auto table, auto o, auto rows, auto sems, auto sum) const {
    const auto first = env.program_id(0) * o.rows;
    const auto last = lesser(first + o.rows, to());
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
    if (!sums()) {
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
          if (by_weights())
            *sum += cast<float>(*rows.slot(t % kSlots)) * weights[t];
          else
            *sum += cast<float>(*rows.slot(t % kSlots));
        });
        if (means()) *sum = *sum / counts[i];
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
    if (back != 0) sort_by_id(host, named);
  }

  /// What is read, and where it goes, the other way round.
  template <class Host>
  void sort_by_id(Host& host, int named) {
    struct Place {
      int row;
      float weight;
    };
    std::vector<std::vector<Place>> of_id(static_cast<std::size_t>(n));
    for (int t = bag > 0 ? starts[0] : 0, row = 0; t < named; ++t) {
      while (bag > 0 && starts[row + 1] <= t) ++row;
      const float weight = weighted != 0 ? weights[t] : bag > 0 ? 1.f / counts[row] : 1.f;
      of_id[static_cast<std::size_t>(ids[t])].push_back({bag > 0 ? row : t, weight});
    }
    std::vector<int> first{0};
    std::vector<int> rows;
    std::vector<float> shares;
    for (const auto& places : of_id) {
      for (const Place& place : places) {
        rows.push_back(place.row);
        if (by_weights()) shares.push_back(place.weight);
      }
      first.push_back(static_cast<int>(rows.size()));
    }
    forward_ids = ids;
    forward_starts = starts;
    forward_weights = weights;
    ids = host.keep("rows_by_id", std::move(rows));
    starts = host.keep("id_starts", std::move(first));
    counts = host.keep("no_counts", std::vector<float>{});
    weights = host.keep("weights_by_id", std::move(shares));
  }
};

}  // namespace tessera::kernels
