// Real kernels of JAX against recorded results and the package's own references: every folder of
// ../shared/mosaic-corpus. Skipped, by name, where there is no such folder.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "pallas/call_directory.hpp"
#include "predict/timeline.hpp"
#include "report/step_traffic.hpp"

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
    options.device = r.device.value_or(load_device("tpu-v6e"));
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

TEST_CASE("the steps of a real kernel move the bytes of its ledger", "[corpus][trace]") {
  int traced = 0;
  int timed = 0;
  int copying = 0;
  const auto folders = corpus();
  for (const std::string& folder : folders) {
    CAPTURE(folder);
    const RecordedCall r = read_call(folder);
    if (r.devices > 1 || r.eager) continue;
    RunOptions options;
    options.device = r.device.value_or(load_device("tpu-v6e"));
    options.cores = r.cores;
    options.trace_steps = 1 << 20;
    options.threads = 2;
    const RunResult result = run_call(r.call, options);
    REQUIRE(result.ok());
    const StepTrace& trace = result.trace;
    if (!r.program->subcores.empty()) {
      CHECK(trace.steps == 0);
      continue;
    }
    ++traced;
    REQUIRE(trace.complete);
    REQUIRE(trace.steps == result.steps);
    std::vector<std::int64_t> moved(result.ledger().refs().size(), 0);
    report::for_each_transfer(
        result.plan, trace, r.cores,
        [&](std::int64_t, std::size_t i, std::int32_t, Why, std::int64_t bytes) {
          moved[static_cast<std::size_t>(result.plan.operands[i].ledger_ref)] += bytes;
        });
    for (const OperandPlan& op : result.plan.operands) {
      if (!op.pipelined()) continue;
      CAPTURE(op.name);
      const auto ref = static_cast<std::size_t>(op.ledger_ref);
      CHECK(moved[ref] == result.ledger().refs()[ref].bytes);
    }
    std::int64_t flops = 0;
    REQUIRE(static_cast<std::int64_t>(trace.work.size()) == trace.steps);
    for (const std::int32_t w : trace.work) flops += trace.works[static_cast<std::size_t>(w)].flops;
    CHECK(flops == result.flops);
    const auto line = predict::timeline_of(result.plan, trace, DType::bf16,
                                           {.cores = r.cores, .mesh = options.mesh});
    CHECK(line.unmodelled.empty());
    // No shorter than its bytes at the full rate; scalars come before the first step.
    std::int64_t bytes = 0;
    for (const RefTotals& ref : result.ledger().refs()) {
      if (std::string_view(ref.direction) != "scalar")
        bytes += ref.padded_read_bytes + ref.padded_write_bytes;
    }
    const double full_rate = static_cast<double>(bytes) / options.device.hbm_bytes_per_s;
    CHECK(line.seconds * (1 + 1e-9) >= full_rate);
    CHECK(line.compute_seconds <= line.seconds);
    timed += line.seconds > 0 ? 1 : 0;
    copying += trace.scripted() ? 1 : 0;
  }
  CHECK(((traced > 20 && timed > 20 && copying > 5) || folders.empty()));
}

TEST_CASE("a trace is one thread's for every number of threads", "[corpus][trace]") {
  const std::string folder = std::string(TESSERA_CORPUS) + "/jax__matmul_f32";
  if (!std::filesystem::exists(folder)) {
    std::cerr << "skipped: no " << folder << "\n";
    return;
  }
  const RecordedCall r = read_call(folder);
  RunOptions options;
  options.trace_steps = 100;
  options.threads = 1;
  const StepTrace one = run_call(r.call, options).trace;
  REQUIRE(one.steps == 12);
  CHECK(one.grid == std::vector{2, 3, 2});
  CHECK(one.blocks[0] == std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3});
  for (const int threads : {2, 5}) {
    options.threads = threads;
    const StepTrace many = run_call(r.call, options).trace;
    CHECK(many.blocks == one.blocks);
    CHECK(many.cell_begin == one.cell_begin);
    for (std::size_t s = 0; s < 12; ++s) {
      CHECK(many.works[static_cast<std::size_t>(many.work[s])] ==
            one.works[static_cast<std::size_t>(one.work[s])]);
    }
  }
  options.trace_steps = 11;
  const StepTrace none = run_call(r.call, options).trace;
  CHECK_FALSE(none.complete);
  CHECK(none.steps == 0);
}

TEST_CASE("where outputs stay to the end each core of two has its cells", "[corpus][trace]") {
  // Else a v5p's first core was taken to compute all of them: 1.6 x what its schedules say.
  const std::string folder = std::string(TESSERA_CORPUS) + "/jax__splash_fwd_causal_mha";
  if (!std::filesystem::exists(folder)) {
    std::cerr << "skipped: no " << folder << "\n";
    return;
  }
  const RecordedCall r = read_call(folder);
  RunOptions options{.device = load_device("tpu-v5p")};
  options.trace_steps = 100;
  for (const bool dry : {false, true}) {
    options.dry = dry;
    options.cores = 1;
    CHECK(run_call(r.call, options).trace.cell_begin == std::vector<std::int64_t>{0, 8});
    options.cores = 2;
    CHECK(run_call(r.call, options).trace.cell_begin == std::vector<std::int64_t>{0, 4, 8});
  }
}

TEST_CASE("a dry run of a real kernel counts what a run counts", "[corpus][dry]") {
  int counted = 0;
  int worked = 0;
  const auto folders = corpus();
  for (const std::string& folder : folders) {
    CAPTURE(folder);
    const RecordedCall r = read_call(folder);
    if (r.eager) continue;
    RunOptions options;
    options.device = r.device.value_or(load_device("tpu-v6e"));
    options.mesh = {r.devices};
    options.cores = r.cores;
    const RunResult full = run_call(r.call, options);
    options.dry = true;
    const RunResult dry = run_call(r.call, options);
    REQUIRE(full.ok());
    REQUIRE(dry.ok());
    ++counted;
    CHECK(dry.dry);
    CHECK(dry.steps == full.steps);
    if (dry.no_work.empty()) {
      ++worked;
      CHECK(dry.flops == full.flops);
      CHECK(dry.transcendentals == full.transcendentals);
    }
    CHECK(dry.plan.vmem_bytes() == full.plan.vmem_bytes());
    REQUIRE(dry.ledger().refs().size() == full.ledger().refs().size());
    for (std::size_t i = 0; i < full.ledger().refs().size(); ++i) {
      for (const auto count : Ledger::kCounts)
        CHECK(dry.ledger().refs()[i].*count == full.ledger().refs()[i].*count);
    }
  }
  CHECK(((counted > 40 && worked > 40) || folders.empty()));
}

}  // namespace tessera::pallas
