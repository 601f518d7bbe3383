// The constructs of the language on the interpreter, the counter and the TPU build: each case's
// bits are its plain loops', a run without elements counts the same work, and the module that it
// becomes gives the same bits and moves the same bytes.
#include <catch2/catch.hpp>
#include <cstring>

#include "mosaic/emit.hpp"
#include "sim/run.hpp"
#include "tests/language/cases.hpp"
#ifdef TESSERA_READS_MODULES
#include "pallas/load.hpp"
#include "pallas/plan_module.hpp"
#include "program/call.hpp"
#endif

namespace tessera::language {

namespace {

template <class T>
Array array_of(const std::vector<T>& elems, const Shape& shape) {
  Array a(kDTypeOf<T>, shape);
  std::memcpy(a.bytes(), elems.data(), elems.size() * sizeof(T));
  return a;
}

/// Where the first element that differs is, of an array that should hold these; -1: nowhere.
template <class T>
std::int64_t first_difference(const Array& got, const std::vector<T>& want) {
  REQUIRE(got.size_bytes() == static_cast<std::int64_t>(want.size() * sizeof(T)));
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::memcmp(got.bytes() + i * sizeof(T), &want[i], sizeof(T)) != 0)
      return static_cast<std::int64_t>(i);
  }
  return -1;
}

#ifdef TESSERA_READS_MODULES
/// The same bits, as the module's call has them.
Array relabelled(const Array& a, DType dtype) {
  Array b(dtype, a.shape());
  std::memcpy(b.bytes(), a.bytes(), static_cast<std::size_t>(a.size_bytes()));
  return b;
}
RunResult run_module(const mosaic::BuiltModule& module, std::vector<Array> inputs,
                     const RunOptions& options) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i] = relabelled(inputs[i], module.inputs[i].dtype);
  const auto program = pallas::plan_module(pallas::load_module(module.text, module.name));
  program::Call call = program::make_call(*program, std::move(inputs));
  for (const auto& out : module.outputs)
    call.results.push_back(Array::undefined(out.dtype, out.shape));
  return program::run_call(call, options);
}
#endif

}  // namespace

TEMPLATE_LIST_TEST_CASE("a construct computes what its plain loops do, in every build",
                        "[language]", Cases) {
  using P = Probe<TestType>;
  CAPTURE(P::info.name);
  for (const char* device : {"tpu-v5e", "h100"}) {
    CAPTURE(device);
    const Expected<TestType> expected(7);
    const Shape shape = P::template array_shape<TestType::kRows, TestType::kCols>();
    const Array x = array_of(expected.x, shape);
    const Array y = array_of(expected.y, shape);
    RunOptions options{.device = load_device(device)};
    const P kernel;
    const RunResult run = tessera::run(kernel, Tiles{}, arrays(x, y), options);
    for (const auto& d : run.diagnostics) FAIL_CHECK(d.text());
    REQUIRE(run.ok());
    CHECK(first_difference(run.outputs[0], expected.o) == -1);

    options.dry = true;
    const RunResult dry = tessera::run(kernel, Tiles{}, {}, options);
    for (const auto& d : dry.diagnostics) FAIL_CHECK(d.text());
    CHECK(dry.no_work.empty());
    CHECK(dry.flops == run.flops);
    CHECK(dry.transcendentals == run.transcendentals);
    CHECK(dry.ledger().hbm_read_bytes() == run.ledger().hbm_read_bytes());

    // With an error model the values are the same; bounds are kept where another build may differ.
    const ErrorModel model;
    options.dry = false;
    options.error_model = model;
    const RunResult bounded = tessera::run(kernel, Tiles{}, arrays(x, y), options);
    REQUIRE(bounded.ok());
    CHECK(first_difference(bounded.outputs[0], expected.o) == -1);
    options.error_model = {};

    const mosaic::BuiltModule module = mosaic::emit(kernel, {});
    CHECK(module.text.find("language/cases.hpp") != std::string::npos);
#ifdef TESSERA_READS_MODULES
    if (options.device.name != "tpu-v5e") continue;
    const RunResult ran = run_module(module, {x, y}, options);
    for (const auto& d : ran.diagnostics) FAIL_CHECK(d.text());
    REQUIRE(ran.ok());
    CHECK(first_difference(ran.outputs[0], expected.o) == -1);
    CHECK(ran.ledger().hbm_read_bytes() == run.ledger().hbm_read_bytes());
    CHECK(ran.ledger().hbm_write_bytes() == run.ledger().hbm_write_bytes());
#endif
  }
}

