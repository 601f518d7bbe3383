// Serve a toy decoder step by step, requests coming and going, and hold each step to f64.
//
// Two layers of attention and two products, 64 columns. Requests wait for one of three places; who
// gets one brings all of its prompt in the next step, beside the one token that each of the others
// has made: continuous batching. ragged_paged_attention runs the step's attention and writes its
// keys and values into pages of a cache that are taken from a free list as a sequence grows and go
// back to it when it ends. Every step, the logits of each sequence are compared with those of a
// plain f64 decoder that sees its whole context at once.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/add_blocked.hpp"
#include "kernels/matmul.hpp"
#include "kernels/matmul_relu.hpp"
#include "kernels/ragged_paged_attention.hpp"
#include "sim/run.hpp"

using namespace tessera;

namespace {

constexpr int kPlaces = 3;
constexpr int kLayers = 2;
constexpr int kKvHeads = 2;
constexpr int kGroup = 2;
constexpr int kDim = 16;
constexpr int kWidth = kKvHeads * kGroup * kDim;
constexpr int kKeys = kKvHeads * kDim;
constexpr int kHidden = 96;
constexpr int kWords = 40;
constexpr int kPage = 8;
constexpr int kPages = 4;  // of a sequence
using Ids = std::vector<int>;

class Host {
 public:
  explicit Host(std::map<std::string, Ids> given) : given_(std::move(given)) {}
  Smem<int> scalars(const char* name, const Ids&) { return keep(name, given_.at(name)); }
  Smem<int> keep(const char* name, Ids values) {
    kept_.push_back(std::move(values));
    return {kept_.back().data(), static_cast<int>(kept_.back().size()), name};
  }
  int random(int lo, int) { return lo; }
  [[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
  }

 private:
  std::map<std::string, Ids> given_;
  std::deque<Ids> kept_;
};

struct Weights {
  Array q{DType::f32, {kWidth, kWidth}};
  Array k{DType::f32, {kWidth, kKeys}};
  Array v{DType::f32, {kWidth, kKeys}};
  Array o{DType::f32, {kWidth, kWidth}};
  Array up{DType::f32, {kWidth, kHidden}};
  Array down{DType::f32, {kHidden, kWidth}};
};
struct Model {
  Array words{DType::f32, {kWords, kWidth}};
  Array places{DType::f32, {kPages * kPage, kWidth}};
  Array logits{DType::f32, {kWidth, kWords}};
  std::vector<Weights> layers{kLayers};
};

std::int64_t hbm_bytes = 0;

template <class K>
std::vector<Array> outputs_of(const K& kernel, Tiles t, const Inputs& inputs) {
  RunResult result = run(kernel, t, inputs);
  if (!result.ok()) {
    std::fputs(result.diagnostics[0].text().c_str(), stderr);
    std::exit(1);
  }
  hbm_bytes += result.ledger().hbm_read_bytes() + result.ledger().hbm_write_bytes();
  return std::move(result.outputs);
}

template <template <class> class K = kernels::Matmul>
Array product(const Array& x, const Array& w) {
  const auto m = static_cast<int>(x.shape()[0]);
  const auto k = static_cast<int>(w.shape()[0]);
  const auto n = static_cast<int>(w.shape()[1]);
  return std::move(outputs_of(K<float>{m, n, k}, tiles(8, 128, 128), arrays(x, w))[0]);
}
Array sum(const Array& a, const Array& b) {
  const auto m = static_cast<int>(a.shape()[0]);
  return std::move(
      outputs_of(kernels::AddBlocked<float>{m, kWidth}, tiles(8, 128), arrays(a, b))[0]);
}
Array shaped(const Array& a, Shape shape) {
  Array out(a.dtype(), shape);
  std::memcpy(out.bytes(), a.bytes(), static_cast<std::size_t>(a.size_bytes()));
  return out;
}

struct Request {
  int name;
  Ids tokens;  ///< the prompt, and what was made
  int wanted;  ///< tokens to make
  int made = 0;
  int cached = 0;
  Ids pages;
};

/// The cache, who has which of its pages, and who is served.
struct Server {
  const Model& model;
  std::vector<Array> k;  ///< of each layer (pages kv_heads, page, d)
  std::vector<Array> v;
  Ids free;
  std::vector<Request> places{kPlaces, Request{-1, {}, 0, 0, 0, {}}};

  explicit Server(const Model& m) : model(m) {
    for (int l = 0; l < kLayers; ++l) {
      k.emplace_back(DType::f32, Shape{kPlaces * kPages * kKvHeads, kPage, kDim});
      v.emplace_back(DType::f32, Shape{kPlaces * kPages * kKvHeads, kPage, kDim});
    }
    for (int p = 0; p < kPlaces * kPages; ++p) free.push_back(p * 7 % (kPlaces * kPages));
  }

