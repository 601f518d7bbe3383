#include <cmath>

#include "reference/recurrence.hpp"

namespace tessera::reference {

namespace {

constexpr double kTiny = 0x1p-140;  // a few of the smallest f32 subnormals

Expected zeros(std::vector<std::size_t> shape) {
  std::size_t elems = 1;
  for (const std::size_t extent : shape) elems *= extent;
  const Tensor t{std::move(shape), std::vector<double>(elems)};
  return {t, t};
}

/// One state of one column: what its steps multiply and add.
struct Column {
  const ScanInputs& in;
  std::size_t n;
  std::size_t j;
  std::size_t i;
  std::size_t len = in.x.shape[1];
  std::size_t d = in.x.shape[2];
  std::size_t states = in.a.shape[0];

  /// Step of the k-th turn.
  std::size_t step(std::size_t k) const { return in.reverse ? len - 1 - k : k; }
  /// Whether turn k is the first of a block of steps.
  bool begins(std::size_t k) const {
    return k == 0 || step(k) / in.block != step(k - 1) / in.block;
  }
  std::size_t at(std::size_t t) const { return (n * len + t) * d + j; }
  std::size_t of_state(std::size_t t) const { return (n * len + t) * states + i; }
  std::size_t kept() const { return (n * states + i) * d + j; }
  std::size_t start(std::size_t t) const {
    const std::size_t blocks = (len + in.block - 1) / in.block;
    return ((n * blocks + t / in.block) * states + i) * d + j;
  }
  double a() const { return in.a.values[i * d + j]; }
  double exponent(std::size_t t) const { return in.delta.values[at(t)] * a(); }
  double decay(std::size_t t) const { return std::exp(exponent(t)); }
  double drive(std::size_t t) const {
    return in.delta.values[at(t)] * in.b.values[of_state(t)] * in.x.values[at(t)];
  }
  /// Of a factor, relative: the product, its exp, and those of a scan in pairs.
  double slip(std::size_t t) const { return (8 + 3 * std::abs(exponent(t))) * kU32; }
};

/// A value that steps multiply and add to, the same sum of magnitudes, and how far f32 may be off.
struct Running {
  double value = 0;
  double size = 0;
  double error = 0;
  double slips = 0;