namespace {
/// Through an array in HBM and scratch of a scope.
struct Detour {
  static constexpr KernelInfo info{.name = "detour", .summary = "", .math = ""};
  static constexpr auto tiles = kNoTiles;
  auto spec() const {
    const auto map = [](auto i) { return at(i, 0); };
    return tessera::spec(grid(arbitrary(3)), in<float>("x", shape(24, 128), block(8, 128), map),
                         out<float>("o", shape(24, 128), block(8, 128), map),
                         hbm<float>("spare", shape(2, 8, 128)), dma_sem("there"));
  }
  void operator()(auto& env, auto x, auto o, auto spare, auto there) const {
    const auto step = env.program_id(0);
    async_copy(x, spare.at(step % 2), there).wait();
    env.run_scoped(
        [&](auto t, auto back) {
          async_copy(spare.at(step % 2), t, back).wait();
          if (step > 0) *t *= 2.f;
          *o = *t + *x;
        },
        vmem<float>("t", 8, 128), dma_sem("back"));
  }
};
}  // namespace

TEST_CASE("scratch in HBM and of a scope is that of the module", "[language]") {
  std::vector<float> x(24 * 128);
  fill(x, 3);
  std::vector<float> want;
  for (std::size_t i = 0; i < x.size(); ++i) want.push_back(i < 8 * 128 ? x[i] + x[i] : x[i] * 3);
  RunOptions options{.device = load_device("tpu-v5e")};
  const RunResult run = tessera::run(Detour{}, Tiles{}, arrays(array_of(x, {24, 128})), options);
  for (const auto& d : run.diagnostics) FAIL_CHECK(d.text());
  REQUIRE(run.ok());
  CHECK(first_difference(run.outputs[0], want) == -1);
  const mosaic::BuiltModule module = mosaic::emit(Detour{}, {});
  CHECK(module.text.find("tpu.region") != std::string::npos);
#ifdef TESSERA_READS_MODULES
  const RunResult ran = run_module(module, {array_of(x, {24, 128})}, options);
  for (const auto& d : ran.diagnostics) FAIL_CHECK(d.text());
  REQUIRE(ran.ok());
  CHECK(first_difference(ran.outputs[0], want) == -1);
  CHECK(ran.ledger().hbm_read_bytes() == run.ledger().hbm_read_bytes());
  CHECK(ran.ledger().hbm_write_bytes() == run.ledger().hbm_write_bytes());
#endif
}

TEST_CASE("Philox-4x32-10 gives the published vectors", "[language][philox]") {
  // kat_vectors of Random123 1.14 (D. E. Shaw Research): counter, key, result.
  struct Vector {
    std::uint32_t counter[4];
    std::uint32_t key[2];
    std::uint32_t result[4];
  };
  const Vector published[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Vector& v : published) {
    const auto word = [](std::uint32_t w) { return Interpreter::full<std::uint32_t>(1, 1, w); };
    const auto got = philox({v.key[0], v.key[1]}, word(v.counter[0]), word(v.counter[1]),
                            word(v.counter[2]), word(v.counter[3]));
    std::uint32_t plain[4];
    std::copy(v.counter, v.counter + 4, plain);
    philox_reference(plain, v.key[0], v.key[1]);
    for (int w = 0; w < 4; ++w) {
      CHECK(got.word[w](0, 0) == v.result[w]);
      CHECK(plain[w] == v.result[w]);
    }
  }
}

}  // namespace tessera::language