  /// The logits of the last token of each sequence that there is, one after the other.
  Array step() {
    Ids starts{0};
    Ids lengths;
    Ids table;
    Ids last;
    std::vector<std::pair<int, int>> fresh;  // token, place in its sequence
    for (Request& r : places) {
      const auto length = static_cast<int>(r.tokens.size());
      while (static_cast<int>(r.pages.size()) * kPage < length) {
        r.pages.push_back(free.back());
        free.pop_back();
      }
      for (; r.cached < length; ++r.cached)
        fresh.emplace_back(r.tokens[static_cast<std::size_t>(r.cached)], r.cached);
      starts.push_back(static_cast<int>(fresh.size()));
      lengths.push_back(length);
      if (length > 0) last.push_back(static_cast<int>(fresh.size()) - 1);
      for (std::size_t p = 0; p < kPages; ++p) table.push_back(p < r.pages.size() ? r.pages[p] : 0);
    }
    const auto tokens = static_cast<int>(fresh.size());
    Array x(DType::f32, {tokens, kWidth});
    for (int t = 0; t < tokens; ++t) {
      const auto [word, place] = fresh[static_cast<std::size_t>(t)];
      for (int c = 0; c < kWidth; ++c)
        x.data<float>()[t * kWidth + c] = model.words.data<float>()[word * kWidth + c] +
                                          model.places.data<float>()[place * kWidth + c];
    }
    kernels::RaggedPagedAttention<float> attention;
    attention.sequences = kPlaces;
    attention.kv_heads = kKvHeads;
    attention.group = kGroup;
    attention.head_dim = kDim;
    attention.page = kPage;
    attention.pages = kPages;
    attention.tokens = tokens;
    const Tiles t = tiles(4, kGroup, kPage, kDim);
    Host host({{"starts", starts}, {"lengths", lengths}, {"table", table}});
    attention.prepare(host, t);
    for (std::size_t l = 0; l < kLayers; ++l) {
      const Weights& w = model.layers[l];
      auto out =
          outputs_of(attention, t,
                     arrays(shaped(product(x, w.q), {tokens * kKvHeads, kGroup, kDim}),
                            shaped(product(x, w.k), {tokens * kKvHeads, 1, kDim}),
                            shaped(product(x, w.v), {tokens * kKvHeads, 1, kDim}), k[l], v[l]));
      k[l] = std::move(out[1]);
      v[l] = std::move(out[2]);
      x = sum(x, product(shaped(out[0], {tokens, kWidth}), w.o));
      x = sum(x, product(product<kernels::MatmulRelu>(x, w.up), w.down));
    }
    Array rows(DType::f32, {static_cast<std::int64_t>(last.size()), kWidth});
    for (std::size_t i = 0; i < last.size(); ++i)
      std::memcpy(rows.data<float>() + i * kWidth, x.data<float>() + last[i] * kWidth, kWidth * 4);
    return product(rows, model.logits);
  }
};

using Rows = std::vector<std::vector<double>>;

Rows times(const Rows& x, const Array& w) {
  const auto n = static_cast<std::size_t>(w.shape()[1]);
  Rows out(x.size(), std::vector<double>(n));
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t k = 0; k < x[i].size(); ++k) {
      for (std::size_t j = 0; j < n; ++j) out[i][j] += x[i][k] * w.data<float>()[k * n + j];
    }
  }
  return out;
}
void add(Rows& x, const Rows& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t c = 0; c < x[i].size(); ++c) x[i][c] += y[i][c];
  }
}

/// The logits of the last of the tokens, all of them at once.
std::vector<double> whole_context(const Model& model, const Ids& tokens) {
  Rows x(tokens.size(), std::vector<double>(kWidth));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t c = 0; c < kWidth; ++c)
      x[t][c] = model.words.data<float>()[static_cast<std::size_t>(tokens[t]) * kWidth + c] +
                model.places.data<float>()[t * kWidth + c];
  }
  for (const Weights& w : model.layers) {
    const Rows q = times(x, w.q);
    const Rows k = times(x, w.k);
    const Rows v = times(x, w.v);
    Rows o(x.size(), std::vector<double>(kWidth));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t h = 0; h < kKvHeads * kGroup; ++h) {
        const std::size_t of_keys = h / kGroup * kDim;
        std::vector<double> p;
        double all = 0;
        for (std::size_t j = 0; j <= t; ++j) {
          double s = 0;
          for (std::size_t c = 0; c < kDim; ++c) s += q[t][h * kDim + c] * k[j][of_keys + c];
          p.push_back(std::exp(s / std::sqrt(double{kDim})));
          all += p.back();
        }
        for (std::size_t j = 0; j <= t; ++j) {
          for (std::size_t c = 0; c < kDim; ++c)
            o[t][h * kDim + c] += p[j] / all * v[j][of_keys + c];
        }
      }
    }
    add(x, times(o, w.o));
    Rows hidden = times(x, w.up);
    for (auto& row : hidden) {
      for (double& a : row) a = std::max(a, 0.0);
    }
    add(x, times(hidden, w.down));
  }
  return times({x.back()}, model.logits)[0];
}

}  // namespace

