// What a golden catches: computations that are wrong in ways that hardware builds are, each on
// realistic shapes, as often as it is beyond the bound; and how often a right one is (never).
//
//   sharpness [ROUNDS]     prints the table of golden/SHARPNESS.md
//
// The other side is written here, in plain loops; of tessera it uses the element types alone.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cli/registry.hpp"
#include "golden/verdict.hpp"

namespace {

using namespace tessera;
using Matrix = std::vector<float>;

/// v, a normal number, rounded to nearest even with `bits` < 24 bits of significand.
float rounded(float v, int bits) {
  const int dropped = 24 - bits;
  const std::uint32_t u = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t below_half = (1U << (dropped - 1)) - 1 + (u >> dropped & 1);
  return std::bit_cast<float>((u + below_half) & ~0U << dropped);
}

struct Format {
  const char* name;
  int bits;
};
constexpr Format kF32{"f32", 24};
constexpr Format kNarrow[] = {{"tf32", 11}, {"f16", 11}, {"bf16", 8}};

enum class Fault { none, dropped_block, mask, no_rescale };
enum class Order { fma, products_apart, backwards, split, f64 };

float add(float a, float b, const Format& format) {
  return format.bits == kF32.bits ? a + b : rounded(a + b, format.bits);
}

/// sum_p x[p] y[p], in an order and a format.
float dot(const std::vector<float>& x, const std::vector<float>& y, Order order,
          const Format& format) {
  const std::size_t n = x.size();
  if (order == Order::f64) {
    double sum = 0;
    for (std::size_t p = 0; p < n; ++p)
      sum += static_cast<double>(x[p]) * static_cast<double>(y[p]);
    return static_cast<float>(sum);
  }
  if (order == Order::split) {
    float parts[8] = {};
    for (std::size_t p = 0; p < n; ++p) parts[p % 8] = std::fma(x[p], y[p], parts[p % 8]);
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
           ((parts[4] + parts[5]) + (parts[6] + parts[7]));
  }
  float sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t p = order == Order::backwards ? n - 1 - i : i;
    if (order == Order::fma && format.bits == kF32.bits)
      sum = std::fma(x[p], y[p], sum);
    else
      sum = add(sum, x[p] * y[p], format);
  }
  return sum;
}

struct Variant {
  std::string name;
  Fault fault = Fault::none;
  Order order = Order::fma;
  Format format = kF32;
  bool wrong = true;
};

std::vector<Variant> variants(bool attention, bool other_blocks) {
  std::vector<Variant> all = {
      {"another order", Fault::none, Order::backwards, kF32, false},
      {"eight partial sums", Fault::none, Order::split, kF32, false},
      {"products not fused", Fault::none, Order::products_apart, kF32, false},
      {"sums in f64", Fault::none, Order::f64, kF32, false}};
  // What is rounded at another scale weighs more than an accumulation in tf32.
  if (!other_blocks) {
    for (const Format& f : kNarrow)
      all.push_back({std::string(f.name) + " accumulation", Fault::none, Order::fma, f});
  }
  all.push_back({attention ? "a dropped kv block" : "a dropped k block", Fault::dropped_block});
  all.push_back({attention ? "a mask off by one" : "k off by one", Fault::mask});
  if (attention) all.push_back({"no rescale", Fault::no_rescale});
  return all;
}

Array stored(const golden::Output& like, const Matrix& values) {
  Array a(like.values.dtype(), like.values.shape());
  for (std::size_t i = 0; i < values.size(); ++i) a.set(static_cast<std::int64_t>(i), values[i]);
  return a;
}

Matrix values_of(const golden::Golden& g, const char* name) {
  for (const auto& in : g.inputs) {
    if (in.name != name) continue;
    const std::vector<double> values = in.array.to_doubles();
    return Matrix(values.begin(), values.end());
  }
  return {};
}

/// Part of a matmul's rows: those of the golden's first `rows`.
Matrix matmul(const golden::Golden& g, const Variant& v, int m, int n, int k, int block) {
  const Matrix x = values_of(g, "x");
  const Matrix y = values_of(g, "y");
  Matrix o(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  const auto at = [](int row, int cols, int col) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) +
           static_cast<std::size_t>(col);
  };
