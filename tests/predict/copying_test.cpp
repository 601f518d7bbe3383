// Timelines of bodies that copy by themselves, on one device and on meshes.
#include <catch2/catch.hpp>
#include <numeric>

#include "predict/server.hpp"
#include "predict/timeline.hpp"
#include "report/step_traffic.hpp"
#include "tests/predict/counted.hpp"

using namespace tessera;
using namespace tessera::cli;

TEST_CASE("a body that copies by itself waits for its copies", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  if (!bf16_built(kernels)) return;
  const Outcome outcome =
      counted(kernels, "dma_matmul m=1024 n=1024 k=1024 bm=128 bn=128 bk=128 --dtype bf16",
              "tpu-v5e", StepTrace::kMostSteps);
  REQUIRE(outcome.result.ok());
  Plan plan = outcome.result.plan;
  plan.device.model.clear();  // peak rates alone
  const StepTrace& trace = outcome.result.trace;
  REQUIRE(trace.scripted());
  CHECK(trace.scripts.size() <= 8);  // of 512 steps: the first, the last and those between do alike
  const double product = 2. * 128 * 128 * 128;
  const double fetched = static_cast<double>(outcome.result.ledger().padded_hbm_read_bytes());
  const double written = static_cast<double>(outcome.result.ledger().padded_hbm_write_bytes());
  const auto seconds = [&](double bytes_per_s, double flops_per_s) {
    plan.device.hbm_bytes_per_s = bytes_per_s;
    plan.device.peak_flops["bf16"] = flops_per_s;
    return predict::timeline_of(plan, trace, DType::bf16);
  };
  SECTION("products bind: its two slots hide all copies but each cell's first") {
    const predict::Timeline line = seconds(1e15, 1e12);
    CHECK(line.seconds == Approx(512 * product / 1e12).epsilon(1e-3));
    CHECK(line.binds == "matrix unit");
  }
  SECTION("copies bind") {
    const predict::Timeline line = seconds(1e10, 1e18);
    CHECK(line.seconds == Approx((fetched + written) / 1e10).epsilon(1e-3));
    CHECK(line.binds == "HBM");
  }
}

TEST_CASE("what goes to other devices takes the links of a torus", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  const auto line = [&](const std::vector<int>& mesh, std::int64_t trace_steps) {
    Request request;
    request.device = load_device("tpu-v5e");
    request.check = false;
    request.options.dry = true;
    request.options.mesh = mesh;
    request.devices = std::accumulate(mesh.begin(), mesh.end(), 1, std::multiplies<>());
    request.options.trace_steps = trace_steps;
    request.assignments = {{"rows", "512"}, {"cols", "512"}};
    const Outcome outcome = kernels.find("ring_all_gather").run(request);
    REQUIRE(outcome.result.ok());
    Plan plan = outcome.result.plan;
    plan.device.hbm_bytes_per_s = 1e18;
    plan.device.remote_bytes_per_s = 4e10;  // of four links
    return predict::timeline_of(plan, outcome.result.trace, DType::f32, {.mesh = mesh});
  };
  const double shard = 512. * 512 * 4;
  // In a ring of n, every link forwards n - 1 shards, one after the other.
  for (const int n : {2, 3, 8}) {
    CAPTURE(n);
    const predict::Timeline ring = line({n}, 1000);
    REQUIRE(ring.unmodelled.empty());
    CHECK(ring.seconds == Approx((n - 1) * shard / 1e10).epsilon(1e-6));
    CHECK(ring.binds == "busiest link");
  }
  CHECK(line({2, 2, 2}, 1000).unmodelled == "a mesh of 3 axes on devices of 4 links");
}

