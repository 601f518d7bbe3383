// Real kernels of JAX against recorded results and the package's own references: every folder of
// ../shared/mosaic-corpus. Skipped, by name, where there is no such folder.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "pallas/call_directory.hpp"

namespace tessera::pallas {

namespace {

std::vector<std::string> corpus() {
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_CORPUS, error)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) std::cerr << "skipped: no " << TESSERA_CORPUS << "\n";
  return folders;
}

void agree(const Array& got, const Array& wanted, const Array* undefined, double rtol, double atol,
           bool nan_means_nothing) {
  REQUIRE(got.elems() == wanted.elems());
  std::int64_t bad = 0;
  for (std::int64_t i = 0; i < got.elems(); ++i) {
    if (undefined != nullptr && undefined->at(i) != 0) continue;
    const double g = got.at(i);
    const double w = wanted.at(i);
    if (g == w || (std::isnan(w) && (nan_means_nothing || std::isnan(g)))) continue;
    if (!(std::fabs(g - w) <= atol + rtol * std::fabs(w))) ++bad;
  }
  CHECK(bad == 0);
}

}  // namespace

TEST_CASE("real kernels agree with what was recorded, under every schedule", "[corpus]") {
  for (const std::string& folder : corpus()) {
    CAPTURE(folder);
    const RecordedCall r = read_call(folder);
    RunOptions options;
    options.device = load_device(r.device.empty() ? "tpu-v6e" : r.device);
    options.mesh = {r.devices};
    options.cores = r.cores;
    std::vector<std::string> schedules{"eager", "on_wait", "random:1"};
    if (r.eager) {
      // It takes for granted that copies land in the order of their starts: a race, and found.
      RunResult racy = run_call(r.call, options);
      REQUIRE(racy.diagnostics.size() == 1);
      CHECK(racy.diagnostics[0].slug == "race");
      options.find_races = false;
      schedules = {"eager"};
    }
    RunResult first;
    for (const std::string& schedule : schedules) {
      CAPTURE(schedule);
      if (r.program->asynchronous) options.schedule = parse_schedule(schedule);
      options.threads = schedule == "eager" ? 1 : 2;
      RunResult result = run_call(r.call, options);
      if (!result.ok()) INFO(result.diagnostics[0].text());
      REQUIRE(result.ok());
      for (std::size_t j = 0; j < r.expected.size(); ++j) {
        CAPTURE(j);
        const ExpectedResult& e = r.expected[j];
        if (e.interpreted) {
          agree(result.outputs[j], *e.interpreted, e.undefined ? &*e.undefined : nullptr,
                e.interpreted_rtol, e.interpreted_atol, !e.undefined);
        }
        if (e.reference)
          agree(result.outputs[j], *e.reference, nullptr, e.reference_rtol, e.reference_atol,
                false);
      }
      // The same bits and bytes for every schedule and thread count.
      if (schedule == "eager") {
        first = std::move(result);
        continue;
      }
      CHECK(result.ledger().hbm_read_bytes() == first.ledger().hbm_read_bytes());
      CHECK(result.ledger().hbm_write_bytes() == first.ledger().hbm_write_bytes());
      for (std::size_t j = 0; j < result.outputs.size(); ++j) {
        CHECK(std::memcmp(result.outputs[j].bytes(), first.outputs[j].bytes(),
                          static_cast<std::size_t>(first.outputs[j].size_bytes())) == 0);
      }
    }
  }
}

TEST_CASE("the bytes of a recorded product are those of its closed form", "[corpus]") {
  const std::string folder = std::string(TESSERA_CORPUS) + "/jax__matmul_f32";
  if (!std::filesystem::exists(folder)) {
    std::cerr << "skipped: no " << folder << "\n";
    return;
  }
  const RecordedCall r = read_call(folder);
  const RunResult result = run_call(r.call, {});
  REQUIRE(result.ok());
  // Grid (2, 3, 2) of blocks (128, 256) x (256, 128) -> (128, 128): x and y come at every step.
  CHECK(result.ledger().hbm_read_bytes() == 12 * 2 * 128 * 256 * 4);
  CHECK(result.ledger().hbm_write_bytes() == 6 * 128 * 128 * 4);
  CHECK(result.flops == 2LL * 256 * 384 * 512 + 12LL * 128 * 128);
}

TEST_CASE("a dry run of a real kernel counts what a run counts", "[corpus][dry]") {
  int counted = 0;
  const auto folders = corpus();
  for (const std::string& folder : folders) {
    CAPTURE(folder);
    const RecordedCall r = read_call(folder);
    if (r.devices > 1 || r.eager) continue;
    RunOptions options;
    options.device = load_device(r.device.empty() ? "tpu-v6e" : r.device);
    options.cores = r.cores;
    const RunResult full = run_call(r.call, options);
    options.dry = true;
    const RunResult dry = run_call(r.call, options);
    REQUIRE(full.ok());
    if (!dry.ok()) {
      CHECK(dry.diagnostics[0].slug == "unsupported");
      continue;
    }
    ++counted;
    CHECK(dry.dry);
    CHECK(dry.steps == full.steps);
    REQUIRE(dry.ledger().refs().size() == full.ledger().refs().size());
    for (std::size_t i = 0; i < full.ledger().refs().size(); ++i) {
      for (const auto count : Ledger::kCounts)
        CHECK(dry.ledger().refs()[i].*count == full.ledger().refs()[i].*count);
    }
  }
  CHECK((counted > 20 || folders.empty()));
}

}  // namespace tessera::pallas
