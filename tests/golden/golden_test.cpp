// The folder of a golden, verdicts, and the search for the first step that differs.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "golden/bisect.hpp"
#include "golden/golden.hpp"
#include "golden/sha256.hpp"
#include "golden/verdict.hpp"
#include "kernels/all_gather_matmul.hpp"
#include "kernels/dma_matmul.hpp"
#include "kernels/matmul.hpp"
#include "memory_model/npy.hpp"
#include "sim/run.hpp"

using namespace tessera;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("golden_test." + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

Array pattern(Shape shape, int step) {
  Array a(DType::f32, shape);
  for (std::int64_t i = 0; i < a.elems(); ++i)
    a.data<float>()[i] =
        static_cast<float>((i * step) % 19 - 9) / 8.f + static_cast<float>(i) * 0x1p-20f;
  return a;
}

golden::Golden made(Profile profile = Profile::exact) {
  const Array x = pattern({100, 130}, 7);
  const Array y = pattern({130, 70}, 5);
  RunOptions options;
  options.error_model = ErrorModel{};
  options.keep_checksums = true;
  options.profile = profile;
  RunResult result =
      run(kernels::Matmul<float>{100, 70, 130}, tiles(64, 128, 128), arrays(x, y), options);
  REQUIRE(result.ok());
  golden::Golden g;
  g.kernel = "matmul";
  g.sizes = {{"m", 100}, {"n", 70}, {"k", 130}};
  g.tiles = {{"bm", 64}, {"bn", 128}, {"bk", 128}};
  g.dtype = "f32";
  g.device = "tpu-v5e";
  g.profile = name(profile);
  g.error_model = *options.error_model;
  g.inputs = {{"x", x}, {"y", y}};
  take_result(g, std::move(result), {"o"});
  return g;
}

}  // namespace