TEST_CASE("scripts copy what the ledger has, and every kernel's ends", "[predict]") {
  int copying = 0;
  for (const KernelHandle& kernel : builtin_kernels().all()) {
    for (std::size_t i = 0; i < kernel.cases.size(); ++i) {
      CAPTURE(kernel.info.name, i);
      Request request;
      request.case_index = static_cast<int>(i);
      request.device = load_device("tpu-v5p");
      request.check = false;
      request.options.dry = true;
      request.options.trace_steps = 1 << 20;
      const Outcome outcome = kernel.run(request);
      REQUIRE(outcome.result.ok());
      const StepTrace& trace = outcome.result.trace;
      if (!trace.scripted()) continue;
      ++copying;
      const predict::Timeline line =
          predict::timeline_of(outcome.result.plan, trace, DType::f32, {.mesh = outcome.mesh});
      CHECK(line.unmodelled.empty());
      CHECK(line.seconds > 0);
      // All devices together, row by row.
      const auto& refs = outcome.result.ledger().refs();
      std::vector<std::int64_t> moved(refs.size(), 0);
      std::int64_t flops = 0;
      std::vector<const StepTrace*> devices{&trace};
      for (const StepTrace& peer : trace.peers) devices.push_back(&peer);
      for (const StepTrace* device : devices) {
        report::for_each_copy(*device, [&](std::int64_t, int ref, std::int64_t bytes) {
          moved[static_cast<std::size_t>(ref)] += bytes;
        });
        report::for_each_transfer(
            outcome.result.plan, *device, 1,
            [&](std::int64_t, std::size_t op, std::int32_t, Why, std::int64_t bytes) {
              const int ref = outcome.result.plan.operands[op].ledger_ref;
              moved[static_cast<std::size_t>(ref)] += bytes;
            });
        for (const std::int32_t w : device->work) {
          const Work& work = device->works[static_cast<std::size_t>(w)];
          std::int64_t scripted = 0;
          for (const Act& act : device->scripts[static_cast<std::size_t>(w)])
            scripted += act.work.flops;
          CHECK((scripted == work.flops || device->scripts[static_cast<std::size_t>(w)].empty()));
          flops += work.flops;
        }
      }
      CHECK(flops == outcome.result.flops);
      for (std::size_t ref = 0; ref < refs.size(); ++ref) {
        CAPTURE(refs[ref].name);
        if (std::string_view(refs[ref].direction) != "scalar") CHECK(moved[ref] == refs[ref].bytes);
      }
    }
  }
  CHECK(copying > 10);
}

TEST_CASE("phases and busy parts add up to the time", "[predict]") {
  const Outcome outcome =
      counted(builtin_kernels(), "dma_matmul", "tpu-v5e", StepTrace::kMostSteps);
  const predict::Timeline line =
      predict::timeline_of(outcome.result.plan, outcome.result.trace, DType::f32);
  REQUIRE_FALSE(line.phases.empty());
  CHECK(line.phases.front().begin == 0);
  CHECK(line.phases.back().end == Approx(line.seconds));
  for (std::size_t i = 1; i < line.phases.size(); ++i) {
    CHECK(line.phases[i].begin == line.phases[i - 1].end);
    CHECK(line.phases[i].binds != line.phases[i - 1].binds);
  }
  for (const predict::Resource& r : line.busy) {
    CAPTURE(r.name);
    CHECK(std::accumulate(r.over.begin(), r.over.end(), 0.) / predict::Resource::kParts ==
          Approx(r.busy).epsilon(1e-9));
    for (const double part : r.over) CHECK(part <= 1.05);
  }
}

TEST_CASE("a launch that nothing fills is idle at first, and bound by its steps", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  if (!bf16_built(kernels)) return;
  const Outcome outcome =
      counted(kernels, "matmul m=64 n=64 k=64 --dtype bf16", "h200", StepTrace::kMostSteps);
  const predict::Timeline line =
      predict::timeline_of(outcome.result.plan, outcome.result.trace, DType::bf16);
  CHECK(line.phases.front().binds == "idle");
  CHECK(line.binds == "latency of steps");
}

TEST_CASE("a resource is busy when it was", "[predict]") {
  predict::Busy busy;
  busy.add(0, 1e-6, 1e-6);     // all of the first of ten microseconds
  busy.add(5e-6, 7e-6, 1e-6);  // half of two
  busy.add(9.5e-6, 9.5e-6, 0);
  const std::vector<double> over = busy.over(1e-5, 10);
  const double wanted[] = {1, 0, 0, 0, 0, 0.5, 0.5, 0, 0, 0};
  for (std::size_t i = 0; i < 10; ++i) CHECK(over[i] == Approx(wanted[i]).margin(0.02));
  CHECK(busy.total() == Approx(2e-6));
}