  void go_on(double factor, double slip, double added) {
    value = factor * value + added;
    size = factor * size + std::abs(added);
    slips += slip;
    error = factor * error + slip * size;
  }
  double most(double pairs) const {
    return (error + pairs * kU32 * size) * (1 + 2 * slips) + kTiny;
  }
};

double pairs_of(std::size_t len) { return std::log2(static_cast<double>(len)) + 8; }

}  // namespace

std::vector<Expected> selective_scan(const ScanInputs& in, const Tensor* h0) {
  const std::size_t batch = in.x.shape[0];
  const std::size_t len = in.x.shape[1];
  const std::size_t d = in.x.shape[2];
  const std::size_t states = in.a.shape[0];
  Expected y = zeros(in.x.shape);
  Expected last = zeros({batch, states, d});
  Expected starts = zeros({batch, (len + in.block - 1) / in.block, states, d});
  const double pairs = pairs_of(len);
  const auto terms = static_cast<double>(states) + 3;
  for (std::size_t n = 0; n < batch; ++n) {
    for (std::size_t j = 0; j < d; ++j) {
      std::vector<double> y_size(len);  // the same sums of magnitudes
      for (std::size_t t = 0; t < len; ++t) {
        const std::size_t at = (n * len + t) * d + j;
        y.value.values[at] = in.skip.values[j] * in.x.values[at];
        y_size[t] = std::abs(y.value.values[at]);
      }
      for (std::size_t i = 0; i < states; ++i) {
        const Column of{in, n, j, i};
        Running h;
        h.value = h0 != nullptr ? h0->values[of.kept()] : 0;
        h.size = std::abs(h.value);
        for (std::size_t k = 0; k < len; ++k) {
          const std::size_t t = of.step(k);
          if (of.begins(k)) {
            starts.value.values[of.start(t)] = h.value;
            starts.error.values[of.start(t)] = h.most(pairs);
          }
          h.go_on(of.decay(t), of.slip(t), of.drive(t));
          const double weight = in.c.values[of.of_state(t)];
          y.value.values[of.at(t)] += weight * h.value;
          y_size[t] += std::abs(weight) * h.size;
          y.error.values[of.at(t)] += std::abs(weight) * h.most(pairs) * (1 + terms * kU32);
        }
        last.value.values[of.kept()] = h.value;
        last.error.values[of.kept()] = h.most(pairs);
      }
      for (std::size_t t = 0; t < len; ++t)
        y.error.values[(n * len + t) * d + j] += terms * kU32 * y_size[t];
    }
  }
  return {y, last, starts};
}

std::vector<Expected> selective_scan_grad(const ScanInputs& in, const ScanGradInputs& given) {
  const std::size_t batch = in.x.shape[0];
  const std::size_t len = in.x.shape[1];
  const std::size_t d = in.x.shape[2];
  const std::size_t states = in.a.shape[0];
  const std::size_t parts = (d + given.columns - 1) / given.columns;
  Expected dx = zeros(in.x.shape);
  Expected ddelta = zeros(in.x.shape);
  Expected da = zeros({batch, states, d});
  Expected db = zeros({parts, batch, len, states});
  Expected dc = db;
  Expected dskip = zeros({batch, 1, d});
  Expected dh0 = da;
  const double pairs = pairs_of(len);
  // A term of a sum of so many, of factors that are off by `error` and have magnitude `size`.
  const auto add = [](Expected& to, std::size_t at, double term, double size, double error,
                      std::size_t terms) {
    to.value.values[at] += term;
    to.error.values[at] += error + (static_cast<double>(terms) + 8) * kU32 * (size + error) + kTiny;
  };
  for (std::size_t n = 0; n < batch; ++n) {
    for (std::size_t j = 0; j < d; ++j) {
      for (std::size_t t = 0; t < len; ++t) {
        const std::size_t at = (n * len + t) * d + j;
        const double by_skip = given.dy.values[at] * in.skip.values[j];
        add(dx, at, by_skip, std::abs(by_skip), 0, states);
        const double product = given.dy.values[at] * in.x.values[at];
        add(dskip, n * d + j, product, std::abs(product), 0, len);
      }
      for (std::size_t i = 0; i < states; ++i) {
        const Column of{in, n, j, i};
        std::vector<Running> before(len);  // h as step t finds it
        std::vector<Running> after(len);
        Running h;
        for (std::size_t k = 0; k < len; ++k) {
          const std::size_t t = of.step(k);
          if (of.begins(k)) {
            h = Running{};
            h.value = given.starts.values[of.start(t)];
            h.size = std::abs(h.value);
          }
          before[t] = h;
          h.go_on(of.decay(t), of.slip(t), of.drive(t));
          after[t] = h;
        }
        Running g;  // the gradient by h after step t, then by h before it
        g.value = given.dlast != nullptr ? given.dlast->values[of.kept()] : 0;
        g.size = std::abs(g.value);
        for (std::size_t k = len; k-- > 0;) {
          const std::size_t t = of.step(k);
          const std::size_t at = of.at(t);
          const double dy = given.dy.values[at];
          const double b = in.b.values[of.of_state(t)];
          const double c = in.c.values[of.of_state(t)];
          const double x = in.x.values[at];
          const double delta = in.delta.values[at];
          g.go_on(1, 2 * kU32, c * dy);
          const double off = g.most(pairs);
          const double decay = of.decay(t);
          const double h_off = before[t].most(pairs);
          const double by_decay = g.value * decay * before[t].value;
          const double by_decay_size = g.size * decay * before[t].size;
          const double by_decay_off = decay * (off * (before[t].size + h_off) + g.size * h_off) +
                                      of.slip(t) * by_decay_size;
          add(da, of.kept(), by_decay * delta, by_decay_size * std::abs(delta),
              by_decay_off * std::abs(delta), len);
          add(ddelta, at, by_decay * of.a(), by_decay_size * std::abs(of.a()),
              by_decay_off * std::abs(of.a()), 2 * states);
          add(ddelta, at, g.value * x * b, g.size * std::abs(x * b), off * std::abs(x * b),
              2 * states);
          add(dx, at, g.value * delta * b, g.size * std::abs(delta * b), off * std::abs(delta * b),
              states);
          const std::size_t part = ((j / given.columns * batch + n) * len + t) * states + i;
          add(db, part, g.value * delta * x, g.size * std::abs(delta * x),
              off * std::abs(delta * x), given.columns);
          add(dc, part, dy * after[t].value, std::abs(dy) * after[t].size,
              std::abs(dy) * after[t].most(pairs), given.columns);
          g.go_on(decay, of.slip(t), 0);
        }
        dh0.value.values[of.kept()] = g.value;
        dh0.error.values[of.kept()] = g.most(pairs);
      }
    }
  }
  return {dx, ddelta, da, db, dc, dskip, dh0};
}

}  // namespace tessera::reference