#pragma omp parallel for
  for (int j = 0; j < n; ++j) {
    std::vector<float> column(static_cast<std::size_t>(k));
    for (int p = 0; p < k; ++p) column[static_cast<std::size_t>(p)] = y[at(p, n, j)];
    for (int i = 0; i < m; ++i) {
      std::vector<float> a(x.begin() + static_cast<std::ptrdiff_t>(at(i, k, 0)),
                           x.begin() + static_cast<std::ptrdiff_t>(at(i, k, k)));
      std::vector<float> b = column;
      // One tile of the output misses one of its blocks; or the whole product its last k.
      const int from = v.fault == Fault::mask ? k - 1 : block;
      const int to = v.fault == Fault::mask ? k : std::min(2 * block, k);
      if (v.fault == Fault::mask ||
          (v.fault == Fault::dropped_block && i < block && j < block && from < to)) {
        a.erase(a.begin() + from, a.begin() + to);
        b.erase(b.begin() + from, b.begin() + to);
      }
      o[at(i, n, j)] = dot(a, b, v.order, v.format);
    }
  }
  return o;
}

/// Causal attention with an online softmax, block by block, as the kernel's body says.
Matrix attention(const golden::Golden& g, const Variant& v, int heads, int length, int depth,
                 int block, bool small) {
  const Matrix q = values_of(g, "q");
  const Matrix k = values_of(g, "k");
  const Matrix val = values_of(g, "v");
  Matrix o(q.size());
  const float scale = 1.f / std::sqrt(static_cast<float>(depth));
  const float c = scale * 1.4426950408889634f;
  const auto row = [depth](const Matrix& m, int r) {
    return std::vector<float>(m.begin() + static_cast<std::ptrdiff_t>(r) * depth,
                              m.begin() + static_cast<std::ptrdiff_t>(r + 1) * depth);
  };
#pragma omp parallel for
  for (int i = 0; i < heads * length; ++i) {
    const int head = i / length;
    const int query = i % length;
    const int last = v.fault == Fault::mask ? query - 1 : query;
    std::vector<float> acc(static_cast<std::size_t>(depth), 0.f);
    float top = -INFINITY;
    float sum = 0;
    const std::vector<float> qi = row(q, i);
    for (int from = 0; from <= std::min(last, length - 1); from += block) {
      if (v.fault == Fault::dropped_block && from == block) continue;
      const int until = std::min({from + block, last + 1, length});
      std::vector<float> s;
      for (int j = from; j < until; ++j)
        s.push_back(dot(qi, row(k, head * length + j), v.order, kF32));
      const float before = top;
      for (const float x : s) top = std::max(top, x);
      const float alpha = before == -INFINITY ? 0.f : std::exp2(std::fma(before, c, -top * c));
      const float keep = v.fault == Fault::no_rescale ? 1.f : alpha;
      std::vector<float> p;
      for (const float x : s) p.push_back(std::exp2(std::fma(x, c, -top * c)));
      std::vector<float> ones(p.size(), 1.f);
      sum = sum * keep + dot(p, ones, v.order, v.format);
      if (small) {
        for (float& x : p) x = rounded(x, 8);
      }
      for (int d = 0; d < depth; ++d) {
        std::vector<float> column;
        for (int j = from; j < until; ++j)
          column.push_back(
              val[static_cast<std::size_t>(head * length + j) * static_cast<std::size_t>(depth) +
                  static_cast<std::size_t>(d)]);
        float& a = acc[static_cast<std::size_t>(d)];
        if (v.format.bits != kF32.bits) {
          a = rounded(a * keep, v.format.bits);
          for (std::size_t j = 0; j < p.size(); ++j)
            a = rounded(a + p[j] * column[j], v.format.bits);
        } else {
          a = a * keep + dot(p, column, v.order, v.format);
        }
      }
    }
    for (int d = 0; d < depth; ++d) {
      o[static_cast<std::size_t>(i) * static_cast<std::size_t>(depth) +
        static_cast<std::size_t>(d)] = sum == 0 ? 0.f : acc[static_cast<std::size_t>(d)] / sum;
    }
  }
  return o;
}

