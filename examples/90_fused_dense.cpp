// Train a network whose every product runs through the simulator.
//
// Two dense layers on the 1,797 handwritten digits (8 x 8) that scikit-learn ships: forward through
// matmul_relu and matmul, backward through grad_x and grad_w, softmax through softmax_rows, SGD on
// the host. The split is fixed: every fifth image is in the test set. Numerics are exact, so the
// figures below are the same on every machine. usage: 90_fused_dense digits.csv
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "kernels/grad_w.hpp"
#include "kernels/grad_x.hpp"
#include "kernels/matmul.hpp"
#include "kernels/matmul_relu.hpp"
#include "kernels/softmax_rows.hpp"
#include "sim/run.hpp"

using namespace tessera;

namespace {

const RunOptions& options() {
  static const RunOptions kOptions;
  return kOptions;
}
std::int64_t hbm_bytes = 0;
std::int64_t kernel_runs = 0;

/// The only output of a kernel that must be right.
template <class K>
Array run_kernel(const K& kernel, Tiles t, const Inputs& inputs) {
  RunResult result = run(kernel, t, inputs, options());
  if (!result.ok()) {
    std::fputs(result.diagnostics[0].text().c_str(), stderr);
    std::exit(1);
  }
  hbm_bytes += result.ledger().hbm_read_bytes() + result.ledger().hbm_write_bytes();
  ++kernel_runs;
  return std::move(result.outputs[0]);
}

int rows_of(const Array& a) { return static_cast<int>(a.shape()[0]); }
int cols_of(const Array& a) { return static_cast<int>(a.shape()[1]); }

/// y = activation([x, 1] @ w): the last row of w is the bias.
class Dense {
 public:
  enum class Activation { relu, none };

  Dense(int in, int out, Activation activation, unsigned seed)
      : w_(DType::f32, {in + 1, out}), activation_(activation) {
    std::mt19937 rng(seed);
    const float scale = std::sqrt(6.f / static_cast<float>(in));
    for (int i = 0; i < in * out; ++i) {
      w_.data<float>()[i] = scale * (static_cast<float>(rng() >> 8) * 0x1p-23f - 1.f);
    }
  }

  const Array& forward(const Array& x) {
    x_ = with_ones(x);
    const int m = rows_of(x_);
    const int n = cols_of(w_);
    const int k = cols_of(x_);
    const Tiles t = tiles(128, 128, 128);
    y_ = activation_ == Activation::relu
             ? run_kernel(kernels::MatmulRelu<float>{m, n, k}, t, arrays(x_, w_))
             : run_kernel(kernels::Matmul<float>{m, n, k}, t, arrays(x_, w_));
    return y_;
  }

  /// From dL/dy to dL/dx; keeps dL/dw.
  Array backward(const Array& dy) {
    const int m = rows_of(x_);
    const int n = cols_of(w_);
    const int k = cols_of(x_);
    Array mask =
        y_;  // the gradient kernels mask by the forward's output; without ReLU nothing is masked
    if (activation_ == Activation::none) std::fill_n(mask.data<float>(), mask.elems(), 1.f);
    const Tiles t = tiles(128, 128, 128);
    dw_ = run_kernel(kernels::GradW<float>{m, n, k}, t, arrays(x_, dy, mask));
    const Array dx = run_kernel(kernels::GradX<float>{m, n, k}, t, arrays(dy, mask, w_));
    return without_last_column(dx);
  }

  void step(float rate) {
    for (std::int64_t i = 0; i < w_.elems(); ++i)
      w_.data<float>()[i] -= rate * dw_.data<float>()[i];
  }
  float* weight(std::int64_t i) { return w_.data<float>() + i; }
  float gradient(std::int64_t i) const { return dw_.data<float>()[i]; }
  std::int64_t weights() const { return w_.elems(); }

 private:
  static Array with_ones(const Array& x) {
    const int m = rows_of(x);
    const int k = cols_of(x);
    Array a(DType::f32, {m, k + 1});
    for (int i = 0; i < m; ++i) {
      std::copy_n(x.data<float>() + i * k, k, a.data<float>() + i * (k + 1));
      a.data<float>()[i * (k + 1) + k] = 1.f;
    }
    return a;
  }
  static Array without_last_column(const Array& x) {
    const int m = rows_of(x);
    const int k = cols_of(x) - 1;
    Array a(DType::f32, {m, k});
    for (int i = 0; i < m; ++i)
      std::copy_n(x.data<float>() + i * (k + 1), k, a.data<float>() + i * k);
    return a;
  }

  Array w_;
  Activation activation_;
  Array x_;
  Array y_;
  Array dw_;
};

struct Digits {
  Array images;
  std::vector<int> labels;
};

/// Rows of 64 grey values from 0 to 16 and a label.
Digits read_digits(const char* path) {
  std::ifstream file(path);
  std::vector<float> values;
  Digits d;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::vector<float> row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(std::stof(field));
    if (row.size() != 65) continue;
    d.labels.push_back(static_cast<int>(row.back()));
    row.pop_back();
    for (const float v : row) values.push_back(v / 16.f);
  }
  d.images = f32_array({static_cast<std::int64_t>(d.labels.size()), 64}, values);
  return d;
}

