#include "reference/rnn.hpp"

#include <cmath>

#include "reference/plain_matrix.hpp"

namespace tessera::reference {

namespace {

using Vector = std::vector<double>;

double largest(const Vector& v) {
  double most = 0;
  for (const double x : v) most = std::max(most, std::abs(x));
  return most;
}
double norm(const Vector& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// At least the 2-norm of w, by little more: |w|^32 = |(w^T w)^16|, at most its Frobenius norm.
double spectral_bound(const PlainMatrix& w) {
  PlainMatrix m = product(transposed(w), w);
  double power = 2;
  for (int i = 0; i < 4; ++i, power *= 2) m = product(m, m);
  return std::pow(norm(m.values), 1 / power);
}

/// One sequence's numbers and by how much another computation's row may differ, in the 2-norm:
/// products by w pass that on by w's, functions by their largest slope (1 of tanh, 1/4 of sigmoid).
struct Row {
  Vector value;
  double off = 0;
};

class Layer {
 public:
  Layer(const Tensor& x, const Tensor& w, double roundoff)
      : gates_(w.shape[0]), batch_(x.shape[2]), d_(x.shape[3]), roundoff_(roundoff), x_(x), w_(w) {
    for (std::size_t g = 0; g < gates_; ++g) {
      const PlainMatrix of_gate(d_, d_, w.values.data() + g * d_ * d_);
      spectral_.push_back(spectral_bound(of_gate));
      frobenius_.push_back(norm(of_gate.values));
    }
  }
  std::size_t d() const { return d_; }
  /// Roundings of a few functions of rows whose numbers are at most 1.
  double slack() const { return 8 * kU32 * std::sqrt(static_cast<double>(d_)); }

  /// h w of gate g, with what is added.
  Row product_of(const Row& h, std::size_t g, const Vector& added) const {
    Row out{added, 0};
    for (std::size_t k = 0; k < d_; ++k) {
      const double* row = w_.values.data() + (g * d_ + k) * d_;
      for (std::size_t j = 0; j < d_; ++j) out.value[j] += h.value[k] * row[j];
    }
    const double n = (static_cast<double>(d_) + 3) * kU32;
    const double size = norm(h.value) + h.off;
    const double left = h.off + roundoff_ * size;
    out.off = spectral_[g] * left + n / (1 - n) * (norm(added) + (size + left) * frobenius_[g]);
    return out;
  }
  Vector added(std::size_t t, std::size_t g, std::size_t b) const {
    const double* first = x_.values.data() + ((t * gates_ + g) * batch_ + b) * d_;
    return Vector(first, first + d_);
  }
  Row sigmoid_of(Row r) const {
    for (double& v : r.value) v = sigmoid(v);
    return {r.value, r.off / 4 + slack()};
  }
  Row tanh_of(Row r) const {
    for (double& v : r.value) v = std::tanh(v);
    return {r.value, r.off + slack()};
  }
  /// a b, element by element.
  Row times(const Row& a, const Row& b) const {
    Row out = a;
    for (std::size_t j = 0; j < d_; ++j) out.value[j] *= b.value[j];
    out.off = largest(b.value) * a.off + (largest(a.value) + a.off) * b.off;
    out.off += 2 * kU32 * (norm(out.value) + out.off);
    return out;
  }
  Row plus(const Row& a, const Row& b) const {
    Row out = a;
    for (std::size_t j = 0; j < d_; ++j) out.value[j] += b.value[j];
    out.off = a.off + b.off;
    out.off += 2 * kU32 * (norm(a.value) + norm(b.value) + out.off);
    return out;
  }

  /// Walks over sequences and steps: `step` takes t, the sequence, h and c, which it changes.
  template <class Step>
  std::vector<Expected> run(const Tensor* h0, const Tensor* c0, bool has_cell, Step step) const {
    const std::size_t len = x_.shape[0];
    const Tensor all{{len, batch_, d_}, Vector(len * batch_ * d_)};
    const Tensor last{{batch_, d_}, Vector(batch_ * d_)};
    std::vector<Expected> out{{all, all}, {last, last}};
    if (has_cell) out.push_back({last, last});
    const auto keep = [&](const Row& r, Expected& to, std::size_t row) {
      std::copy(r.value.begin(), r.value.end(), to.value.values.begin() + row * d_);
      std::fill_n(to.error.values.begin() + row * d_, d_, r.off);
    };
    for (std::size_t b = 0; b < batch_; ++b) {
      const auto start = [&](const Tensor* from) {
        Row r{Vector(d_), 0};
        if (from != nullptr) std::copy_n(from->values.begin() + b * d_, d_, r.value.begin());
        return r;
      };
      Row h = start(h0);
      Row c = start(c0);
      for (std::size_t t = 0; t < len; ++t) {
        step(t, b, h, c);
        keep(h, out[0], t * batch_ + b);
      }
      keep(h, out[1], b);
      if (has_cell) keep(c, out[2], b);
    }
    return out;
  }

 private:
  std::size_t gates_, batch_, d_;
  double roundoff_;
  const Tensor& x_;
  const Tensor& w_;
  Vector spectral_;  ///< of each gate's w
  Vector frobenius_;
};

}  // namespace

std::vector<Expected> rnn(const Tensor& x, const Tensor& w, const Tensor* h0, double roundoff) {
  const Layer layer(x, w, roundoff);
  return layer.run(h0, nullptr, false, [&](std::size_t t, std::size_t b, Row& h, Row&) {
    h = layer.tanh_of(layer.product_of(h, 0, layer.added(t, 0, b)));
  });
}

std::vector<Expected> gru(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor* h0,
                          double roundoff) {
  const Layer layer(x, w, roundoff);
  return layer.run(h0, nullptr, false, [&](std::size_t t, std::size_t b, Row& h, Row&) {
    const Row reset = layer.sigmoid_of(layer.product_of(h, 0, layer.added(t, 0, b)));
    const Row update = layer.sigmoid_of(layer.product_of(h, 1, layer.added(t, 1, b)));
    const Row kept = layer.times(reset, layer.product_of(h, 2, bias.values));
    const Row fresh = layer.tanh_of(layer.plus({layer.added(t, 2, b), 0}, kept));
    // update h + (1 - update) fresh, of errors in any of the three; what is added and taken away
    // is rounded.
    Row next = h;
    double apart = 0;
    double fresh_share = 0;
    for (std::size_t j = 0; j < layer.d(); ++j) {
      const double difference = h.value[j] - fresh.value[j];
      apart = std::max(apart, std::abs(difference));
      fresh_share = std::max(fresh_share, 1 - update.value[j]);
      next.value[j] = fresh.value[j] + update.value[j] * difference;
    }
    next.off = largest(update.value) * h.off + fresh_share * fresh.off +
               (apart + h.off + fresh.off) * update.off +
               6 * kU32 * (norm(h.value) + h.off + norm(fresh.value) + fresh.off);
    h = next;
  });
}

std::vector<Expected> lstm(const Tensor& x, const Tensor& w, const Tensor* h0, const Tensor* c0,
                           double roundoff) {
  const Layer layer(x, w, roundoff);
  return layer.run(h0, c0, true, [&](std::size_t t, std::size_t b, Row& h, Row& c) {
    const auto sum = [&](std::size_t g) { return layer.product_of(h, g, layer.added(t, g, b)); };
    const Row in = layer.sigmoid_of(sum(0));
    const Row forget = layer.sigmoid_of(sum(1));
    const Row fresh = layer.tanh_of(sum(2));
    const Row out = layer.sigmoid_of(sum(3));
    c = layer.plus(layer.times(forget, c), layer.times(in, fresh));
    h = layer.times(out, layer.tanh_of(c));
  });
}

}  // namespace tessera::reference
