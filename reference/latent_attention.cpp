#include "reference/latent_attention.hpp"

#include <cmath>

#include "reference/attended_row.hpp"
#include "reference/xtensor_view.hpp"

namespace tessera::reference {

namespace {

/// All tokens of the cache times one head's projection, and how far f32 or bf16 may be from that.
struct Projected {
  Matrix value;
  Matrix error;
};
Projected project(const Matrix& tokens, const Tensor& w, std::size_t head, bool in_bf16) {
  const std::size_t rank = w.shape[1];
  const std::size_t n = w.shape[2];
  Matrix right = xt::zeros<double>({rank, n});
  for (std::size_t i = 0; i < rank * n; ++i) right(i / n, i % n) = w.values[head * rank * n + i];
  Projected p{product(tokens, right), product_error(tokens, right)};
  if (in_bf16) p.error += kUBf16 * (xt::abs(p.value) + p.error);
  return p;
}

}  // namespace

Expected latent_attention(const Tensor& q, const Tensor& qr, const Tensor& c, const Tensor& kr,
                          const Latent& latent) {
  const std::size_t batch = q.shape[0];
  const std::size_t outer = q.shape[1];
  const std::size_t rows = q.shape[2];
  const std::size_t n = q.shape[3];
  const std::size_t rope = qr.shape[3];
  const std::size_t page = c.shape[1];
  const std::size_t rank = c.shape[2];
  const std::size_t each = latent.table.size() / batch;
  const double scale = 1 / std::sqrt(3. * static_cast<double>(rope));
  const Matrix tokens = xt::adapt(c.values, std::vector<std::size_t>{c.shape[0] * page, rank});
  Expected e{q, q};
  for (std::size_t h = 0; h < outer; ++h) {
    Projected keys{tokens, xt::zeros<double>({tokens.shape(0), rank})};
    Projected values = keys;
    if (latent.wk != nullptr) {
      keys = project(tokens, *latent.wk, h, latent.in_bf16);
      values = project(tokens, *latent.wv, h, latent.in_bf16);
    }
#pragma omp parallel for schedule(dynamic)
    for (std::size_t at = 0; at < batch * rows; ++at) {
      const std::size_t b = at / rows;
      const std::size_t row = (b * outer + h) * rows + at % rows;
      const int length = latent.lengths[b];
      const int query =
          static_cast<int>(at % rows / (rows / static_cast<std::size_t>(latent.q_len)));
      const int end = latent.causal ? length - latent.q_len + query + 1 : length;
      std::vector<SeenKey> seen;
      for (int j = 0; j < end; ++j) {
        const auto in_page = static_cast<std::size_t>(j) % page;
        const auto token =
            static_cast<std::size_t>(latent.table[b * each + static_cast<std::size_t>(j) / page]) *
                page +
            in_page;
        double s = 0;
        double magnitude = 0;
        double of_key = 0;
        for (std::size_t i = 0; i < n; ++i) {
          s += q.values[row * n + i] * keys.value(token, i);
          magnitude += std::abs(q.values[row * n + i] * keys.value(token, i));
          of_key += std::abs(q.values[row * n + i]) * keys.error(token, i);
        }
        for (std::size_t i = 0; i < rope; ++i) {
          s += qr.values[row * rope + i] * kr.values[token * rope + i];
          magnitude += std::abs(qr.values[row * rope + i] * kr.values[token * rope + i]);
        }
        const double depth = static_cast<double>(n + rope) + 2;
        const double error = of_key + depth * kU32 * (magnitude + of_key);
        seen.push_back({s * scale, error * scale + 3 * kU32 * std::abs(s * scale),
                        &values.value(token, 0), &values.error(token, 0)});
      }
      attended_row(
          seen, n,
          {std::ceil(static_cast<double>(std::max(end, 0)) / static_cast<double>(page)) + 1,
           latent.in_bf16},
          e.value.values.data() + row * n, e.error.values.data() + row * n);
    }
  }
  return e;
}

}  // namespace tessera::reference
