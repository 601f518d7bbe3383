#include "reference/recurrence.hpp"

#include <cmath>

#include "reference/xtensor_view.hpp"

namespace tessera::reference {

namespace {
constexpr double kTiny = 0x1p-140;  // a few of the smallest f32 subnormals
}  // namespace

std::vector<Expected> linear_recurrence(const Tensor& a, const Tensor& b, const Tensor& h0,
                                        bool reverse) {
  const auto decay = to_xarray(a);
  const auto drive = to_xarray(b);
  const auto start = to_xarray(h0);
  xt::xarray<double> h = xt::zeros_like(drive);
  xt::xarray<double> h_error = xt::zeros_like(drive);
  xt::xarray<double> last = start;
  xt::xarray<double> last_error = xt::zeros_like(start);
  const std::size_t len = a.shape[1];
  const double pairs = std::log2(static_cast<double>(len)) + 8;
  const double slack = 1 + 4 * kU32 * static_cast<double>(len);  // of roundings of rounded terms
  using Vector = xt::xtensor<double, 1>;
  for (std::size_t n = 0; n < a.shape[0]; ++n) {
    Vector s = xt::view(start, n, 0);
    Vector size = xt::abs(s);  // the same sums of magnitudes
    Vector error = xt::zeros_like(s);
    for (std::size_t i = 0; i < len; ++i) {
      const std::size_t t = reverse ? len - 1 - i : i;
      const Vector factor = xt::view(decay, n, t);
      const Vector term = xt::view(drive, n, t);
      s = Vector(factor * s + term);
      size = Vector(xt::abs(factor) * size + xt::abs(term));
      // Products of factors in any order, and sums of as many terms as steps, or in pairs of pairs.
      error = Vector(xt::abs(factor) * error + 2 * kU32 * size);
      const Vector most = (error + pairs * kU32 * size) * slack + kTiny;
      xt::view(h, n, t) = s;
      xt::view(h_error, n, t) = most;
      xt::view(last_error, n, 0) = most;
    }
    xt::view(last, n, 0) = s;
  }
  return {{to_tensor(h), to_tensor(h_error)}, {to_tensor(last), to_tensor(last_error)}};
}

std::vector<Expected> linear_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const Gates& gates) {
  const std::size_t heads = q.shape[1];
  const std::size_t len = q.shape[2];
  const std::size_t dk = q.shape[3];
  const std::size_t dv = v.shape[3];
  const double scale = 1 / std::sqrt(static_cast<double>(dk));
  const auto steps = static_cast<double>(len);
  Tensor o{v.shape, std::vector<double>(v.values.size())};
  Tensor o_error = o;
  const std::size_t states = q.shape[0] * heads * dv * dk;
  Tensor s{{q.shape[0], heads, dv, dk}, std::vector<double>(states)};
  Tensor s_error = s;
  for (std::size_t head = 0; head < q.shape[0] * heads; ++head) {
    const auto rows = [&](const Tensor& t, std::size_t columns) {
      const double* first = t.values.data() + head * len * columns;
      Matrix m = xt::zeros<double>({len, columns});
      std::copy(first, first + len * columns, m.data());
      return m;
    };
    const Matrix queries = rows(q, dk);
    const Matrix keys = rows(k, dk);
    const Matrix values = rows(v, dv);
    Matrix g = xt::zeros<double>({len, dk});
    if (!gates.of_heads.empty()) g += gates.of_heads[head % heads];
    if (gates.of_steps != nullptr) g = rows(*gates.of_steps, dk);
    Matrix state = xt::zeros<double>({dv, dk});
    if (gates.state != nullptr) {
      const double* first = gates.state->values.data() + head * dv * dk;
      std::copy(first, first + dv * dk, state.data());
    }
    Matrix size = xt::abs(state);  // the same sums of magnitudes
    // Of a term, in chunks of any length: sums of dk products and of as many steps, a state that is
    // decayed and added to, exps of differences of running sums of g.
    const xt::xtensor<double, 1> forgotten = xt::sum(xt::abs(g), {0});
    const double exponents =
        2 * (std::log2(steps) + 4) * *std::max_element(forgotten.begin(), forgotten.end());
    const double f32 = std::expm1(kU32 * (static_cast<double>(dk) + 6 * steps + 24 + exponents));
    // Factors are rounded: of queries and keys, then of scores; or of keys, queries and a state.
    const double rounded = 3 * gates.roundoff * (1 + 2 * gates.roundoff);
    for (std::size_t t = 0; t < len; ++t) {
      for (std::size_t j = 0; j < dv; ++j) {
        double sum = 0;
        double sizes = 0;
        for (std::size_t c = 0; c < dk; ++c) {
          const double decay = std::exp(g(t, c));
          state(j, c) = decay * state(j, c) + keys(t, c) * values(t, j);
          size(j, c) = decay * size(j, c) + std::abs(keys(t, c) * values(t, j));
          sum += queries(t, c) * scale * state(j, c);
          sizes += std::abs(queries(t, c)) * scale * size(j, c);
        }
        const std::size_t at = (head * len + t) * dv + j;
        o.values[at] = sum;
        o_error.values[at] = sizes * (f32 + rounded) * (1 + f32) + kTiny;
      }
    }
    for (std::size_t i = 0; i < dv * dk; ++i) {
      s.values[head * dv * dk + i] = state.data()[i];
      s_error.values[head * dv * dk + i] =
          size.data()[i] * (f32 + gates.roundoff) * (1 + f32) + kTiny;
    }
  }
  return {{o, o_error}, {s, s_error}};
}

}  // namespace tessera::reference
