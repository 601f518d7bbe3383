#include "reference/delta_rule.hpp"

#include <cmath>
#include <functional>

#include "reference/plain_matrix.hpp"

namespace tessera::reference {

namespace {

constexpr double kTiny = 0x1p-140;  // a few of the smallest f32 subnormals
using Vector = std::vector<double>;

/// u[t] = read[t] S[t - 1] + drive[t],  S[t] = decay[t] S[t - 1] + write[t]^T u[t] + add[t]^T v[t].
struct Steps {
  PlainMatrix query, decay, read, write, add;  ///< (len, dk)
  PlainMatrix drive, value;                    ///< (len, dv)
  PlainMatrix state;                           ///< (dk, dv)
  double forgotten = 0;  ///< the largest sum of |logarithms| of decay in a chunk
};

struct Solved {
  PlainMatrix o, o_error;  ///< (len, dv)
  PlainMatrix s, s_error;  ///< (dk, dv)
};

/// Step by step, and how far off another computation may be that makes the u of a chunk from the
/// state at its start: each u[t] is then off by `slip`, and the state at a chunk's end by `round`,
/// of the sums of their terms' magnitudes. All else follows from these exactly, since the
/// recurrence is linear: what x S[t] is off by, for a row x, is the sum of what x reaches of every
/// earlier slip through the steps between.
Solved solve(const Steps& in, std::size_t chunk, double roundoff) {
  const std::size_t len = in.query.rows;
  const std::size_t dk = in.query.cols;
  const std::size_t dv = in.value.cols;
  const auto terms = static_cast<double>(std::min(chunk, len));
  // Sums of dk products and of twice as many steps, exps of differences of running sums.
  const double f32 = std::expm1(kU32 * (static_cast<double>(dk) + 6 * terms + 24 +
                                        2 * (std::log2(terms) + 4) * in.forgotten));
  // n factors that are rounded.
  const auto rounded = [&](int n) { return n * roundoff * (1 + 2 * roundoff) + f32; };

  PlainMatrix s = in.state;
  PlainMatrix size = s;  // no term of any sum is larger than its share
  for (double& v : size.values) v = std::abs(v);
  PlainMatrix fresh(dk, dv);            // of it, from this chunk
  PlainMatrix slip(len, dv);            // of each u
  std::vector<PlainMatrix> round(len);  // of the state, where a chunk ends
  Solved out{PlainMatrix(len, dv), PlainMatrix(len, dv), s, s};

  // What x S[t] is off by.
  const auto reached = [&](Vector x, std::size_t t_end) {
    Vector off(dv);
    for (std::size_t t = t_end; t-- > 0;) {
      double through = 0;
      for (std::size_t c = 0; c < dk; ++c) through += x[c] * in.write(t, c);
      for (std::size_t j = 0; j < dv; ++j) off[j] += std::abs(through) * slip(t, j);
      for (std::size_t c = 0; c < dk && !round[t].values.empty(); ++c) {
        for (std::size_t j = 0; j < dv; ++j) off[j] += std::abs(x[c]) * round[t](c, j);
      }
      for (std::size_t c = 0; c < dk; ++c) x[c] = x[c] * in.decay(t, c) + through * in.read(t, c);
    }
    return off;
  };
  const auto row = [&](const PlainMatrix& m, std::size_t t) {
    return Vector(m.values.data() + t * dk, m.values.data() + (t + 1) * dk);
  };

  for (std::size_t t = 0; t < len; ++t) {
    const Vector before = reached(row(in.read, t), t);
    Vector u(dv);
    Vector most(dv);
    for (std::size_t j = 0; j < dv; ++j) {
      double sum = in.drive(t, j);
      double sizes = std::abs(sum);
      for (std::size_t c = 0; c < dk; ++c) {
        sum += in.read(t, c) * s(c, j);
        sizes += std::abs(in.read(t, c)) * size(c, j);
      }
      u[j] = sum;
      slip(t, j) = rounded(3) * (1 + f32) * sizes + kTiny;
      most[j] = std::abs(sum) + before[j] + slip(t, j);
    }
    for (std::size_t c = 0; c < dk; ++c) {
      for (std::size_t j = 0; j < dv; ++j) {
        const double added = in.add(t, c) * in.value(t, j);
        const double sizes = std::abs(in.write(t, c)) * most[j] + std::abs(added);
        s(c, j) = in.decay(t, c) * s(c, j) + in.write(t, c) * u[j] + added;
        size(c, j) = in.decay(t, c) * size(c, j) + sizes;
        fresh(c, j) = in.decay(t, c) * fresh(c, j) + sizes;
      }
    }
    const Vector off = reached(row(in.query, t), t + 1);
    for (std::size_t j = 0; j < dv; ++j) {
      double sum = 0;
      double sizes = 0;
      for (std::size_t c = 0; c < dk; ++c) {
        sum += in.query(t, c) * s(c, j);
        sizes += std::abs(in.query(t, c)) * size(c, j);
      }
      out.o(t, j) = sum;
      out.o_error(t, j) = (off[j] + rounded(4) * sizes) * (1 + f32) + kTiny;
    }
    if ((t + 1) % chunk == 0 || t + 1 == len) {
      round[t] = PlainMatrix(dk, dv);
      for (std::size_t i = 0; i < dk * dv; ++i) {
        round[t].values[i] = (rounded(2) * fresh.values[i] + f32 * size.values[i]) * (1 + f32);
        size.values[i] += round[t].values[i];
        fresh.values[i] = 0;
      }
    }
  }
  out.s = s;
  for (std::size_t c = 0; c < dk; ++c) {
    Vector entry(dk);
    entry[c] = 1;
    const Vector off = reached(entry, len);
    for (std::size_t j = 0; j < dv; ++j) out.s_error(c, j) = off[j] * (1 + f32) + kTiny;
  }
  return out;
}

/// Rows of a head of t (batch, heads, rows, columns).
PlainMatrix of_head(const Tensor& t, std::size_t head) {
  const std::size_t elems = t.shape[2] * t.shape[3];
  return PlainMatrix(t.shape[2], t.shape[3], t.values.data() + head * elems);
}

std::vector<Expected> of_every_head(const Tensor& q, const Tensor& v, const DeltaGates& gates,
                                    const std::function<void(std::size_t, Steps&)>& add_rule) {
  const std::size_t heads = q.shape[0] * q.shape[1];
  const std::size_t len = q.shape[2];
  const std::size_t dk = q.shape[3];
  const std::size_t dv = v.shape[3];
  Tensor o{v.shape, Vector(v.values.size())};
  Tensor o_error = o;
  Tensor s{{q.shape[0], q.shape[1], dv, dk}, Vector(heads * dv * dk)};
  Tensor s_error = s;
#pragma omp parallel for schedule(dynamic)
  for (std::size_t head = 0; head < heads; ++head) {
    Steps steps;
    steps.query = of_head(q, head);
    for (double& x : steps.query.values) x /= std::sqrt(static_cast<double>(dk));
    steps.value = of_head(v, head);
    PlainMatrix decay = gates.decay != nullptr ? of_head(*gates.decay, head) : PlainMatrix(len, 1);
    steps.decay = PlainMatrix(len, dk);
    for (std::size_t c = 0; c < dk; ++c) {
      double sum = 0;
      for (std::size_t t = 0; t < len; ++t) {
        if (t % gates.chunk == 0) sum = 0;
        const double g = decay(t, decay.cols == 1 ? 0 : c);
        sum += std::abs(g);
        steps.forgotten = std::max(steps.forgotten, sum);
        steps.decay(t, c) = std::exp(g);
      }
    }
    steps.state = PlainMatrix(dk, dv);
    if (gates.state != nullptr) steps.state = transposed(of_head(*gates.state, head));
    add_rule(head, steps);
    const Solved solved = solve(steps, gates.chunk, gates.roundoff);
    const auto keep = [](const PlainMatrix& from, std::vector<double>& to, std::size_t nth) {
      std::copy(from.values.begin(), from.values.end(), to.begin() + nth * from.values.size());
    };
    keep(solved.o, o.values, head);
    keep(solved.o_error, o_error.values, head);
    keep(transposed(solved.s), s.values, head);
    keep(transposed(solved.s_error), s_error.values, head);
  }
  return {{o, o_error}, {s, s_error}};
}

}  // namespace

std::vector<Expected> delta_rule(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& beta, const DeltaGates& gates) {
  return of_every_head(q, v, gates, [&](std::size_t head, Steps& steps) {
    const PlainMatrix rate = of_head(beta, head);  // (len, 1)
    steps.write = of_head(k, head);
    steps.read = steps.write;
    steps.drive = steps.value;
    steps.add = PlainMatrix(steps.write.rows, steps.write.cols);
    for (std::size_t t = 0; t < rate.rows; ++t) {
      for (std::size_t c = 0; c < steps.read.cols; ++c)
        steps.read(t, c) = -steps.write(t, c) * steps.decay(t, c) * rate(t, 0);
      for (std::size_t j = 0; j < steps.drive.cols; ++j) steps.drive(t, j) *= rate(t, 0);
    }
  });
}

std::vector<Expected> rwkv7(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a,
                            const Tensor& b, bool of_rates, const DeltaGates& gates) {
  return of_every_head(q, v, gates, [&](std::size_t head, Steps& steps) {
    steps.add = of_head(k, head);
    steps.write = of_head(a, head);
    steps.read = of_head(b, head);
    for (std::size_t i = 0; of_rates && i < steps.read.values.size(); ++i) {
      steps.write.values[i] *= steps.read.values[i];
      steps.read.values[i] = -steps.read.values[i];
    }
    steps.drive = PlainMatrix(steps.value.rows, steps.value.cols);
  });
}

}  // namespace tessera::reference
