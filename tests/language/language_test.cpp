// The constructs of the language on the interpreter, the counter and the TPU build: each case's
// bits are its plain loops', a run without elements counts the same work, and the module that it
// becomes gives the same bits and moves the same bytes.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "mosaic/emit.hpp"
#include "sim/run.hpp"
#include "tests/language/cases.hpp"
#include "tests/language/memory_cases.hpp"
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
  const std::vector<std::byte> bytes = packed(elems);
  std::memcpy(a.bytes(), bytes.data(), bytes.size());
  return a;
}

/// Where the first element that differs is, of an array that should hold these; -1: nowhere.
template <class T>
std::int64_t first_difference(const Array& got, const std::vector<T>& want) {
  REQUIRE(got.elems() == static_cast<std::int64_t>(want.size()));
  for (std::int64_t i = 0; i < got.elems(); ++i) {
    const T elem = load_element<T>(got.bytes(), i);
    if (std::memcmp(&elem, &want[static_cast<std::size_t>(i)], sizeof(T)) != 0) return i;
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
RunResult run_module(const mosaic::BuiltModule& module, const std::vector<Array>& given,
                     const RunOptions& options) {
  std::vector<Array> inputs;
  for (std::size_t i = 0; i < module.prefetched.size(); ++i) {
    inputs.emplace_back(module.prefetched[i].dtype, module.prefetched[i].shape);
    std::memcpy(inputs.back().bytes(), module.prefetched_words[i].data(),
                static_cast<std::size_t>(inputs.back().size_bytes()));
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    inputs.push_back(relabelled(given[i], module.inputs[i].dtype));
  const auto program = pallas::plan_module(pallas::load_module(module.text, module.name));
  std::vector<std::pair<std::size_t, int>> aliases;
  for (const auto& a : module.aliases)
    aliases.emplace_back(module.prefetched.size() + static_cast<std::size_t>(a.input), a.output);
  program::Call call = program::make_call(*program, std::move(inputs), aliases);
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
    if (!TestType::kOnTpu && device != std::string("h100")) continue;
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

TEMPLATE_LIST_TEST_CASE("what is kept and moved by hand is the same in every build", "[language]",
                        MemoryCases) {
  TestType kernel;
  CAPTURE(TestType::info.name);
  const std::vector<HostArray> none;
  PreparedHost host(none);
  if constexpr (requires { kernel.prepare(host, Tiles{}); }) kernel.prepare(host, Tiles{});
  std::vector<Plain> inputs;
  TestType::fill_shapes(inputs);
  std::vector<Array> given;
  for (Plain& in : inputs) {
    in.elems.resize(static_cast<std::size_t>(in.shape.elems()));
    fill(in.elems, given.size() + 3);
    given.push_back(array_of(in.elems, in.shape));
  }
  const std::vector<Plain> wanted = TestType::wanted(inputs);
  // An input that is the same as another is given once more.
  if (std::is_same_v<TestType, Halves>) given.push_back(given.front());
  Inputs arrays;
  for (const Array& a : given) arrays.push_back(&a);
  for (const char* device : {"tpu-v5e", "h100"}) {
    CAPTURE(device);
    const RunOptions options{.device = load_device(device)};
    const RunResult run = tessera::run(kernel, Tiles{}, arrays, options);
    for (const auto& d : run.diagnostics) FAIL_CHECK(d.text());
    REQUIRE(run.ok());
    REQUIRE(run.outputs.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      CAPTURE(wanted[i].name);
      CHECK(first_difference(run.outputs[i], wanted[i].elems) == -1);
    }
    if (options.device.name != "tpu-v5e") continue;
    const mosaic::BuiltModule module = mosaic::emit(kernel, {});
    CHECK(module.text.find("language/memory_cases.hpp") != std::string::npos);
#ifdef TESSERA_READS_MODULES
    const RunResult ran = run_module(module, given, options);
    for (const auto& d : ran.diagnostics) FAIL_CHECK(d.text());
    REQUIRE(ran.ok());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      CAPTURE(wanted[i].name);
      CHECK(first_difference(ran.outputs[i], wanted[i].elems) == -1);
    }
    CHECK(ran.ledger().hbm_read_bytes() == run.ledger().hbm_read_bytes());
    CHECK(ran.ledger().hbm_write_bytes() == run.ledger().hbm_write_bytes());
#endif
  }
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
    const auto by_tiles = philox(word(v.key[0]), word(v.key[1]), word(v.counter[0]),
                                 word(v.counter[1]), word(v.counter[2]), word(v.counter[3]));
    for (int w = 0; w < 4; ++w) {
      CHECK(got.word[w](0, 0) == v.result[w]);
      CHECK(by_tiles.word[w](0, 0) == v.result[w]);
      CHECK(plain[w] == v.result[w]);
    }
  }
}

}  // namespace tessera::language
