#include "reference/ring_attention.hpp"

#include <algorithm>
#include <cstddef>

namespace tessera::reference {

namespace {

/// The blocks of an array on devices, and of the sequence put together, head by head: which block
/// of `rows` x `columns` elements is which.
struct Order {
  std::size_t devices;
  std::size_t heads;
  std::size_t block;  ///< elements

  template <class Take>
  void each(Take take) const {
    for (std::size_t d = 0; d < devices; ++d) {
      for (std::size_t h = 0; h < heads; ++h) {
        for (std::size_t half = 0; half < 2; ++half) {
          const std::size_t place = half == 0 ? d : 2 * devices - 1 - d;
          take(((d * heads + h) * 2 + half) * block, (h * 2 * devices + place) * block);
        }
      }
    }
  }
  Tensor together(const Tensor& t, std::size_t columns) const {
    Tensor all{{1, heads, 2 * devices * block / columns, columns},
               std::vector<double>(t.values.size())};
    each([&](std::size_t from, std::size_t to) {
      std::copy_n(t.values.begin() + static_cast<std::ptrdiff_t>(from), block,
                  all.values.begin() + static_cast<std::ptrdiff_t>(to));
    });
    return all;
  }
  Tensor apart(const Tensor& t, std::vector<std::size_t> shape) const {
    Tensor all{std::move(shape), std::vector<double>(t.values.size())};
    each([&](std::size_t to, std::size_t from) {
      std::copy_n(t.values.begin() + static_cast<std::ptrdiff_t>(from), block,
                  all.values.begin() + static_cast<std::ptrdiff_t>(to));
    });
    return all;
  }
};

}  // namespace

std::vector<Expected> ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, int devices,
                                     const AttentionMask& mask) {
  const auto n = static_cast<std::size_t>(devices);
  const std::size_t kv_heads = q.shape[0] / n;
  const std::size_t heads = kv_heads * q.shape[1] / 2;
  const std::size_t rows = q.shape[2];
  const std::size_t columns = q.shape[3];
  const Order of_queries{n, heads, rows * columns};
  const Order of_keys{n, kv_heads, rows * columns};
  const std::vector<Expected> all =
      attention_with_lse(of_queries.together(q, columns), of_keys.together(k, columns),
                         of_keys.together(v, columns), mask);
  const Order of_rows{n, heads, rows};
  const std::vector<std::size_t> row_shape{q.shape[0], q.shape[1], rows, 1};
  return {{of_queries.apart(all[0].value, q.shape), of_queries.apart(all[0].error, q.shape)},
          {of_rows.apart(all[1].value, row_shape), of_rows.apart(all[1].error, row_shape)}};
}

}  // namespace tessera::reference
