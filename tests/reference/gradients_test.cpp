// The gradients that oracles state are those of the oracles' own forward passes: central
// differences in f64 of a weighted sum of results, entry by entry.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>

#include "reference/attention.hpp"
#include "reference/embedding.hpp"
#include "reference/matmul.hpp"
#include "reference/philox.hpp"
#include "reference/recurrence.hpp"
#include "reference/rows.hpp"

using namespace tessera::reference;

namespace {

Tensor random_tensor(std::vector<std::size_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Tensor t{std::move(shape), {}};
  std::size_t elems = 1;
  for (const std::size_t extent : t.shape) elems *= extent;
  for (std::size_t i = 0; i < elems; ++i) t.values.push_back(uniform(random));
  return t;
}

double weighted(const Tensor& result, const Tensor& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < result.values.size(); ++i)
    sum += result.values[i] * weights.values[i];
  return sum;
}

/// `loss` by each entry of `at`.
void check_gradient(const std::vector<double>& stated, Tensor at,
                    const std::function<double(const Tensor&)>& loss) {
  REQUIRE(stated.size() == at.values.size());
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < stated.size(); ++i) {
    const double here = at.values[i];
    at.values[i] = here + kStep;
    const double above = loss(at);
    at.values[i] = here - kStep;
    const double below = loss(at);
    at.values[i] = here;
    CAPTURE(i);
    CHECK(stated[i] == Approx((above - below) / (2 * kStep)).margin(1e-8).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("the gradient of softmax is that of its forward pass", "[reference]") {
  const Tensor x = random_tensor({3, 5}, 1);
  const Tensor dy = random_tensor({3, 5}, 2);
  const auto loss = [&](const Tensor& at) { return weighted(softmax(at).value, dy); };
  check_gradient(softmax_grad(dy, softmax(x).value).value.values, x, loss);
}

TEST_CASE("tgmm is the gradient of grouped_matmul by its right operands", "[reference]") {
  const Tensor x = random_tensor({5, 3}, 1);
  const Tensor w = random_tensor({3, 3, 2}, 2);
  const Tensor dy = random_tensor({5, 2}, 3);
  const std::vector<int> offsets{0, 2, 2, 5};
  check_gradient(tgmm(x, dy, offsets, nullptr).value.values, w, [&](const Tensor& at) {
    return weighted(grouped_matmul(x, at, offsets, {}).value, dy);
  });
}

TEST_CASE("the gradients of embedded and pooled rows are those of their forward pass",
          "[reference]") {
  const Tensor table = random_tensor({4, 1, 3}, 1);
  const std::vector<int> ids{3, 1, 3, 0, 3};
  const auto check = [&](std::size_t m, const std::vector<int>& starts,
                         const std::vector<double>& weights) {
    const Tensor dy = random_tensor({m, 1, 3}, 2);
    const auto loss = [&](const Tensor& at) {
      return weighted(embedding_rows(at, ids, starts, weights).value, dy);
    };
    check_gradient(embedding_rows_grad(dy, ids, starts, weights, 4).value.values, table, loss);
  };
  check(5, {}, {});
  check(3, {0, 3, 3, 5}, {});
  check(3, {0, 1, 3, 5}, {0.5, 2, 0.25, -1, 3});
}

TEST_CASE("the gradients of a norm are those of its forward pass", "[reference]") {
  const Tensor h = random_tensor({4, 6}, 1);
  const Tensor gamma = random_tensor({1, 6}, 2);
  const Tensor beta = random_tensor({1, 6}, 3);
  const Tensor dy = random_tensor({4, 6}, 4);
  const Tensor dh_out = random_tensor({4, 6}, 5);
  for (const bool rms : {false, true}) {
    CAPTURE(rms);
    // h has another reader: a linear one.
    const auto loss = [&](const Tensor& rows, const Tensor& scale, const Tensor& shift) {
      return weighted(norm_rows(rows, {scale, rms ? nullptr : &shift, nullptr, 1e-3})[0].value,
                      dy) +
             weighted(rows, dh_out);
    };
    const auto stated = norm_rows_grad(dy, h, gamma, &dh_out, 1e-3, rms, {1, 3});
    check_gradient(stated[0].value.values, h,
                   [&](const Tensor& at) { return loss(at, gamma, beta); });
    const auto whole = [](const Expected& parts) {
      std::vector<double> sum(6);
      for (std::size_t i = 0; i < 12; ++i) sum[i % 6] += parts.value.values[i];
      return sum;
    };
    check_gradient(whole(stated[1]), gamma, [&](const Tensor& at) { return loss(h, at, beta); });
    if (!rms) {
      check_gradient(whole(stated[2]), beta, [&](const Tensor& at) { return loss(h, gamma, at); });
    }
  }
}

TEST_CASE("turning by the opposite angle is the gradient of a rotary embedding", "[reference]") {
  const Tensor x = random_tensor({2, 1, 3, 4}, 1);
  const Tensor cosines = random_tensor({3, 2}, 2);
  const Tensor sines = random_tensor({3, 2}, 3);
  const Tensor dy = random_tensor({2, 1, 3, 4}, 4);
  const auto loss = [&](const Tensor& at) {
    return weighted(rope(at, cosines, sines, false).value, dy);
  };
  check_gradient(rope(dy, cosines, sines, true).value.values, x, loss);
}

TEST_CASE("the gradients of attention are those of its forward pass", "[reference]") {
  const Tensor q = random_tensor({2, 4, 5, 3}, 1);
  const Tensor k = random_tensor({2, 2, 6, 3}, 2);
  const Tensor v = random_tensor({2, 2, 6, 3}, 3);
  const Tensor dout = random_tensor({2, 4, 5, 3}, 4);
  AttentionMask full;
  full.kv_lengths = {6, 6};
  AttentionMask causal = full;
  causal.causal = true;
  causal.kv_lengths = {4, 6};
  AttentionMask window = full;
  window.window = 2;
  window.softcap = 1.5;
  AttentionMask unseen = full;  // by anybody
  unseen.kv_lengths = {0, 3};
  const Tensor bias = random_tensor({2, 4, 5, 6}, 5);
  AttentionMask biased = causal;
  biased.bias = &bias;
  AttentionMask biased_window = window;
  biased_window.bias = &bias;
  const Tensor of_all_entries = random_tensor({1, 4, 5, 6}, 6);
  const Tensor of_all_heads = random_tensor({2, 1, 5, 6}, 7);
  AttentionMask shared = window;
  shared.bias = &of_all_entries;
  AttentionMask dropped = causal;
  dropped.dropout = {0.3, {17, 4}};
  AttentionMask dropped_and_shared = dropped;
  dropped_and_shared.bias = &of_all_heads;
  for (const AttentionMask& mask :
       {full, causal, window, unseen, biased, biased_window, shared, dropped, dropped_and_shared}) {
    CAPTURE(mask.causal, mask.window, mask.softcap, mask.kv_lengths[0], mask.bias != nullptr);
    const auto loss = [&](const Tensor& queries, const Tensor& keys, const Tensor& values) {
      return weighted(attention(queries, keys, values, mask).value, dout);
    };
    const auto forward = attention_with_lse(q, k, v, mask);
    Tensor delta = forward[1].value;
    for (std::size_t row = 0; row < delta.values.size(); ++row) {
      delta.values[row] = 0;
      for (std::size_t c = 3 * row; c < 3 * row + 3; ++c)
        delta.values[row] += dout.values[c] * forward[0].value.values[c];
    }
    const auto stated = attention_grad(q, k, v, dout, forward[1].value, delta, mask);
    check_gradient(stated[0].value.values, q, [&](const Tensor& at) { return loss(at, k, v); });
    check_gradient(stated[1].value.values, k, [&](const Tensor& at) { return loss(q, at, v); });
    check_gradient(stated[2].value.values, v, [&](const Tensor& at) { return loss(q, k, at); });
    if (mask.bias == nullptr) continue;
    check_gradient(stated[3].value.values, *mask.bias, [&](const Tensor& at) {
      AttentionMask other = mask;
      other.bias = &at;
      return weighted(attention(q, k, v, other).value, dout);
    });
  }
}

TEST_CASE("the gradient by sinks is that of attention's forward pass", "[reference]") {
  const Tensor q = random_tensor({2, 2, 3, 3}, 1);
  const Tensor k = random_tensor({2, 1, 4, 3}, 2);
  const Tensor v = random_tensor({2, 1, 4, 3}, 3);
  const Tensor dout = random_tensor({2, 2, 3, 3}, 4);
  const Tensor sink = random_tensor({2, 1, 1}, 5);
  AttentionMask mask;
  mask.causal = true;
  mask.kv_lengths = {4, 0};  // of the second nothing but the sink is seen
  mask.sinks = &sink;
  const auto forward = attention_with_lse(q, k, v, mask);
  Tensor lse = forward[1].value;
  lse.shape = {2, 2, 3};
  Tensor delta = lse;
  for (std::size_t row = 0; row < delta.values.size(); ++row) {
    delta.values[row] = 0;
    for (std::size_t c = 3 * row; c < 3 * row + 3; ++c)
      delta.values[row] += dout.values[c] * forward[0].value.values[c];
  }
  check_gradient(sink_grad(sink, lse, delta).value.values, sink, [&](const Tensor& at) {
    AttentionMask other = mask;
    other.sinks = &at;
    return weighted(attention(q, k, v, other).value, dout);
  });
}

TEST_CASE("Philox gives the published vectors, and dropout drops as many weights as it says",
          "[reference][dropout]") {
  // kat_vectors of Random123 1.14 (D. E. Shaw Research), philox4x32-10: counter, key, result.
  using Words = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(philox({0, 0}, {0, 0, 0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  const Dropout dropout{0.1, {12345, 678}};
  int dropped = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    for (std::size_t j = 0; j < 300; ++j) dropped += dropout.factor(3, i, j) == 0 ? 1 : 0;
  }
  CHECK(std::abs(dropped - 9000) < 4 * 90);  // standard deviation: 90
  CHECK(dropout.factor(0, 0, 0) != 0);
  CHECK(Dropout{}.factor(0, 0, 0) == 1);
}

TEST_CASE("the gradients of attention under a dense mask are those of its forward pass",
          "[reference]") {
  const Tensor q = random_tensor({1, 4, 5, 3}, 1);
  const Tensor k = random_tensor({1, 2, 6, 3}, 2);
  const Tensor v = random_tensor({1, 2, 6, 3}, 3);
  const Tensor dout = random_tensor({1, 4, 5, 3}, 4);
  Tensor some{{5, 6}, std::vector<double>(30)};  // query 2 sees nothing
  for (std::size_t i = 0; i < 30; ++i) some.values[i] = i / 6 != 2 && i % 3 != 1 ? 1 : 0;
  for (const int kind : {0, 1, 2, 3, 4, 5}) {
    CAPTURE(kind);
    DenseMask dense;
    dense.kind = kind;
    dense.window = 2;
    dense.array = &some;
    AttentionMask mask;
    mask.dense = &dense;
    const auto forward = masked_attention(q, k, v, dense);
    Tensor delta = forward[1].value;
    for (std::size_t row = 0; row < delta.values.size(); ++row) {
      delta.values[row] = 0;
      for (std::size_t c = 3 * row; c < 3 * row + 3; ++c)
        delta.values[row] += dout.values[c] * forward[0].value.values[c];
    }
    const auto loss = [&](const Tensor& queries, const Tensor& keys, const Tensor& values) {
      return weighted(masked_attention(queries, keys, values, dense)[0].value, dout);
    };
    const auto stated = attention_grad(q, k, v, dout, forward[1].value, delta, mask);
    check_gradient(stated[0].value.values, q, [&](const Tensor& at) { return loss(at, k, v); });
    check_gradient(stated[1].value.values, k, [&](const Tensor& at) { return loss(q, at, v); });
    check_gradient(stated[2].value.values, v, [&](const Tensor& at) { return loss(q, k, at); });
  }
}

TEST_CASE("the gradients of linear attention are those of its forward pass", "[reference]") {
  const Tensor q = random_tensor({1, 2, 4, 3}, 1);
  const Tensor k = random_tensor({1, 2, 4, 3}, 2);
  const Tensor v = random_tensor({1, 2, 4, 2}, 3);
  Tensor g = random_tensor({1, 2, 4, 3}, 4);
  for (double& x : g.values) x = -std::abs(x);
  const Tensor s0 = random_tensor({1, 2, 2, 3}, 5);
  const Tensor dout = random_tensor({1, 2, 4, 2}, 6);
  const Tensor ds = random_tensor({1, 2, 2, 3}, 7);
  const Tensor u = random_tensor({2, 1, 3}, 8);
  for (const auto& [gate, bonus] :
       {std::pair{0, &u}, std::pair{1, &u}, std::pair{2, &u}, std::pair<int, const Tensor*>{0, {}},
        std::pair<int, const Tensor*>{1, {}}, std::pair<int, const Tensor*>{2, {}}}) {
    CAPTURE(gate, bonus != nullptr);
    const Tensor* weighed = bonus;
    const int kind = gate;
    const auto loss = [&](const Tensor& queries, const Tensor& keys, const Tensor& values,
                          const Tensor& gates, const Tensor& start) {
      Gates of;
      of.bonus = weighed;
      if (kind == 1) of.of_heads = {-0.5, -0.1};
      if (kind == 2) of.of_steps = &gates;
      of.state = &start;
      const auto results = linear_attention(queries, keys, values, of);
      return weighted(results[0].value, dout) + weighted(results[1].value, ds);
    };
    Gates of;
    of.bonus = bonus;
    if (gate == 1) of.of_heads = {-0.5, -0.1};
    if (gate == 2) of.of_steps = &g;
    of.state = &s0;
    const Tensor end = linear_attention(q, k, v, of)[1].value;
    const Tensor dq = linear_attention_dq(k, v, dout, of).value;
    check_gradient(dq.values, q, [&](const Tensor& at) { return loss(at, k, v, g, s0); });
    const LinearGradInputs given{&dq, &end, &ds};
    const auto stated = linear_attention_dkv(q, k, v, dout, of, given);
    check_gradient(stated[0].value.values, k,
                   [&](const Tensor& at) { return loss(q, at, v, g, s0); });
    check_gradient(stated[1].value.values, v,
                   [&](const Tensor& at) { return loss(q, k, at, g, s0); });
    if (gate == 2) {
      check_gradient(stated[2].value.values, g,
                     [&](const Tensor& at) { return loss(q, k, v, at, s0); });
    }
    if (bonus != nullptr) {
      check_gradient(stated[4].value.values, u, [&](const Tensor& at) {
        Gates other = of;
        other.bonus = &at;
        const auto results = linear_attention(q, k, v, other);
        return weighted(results[0].value, dout) + weighted(results[1].value, ds);
      });
    }
    check_gradient(stated[5].value.values, s0,
                   [&](const Tensor& at) { return loss(q, k, v, g, at); });
    if (gate == 1) {
      const Tensor decays{{2}, {-0.5, -0.1}};
      check_gradient(stated[3].value.values, decays, [&](const Tensor& at) {
        Gates other = of;
        other.of_heads = at.values;
        const auto results = linear_attention(q, k, v, other);
        return weighted(results[0].value, dout) + weighted(results[1].value, ds);
      });
    }
  }
}

TEST_CASE("the gradients of a divergence from a teacher are those of its forward pass",
          "[reference]") {
  const Tensor x = random_tensor({4, 3}, 1);
  const Tensor w = random_tensor({3, 5}, 2);
  const Tensor teacher_x = random_tensor({4, 2}, 3);
  const Tensor teacher_w = random_tensor({2, 5}, 4);
  const Tensor dloss = random_tensor({4, 1}, 5);
  const auto forward = kl_divergence(x, w, teacher_x, teacher_w);
  for (const double loss : forward[0].value.values) CHECK(loss > 0);
  const auto of_itself = kl_divergence(x, w, x, w);
  for (const double loss : of_itself[0].value.values) CHECK(std::abs(loss) < 1e-12);
  const auto stated = kl_divergence_grad(x, w, teacher_x, teacher_w, forward[1].value,
                                         forward[2].value, dloss, kU32);
  check_gradient(stated[0].value.values, x, [&](const Tensor& at) {
    return weighted(kl_divergence(at, w, teacher_x, teacher_w)[0].value, dloss);
  });
  check_gradient(stated[1].value.values, w, [&](const Tensor& at) {
    return weighted(kl_divergence(x, at, teacher_x, teacher_w)[0].value, dloss);
  });
}

TEST_CASE("the gradients of a selective scan are those of its forward pass", "[reference]") {
  const Tensor x = random_tensor({2, 5, 3}, 1);
  Tensor delta = random_tensor({2, 5, 3}, 2);
  for (double& e : delta.values) e = std::abs(e);
  const Tensor a = random_tensor({2, 3}, 3);
  const Tensor b = random_tensor({2, 5, 2}, 4);
  const Tensor c = random_tensor({2, 5, 2}, 5);
  const Tensor skip = random_tensor({1, 3}, 6);
  const Tensor h0 = random_tensor({2, 2, 3}, 7);
  const Tensor dy = random_tensor({2, 5, 3}, 8);
  const Tensor dlast = random_tensor({2, 2, 3}, 9);
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    const auto loss = [&](const ScanInputs& of, const Tensor& from) {
      const auto results = selective_scan(of, &from);
      return weighted(results[0].value, dy) + weighted(results[1].value, dlast);
    };
    const ScanInputs in{x, delta, a, b, c, skip, reverse, 2};
    const Tensor starts = selective_scan(in, &h0)[2].value;
    // Parts of one column each, and arrays of each sequence, are added up.
    const auto of = selective_scan_grad(in, {starts, dy, &dlast, 1});
    const auto added = [](const Tensor& parts, std::size_t count) {
      std::vector<double> sum(parts.values.size() / count);
      for (std::size_t i = 0; i < parts.values.size(); ++i) sum[i % sum.size()] += parts.values[i];
      return sum;
    };
    check_gradient(of[0].value.values, x, [&](const Tensor& at) {
      return loss({at, delta, a, b, c, skip, reverse, 2}, h0);
    });
    check_gradient(of[1].value.values, delta, [&](const Tensor& at) {
      return loss({x, at, a, b, c, skip, reverse, 2}, h0);
    });
    check_gradient(added(of[2].value, 2), a, [&](const Tensor& at) {
      return loss({x, delta, at, b, c, skip, reverse, 2}, h0);
    });
    check_gradient(added(of[3].value, 3), b, [&](const Tensor& at) {
      return loss({x, delta, a, at, c, skip, reverse, 2}, h0);
    });
    check_gradient(added(of[4].value, 3), c, [&](const Tensor& at) {
      return loss({x, delta, a, b, at, skip, reverse, 2}, h0);
    });
    check_gradient(added(of[5].value, 2), skip, [&](const Tensor& at) {
      return loss({x, delta, a, b, c, at, reverse, 2}, h0);
    });
    check_gradient(of[6].value.values, h0, [&](const Tensor& at) { return loss(in, at); });
  }
}

TEST_CASE("the gradients of cross-entropy are those of its forward pass", "[reference]") {
  const Tensor x = random_tensor({4, 3}, 1);
  const Tensor w = random_tensor({3, 5}, 2);
  const Tensor dloss = random_tensor({4, 1}, 3);
  const std::vector<int> labels{2, 0, -1, 4};  // one is ignored
  const auto stated =
      cross_entropy_grad(x, w, labels, cross_entropy(x, w, labels)[1].value, dloss, kU32);
  check_gradient(stated[0].value.values, x, [&](const Tensor& at) {
    return weighted(cross_entropy(at, w, labels)[0].value, dloss);
  });
  check_gradient(stated[1].value.values, w, [&](const Tensor& at) {
    return weighted(cross_entropy(x, at, labels)[0].value, dloss);
  });
}

TEST_CASE("a recurrence the other way is the gradient by what drives it", "[reference]") {
  const Tensor a = random_tensor({2, 5, 3}, 1);
  const Tensor b = random_tensor({2, 5, 3}, 2);
  const Tensor h0 = random_tensor({2, 1, 3}, 3);
  const Tensor dh = random_tensor({2, 5, 3}, 4);
  const auto loss = [&](const Tensor& drive, const Tensor& start) {
    return weighted(linear_recurrence(a, drive, start, false)[0].value, dh);
  };
  // Each a one step earlier: it is the next one's that hands a gradient back.
  Tensor later = a;
  for (std::size_t i = 0; i < later.values.size(); ++i)
    later.values[i] = i / 3 % 5 == 4 ? 0 : a.values[i + 3];
  const Tensor none{{2, 1, 3}, std::vector<double>(6)};
  const auto back = linear_recurrence(later, dh, none, true);
  check_gradient(back[0].value.values, b, [&](const Tensor& at) { return loss(at, h0); });
  std::vector<double> by_start;
  for (std::size_t i = 0; i < 6; ++i)
    by_start.push_back(a.values[i / 3 * 15 + i % 3] * back[1].value.values[i]);
  check_gradient(by_start, h0, [&](const Tensor& at) { return loss(b, at); });
}

TEST_CASE("of complex numbers too, on conjugates", "[reference]") {
  const Tensor a_re = random_tensor({2, 5, 3}, 1);
  const Tensor a_im = random_tensor({2, 5, 3}, 2);
  const Tensor b_re = random_tensor({2, 5, 3}, 3);
  const Tensor b_im = random_tensor({2, 5, 3}, 4);
  const Tensor h0 = random_tensor({2, 1, 3}, 5);
  const Tensor dh_re = random_tensor({2, 5, 3}, 6);
  const Tensor dh_im = random_tensor({2, 5, 3}, 7);
  const auto loss = [&](const Tensor& re, const Tensor& im) {
    const auto h = complex_recurrence({a_re, a_im}, {re, im}, {h0, h0}, false);
    return weighted(h[0].value, dh_re) + weighted(h[1].value, dh_im);
  };
  Tensor later_re = a_re;
  Tensor later_im = a_im;
  for (std::size_t i = 0; i < later_re.values.size(); ++i) {
    later_re.values[i] = i / 3 % 5 == 4 ? 0 : a_re.values[i + 3];
    later_im.values[i] = i / 3 % 5 == 4 ? 0 : -a_im.values[i + 3];
  }
  const Tensor none{{2, 1, 3}, std::vector<double>(6)};
  const auto back = complex_recurrence({later_re, later_im}, {dh_re, dh_im}, {none, none}, true);
  check_gradient(back[0].value.values, b_re, [&](const Tensor& at) { return loss(at, b_im); });
  check_gradient(back[1].value.values, b_im, [&](const Tensor& at) { return loss(b_re, at); });
}
