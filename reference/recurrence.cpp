#include "reference/recurrence.hpp"

#include <algorithm>
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

std::vector<Expected> wkv(const Tensor& k, const Tensor& v, const Tensor& w, const Tensor& u,
                          const Tensor* s0) {
  const std::size_t len = k.shape[0];
  const std::size_t columns = k.shape[1] * k.shape[2];
  Tensor o{k.shape, std::vector<double>(k.values.size())};
  Tensor o_error = o;
  Tensor s{{3, k.shape[1], k.shape[2]}, std::vector<double>(3 * columns)};
  Tensor s_error = s;
  for (std::size_t i = 0; i < columns; ++i) {
    const double decay = w.values[i % k.shape[2]];
    const double bonus = u.values[i % k.shape[2]];
    const double nothing = -1e30;
    double sum = s0 != nullptr ? s0->values[i] : 0;
    double size = std::abs(sum);  // of the same terms' magnitudes
    double weight = s0 != nullptr ? s0->values[columns + i] : 0;
    double peak = s0 != nullptr ? s0->values[2 * columns + i] : nothing;
    double peak_error = 0;
    double slip = 0;  // of each weight, relative
    // exp of a difference that was rounded, and a product of it, relative.
    const auto slip_of = [](double difference) { return (8 + 4 * std::abs(difference)) * kU32; };
    for (std::size_t t = 0; t < len; ++t) {
      const std::size_t at = t * columns + i;
      const double key = k.values[at];
      const double value = v.values[at];
      const double newest = key + bonus;
      const bool first = weight == 0;
      const double top = std::max(newest, peak);
      const double before = std::exp(peak - top);
      const double now = std::exp(newest - top);
      const double all = before * weight + now;
      o.values[at] = (before * sum + now * value) / all;
      // Weights are off by `off` each: what is in both sums of all of them cancels.
      const double off = std::max(slip_of(newest - top) + kU32 * std::abs(newest),
                                  first ? 0 : slip + slip_of(peak - top)) +
                         8 * kU32;
      const double mean_size = (before * size + now * std::abs(value)) / all;
      o_error.values[at] = 2 * off * (1 + 4 * off) * (mean_size + std::abs(o.values[at])) +
                           0x1p-100 * (1 + mean_size);

      const double faded = peak + decay;
      const double faded_error = peak_error + 2 * kU32 * std::abs(faded);
      const double next = std::max(faded, key);
      if (first) {
        peak_error = 0;
        slip = slip_of(0);
      } else {
        const bool either = std::abs(faded - key) <= faded_error;
        peak_error = either || faded > key ? faded_error : 0;
        slip = std::max(slip + 2 * kU32 * std::abs(faded) + slip_of(faded - next),
                        slip_of(key - next));
      }
      const double kept = std::exp(faded - next);
      const double added = std::exp(key - next);
      sum = kept * sum + added * value;
      size = kept * size + added * std::abs(value);
      weight = kept * weight + added;
      peak = next;
    }
    const double off = (slip + peak_error) * (1 + 2 * (slip + peak_error));
    const double values[] = {sum, weight, peak};
    const double errors[] = {off * size, off * weight, peak_error};
    for (std::size_t part = 0; part < 3; ++part) {
      s.values[part * columns + i] = values[part];
      s_error.values[part * columns + i] = errors[part] + 0x1p-100;
    }
  }
  return {{o, o_error}, {s, s_error}};
}

std::vector<Expected> linear_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const Gates& gates) {
  const std::size_t heads = q.shape[1];
  const std::size_t len = q.shape[2];
  const std::size_t dk = q.shape[3];
  const std::size_t dv = v.shape[3];
  const double scale = 1 / std::sqrt(static_cast<double>(dk));
  const auto steps = std::max(static_cast<double>(len), 1.);
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
          const double added = keys(t, c) * values(t, j);
          if (gates.bonus != nullptr) {
            const double u = gates.bonus->values[head % heads * dk + c];
            sum += queries(t, c) * scale * (state(j, c) + u * added);
            sizes += std::abs(queries(t, c)) * scale * (size(j, c) + std::abs(u * added));
          }
          state(j, c) = decay * state(j, c) + added;
          size(j, c) = decay * size(j, c) + std::abs(added);
          if (gates.bonus != nullptr) continue;
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