int main() {
  std::mt19937 rng(1);
  const auto fill = [&](Array& a, float size) {
    for (std::int64_t i = 0; i < a.elems(); ++i)
      a.data<float>()[i] = size * (static_cast<float>(rng() >> 8) * 0x1p-23f - 1.f);
  };
  Model model;
  fill(model.words, 1.f);
  fill(model.places, 0.5f);
  fill(model.logits, 0.5f);
  for (Weights& w : model.layers) {
    for (Array* a : {&w.q, &w.k, &w.v, &w.o, &w.up, &w.down}) fill(*a, 0.2f);
  }
  std::deque<Request> waiting;
  for (const auto& [prompt, wanted] : {std::pair{9, 4}, {3, 7}, {20, 2}, {1, 5}, {13, 3}, {6, 6}}) {
    Ids tokens;
    for (int i = 0; i < prompt; ++i) tokens.push_back(static_cast<int>(rng() % kWords));
    waiting.push_back({static_cast<int>(waiting.size()), tokens, wanted, 0, 0, {}});
  }

  Server server(model);
  double worst = 0;
  for (int step = 0;; ++step) {
    for (Request& place : server.places) {
      if (!place.tokens.empty() || waiting.empty()) continue;
      place = std::move(waiting.front());
      waiting.pop_front();
    }
    if (std::all_of(server.places.begin(), server.places.end(),
                    [](const Request& r) { return r.tokens.empty(); }))
      break;
    int fresh = 0;
    for (const Request& r : server.places) fresh += static_cast<int>(r.tokens.size()) - r.cached;
    hbm_bytes = 0;
    const Array logits = server.step();
    std::printf("step %2d: %2d tokens, %2zu pages free, %7lld bytes:", step, fresh,
                server.free.size(), static_cast<long long>(hbm_bytes));
    std::int64_t row = 0;
    for (Request& r : server.places) {
      if (r.tokens.empty()) continue;
      const float* mine = logits.data<float>() + row++ * kWords;
      const std::vector<double> wanted = whole_context(model, r.tokens);
      for (std::size_t w = 0; w < kWords; ++w)
        worst = std::max(worst, std::abs(wanted[w] - double{mine[w]}));
      const auto next = static_cast<int>(std::max_element(mine, mine + kWords) - mine);
      std::printf("  %d%s %d", r.name, r.made == 0 ? " starts" : "", next);
      r.tokens.push_back(next);
      if (++r.made < r.wanted) continue;
      std::printf(" ends");
      for (const int page : r.pages) server.free.push_back(page);
      r = {-1, {}, 0, 0, 0, {}};
    }
    std::printf("\n");
  }
  std::printf("every step within 1e-4 of the whole context in f64: %s\n",
              worst < 1e-4 ? "yes" : "no");
  return worst < 1e-4 ? 0 : 1;
}
/* expected output
step  0: 32 tokens,  6 pages free,  646520 bytes:  0 starts 24  1 starts 18  2 starts 5
step  1:  3 tokens,  6 pages free,  289656 bytes:  0 25  1 4  2 34 ends
step  2:  3 tokens,  8 pages free,  281464 bytes:  0 24  1 25  3 starts 32
step  3:  3 tokens,  8 pages free,  281464 bytes:  0 4 ends  1 19  3 30
step  4: 15 tokens,  8 pages free,  430968 bytes:  4 starts 4  1 5  3 0
step  5:  3 tokens,  8 pages free,  281464 bytes:  4 19  1 18  3 34
step  6:  3 tokens,  7 pages free,  285560 bytes:  4 5 ends  1 4 ends  3 24 ends
step  7:  6 tokens, 11 pages free,  296504 bytes:  5 starts 32
step  8:  1 tokens, 11 pages free,  238648 bytes:  5 4
step  9:  1 tokens, 11 pages free,  238648 bytes:  5 19
step 10:  1 tokens, 10 pages free,  242744 bytes:  5 5
step 11:  1 tokens, 10 pages free,  242744 bytes:  5 19
step 12:  1 tokens, 10 pages free,  242744 bytes:  5 5 ends
every step within 1e-4 of the whole context in f64: yes
*/
