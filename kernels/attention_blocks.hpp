// Which blocks of keys and queries meet under the masks of attention, for its forward pass and its
// gradients.
#pragma once

#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/smem.hpp"

namespace tessera::kernels {

/// Key j is seen by query i if j < the entry's length; causal: j <= i; window: j > i - window, and
/// j < i + window unless causal. Results may name nothing: the least, or the end, lies beyond then.
struct SeenKeys {
  int q_len;
  int kv_len;
  bool causal;
  int window;  ///< 0: none

  /// First key, and one past the last, that queries [q0, q0 + rows) see.
  TESSERA_FN auto first_key(auto q0) const {
    return greater(q0 - (window > 0 ? window - 1 : q_len), 0);
  }
  TESSERA_FN auto end_key(auto length, auto q0, int rows) const {
    const auto last_query = lesser(q0 + rows, q_len) - 1;
    auto end = length;
    if (causal)
      end = lesser(end, last_query + 1);
    else if (window > 0)
      end = lesser(end, last_query + window);
    return end;
  }
  /// First query, and one past the last, that see one of keys [k0, k0 + rows).
  TESSERA_FN auto first_query(auto k0) const {
    return greater(k0 - (causal ? 0 : window > 0 ? window - 1 : kv_len), 0);
  }
  TESSERA_FN auto end_query(auto length, auto k0, int rows) const {
    const auto last_key = lesser(k0 + rows, length) - 1;
    const auto queries = lesser(greater(length - k0, 0), 1) * q_len;  // none: no key is there
    return lesser(last_key + reach(), queries);
  }
  /// True if every query of the block sees every key of the other.
  TESSERA_FN auto all_seen(auto length, auto q0, int q_rows, auto k0, int k_rows) const {
    const int w = reach();
    return k0 + k_rows <= length && k0 > q0 + q_rows - 1 - w &&
           k0 + k_rows - 1 < q0 + (causal ? 1 : w);
  }
  TESSERA_FN auto sees(auto length, auto i, auto j) const {
    const int w = reach();
    return j < length && j > i - w && (causal ? j <= i : j < i + w);
  }
  TESSERA_FN int reach() const { return window > 0 ? window : q_len + kv_len; }
};

/// Blocks [lo, hi) of one side that a block of the other meets; at least one.
template <class Lo, class Hi>
struct Met {
  Lo lo;
  Hi hi;
};
TESSERA_FN auto met_blocks(auto first, auto end, int extent, int block) {
  const auto lo = lesser(first / block, ceil_div(extent, block) - 1);
  const auto hi = greater(ceil_div(greater(end, 0), block), lo + 1);
  return Met<std::remove_const_t<decltype(lo)>, std::remove_const_t<decltype(hi)>>{lo, hi};
}

/// Elements along the met side of blocks [lo, hi), less those of the first if it is there already.
inline std::int64_t met_elems(int lo, int hi, int extent, int block, bool first_is_there) {
  return lesser(hi * block, extent) -
         (first_is_there ? lesser((lo + 1) * block, extent) : lo * block);
}

/// Keys of each batch entry: all, or uneven numbers of them.
template <class Host>
Smem<int> key_lengths(Host& host, int batch, int kv_len, bool uneven) {
  std::vector<int> lengths(static_cast<std::size_t>(batch), kv_len);
  if (uneven) {
    for (std::size_t b = 0; b < lengths.size(); ++b)
      lengths[b] = host.random(b == 0 ? 0 : kv_len / 4, kv_len);
  }
  const Smem<int> kept = host.scalars("kv_lengths", std::move(lengths));
  if (kept.size != batch) host.fail("kv_lengths has one entry per batch entry");
  for (int b = 0; b < batch; ++b) {
    if (kept[b] < 0 || kept[b] > kv_len) host.fail("kv_lengths lie in [0, kv_len]");
  }
  return kept;
}

/// Sorted segment ids of each entry.
template <class Host>
std::vector<int> segment_ids(Host& host, int batch, int length) {
  constexpr int kSegments = 4;
  std::vector<int> ids;
  for (int b = 0; b < batch; ++b) {
    int cuts[kSegments - 1];
    for (int& cut : cuts) cut = host.random(0, length);
    for (int i = 0; i < length; ++i) {
      int id = 0;
      for (const int cut : cuts) id += i >= cut ? 1 : 0;
      ids.push_back(id);
    }
  }
  return ids;
}

/// For every block of one side, the first place of the other with a segment id of the block's, and
/// one past the last: entry by entry. Both 0 if there is none.
struct SegmentBounds {
  std::vector<int> begin;
  std::vector<int> end;

  SegmentBounds(const std::vector<int>& ids, int block, const std::vector<int>& others, int batch) {
    const int length = static_cast<int>(ids.size()) / batch;
    const int other_length = static_cast<int>(others.size()) / batch;
    for (int b = 0; b < batch; ++b) {
      for (int i0 = 0; i0 < length; i0 += block) {
        int from = other_length;
        int to = 0;
        for (int j = 0; j < other_length; ++j) {
          bool seen = false;
          for (int i = i0; i < lesser(i0 + block, length); ++i) {
            seen = seen || ids[static_cast<std::size_t>(b * length + i)] ==
                               others[static_cast<std::size_t>(b * other_length + j)];
          }
          if (!seen) continue;
          from = lesser(from, j);
          to = j + 1;
        }
        begin.push_back(lesser(from, to));
        end.push_back(to);
      }
    }
  }
};

}  // namespace tessera::kernels