struct Workload {
  std::string name;
  const char* kernel;
  DType dtype;
  cli::InputKind kind;
  std::vector<std::pair<std::string, int>> sizes;
  bool other_blocks = false;
  int size(const char* wanted) const {
    for (const auto& [name_, value] : sizes) {
      if (name_ == wanted) return value;
    }
    return 0;
  }
};

std::vector<Workload> workloads() {
  std::vector<Workload> all;
  for (const DType d : {DType::f32, DType::bf16}) {
    for (const int k : {512, 2048, 8192}) {
      all.push_back({fmt::format("matmul {} k={}", name(d), k),
                     "matmul",
                     d,
                     cli::InputKind::uniform,
                     {{"m", 128}, {"n", 128}, {"k", k}, {"bm", 128}, {"bn", 128}, {"bk", 128}}});
    }
    for (const int length : {512, 1024}) {
      all.push_back({fmt::format("flash_attention {} q=kv={}", name(d), length),
                     "flash_attention",
                     d,
                     cli::InputKind::uniform,
                     {{"heads", 1},
                      {"kv_heads", 1},
                      {"q_len", length},
                      {"kv_len", length},
                      {"head_dim", 64},
                      {"causal", 1},
                      {"bq", 128},
                      {"bk", 128}}});
    }
  }
  // Blocks of 64 on the other side, and bounds that allow for it.
  Workload other = all.back();
  other.name += " --other-blocks";
  other.other_blocks = true;
  all.push_back(other);
  return all;
}

golden::Golden make(const cli::Kernels& kernels, const Workload& w, std::uint64_t seed) {
  cli::Request request;
  for (const auto& [size, value] : w.sizes)
    request.assignments.emplace_back(size, std::to_string(value));
  request.dtype = w.dtype;
  request.seed = seed;
  request.input_kind = w.kind;
  request.check = false;
  request.keep_inputs = true;
  request.backend = cli::BackendKind::interpret;
  request.device = default_device();
  request.options.error_model = ErrorModel{};
  request.options.error_model->other_blocks = w.other_blocks;
  cli::Outcome outcome = kernels.find(w.kernel).run(request);
  golden::Golden g;
  g.kernel = w.kernel;
  for (auto& [name, array] : outcome.inputs) g.inputs.push_back({name, std::move(array)});
  take_result(g, std::move(outcome.result), outcome.output_names);
  return g;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  const cli::Kernels& kernels = cli::builtin_kernels();
  int caught = 0;
  int wrong = 0;
  int alarms = 0;
  int right = 0;
  fmt::print(
      "| workload | other side | judged wrong | elements beyond the bound |\n"
      "|---|---|---|---|\n");
  for (const Workload& w : workloads()) {
    const bool is_attention = std::string(w.kernel) == "flash_attention";
    std::map<std::string, std::pair<int, double>> tally;
    const std::vector<Variant> all = variants(is_attention, w.other_blocks);
    for (int round = 0; round < rounds; ++round) {
      const golden::Golden g = make(kernels, w, static_cast<std::uint64_t>(round) + 1);
      for (const Variant& v : all) {
        const Matrix theirs =
            is_attention ? attention(g, v, 1, w.size("q_len"), w.size("head_dim"),
                                     w.other_blocks ? 64 : w.size("bk"), w.dtype == DType::bf16)
                         : matmul(g, v, w.size("m"), w.size("n"), w.size("k"), w.size("bk"));
        const golden::Verdict verdict = judge(g, 0, stored(g.outputs[0], theirs));
        auto& [times, share] = tally[v.name];
        times += verdict.wrong > 0 ? 1 : 0;
        share += static_cast<double>(verdict.wrong) / static_cast<double>(verdict.elems) / rounds;
        (v.wrong ? caught : alarms) += verdict.wrong > 0 ? 1 : 0;
        (v.wrong ? wrong : right) += 1;
      }
    }
    for (const Variant& v : all) {
      const auto& [times, share] = tally[v.name];
      fmt::print("| {} | {}{} | {} of {} | {:.3g} % |\n", w.name, v.wrong ? "" : "right: ", v.name,
                 times, rounds, 100 * share);
    }
    std::fflush(stdout);
  }
  fmt::print("\nwrong computations caught: {} of {}; false alarms: {} of {}\n", caught, wrong,
             alarms, right);
  return alarms == 0 && caught >= 0.99 * wrong ? 0 : 1;
}
