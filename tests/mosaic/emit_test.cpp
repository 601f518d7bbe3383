// What bodies become: branches, padding, ragged grids; what is refused, beside a twin that is not.
#include "mosaic/emit.hpp"

#include <catch2/catch.hpp>

#include "sim/diagnostics/diagnostic.hpp"
#include "sim/ops/all.hpp"

namespace elsewhere {
auto twice_and_once(const auto& x) { return x * 2.f + x; }
}  // namespace elsewhere

namespace tessera {

namespace {

/// A kernel of one block of 8 x 128 per step, whose body and grid the test gives.
template <class Body, class Dim>
struct Probe {
  static constexpr KernelInfo info{.name = "probe", .summary = "", .math = ""};
  static constexpr auto tiles = kNoTiles;
  Body body;
  Dim last;
  int rows = 32;
  int buffers = 2;
  auto spec() const {
    auto map = [](auto i, auto) { return at(i, 0); };
    return tessera::spec(
        grid(parallel(4).as("i"), last),
        in<float>("x", shape(rows, 128), block(8, 128), map).pad(1).buffered(buffers),
        out<float>("o", shape(rows, 128), block(8, 128), map), accum<float>("acc", 8, 128),
        smem<int>("counts", 8));
  }
  void operator()(auto& env, auto x, auto o, auto acc, auto counts) const {
    body(env, x, o, acc, counts);
  }
};
template <class Body, class Dim = Arbitrary<int, int>>
std::string text_of(Body body, Dim last = arbitrary(3), int rows = 32, int buffers = 2) {
  try {
    return mosaic::emit(Probe<Body, Dim>{body, last, rows, buffers}, {}).text;
  } catch (const KernelError& e) {
    return e.diagnostic.text();
  }
}
std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}
std::size_t count_ops(const std::string& text, const std::string& op) {
  return count(text, "\"stable_mosaic." + op + "\"(");
}
bool refused(const std::string& text, const std::string& why) {
  return text.find("error[unsupported]: " + why) != std::string::npos;
}

}  // namespace

TEST_CASE("an if on a program id becomes an scf.if around what it guards alone", "[mosaic]") {
  const std::string text = text_of([](auto& env, auto x, auto o, auto acc, auto) {
    if (env.first(1)) *acc = 0.f;
    *acc += *x;
    if (env.last(1)) *o = *acc;
  });
  CAPTURE(text);
  CHECK(count_ops(text, "scf.if") == 2);
  CHECK(count_ops(text, "arith.addf") == 1);
  CHECK(count_ops(text, "tpu.vector_store") == 3);
  CHECK(text.find("tests/mosaic/emit_test.cpp\":" + std::to_string(__LINE__ - 7) + ":1)") !=
        std::string::npos);
}

TEST_CASE("arms that end alike share their end; what they differ in is the branch's result",
          "[mosaic]") {
  const std::string text = text_of([](auto& env, auto x, auto o, auto, auto) {
    auto v = load(*x);
    if (env.program_id(0) > 1) v = exp(v);
    *o = v * v;
  });
  CAPTURE(text);
  CHECK(count_ops(text, "scf.if") == 1);
  CHECK(count_ops(text, "math.exp") == 1);
  CHECK(count_ops(text, "arith.mulf") == 1);
  CHECK(count_ops(text, "tpu.vector_store") == 1);
  const std::string choice = text_of([](auto& env, auto x, auto o, auto, auto) {
    const float factor = env.program_id(0) > 1 ? 2.f : 3.f;
    *o = *x * factor;
  });
  CAPTURE(choice);
  CHECK(count_ops(choice, "scf.if") == 0);
  CHECK(count_ops(choice, "arith.select") == 1);
}

TEST_CASE("what never happens leaves no trace", "[mosaic]") {
  const std::string text = text_of([](auto& env, auto x, auto o, auto acc, auto) {
    const auto i = env.program_id(0);
    if ((i + 1) * x.rows > 32) *acc = 0.f;
    if (i % 4 == i) *o = *x;
  });
  CAPTURE(text);
  CHECK(count_ops(text, "scf.if") == 0);
  CHECK(count_ops(text, "tpu.vector_store") == 1);
  // 30 rows: the last block has two of padding.
  const std::string ragged =
      text_of([](auto&, auto x, auto o, auto, auto) { *o = *x; }, arbitrary(3), 30);
  CHECK(count_ops(ragged, "tpu.iota") == 1);
  CHECK(count_ops(ragged, "arith.select") == 1);
  CHECK(count_ops(text, "tpu.iota") == 0);
}