Digits select(const Digits& d, const std::vector<int>& rows, std::size_t first, std::size_t count) {
  Digits part{Array(DType::f32, {static_cast<std::int64_t>(count), 64}), {}};
  for (std::size_t i = 0; i < count; ++i) {
    const int row = rows[first + i];
    std::copy_n(d.images.data<float>() + row * 64, 64, part.images.data<float>() + i * 64);
    part.labels.push_back(d.labels[static_cast<std::size_t>(row)]);
  }
  return part;
}

class Network {
 public:
  Dense hidden{64, 64, Dense::Activation::relu, 1};
  Dense output{64, 10, Dense::Activation::none, 2};

  Array probabilities(const Array& images) {
    const Array& logits = output.forward(hidden.forward(images));
    return run_kernel(kernels::SoftmaxRows<float>{rows_of(logits), 10}, tiles(128, 10),
                      arrays(logits));
  }
  /// Mean cross entropy.
  double loss(const Digits& d) {
    const Array p = probabilities(d.images);
    double sum = 0;
    for (std::size_t i = 0; i < d.labels.size(); ++i) {
      sum -= std::log(std::max(1e-30, p.at(static_cast<std::int64_t>(i) * 10 + d.labels[i])));
    }
    return sum / static_cast<double>(d.labels.size());
  }
  void backward(const Digits& d) {
    Array g = probabilities(d.images);  // dL/dlogits = (p - onehot) / batch
    for (std::size_t i = 0; i < d.labels.size(); ++i)
      g.data<float>()[i * 10 + static_cast<std::size_t>(d.labels[i])] -= 1.f;
    for (std::int64_t i = 0; i < g.elems(); ++i)
      g.data<float>()[i] /= static_cast<float>(d.labels.size());
    hidden.backward(output.backward(g));
  }
  double accuracy(const Digits& d) {
    const Array p = probabilities(d.images);
    int right = 0;
    for (std::size_t i = 0; i < d.labels.size(); ++i) {
      const float* row = p.data<float>() + i * 10;
      right += std::max_element(row, row + 10) - row == d.labels[i] ? 1 : 0;
    }
    return static_cast<double>(right) / static_cast<double>(d.labels.size());
  }
};

/// Largest difference between a gradient and the central difference of the loss, over the largest
/// gradient.
double check_gradients(Network& net, const Digits& d) {
  net.backward(d);
  double worst = 0;
  for (Dense* layer : {&net.hidden, &net.output}) {
    double largest = 0;
    double off = 0;
    for (std::int64_t i = 0; i < layer->weights(); i += layer->weights() / 25) {
      const float gradient = layer->gradient(i);
      constexpr float kStep = 1.f / 512;
      float& w = *layer->weight(i);
      const float keep = w;
      w = keep + kStep;
      const double above = net.loss(d);
      w = keep - kStep;
      const double below = net.loss(d);
      w = keep;
      off = std::max(off, std::abs((above - below) / (2 * kStep) - gradient));
      largest = std::max(largest, static_cast<double>(std::abs(gradient)));
    }
    worst = std::max(worst, off / largest);
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s digits.csv (examples/digits.py writes it)\n", argv[0]);
    return 2;
  }
  const Digits digits = read_digits(argv[1]);
  if (digits.labels.size() != 1797) {
    std::fprintf(stderr, "%s: %zu digits, not 1797\n", argv[1], digits.labels.size());
    return 2;
  }
  constexpr std::size_t kBatch = 64;
  std::vector<int> order;
  std::vector<int> held_out;
  for (int i = 0; i < 1797; ++i) (i % 5 == 0 ? held_out : order).push_back(i);
  const Digits test = select(digits, held_out, 0, held_out.size());

  Network net;
  const double gradient_error = check_gradients(net, select(digits, order, 0, 32));
  std::printf("gradients agree with finite differences: %s\n",
              gradient_error < 0.002 ? "yes" : "no");
  std::mt19937 rng(3);
  for (int epoch = 1; epoch <= 30; ++epoch) {
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng() % (i + 1)]);
    for (std::size_t first = 0; first + kBatch <= order.size(); first += kBatch) {
      net.backward(select(digits, order, first, kBatch));
      net.hidden.step(0.25f);
      net.output.step(0.25f);
    }
    if (epoch % 10 == 0)
      std::printf("epoch %2d: test loss %.4f, accuracy %.4f\n", epoch, net.loss(test),
                  net.accuracy(test));
  }
  const bool learnt = net.accuracy(test) >= 0.95;
  std::printf("%lld kernel runs moved %lld bytes; at least 95 %% right: %s\n",
              static_cast<long long>(kernel_runs), static_cast<long long>(hbm_bytes),
              learnt ? "yes" : "no");
  return learnt && gradient_error < 0.002 ? 0 : 1;
}
/* expected output
gradients agree with finite differences: yes
epoch 10: test loss 0.1951, accuracy 0.9528
epoch 20: test loss 0.1453, accuracy 0.9667
epoch 30: test loss 0.1160, accuracy 0.9722
4954 kernel runs moved 177321184 bytes; at least 95 % right: yes
*/
