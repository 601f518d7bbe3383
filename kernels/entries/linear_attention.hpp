#pragma once

#include <algorithm>

#include "kernels/entry.hpp"
#include "kernels/linear_attention.hpp"
#include "reference/recurrence.hpp"

namespace tessera::kernels::entries {

template <template <class> class K, class T>
reference::Gates gates_of(const K<T>& k, const OracleInputs& in) {
  reference::Gates gates;
  if (k.gate == 1) gates.of_heads.assign(k.decays.data, k.decays.data + k.decays.size);
  if (k.bonus != 0) gates.bonus = &in["u"];
  gates.roundoff = kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
  return gates;
}

/// What one of several sequences has of arrays (1, heads, len, columns), and of those of states
/// (sequences, heads, dv, dk); all of them where there is one.
struct OneSequence {
  const OracleInputs& in;
  std::size_t of;
  std::size_t n;
  std::size_t from;
  std::size_t to;

  reference::Tensor steps(const char* name) const {
    const reference::Tensor& all = in[name];
    if (of == 1) return all;
    const std::size_t columns = all.shape[3];
    reference::Tensor part{{1, all.shape[1], to - from, columns}, {}};
    for (std::size_t h = 0; h < all.shape[1]; ++h) {
      const auto first =
          all.values.begin() + static_cast<std::ptrdiff_t>(h * all.shape[2] * columns);
      part.values.insert(part.values.end(), first + static_cast<std::ptrdiff_t>(from * columns),
                         first + static_cast<std::ptrdiff_t>(to * columns));
    }
    return part;
  }
  reference::Tensor state(const char* name) const {
    reference::Tensor all = in[name];
    if (of == 1) return all;
    const auto each = static_cast<std::ptrdiff_t>(all.values.size() / of);
    const auto first = all.values.begin() + static_cast<std::ptrdiff_t>(n) * each;
    all.values = std::vector<double>(first, first + each);
    all.shape[0] = 1;
    return all;
  }
};

/// Results of each sequence by itself, put together: the first `of_steps` along len, the others
/// one after the other.
template <class K, class OfOne>
std::vector<reference::Expected> of_sequences(const K& k, const OracleInputs& in,
                                              std::size_t of_steps, OfOne of_one) {
  const auto sequences = static_cast<std::size_t>(k.sequences);
  if (sequences == 1) return of_one(OneSequence{in, 1, 0, 0, 0});
  std::vector<reference::Expected> all;
  for (std::size_t n = 0; n < sequences; ++n) {
    const auto from = static_cast<std::size_t>(k.starts[static_cast<int>(n)]);
    const auto to = static_cast<std::size_t>(k.starts[static_cast<int>(n) + 1]);
    const std::vector<reference::Expected> one = of_one(OneSequence{in, sequences, n, from, to});
    all.resize(one.size());
    for (std::size_t r = 0; r < one.size(); ++r) {
      for (const auto part : {&reference::Expected::value, &reference::Expected::error}) {
        const reference::Tensor& its = one[r].*part;
        reference::Tensor& whole = all[r].*part;
        if (r >= of_steps) {
          whole.values.insert(whole.values.end(), its.values.begin(), its.values.end());
          whole.shape = its.shape;
          whole.shape[0] = n + 1;
          continue;
        }
        const std::size_t heads = its.shape[1];
        const std::size_t columns = its.shape[3];
        const auto len = static_cast<std::size_t>(k.len);
        whole.shape = {1, heads, len, columns};
        whole.values.resize(heads * len * columns);
        for (std::size_t h = 0; h < heads; ++h) {
          std::copy_n(
              its.values.begin() + static_cast<std::ptrdiff_t>(h * (to - from) * columns),
              (to - from) * columns,
              whole.values.begin() + static_cast<std::ptrdiff_t>((h * len + from) * columns));
        }
      }
    }
  }
  return all;
}

template <class T>
std::vector<reference::Expected> linear_attention_oracle(const LinearAttention<T>& k,
                                                         const OracleInputs& in) {
  return of_sequences(k, in, 1, [&](const OneSequence& one) {
    reference::Gates gates = gates_of(k, in);
    reference::Tensor g;
    reference::Tensor s0;
    if (k.gate == 2) gates.of_steps = &(g = one.steps("g"));
    if (k.stateful != 0) gates.state = &(s0 = one.state("s0"));
    return reference::linear_attention(one.steps("q"), one.steps("k"), one.steps("v"), gates);
  });
}

constexpr auto linear_attention =
    entry<LinearAttention>([](const auto& k, In in) { return linear_attention_oracle(k, in); });

}  // namespace tessera::kernels::entries
