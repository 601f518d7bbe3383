#include <algorithm>
#include <cmath>

#include "reference/recurrence.hpp"

namespace tessera::reference {

namespace {

constexpr double kTiny = 0x1p-140;  // a few of the smallest f32 subnormals

/// A head of arrays (batch, heads, steps, columns).
struct Rows {
  const double* first;
  std::size_t columns;

  double operator()(std::size_t t, std::size_t c) const { return first[t * columns + c]; }
};
Rows rows(const Tensor& t, std::size_t head) {
  return {t.values.data() + head * t.shape[2] * t.shape[3], t.shape[3]};
}

struct Heads {
  std::size_t all;
  std::size_t heads;
  std::size_t len;
  std::size_t dk;
  std::size_t dv;
  double scale;

  Heads(const Tensor& k, const Tensor& v)
      : all(k.shape[0] * k.shape[1]),
        heads(k.shape[1]),
        len(k.shape[2]),
        dk(k.shape[3]),
        dv(v.shape[3]),
        scale(1 / std::sqrt(static_cast<double>(dk))) {}
  double gate(const Gates& gates, std::size_t head, std::size_t t, std::size_t c) const {
    if (!gates.of_heads.empty()) return gates.of_heads[head % heads];
    return gates.of_steps != nullptr ? rows(*gates.of_steps, head)(t, c) : 0;
  }
  double bonus(const Gates& gates, std::size_t head, std::size_t c) const {
    return gates.bonus->values[head % heads * dk + c];
  }
  /// Of a sum relative to that of its terms' magnitudes, as in linear_attention, which it mirrors:
  /// of products over columns and over steps, of exps of differences of running sums of g.
  double f32(const Gates& gates, std::size_t head) const {
    const auto steps = std::max(static_cast<double>(len), 1.);
    double forgotten = 0;
    for (std::size_t c = 0; c < dk; ++c) {
      double sum = 0;
      for (std::size_t t = 0; t < len; ++t) sum += std::abs(gate(gates, head, t, c));
      forgotten = std::max(forgotten, sum);
    }
    return std::expm1(kU32 * (static_cast<double>(dk + dv) + 6 * steps + 24 +
                              2 * (std::log2(steps) + 4) * forgotten));
  }
};

/// (.., rows, columns) of zeros.
Expected zeros(const Tensor& like, std::size_t rows_of, std::size_t columns) {
  Tensor t{{like.shape[0], like.shape[1], rows_of, columns}, {}};
  t.values.assign(like.shape[0] * like.shape[1] * rows_of * columns, 0);
  return {t, t};
}

double three_factors(const Gates& gates) { return 3 * gates.roundoff * (1 + 2 * gates.roundoff); }

}  // namespace

Expected linear_attention_dq(const Tensor& k, const Tensor& v, const Tensor& dout,
                             const Gates& gates) {
  const Heads of(k, v);
  Expected dq = zeros(k, of.len, of.dk);
#pragma omp parallel for
  for (std::size_t head = 0; head < of.all; ++head) {
    const Rows keys = rows(k, head);
    const Rows values = rows(v, head);
    const Rows douts = rows(dout, head);
    const double f32 = of.f32(gates, head);
    std::vector<double> state(of.dv * of.dk);
    if (gates.state != nullptr) {
      const double* first = gates.state->values.data() + head * of.dv * of.dk;
      std::copy(first, first + of.dv * of.dk, state.data());
    }
    std::vector<double> size(state.size());
    for (std::size_t i = 0; i < size.size(); ++i) size[i] = std::abs(state[i]);
    for (std::size_t t = 0; t < of.len; ++t) {
      for (std::size_t c = 0; c < of.dk; ++c) {
        const double decay = std::exp(of.gate(gates, head, t, c));
        double sum = 0;
        double sizes = 0;
        for (std::size_t j = 0; j < of.dv; ++j) {
          double& s = state[j * of.dk + c];
          double& a = size[j * of.dk + c];
          if (gates.bonus != nullptr) {  // the state before the step, and what the bonus weighs
            const double own = of.bonus(gates, head, c) * keys(t, c) * values(t, j);
            sum += douts(t, j) * (s + own);
            sizes += std::abs(douts(t, j)) * (a + std::abs(own));
          }
          s = decay * s + keys(t, c) * values(t, j);
          a = decay * a + std::abs(keys(t, c) * values(t, j));
          if (gates.bonus != nullptr) continue;
          sum += douts(t, j) * s;
          sizes += std::abs(douts(t, j)) * a;
        }
        const std::size_t at = (head * of.len + t) * of.dk + c;
        dq.value.values[at] = of.scale * sum;
        dq.error.values[at] = of.scale * sizes * (f32 + three_factors(gates)) * (1 + f32) + kTiny;
      }
    }
  }
  return dq;
}

std::vector<Expected> linear_attention_dkv(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Tensor& dout, const Gates& gates,
                                           const LinearGradInputs& given) {
  const Heads of(k, v);
  Expected dk = zeros(k, of.len, of.dk);
  Expected dv = zeros(v, of.len, of.dv);
  Expected dg = zeros(k, of.len, of.dk);
  Expected ddecay = zeros(k, 1, 1);
  Expected du = zeros(k, 1, of.dk);
  Expected ds0 = zeros(k, of.dv, of.dk);
#pragma omp parallel for
  for (std::size_t head = 0; head < of.all; ++head) {
    const Rows queries = rows(q, head);
    const Rows keys = rows(k, head);
    const Rows values = rows(v, head);
    const Rows douts = rows(dout, head);
    const double f32 = of.f32(gates, head);
    const double off = (f32 + three_factors(gates)) * (1 + f32);
    const std::size_t first = head * of.dv * of.dk;
    std::vector<double> state(of.dv * of.dk);  // the gradient by the state after step t
    if (given.ds != nullptr) {
      std::copy(given.ds->values.data() + first, given.ds->values.data() + first + state.size(),
                state.data());
    }
    std::vector<double> size(state.size());
    for (std::size_t i = 0; i < size.size(); ++i) size[i] = std::abs(state[i]);
    std::vector<double> by_gate(of.dk);
    std::vector<double> by_gate_size(of.dk);   // of terms
    std::vector<double> by_gate_error(of.dk);  // of k dk
    for (std::size_t c = 0; c < of.dk && given.end != nullptr && given.ds != nullptr; ++c) {
      for (std::size_t j = 0; j < of.dv; ++j) {
        const double term = given.end->values[first + j * of.dk + c] * state[j * of.dk + c];
        by_gate[c] += term;
        by_gate_size[c] += std::abs(term);
      }
    }
    const auto add_queries = [&](std::size_t t) {
      for (std::size_t j = 0; j < of.dv; ++j) {
        for (std::size_t c = 0; c < of.dk; ++c) {
          const double term = of.scale * queries(t, c) * douts(t, j);
          state[j * of.dk + c] += term;
          size[j * of.dk + c] += std::abs(term);
        }
      }
    };
    for (std::size_t t = of.len; t-- > 0;) {
      double own = 0;  // v . dout, which the bonus takes past the state
      double own_size = 0;
      for (std::size_t j = 0; j < of.dv && gates.bonus != nullptr; ++j) {
        own += of.scale * values(t, j) * douts(t, j);
        own_size += of.scale * std::abs(values(t, j) * douts(t, j));
      }
      if (gates.bonus == nullptr) add_queries(t);
      for (std::size_t c = 0; c < of.dk; ++c) {
        double sum = 0;
        double sizes = 0;
        for (std::size_t j = 0; j < of.dv; ++j) {
          sum += values(t, j) * state[j * of.dk + c];
          sizes += std::abs(values(t, j)) * size[j * of.dk + c];
        }
        const std::size_t at = (head * of.len + t) * of.dk + c;
        const double u = gates.bonus != nullptr ? of.bonus(gates, head, c) : 0;
        dk.value.values[at] = sum + own * u * queries(t, c);
        dk.error.values[at] = (sizes + own_size * std::abs(u * queries(t, c))) * off + kTiny;
        const double of_bonus = queries(t, c) * keys(t, c);
        du.value.values[head * of.dk + c] += own * of_bonus;
        du.error.values[head * of.dk + c] += own_size * std::abs(of_bonus) * f32 + kTiny;
        if (given.dq == nullptr) continue;
        const double through_q = queries(t, c) * given.dq->values[at] - own * u * of_bonus;
        const double through_k = keys(t, c) * sum;
        by_gate_size[c] += std::abs(queries(t, c) * given.dq->values[at]) +
                           own_size * std::abs(u * of_bonus) + std::abs(through_k);
        by_gate_error[c] +=
            std::abs(keys(t, c)) * (sizes * off + kTiny) + own_size * std::abs(u * of_bonus) * f32;
        dg.value.values[at] = by_gate[c] - through_k + (gates.bonus != nullptr ? 0 : through_q);
        by_gate[c] += through_q - through_k;
      }
      for (std::size_t j = 0; j < of.dv; ++j) {
        double sum = 0;
        double sizes = 0;
        for (std::size_t c = 0; c < of.dk; ++c) {
          sum += keys(t, c) * state[j * of.dk + c];
          sizes += std::abs(keys(t, c)) * size[j * of.dk + c];
          if (gates.bonus == nullptr) continue;
          const double seen = of.scale * queries(t, c) * of.bonus(gates, head, c) * keys(t, c);
          sum += seen * douts(t, j);
          sizes += std::abs(seen * douts(t, j));
        }
        const std::size_t at = (head * of.len + t) * of.dv + j;
        dv.value.values[at] = sum;
        dv.error.values[at] = sizes * off + kTiny;
      }
      for (std::size_t i = 0; i < state.size(); ++i) {
        const double decay = std::exp(of.gate(gates, head, t, i % of.dk));
        state[i] *= decay;
        size[i] *= decay;
      }
      if (gates.bonus != nullptr) add_queries(t);
    }
    // A chunk's sum is made of all of its terms, those before a step too.
    const double sums = static_cast<double>(of.len + of.dv) + 8;
    for (std::size_t t = 0; t < of.len && given.dq != nullptr; ++t) {
      for (std::size_t c = 0; c < of.dk; ++c) {
        dg.error.values[(head * of.len + t) * of.dk + c] =
            by_gate_error[c] + sums * kU32 * (by_gate_size[c] + by_gate_error[c]) + kTiny;
      }
    }
    const auto elems = static_cast<double>(of.len * of.dk);
    for (std::size_t i = head * of.len * of.dk; i < (head + 1) * of.len * of.dk; ++i) {
      ddecay.value.values[head] += dg.value.values[i];
      ddecay.error.values[head] +=
          dg.error.values[i] + elems * kU32 * (std::abs(dg.value.values[i]) + dg.error.values[i]);
    }
    for (std::size_t i = 0; i < state.size(); ++i) {
      ds0.value.values[first + i] = state[i];
      ds0.error.values[first + i] = size[i] * (f32 + gates.roundoff) * (1 + f32) + kTiny;
    }
  }
  return {dk, dv, dg, ddecay, du, ds0};
}

}  // namespace tessera::reference
