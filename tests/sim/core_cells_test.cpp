// Which cells a v5p's cores have: held to the copies of schedules by libtpu 0.0.42.1.
#include <catch2/catch.hpp>

#include "sim/ops/all.hpp"
#include "sim/pipeline/core_cells.hpp"
#include "sim/run.hpp"
#include "tests/sim/counting.hpp"

using namespace tessera;

namespace {

/// "00 01, 10 11": the ids of each core's cells, in order, with those that the second one repeats.
std::string shared(const std::vector<int>& extents, int cores) {
  Plan plan;
  plan.device = load_device("tpu-v5p");
  plan.grid_rank = plan.parallel_rank = static_cast<int>(extents.size());
  for (std::size_t d = 0; d < extents.size(); ++d) plan.bounds[d] = Range{0, extents[d]};
  const CoreCells cells(plan, cores);
  std::string text;
  const auto add = [&](std::int64_t cell) {
    std::string ids;
    for (auto extent = extents.rbegin(); extent != extents.rend(); ++extent) {
      ids.insert(0, std::to_string(cell % *extent));
      cell /= *extent;
    }
    text += " " + ids;
  };
  for (int core = 0; core < cores; ++core) {
    const auto [begin, end] = places_of(plan.cells(), core, cores);
    if (core > 0) text += ",";
    for (std::int64_t place = begin; place < end; ++place) {
      add(cells.at(place));
      if (cells.in_order(place) > 1) CHECK(cells.at(place + 1) == cells.at(place) + 1);
    }
    if (core + 1 < cores) continue;
    for (std::int64_t cell = 0; cell < repeats(plan.cells(), cores); ++cell) add(cell);
  }
  return text.substr(1);
}

/// o[i, j] = x[i] + 1.
struct RowsApart {
  static constexpr KernelInfo info{.name = "rows_apart", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bm"));
  int rows = 0;
  int cols = 0;
  TESSERA_FN auto spec(auto bm) const {
    return tessera::spec(grid(parallel(rows).as("i"), parallel(cols).as("j")),
                         in<float>("x", shape(bm * rows, 128), block(bm, Int<128>{}),
                                   [](auto i, auto) { return at(i, 0); }),
                         out<float>("o", shape(bm * rows, 128 * cols), block(bm, Int<128>{}),
                                    [](auto i, auto j) { return at(i, j); }));
  }
  TESSERA_FN void operator()(auto&, auto x, auto o) const { *o = *x + 1.f; }
};

}  // namespace

TEST_CASE("cores share the first parallel dim that is even", "[sim][cores]") {
  CHECK(shared({4}, 2) == "0 1, 2 3");
  CHECK(shared({1, 4}, 2) == "00 01, 02 03");
  CHECK(shared({2, 3}, 2) == "00 01 02, 10 11 12");
  CHECK(shared({2, 2}, 2) == "00 01, 10 11");
  CHECK(shared({3, 4}, 2) == "00 01 10 11 20 21, 02 03 12 13 22 23");
  CHECK(shared({5, 2}, 2) == "00 10 20 30 40, 01 11 21 31 41");
  CHECK(shared({4, 3}, 2) == "00 01 02 10 11 12, 20 21 22 30 31 32");
  CHECK(shared({3, 4}, 1) == "00 01 02 03 10 11 12 13 20 21 22 23");
}

TEST_CASE("if none is, the second core begins again at the first cell", "[sim][cores]") {
  CHECK(shared({3}, 2) == "0 1, 2 0");
  CHECK(shared({5}, 2) == "0 1 2, 3 4 0");
  CHECK(shared({1, 3}, 2) == "00 01, 02 00");
  CHECK(shared({3, 3}, 2) == "00 01 02 10 11, 12 20 21 22 00");
  CHECK(shared({3, 5}, 2) == "00 01 02 03 04 10 11 12, 13 14 20 21 22 23 24 00");
  CHECK(shared({1}, 2) == "0,");  // the second one leaves
}

TEST_CASE("cores compute and move what the cells that they share need", "[sim][cores]") {
  // A schedule of the same grid reads a row's block once on each core that has cells of it.
  const RowsApart kernel{.rows = 3, .cols = 4};
  const Array x = counting({24, 128});
  RunOptions options{.device = load_device("tpu-v5p")};
  const RunResult one = run(kernel, tiles(8), arrays(x), options);
  options.cores = 2;
  const RunResult two = run(kernel, tiles(8), arrays(x), options);
  options.dry = true;
  options.trace_steps = 100;
  const RunResult dry = run(kernel, tiles(8), {}, options);
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  REQUIRE(dry.ok());
  for (std::int64_t i = 0; i < one.outputs[0].elems(); ++i)
    REQUIRE(two.outputs[0].at(i) == one.outputs[0].at(i));
  CHECK(one.ledger().refs()[0].transfers == 3);
  CHECK(two.ledger().refs()[0].transfers == 6);
  CHECK(dry.ledger().refs()[0].transfers == 6);
  CHECK(two.ledger().refs()[1].transfers == 12);
  CHECK(dry.trace.blocks[1] == std::vector<std::int32_t>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11});
}
