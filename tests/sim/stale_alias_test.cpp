// stale-alias of a body in C++: what steps add to an aliased input's block.
#include <catch2/catch.hpp>

#include "memory_model/array.hpp"
#include "sim/ops/all.hpp"
#include "sim/run.hpp"

using namespace tessera;

namespace {

constexpr int kSteps = 4;

/// o, in the place of x, is the sum of x and a term for each step. `Stays`: all steps have one
/// block.
template <bool Stays, bool FromInput>
struct SumInPlace {
  static constexpr KernelInfo info{.name = "sum", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("unused"));

  TESSERA_FN auto spec(auto) const {
    const auto all = shape(Int<8 * kSteps>{}, Int<128>{});
    const auto one = block(Int<8>{}, Int<128>{});
    const auto own = [](auto i) { return at(i, 0); };
    const auto place = [](auto i) { return Stays ? at(i * 0, 0) : at(i, 0); };
    return tessera::spec(grid(arbitrary(kSteps).as("i")), in<float>("terms", all, one, own),
                         in<float>("x", all, one, place),
                         out<float>("o", all, one, place).aliases("x"));
  }
  TESSERA_FN void operator()(auto& env, auto terms, auto x, auto o) const {
    if constexpr (FromInput) {
      *o = *x + *terms;
    } else {
      if (env.first(0)) *o = load(*x);
      *o += *terms;
    }
  }
};

std::vector<std::string> notes(const auto& kernel) {
  Array terms(DType::f32, Shape{8 * kSteps, 128});
  for (std::int64_t i = 0; i < terms.shape().elems(); ++i)
    terms.data<float>()[i] = static_cast<float>(i + 1);
  Array x(DType::f32, Shape{8 * kSteps, 128});
  const RunResult result = run(kernel, tiles(1), arrays(terms, x), {});
  for (const Diagnostic& d : result.diagnostics) UNSCOPED_INFO(d.text());
  CHECK(result.ok());
  return result.notes;
}

}  // namespace

TEST_CASE("a step that adds to an aliased input's block loses what the step before added") {
  const auto said = notes(SumInPlace<true, true>{});
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0],
             Catch::StartsWith("stale-alias: o overwrites x, and 3 steps lose what earlier "
                               "ones wrote, 3,072 elements in all; first in block (0, 0): "
                               "grid (i=0) wrote it ("));
  CHECK_THAT(said[0], Catch::Contains("stale_alias_test.cpp") &&
                          Catch::Contains("*o = *x + *terms") &&
                          Catch::Contains("and grid (i=1) anew, from what x held before ("));
  CHECK(notes(SumInPlace<true, false>{}).empty());
  CHECK(notes(SumInPlace<false, true>{}).empty());
}
