// The whole text of every diagnostic, golden in tests/diagnostics/<twin>.txt (TESSERA_BLESS=1
// rewrites them), and the silence of every good twin.
#include <catch2/catch.hpp>

#include "cli/handle.hpp"
#include "cli/registry.hpp"
#include "sim/run.hpp"
#include "tests/diagnostics/twins.hpp"
#include "tests/golden_text.hpp"

using namespace tessera;

namespace {

struct Swap : twins::Tile8x128 {
  static constexpr KernelInfo info{.name = "swap", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(1)),
        out<float>("a", shape(8, 128), block(bm, bn), [](auto) { return at(0, 0); }),
        out<float>("b", shape(8, 128), block(bm, bn), [](auto) { return at(0, 0); }),
        vmem<float>("buf", 16, bn));
  }
  void operator()(auto&, auto a, auto b, auto buf) const {
    *a = 1.f;
    *b = 2.f;
    auto old = load(*a);
    *a = *b;
    *b = old;
    *buf = 3.f;
    auto part = load(*buf.slice(ds(8, 8), ds(0, 128)));
    *buf.slice(ds(8, 8), ds(0, 128)) = 7.f;
    *a += part;
    *a += *buf.slice(ds(8, 8), ds(0, 128)) - *buf.slice(ds(0, 8), ds(0, 128));
  }
};

void compare(const std::string& twin, const std::string& text) {
  tests::compare_with_golden(__FILE__, twin + ".txt", text);
}

template <class K>
RunResult run_twin(const K& kernel, int threads, bool trap_nan) {
  const auto spec = kernel.spec(8, 128);
  Plan plan = plan_of(K::info.name, spec, load_device("tpu-v5e"));
  std::vector<Array> inputs;
  for (const auto& op : plan.operands) {
    if (op.role != Role::in) continue;
    Array a(op.dtype, op.array);
    for (std::int64_t i = 0; i < a.elems(); ++i) a.set(i, static_cast<double>(i % 17));
    inputs.push_back(std::move(a));
  }
  Inputs pointers;
  for (const auto& a : inputs) pointers.push_back(&a);
  return run(kernel, tiles(8, 128), pointers,
             {.threads = threads,
              .trap_nan = trap_nan,
              .command = std::string("tessera run ") + K::info.name});
}

template <template <bool> class Twin>
void check_twin(const std::string& name, const std::string& slug) {
  CAPTURE(name);
  const bool trap_nan = slug == "nan-born";
  std::string first;
  for (const int threads : {1, 2, 5}) {
    const RunResult bad = run_twin(Twin<true>{}, threads, trap_nan);
    REQUIRE(bad.diagnostics.size() == 1);
    CHECK(bad.diagnostics[0].slug == slug);
    CHECK(bad.diagnostics[0].kind == Diagnostic::Kind::kernel);
    if (threads == 1) first = bad.diagnostics[0].text();
    CHECK(bad.diagnostics[0].text() == first);  // the same words for every thread count
    const RunResult good = run_twin(Twin<false>{}, threads, trap_nan);
    for (const auto& d : good.diagnostics) FAIL_CHECK(d.text());
  }
  compare(name, first);
}

}  // namespace

TEST_CASE("every bad program is named, and its twin passes without a word", "[diagnostics]") {
  check_twin<twins::OobBlock>("oob-block", "oob-block");
  check_twin<twins::OobSlice>("oob-index", "oob-index");
  check_twin<twins::OobScalar>("oob-index.scalar", "oob-index");
  check_twin<twins::UninitScratch>("uninit-read", "uninit-read");
  check_twin<twins::UninitOutput>("uninit-read.output", "uninit-read");
  check_twin<twins::NotCovered>("output-not-covered", "output-not-covered");
  check_twin<twins::PartlyCovered>("output-not-covered.partly", "output-not-covered");
  check_twin<twins::Revisit>("output-revisit", "output-revisit");
  check_twin<twins::StaleScratch>("parallel-dependence", "parallel-dependence");
  check_twin<twins::SharedOutput>("parallel-dependence.output", "parallel-dependence");
  check_twin<twins::VmemCapacity>("vmem-capacity", "vmem-capacity");
  check_twin<twins::SmemCapacity>("smem-capacity", "smem-capacity");
  check_twin<twins::IllegalBlock>("illegal-block-shape", "illegal-block-shape");
  check_twin<twins::Misaligned>("misaligned-slice", "misaligned-slice");
  check_twin<twins::MisalignedRow>("misaligned-slice.row", "misaligned-slice");
  check_twin<twins::NanBorn>("nan-born", "nan-born");
  check_twin<twins::Shapes>("shape-mismatch", "shape-mismatch");
  check_twin<twins::Checks>("check", "check");
}

TEST_CASE("a ragged tail without a padding is a mismatch", "[diagnostics]") {
  const auto oracle = [](const auto&, const OracleInputs& in) {
    const auto& x = in["x"];
    reference::Tensor sums{{x.shape[0], 1}, std::vector<double>(x.shape[0])};
    reference::Tensor error = sums;
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      sums.values[i / x.shape[1]] += x.values[i];
      error.values[i / x.shape[1]] += 300 * reference::kU32 * std::abs(x.values[i]);
    }
    return reference::Expected{sums, error};
  };
  cli::Request request;
  request.device = load_device("tpu-v5e");
  const auto bad = cli::handle(entry<twins::BadRaggedSum>(oracle)).run(request);
  REQUIRE(bad.result.diagnostics.size() == 1);
  CHECK(bad.result.diagnostics[0].slug == "mismatch");
  compare("mismatch", bad.result.diagnostics[0].text());
  CHECK(cli::handle(entry<twins::GoodRaggedSum>(oracle)).run(request).result.ok());
}

TEST_CASE("a value read from a ref stays what it was when the ref is written", "[sim][block]") {
  const auto result = run(Swap{}, tiles(8, 128), {});
  REQUIRE(result.ok());
  CHECK(result.outputs[0].at(0) == 2 + 3 + 7 - 3);
  CHECK(result.outputs[1].at(0) == 1);
}
