// The whole text of every diagnostic, golden in tests/diagnostics/<twin>.txt (TESSERA_BLESS=1
// rewrites them), and the silence of every good twin.
#include <catch2/catch.hpp>

#include "cli/handle.hpp"
#include "cli/registry.hpp"
#include "sim/run.hpp"
#include "tests/diagnostics/run_twins.hpp"
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

/// Wrong in three ways: a block that there is not, a slice that leaves its block, a row that is not
/// written.
struct Wrong : twins::Tile8x128 {
  static constexpr KernelInfo info{.name = "wrong", .summary = "", .math = ""};
  auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(4).as("i"), arbitrary(2).as("j")),
        in<float>("x", shape(32, 256), block(bm, bn), [](auto i, auto j) { return at(i + j, j); }),
        out<float>("o", shape(32, 256), block(bm, bn), [](auto i, auto j) { return at(i, j); }),
        out<float>("p", shape(32, 256), block(bm, bn), [](auto i, auto j) { return at(i, j); }));
  }
  void operator()(auto& env, auto x, auto o, auto p) const {
    *o = *x;
    p.store_at(*x, [](int r, int) { return r < 7; });
    if (env.program_id(0) == 1) *o += *x.slice(ds(0, 8), ds(128, 128));
  }
};

template <class K>
RunResult run_twin(const K& kernel, int threads, bool trap_nan, bool keep_going = false) {
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
             {.keep_going = keep_going,
              .threads = threads,
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
  check_twin<twins::CarriedRun>("parallel-dependence.run", "parallel-dependence");
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

TEST_CASE("a run that keeps going finds all that is wrong, each once", "[diagnostics]") {
  std::string first;
  for (const int threads : {1, 3}) {
    const RunResult all = run_twin(Wrong{}, threads, false, true);
    std::string text;
    std::vector<std::string> slugs;
    for (const Diagnostic& d : all.diagnostics) {
      slugs.push_back(d.slug);
      text += d.text();
    }
    CHECK(slugs == std::vector<std::string>{"oob-index", "oob-block", "output-not-covered"});
    CHECK(all.complete);
    CHECK(all.steps == 8);
    if (threads == 1) first = text;
    CHECK(text == first);
    const RunResult one = run_twin(Wrong{}, threads, false);
    REQUIRE(one.diagnostics.size() == 1);
    CHECK(one.diagnostics[0].text() == all.diagnostics[0].text());
  }
  compare("keep_going", first);
}

namespace {

reference::Expected row_sums(const auto&, const OracleInputs& in) {
  const auto& x = in["x"];
  reference::Tensor sums{{x.shape[0], 1}, std::vector<double>(x.shape[0])};
  reference::Tensor error = sums;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    sums.values[i / x.shape[1]] += x.values[i];
    error.values[i / x.shape[1]] += 300 * reference::kU32 * std::abs(x.values[i]);
  }
  return reference::Expected{sums, error};
}

template <template <class> class Kernel>
RunResult run_sum(bool check, RunOptions options) {
  cli::Request request;
  request.device = load_device(options.cores > 1 ? "tpu-v5p" : "tpu-v5e");
  request.check = check;
  request.options = std::move(options);
  const auto oracle = [](const auto& k, const OracleInputs& in) { return row_sums(k, in); };
  return cli::handle(entry<Kernel>(oracle)).run(request).result;
}

}  // namespace

TEST_CASE("a ragged tail without a padding is an undefined value that is read", "[diagnostics]") {
  for (const bool check : {true, false}) {  // with or without a reference
    for (const int threads : {1, 3}) {
      const RunResult bad = run_sum<twins::UnpaddedSum>(check, {.threads = threads});
      REQUIRE(bad.diagnostics.size() == 1);
      CHECK(bad.diagnostics[0].slug == "uninit-read");
      compare("uninit-read.ragged", bad.diagnostics[0].text());
      CHECK(run_sum<twins::GoodRaggedSum>(check, {.threads = threads}).ok());
    }
  }
}

TEST_CASE("it is on two cores and under a schedule too", "[diagnostics]") {
  for (const int cores : {1, 2}) {
    for (const char* schedule : {"eager", "random:1"}) {
      const RunOptions options{.cores = cores, .schedule = parse_schedule(schedule)};
      const RunResult bad = run_sum<twins::UnpaddedSum>(false, options);
      REQUIRE(bad.diagnostics.size() == 1);
      CHECK(bad.diagnostics[0].slug == "uninit-read");
      CHECK(run_sum<twins::GoodRaggedSum>(false, options).ok());
    }
  }
}

TEST_CASE("it is in a kernel that copies too", "[diagnostics]") {
  for (const int cores : {1, 2}) {
    for (const char* schedule : {"on_wait", "explore:3"}) {
      const RunOptions options{.cores = cores, .schedule = parse_schedule(schedule)};
      const RunResult bad = run_sum<twins::UnpaddedCopiedSum>(false, options);
      REQUIRE(bad.diagnostics.size() == 1);
      CHECK(bad.diagnostics[0].slug == "uninit-read");
      CHECK(run_sum<twins::GoodCopiedSum>(false, options).ok());
    }
  }
}

TEST_CASE("a ragged tail with another padding is a mismatch", "[diagnostics]") {
  const RunResult bad = run_sum<twins::SumWithOnes>(true, {.threads = 1});
  REQUIRE(bad.diagnostics.size() == 1);
  CHECK(bad.diagnostics[0].slug == "mismatch");
  compare("mismatch", bad.diagnostics[0].text());
}

TEST_CASE("a closed form that is not what moved is named, with the case and what each ref moved",
          "[diagnostics]") {
  const RunResult bad = run_sum<twins::CountsPadding>(true, {.threads = 1});
  REQUIRE(bad.diagnostics.size() == 1);
  CHECK(bad.diagnostics[0].slug == "closed-form");
  compare("closed-form", bad.diagnostics[0].text());
}

TEST_CASE("a value read from a ref stays what it was when the ref is written", "[sim][block]") {
  const auto result = run(Swap{}, tiles(8, 128), {});
  REQUIRE(result.ok());
  CHECK(result.outputs[0].at(0) == 2 + 3 + 7 - 3);
  CHECK(result.outputs[1].at(0) == 1);
}