TEST_CASE("SHA-256 is that of FIPS 180-4", "[golden]") {
  CHECK(golden::sha256("abc", 3) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(golden::sha256("", 0) ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("a golden is read as it was written", "[golden]") {
  const Folder folder;
  const golden::Golden g = made();
  write(folder.path / "g", g);
  const golden::Golden back = golden::read(folder.path / "g");
  CHECK(golden::describe(back) == golden::describe(g));
  CHECK(back.error_model.function_ulp == g.error_model.function_ulp);
  CHECK(back.error_model.accumulate == g.error_model.accumulate);
  CHECK(back.steps.dims == g.steps.dims);
  CHECK(back.steps.refs == g.steps.refs);
  const auto same = [](const Array& a, const Array& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() &&
           std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.size_bytes())) == 0;
  };
  CHECK(same(back.outputs[0].values, g.outputs[0].values));
  CHECK(same(back.outputs[0].bounds, g.outputs[0].bounds));
  CHECK(same(back.inputs[1].array, g.inputs[1].array));
  CHECK(same(back.steps.rows, g.steps.rows));
  write(folder.path / "g", g);  // again, over itself
  fs::create_directories(folder.path / "other");
  std::ofstream(folder.path / "other/notes.txt") << "mine";
  CHECK_THROWS_AS(write(folder.path / "other", g), InputError);
  CHECK(fs::exists(folder.path / "other/notes.txt"));
  CHECK_THROWS_AS(write(folder.path / "none/g", g), InputError);
}

TEST_CASE("a verdict is bit-exact, within the bound, or wrong, and says where", "[golden]") {
  const golden::Golden g = made();
  Array theirs = g.outputs[0].values;
  CHECK(golden::judge(g, 0, theirs).exact == 7000);
  const std::int64_t at = 70 * 69 + 3;  // row 69 is in the second block of rows
  const float bound = g.outputs[0].bounds.data<float>()[at];
  REQUIRE(bound > 0);
  const float right = theirs.data<float>()[at];
  theirs.data<float>()[at] = right + 0.9f * bound;
  CHECK(golden::judge(g, 0, theirs).within == 1);
  CHECK(golden::judge(g, 0, theirs).wrong == 0);
  theirs.data<float>()[at] = right + 1.5f * bound;
  const golden::Verdict v = golden::judge(g, 0, theirs);
  CHECK(v.wrong == 1);
  const std::string text = v.mismatch->text();
  CHECK(text.find("o[69, 3]") != std::string::npos);
  CHECK(text.find(
            "block (1, 0), element [5, 3] of the block; written at grid step (i=1, j=0, k=1)") !=
        std::string::npos);
  theirs.data<float>()[at] = NAN;
  CHECK(golden::judge(g, 0, theirs).wrong == 1);
  theirs.data<float>()[at] = INFINITY;
  CHECK(golden::judge(g, 0, theirs).wrong == 1);
}

TEST_CASE("checksums of the steps are the same for every thread count, and see one bit",
          "[golden]") {
  const golden::Golden g = made();
  CHECK(golden::bisect(g.steps, made().steps.rows).differ == 0);
  Array rows = g.steps.rows;
  // The accumulator at each of 4 steps, and 2 blocks of the output.
  REQUIRE(rows.shape()[0] == 6);
  const std::int64_t columns = rows.shape()[1];
  rows.data<std::int64_t>()[3 * columns + columns - 1] += 1;
  const golden::Parting parting = golden::bisect(g.steps, rows);
  CHECK(parting.differ == 1);
  CHECK(parting.compared == 6);
  CHECK(parting.step == "(i=1, j=0, k=0)");
  CHECK(parting.ref == "acc");
}

TEST_CASE("bounds go with copies by DMA, between spaces and devices", "[golden][bounds]") {
  const Array x = pattern({100, 130}, 7);
  const Array y = pattern({130, 70}, 5);
  RunOptions options;
  options.error_model = ErrorModel{};
  const RunResult plain =
      run(kernels::Matmul<float>{100, 70, 130}, tiles(64, 128, 128), arrays(x, y), options);
  const RunResult copied =
      run(kernels::DmaMatmul<float>{100, 70, 130}, tiles(64, 128, 128), arrays(x, y), options);
  REQUIRE(plain.ok());
  REQUIRE(copied.ok());
  CHECK(std::memcmp(plain.bounds[0].bytes(), copied.bounds[0].bytes(),
                    static_cast<std::size_t>(plain.bounds[0].size_bytes())) == 0);

  constexpr int kDevices = 4;
  options.mesh = {kDevices};
  const Array shards = pattern({kDevices * 64, 256}, 7);
  const Array right = pattern({kDevices * 256, 128}, 5);
  const RunResult gathered = run(kernels::AllGatherMatmul<float>{kDevices, 64, 128, 256, 1},
                                 tiles(64, 128, 256), arrays(shards, right), options);
  REQUIRE(gathered.ok());
  for (std::int64_t i = 0; i < gathered.bounds[0].elems(); ++i)
    REQUIRE(gathered.bounds[0].at(i) > 0);
}

TEST_CASE("bounds are the same for every thread count, and none unless asked for",
          "[golden][bounds]") {
  const Array x = pattern({100, 130}, 7);
  const Array y = pattern({130, 70}, 5);
  std::vector<Array> bounds;
  for (const int threads : {1, 2}) {
    RunOptions options;
    options.error_model = ErrorModel{};
    options.threads = threads;
    RunResult result =
        run(kernels::Matmul<float>{100, 70, 130}, tiles(64, 128, 128), arrays(x, y), options);
    REQUIRE(result.ok());
    bounds.push_back(std::move(result.bounds[0]));
  }
  CHECK(std::memcmp(bounds[0].bytes(), bounds[1].bytes(),
                    static_cast<std::size_t>(bounds[0].size_bytes())) == 0);
  RunOptions plain;
  CHECK(run(kernels::Matmul<float>{100, 70, 130}, tiles(64, 128, 128), arrays(x, y), plain)
            .bounds.empty());
}
