// Spread a layer of experts over devices, and get the bits of one.
//
// Each token goes to two of sixteen experts, two products with a ReLU between, and comes back as
// their weighted sum: moe_route chooses, embedding_rows packs rows by expert and sums them up
// again, all_to_all takes them to the devices that have their experts and back, grouped_matmul
// multiplies. What an element of the result is made of does not depend on where: one chain of
// sums over a row of an expert, then one over two experts, in the router's order.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <tuple>

#include "kernels/all_to_all.hpp"
#include "kernels/embedding_rows.hpp"
#include "kernels/grad_relu.hpp"
#include "kernels/grouped_matmul.hpp"
#include "kernels/moe_route.hpp"
#include "sim/run.hpp"

using namespace tessera;

namespace {

constexpr int kTokens = 256;
constexpr int kExperts = 16;
constexpr int kTop = 2;
constexpr int kWidth = 64;
constexpr int kHidden = 128;
constexpr int kUnit = kernels::AllToAll<float>::kUnit;
using Rows = std::vector<int>;

/// What kernels ask of a host: prefetched arrays, by name.
class Prefetched {
 public:
  explicit Prefetched(std::map<std::string, Rows> given, std::vector<float> weights = {})
      : given_(std::move(given)), weights_(std::move(weights)) {}
  Smem<int> scalars(const char* name, Rows made) {
    const auto found = given_.find(name);
    return keep(name, found == given_.end() ? std::move(made) : found->second);
  }
  Smem<float> scalars(const char* name, const std::vector<float>&) { return keep(name, weights_); }
  template <class T = int>
  Smem<T> keep(const char* name, std::vector<T> values) {
    auto& kept = std::get<std::deque<std::vector<T>>>(kept_);
    kept.push_back(std::move(values));
    return {kept.back().data(), static_cast<int>(kept.back().size()), name};
  }
  int random(int lo, int) { return lo; }
  [[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
  }

 private:
  std::map<std::string, Rows> given_;
  std::vector<float> weights_;
  std::tuple<std::deque<Rows>, std::deque<std::vector<float>>> kept_;
};

std::int64_t hbm_bytes = 0;
std::int64_t remote_bytes = 0;

template <class K>
std::vector<Array> outputs_of(const K& kernel, Tiles t, const Inputs& inputs, int devices = 1) {
  RunOptions options;
  options.mesh = {devices};
  RunResult result = run(kernel, t, inputs, options);
  if (!result.ok()) {
    std::fputs(result.diagnostics[0].text().c_str(), stderr);
    std::exit(1);
  }
  hbm_bytes += result.ledger().hbm_read_bytes() + result.ledger().hbm_write_bytes();
  remote_bytes += result.ledger().remote_bytes();
  return std::move(result.outputs);
}

/// Rows first to first + n of a, in `shape`.
Array rows_of(const Array& a, std::int64_t first, std::int64_t n, Shape shape) {
  const std::int64_t columns = a.elems() / a.shape()[0];
  Array part(a.dtype(), shape);
  std::memcpy(part.bytes(), a.bytes() + first * columns * 4,
              static_cast<std::size_t>(n * columns * 4));
  return part;
}

/// Rows of a by their numbers.
Array gathered(const Array& a, const Rows& ids) {
  const auto n = static_cast<int>(ids.size());
  const auto from = static_cast<int>(a.shape()[0]);
  kernels::EmbeddingRows<float> kernel;
  kernel.m = n;
  kernel.n = from;
  kernel.d = kWidth;
  Prefetched host({{"ids", ids}});
  kernel.prepare(host, tiles(16, kWidth));
  const Array out = std::move(
      outputs_of(kernel, tiles(16, kWidth), arrays(rows_of(a, 0, from, {from, 1, kWidth})))[0]);
  return rows_of(out, 0, n, {n, kWidth});
}

struct Layer {
  Array router{DType::f32, {kWidth, kExperts}};
  Array up{DType::f32, {kExperts, kWidth, kHidden}};
  Array down{DType::f32, {kExperts, kHidden, kWidth}};
};

/// Two products of rows that are sorted by expert, of experts first to first + sizes.size().
Array experts_of(const Layer& layer, const Array& rows, int first, const Rows& sizes) {
  const auto groups = static_cast<int>(sizes.size());
  const auto m = static_cast<int>(rows.shape()[0]);
  const Tiles t = tiles(32, 128, 128);
  const auto product = [&](const Array& x, const Array& w, int k, int n) {
    kernels::GroupedMatmul<float> kernel;
    kernel.m = m;
    kernel.n = n;
    kernel.k = k;
    kernel.groups = groups;
    Prefetched host({{"group_sizes", sizes}});
    kernel.prepare(host, t);
    return std::move(
        outputs_of(kernel, t, arrays(x, rows_of(w, first, groups, {groups, k, n})))[0]);
  };
  Array h = product(rows, layer.up, kWidth, kHidden);
  h = std::move(outputs_of(kernels::GradRelu<float>{m, kHidden}, tiles(32, 128), arrays(h, h))[0]);
  return product(h, layer.down, kHidden, kWidth);
}

Array moved(const Array& rows, const Rows& counts, int devices) {
  const auto each = static_cast<int>(rows.shape()[0]) / devices;
  kernels::AllToAll<float> kernel;
  kernel.devices = devices;
  kernel.rows = each;
  kernel.cols = kWidth;
  Prefetched host({{"counts", counts}});
  kernel.prepare(host, tiles(kWidth));
  return std::move(outputs_of(kernel, tiles(kWidth), arrays(rows), devices)[0]);
}

Array run_layer(const Layer& layer, const Array& tokens, int devices) {
  const int own = kTokens / devices;
  const int own_experts = kExperts / devices;
  const auto at = [&](int s, int d) { return static_cast<std::size_t>(s * devices + d); };

  // Where each token goes, and how many units of rows each device has for each.
  std::vector<Array> gates;
  std::vector<Rows> chosen(static_cast<std::size_t>(devices));
  std::vector<std::vector<Rows>> slots_for(static_cast<std::size_t>(devices));
  Rows counts(at(devices, 0));
  int units = 0;
  for (int s = 0; s < devices; ++s) {
    const auto here = static_cast<std::size_t>(s);
    auto routed = outputs_of(kernels::MoeRoute<float>{own, kExperts, kWidth, kTop},
                             tiles(32, kExperts, kWidth, kTop),
                             arrays(rows_of(tokens, s * own, own, {own, kWidth}), layer.router));
    gates.push_back(std::move(routed[0]));
    chosen[here].assign(routed[1].data<int>(), routed[1].data<int>() + own * kTop);
    slots_for[here].resize(static_cast<std::size_t>(devices));
    Rows slots(chosen[here].size());
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int>(i);
    std::stable_sort(slots.begin(), slots.end(), [&](int a, int b) {
      return chosen[here][static_cast<std::size_t>(a)] < chosen[here][static_cast<std::size_t>(b)];
    });
    int of_device = 0;
    for (const int slot : slots) {
      const int d = chosen[here][static_cast<std::size_t>(slot)] / own_experts;
      slots_for[here][static_cast<std::size_t>(d)].push_back(slot);
    }
    for (int d = 0; d < devices; ++d) {
      const auto n = static_cast<int>(slots_for[here][static_cast<std::size_t>(d)].size());
      counts[at(s, d)] = ceil_div(n, kUnit);
      of_device += counts[at(s, d)];
    }
    units = std::max(units, of_device);
  }

  // Rows, packed by device and expert, to where their experts are; the last ones of a unit are any.
  Array packed(DType::f32, {std::int64_t{devices} * units * kUnit, kWidth});
  std::vector<Rows> place_of(static_cast<std::size_t>(devices));  // of a slot, in what was packed
  for (int s = 0; s < devices; ++s) {
    const auto here = static_cast<std::size_t>(s);
    Rows ids;
    place_of[here].resize(chosen[here].size());
    for (int d = 0; d < devices; ++d) {
      for (const int slot : slots_for[here][static_cast<std::size_t>(d)]) {
        place_of[here][static_cast<std::size_t>(slot)] = static_cast<int>(ids.size());
        ids.push_back(slot / kTop);
      }
      while (ids.size() % kUnit != 0) ids.push_back(0);
    }
    ids.resize(static_cast<std::size_t>(units * kUnit));
    const Array part = gathered(rows_of(tokens, s * own, own, {own, kWidth}), ids);
    std::memcpy(packed.bytes() + std::int64_t{s} * units * kUnit * kWidth * 4, part.bytes(),
                static_cast<std::size_t>(part.size_bytes()));
  }
  const Array arrived = moved(packed, counts, devices);

  // Each device's experts, on rows sorted by expert, which then lie where they were.
  const auto received = static_cast<int>(arrived.shape()[0]) / devices;
  Array answers(DType::f32, {std::int64_t{devices} * received, kWidth});
  for (int d = 0; d < devices; ++d) {
    std::vector<Rows> rows_of_expert(static_cast<std::size_t>(own_experts));
    int first = 0;
    for (int s = 0; s < devices; ++s) {
      int row = first;
      for (const int slot : slots_for[static_cast<std::size_t>(s)][static_cast<std::size_t>(d)]) {
        const int expert =
            chosen[static_cast<std::size_t>(s)][static_cast<std::size_t>(slot)] - d * own_experts;
        rows_of_expert[static_cast<std::size_t>(expert)].push_back(row++);
      }
      first += counts[at(s, d)] * kUnit;
      for (; row < first; ++row) rows_of_expert.back().push_back(row);
    }
    for (; first < received; ++first) rows_of_expert.back().push_back(first);
    Rows order;
    Rows sizes;
    for (const Rows& rows : rows_of_expert) {
      order.insert(order.end(), rows.begin(), rows.end());
      sizes.push_back(static_cast<int>(rows.size()));
    }
    Rows back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    const Array here = rows_of(arrived, d * received, received, {received, kWidth});
    const Array done =
        gathered(experts_of(layer, gathered(here, order), d * own_experts, sizes), back);
    std::memcpy(answers.bytes() + std::int64_t{d} * received * kWidth * 4, done.bytes(),
                static_cast<std::size_t>(done.size_bytes()));
  }
  Rows counts_back(counts.size());
  for (int s = 0; s < devices; ++s) {
    for (int d = 0; d < devices; ++d) counts_back[at(d, s)] = counts[at(s, d)];
  }
  const Array returned = moved(answers, counts_back, devices);

  // The weighted sum of each token's rows, which came back to the places that they left.
  const auto had = static_cast<int>(returned.shape()[0]) / devices;
  Array out(DType::f32, {kTokens, kWidth});
  for (int s = 0; s < devices; ++s) {
    const auto here = static_cast<std::size_t>(s);
    Rows starts;
    for (int i = 0; i <= own; ++i) starts.push_back(i * kTop);
    const float* g = gates[here].data<float>();
    kernels::EmbeddingRows<float> kernel;
    kernel.m = own;
    kernel.n = had;
    kernel.d = kWidth;
    kernel.bag = kTop;
    kernel.weighted = 1;
    Prefetched host({{"ids", place_of[here]}, {"starts", starts}}, {g, g + own * kTop});
    kernel.prepare(host, tiles(16, kWidth));
    const auto sums = outputs_of(kernel, tiles(16, kWidth),
                                 arrays(rows_of(returned, s * had, had, {had, 1, kWidth})));
    std::memcpy(out.bytes() + std::int64_t{s} * own * kWidth * 4, sums[0].bytes(),
                static_cast<std::size_t>(sums[0].size_bytes()));
  }
  return out;
}

/// The layer as its formulas have it, in f64, each token by itself.
double farthest(const Layer& layer, const Array& tokens, const Array& out) {
  double worst = 0;
  for (int t = 0; t < kTokens; ++t) {
    const float* x = tokens.data<float>() + t * kWidth;
    std::vector<std::pair<double, int>> logits;
    for (int e = 0; e < kExperts; ++e) {
      double sum = 0;
      for (int k = 0; k < kWidth; ++k)
        sum += double{x[k]} * layer.router.data<float>()[k * kExperts + e];
      logits.emplace_back(-sum, e);
    }
    std::sort(logits.begin(), logits.end());
    double all = 0;
    for (int j = 0; j < kTop; ++j) all += std::exp(-logits[static_cast<std::size_t>(j)].first);
    std::vector<double> y(kWidth);
    for (int j = 0; j < kTop; ++j) {
      const auto [below, e] = logits[static_cast<std::size_t>(j)];
      for (int h = 0; h < kHidden; ++h) {
        double sum = 0;
        for (int k = 0; k < kWidth; ++k)
          sum += double{x[k]} * layer.up.data<float>()[(e * kWidth + k) * kHidden + h];
        const double share = std::exp(-below) / all * std::max(sum, 0.0);
        for (int k = 0; k < kWidth; ++k)
          y[static_cast<std::size_t>(k)] +=
              share * layer.down.data<float>()[(e * kHidden + h) * kWidth + k];
      }
    }
    for (int k = 0; k < kWidth; ++k)
      worst = std::max(
          worst, std::abs(y[static_cast<std::size_t>(k)] - out.data<float>()[t * kWidth + k]));
  }
  return worst;
}

}  // namespace

int main() {
  std::mt19937 rng(1);
  const auto fill = [&](Array& a, float size) {
    for (std::int64_t i = 0; i < a.elems(); ++i)
      a.data<float>()[i] = size * (static_cast<float>(rng() >> 8) * 0x1p-23f - 1.f);
  };
  Layer layer;
  fill(layer.router, 0.5f);
  fill(layer.up, 0.125f);
  fill(layer.down, 0.0625f);
  Array tokens(DType::f32, {kTokens, kWidth});
  fill(tokens, 1.f);

  const Array alone = run_layer(layer, tokens, 1);
  std::printf("256 tokens, 2 of 16 experts each: within 1e-5 of f64: %s\n",
              farthest(layer, tokens, alone) < 1e-5 ? "yes" : "no");
  for (const int devices : {2, 4, 8}) {
    hbm_bytes = remote_bytes = 0;
    const Array spread = run_layer(layer, tokens, devices);
    const bool same = std::memcmp(alone.bytes(), spread.bytes(),
                                  static_cast<std::size_t>(alone.size_bytes())) == 0;
    std::printf("%d devices: %lld bytes between them, %lld of HBM; the bits of one: %s\n", devices,
                static_cast<long long>(remote_bytes), static_cast<long long>(hbm_bytes),
                same ? "yes" : "no");
    if (!same) return 1;
  }
}
/* expected output
256 tokens, 2 of 16 experts each: within 1e-5 of f64: yes
2 devices: 131072 bytes between them, 4392096 of HBM; the bits of one: yes
4 devices: 229376 bytes between them, 5272136 of HBM; the bits of one: yes
8 devices: 458752 bytes between them, 7146904 of HBM; the bits of one: yes
*/