TEST_CASE("a ragged dim has its largest extent, an scf.if, and the last step's windows",
          "[mosaic]") {
  const auto body = [](auto& env, auto x, auto o, auto acc, auto) {
    if (env.first(1)) *acc = 0.f;
    *acc += *x;
    if (env.last(1)) *o = *acc;
  };
  const std::string ragged =
      text_of(body, arbitrary([](auto) { return 0; }, [](auto i) { return i + 1; }));
  CAPTURE(ragged);
  CHECK(ragged.find("iteration_bounds = array<i64: 4, 4>") != std::string::npos);
  CHECK(count_ops(ragged, "scf.if") == 3);
  // Bounds that are functions, and the same everywhere, are no ragged dim.
  const std::string even =
      text_of(body, arbitrary([](auto) { return 0; }, [](auto i) { return i * 0 + 3; }));
  CHECK(even == text_of(body, arbitrary(3)));
  const std::string empty =
      text_of(body, arbitrary([](auto) { return 0; }, [](auto i) { return i; }));
  CHECK(refused(empty, "a grid that has cells without a step"));
}

TEST_CASE("a loop over data is an scf.for, and carries nothing but memory", "[mosaic]") {
  const std::string text = text_of([](auto& env, auto x, auto o, auto acc, auto) {
    *acc = 0.f;
    env.loop(0, env.program_id(0) + 2, [&](auto i) {
      if (i > 0) *acc += *x;
    });
    *o = *acc;
  });
  CAPTURE(text);
  CHECK(count_ops(text, "scf.for") == 1);
  CHECK(count_ops(text, "scf.if") == 1);
  CHECK(count_ops(text, "arith.addf") == 1);
  const std::string never = text_of([](auto& env, auto x, auto o, auto acc, auto) {
    env.loop(5, env.program_id(0), [&](auto) { *acc += *x; });
    *o = *x;
  });
  CHECK(count_ops(never, "scf.for") == 0);

  const std::string carried = text_of([](auto& env, auto x, auto o, auto, auto) {
    auto v = load(*x);
    env.loop(0, env.program_id(0), [&](auto) { v = load(v + *x); });
    *o = v;
  });
  CHECK(refused(carried,
                "a loop whose body changes what it captures: what a loop carries lies in "
                "scratch"));
  CHECK(carried.find("emit_test.cpp:" + std::to_string(__LINE__ - 6)) != std::string::npos);
  const std::string escapes = text_of([](auto& env, auto x, auto o, auto, auto) {
    auto v = load(*x);
    env.loop(0, env.program_id(0), [&](auto) { v = load(*x * 2.f); });
    *o = v;
  });
  CHECK(refused(escapes, "a value that a loop's body, or run_scoped's, makes is used after"));
  CHECK(escapes.find("emit_test.cpp:" + std::to_string(__LINE__ - 3)) != std::string::npos);
}

TEST_CASE("SMEM scratch is read and written by element, and decides", "[mosaic]") {
  const std::string text = text_of([](auto& env, auto x, auto o, auto, auto counts) {
    if (env.first(1)) counts[0] = 0;
    counts[0] = counts[0] + env.program_id(0);
    counts[1] = counts[0];
    *o = *x * cast<float>(row_ids(*x) + counts[1]);
    if (counts[0] > 5) *o = *x;
  });
  CAPTURE(text);
  CHECK(count_ops(text, "memref.store") == 3);
  CHECK(count_ops(text, "memref.load") == 4);
  CHECK(count_ops(text, "scf.if") == 2);
}

TEST_CASE("a shift by a known amount is one operation, by a tile's a choice more", "[mosaic]") {
  const auto shifted = [](auto by) {
    return text_of([by](auto&, auto x, auto o, auto, auto) {
      const auto bits = bitcast<std::uint32_t>(*x);
      *o = bitcast<float>(bits >> by(bits));
    });
  };
  const std::string known = shifted([](const auto&) { return 3; });
  CHECK(count_ops(known, "arith.shrui") == 1);
  CHECK(count_ops(known, "arith.select") == 0);
  const std::string any = shifted([](const auto& bits) { return bits; });
  CHECK(count_ops(any, "arith.select") == 1);
  CHECK(count_ops(shifted([](const auto&) { return 32; }), "arith.select") == 1);
}

TEST_CASE("a body of another namespace finds the ops", "[mosaic]") {
  const std::string text =
      text_of([](auto&, auto x, auto o, auto, auto) { *o = elsewhere::twice_and_once(*x); });
  CHECK(count_ops(text, "arith.mulf") == 1);
  CHECK(count_ops(text, "arith.addf") == 1);
}

TEST_CASE("fma is made of integers, as no TPU has one, or a product and a sum on request",
          "[mosaic]") {
  const auto body = [](auto&, auto x, auto o, auto, auto) { *o = fma(*x, 2.f, *x); };
  const Probe<decltype(body), Arbitrary<int, int>> kernel{body, arbitrary(3)};
  const auto spec = kernel.spec();
  mosaic::detail::TypedKernel traced(kernel, spec);
  const std::string one = mosaic::write(traced).text;
  CHECK(count_ops(one, "math.fma") == 0);
  CHECK(count_ops(one, "arith.muli") == 4);
  mosaic::detail::TypedKernel again(kernel, spec);
  const std::string two = mosaic::write(again, false).text;
  CHECK(count_ops(two, "arith.muli") == 0);
  CHECK(count_ops(two, "arith.mulf") == 1);
  CHECK(count_ops(two, "arith.addf") == 1);
}

TEST_CASE("what no module of this build says is refused, with the body's line", "[mosaic]") {
  const auto fine = [](auto&, auto x, auto o, auto, auto) { *o = *x; };
  CHECK(count_ops(text_of(fine), "vector.load") == 1);
  CHECK(refused(text_of(fine, arbitrary(3), 32, 3), "windows of more than two slots: x"));
  CHECK(text_of(fine, arbitrary(3), 32, 1).find("pipeline_mode<synchronous>") != std::string::npos);

  const std::string loop = text_of([](auto& env, auto x, auto o, auto, auto) {
    for (auto i = env.program_id(0); i < 1000 * env.program_id(1); i = i + 1) *o = *x;
  });
  CHECK(refused(loop, "a loop whose trip count is data"));
  CHECK(loop.find("emit_test.cpp:" + std::to_string(__LINE__ - 3)) != std::string::npos);
  const std::string known = text_of([](auto&, auto x, auto o, auto, auto) {
    for (int i = 0; i < 3; ++i) *o = *x;
  });
  CHECK(count_ops(known, "tpu.vector_store") == 3);

  CHECK(refused(text_of([](auto&, auto x, auto o, auto, auto) { *o = logistic(*x); }),
                "the op logistic on f32"));
  CHECK(count_ops(text_of([](auto&, auto x, auto o, auto, auto) { *o = tanh(*x); }), "math.tanh") ==
        1);
  const auto scoped = [](bool carries) {
    return text_of([carries](auto& env, auto x, auto o, auto, auto) {
      auto v = load(*x * 2.f);
      env.run_scoped(
          [&](auto t) {
            *t = *x;
            if (carries) v = load(*t);
            *o = *t;
          },
          vmem<float>("t", 8, 128));
      *o += v;
    });
  };
  CHECK(count_ops(scoped(false), "tpu.region") == 1);
  CHECK(count_ops(scoped(false), "memref.alloca") == 1);
  CHECK(refused(scoped(true), "a value that a loop's body, or run_scoped's, makes is used after"));
  const std::string shapes =
      text_of([](auto&, auto x, auto o, auto, auto) { *o = load(dot(*x, transpose(*x))); });
  CHECK(shapes.find("error[shape-mismatch]: assignment of (8, 128) (8, 8)") != std::string::npos);
}

}  // namespace tessera
