// Predictions: the parts of the model one by one, and against what a GPU reported
// (predict/measured).
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "predict/gpu_model.hpp"
#include "predict/l2_cache.hpp"
#include "predict/sm_place.hpp"
#include "predict/timeline.hpp"
#include "sim/body/cta.hpp"
#include "sim/pipeline/cta_operands.hpp"
#include "tests/predict/counted.hpp"

using namespace tessera;
using namespace tessera::cli;

namespace {

struct Measured {
  std::string run;
  std::string launch;
  std::int64_t l2_to_sm = 0;
};

/// Of kernels that are built.
std::vector<Measured> measured(bool with_bf16) {
  std::ifstream file(TESSERA_MEASURED);
  std::vector<Measured> rows;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    const Measured row{json["run"], json["launch"], json["l2_to_sm"]};
    if (with_bf16 || row.run.find("bf16") == std::string::npos) rows.push_back(row);
  }
  return rows;
}

std::int64_t number_before(const std::string& text, const std::string& what) {
  const std::size_t end = text.find(what);
  REQUIRE(end != std::string::npos);
  std::string digits;
  for (std::size_t i = end; i > 0 && (std::isdigit(text[i - 1]) != 0 || text[i - 1] == ','); --i)
    if (text[i - 1] != ',') digits.insert(digits.begin(), text[i - 1]);
  return std::stoll(digits);
}

}  // namespace

TEST_CASE("launches have the shape that a GPU reported", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  const bool with_bf16 = bf16_built(kernels);
  int checked = 0;
  for (const Measured& m : measured(with_bf16)) {
    CAPTURE(m.run, m.launch);
    const Outcome outcome = counted(kernels, m.run, "h200", 0);
    for (const auto& d : outcome.result.diagnostics) FAIL_CHECK(d.text());
    const cta::Launch launch = launch_of(outcome.result.plan);
    // Measured before registers were kept for several CTAs of few elements a thread.
    if (!launch.tensor_cores && launch.half_warps == 1 && launch.at_least > 1) continue;
    CHECK(launch.threads == number_before(m.launch, " threads"));
    CHECK(launch.stages.of_step == number_before(m.launch, " stages"));
    CHECK(launch.tensor_cores == (m.launch.find("by wgmma") != std::string::npos));
    CAPTURE(launch.shared_bytes);
    CHECK(m.launch.find(human_bytes(launch.shared_bytes)) != std::string::npos);
    ++checked;
  }
  CHECK(checked > (with_bf16 ? 200 : 15));
}

TEST_CASE("an input that is absent by type takes nothing of a launch", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  const auto launches = [&](const std::string& run, const char* input) {
    const Outcome outcome = counted(kernels, run, "h100", 0);
    REQUIRE(outcome.result.ok());
    const Plan& plan = outcome.result.plan;
    std::vector<cta::Operand> without = cta_operands(plan);
    for (std::size_t i = 0; i < plan.operands.size(); ++i) {
      if (plan.operands[i].name == input) without.erase(without.begin() + static_cast<int>(i));
    }
    REQUIRE(without.size() + 1 == plan.operands.size());
    return std::pair{launch_of(plan).shared_bytes,
                     cta::launch_of(cta_view(plan, without), cta::kSm90).shared_bytes};
  };
  const std::string flash = "flash_attention bq=64 bk=64 bd=64 ";
  const std::string linear = "linear_attention len=128 stateful=";
  for (const auto& [absent, there, input] :
       {std::tuple{flash + "sinks=0", flash + "sinks=1", "sink"},
        std::tuple{flash + "bias=0", flash + "bias=1", "bias"},
        std::tuple{linear + "0", linear + "1", "s0"}}) {
    CAPTURE(input);
    const auto [bytes, bytes_of_others] = launches(absent, input);
    CHECK(bytes == bytes_of_others);
    const auto [more, of_others] = launches(there, input);
    CHECK(more != of_others);
  }
}

TEST_CASE("collectives fit a GPU whose shared memory their scratch does not", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  const Outcome outcome =
      counted(kernels, "all_gather_matmul devices=2 m=256 n=128 k=128 bm=256", "h200", 0);
  REQUIRE(outcome.result.ok());
  const Plan& plan = outcome.result.plan;
  // part and product in device memory; w alone in a slot for this cell and one for the next.
  CHECK(bytes_in(plan.allocations, Space::hbm) == (2 * 256 * 128 + 256 * 128) * 4);
  CHECK(plan.vmem_bytes() == 2 * 128 * 128 * 4);
  const cta::Launch launch = launch_of(plan);
  CHECK(launch.shared_bytes == plan.vmem_bytes() + 2 * 2 * 8 + 64);
  CHECK_FALSE(launch.tensor_cores);
  CHECK(launch.threads == 512 + 128);
  // Arrays and links as on a TPU.
  const Outcome tpu =
      counted(kernels, "all_gather_matmul devices=2 m=256 n=128 k=128 bm=256", "tpu-v5e", 0);
  CHECK(outcome.result.ledger().hbm_read_bytes() == tpu.result.ledger().hbm_read_bytes());
  CHECK(outcome.result.ledger().hbm_write_bytes() == tpu.result.ledger().hbm_write_bytes());
  CHECK(outcome.result.ledger().remote_bytes() == tpu.result.ledger().remote_bytes());
}

TEST_CASE("bytes from L2 to the SMs are the counter's, to the byte", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  const bool with_bf16 = bf16_built(kernels);
  int checked = 0;
  for (const Measured& m : measured(with_bf16)) {
    // Spilled registers and scalars are read besides; hand-made copies have no timeline.
    const bool pipelined = m.run.starts_with("matmul ") || m.run.starts_with("matmul_relu") ||
                           m.run.starts_with("grad_") || m.run.starts_with("add_");
    if (!pipelined || m.launch.find("(0 bytes spilled)") == std::string::npos) continue;
    CAPTURE(m.run);
    const Outcome outcome = counted(kernels, m.run, "h200", StepTrace::kMostSteps);
    const predict::Timeline line =
        predict::timeline_of(outcome.result.plan, outcome.result.trace,
                             m.run.find("bf16") == std::string::npos ? DType::f32 : DType::bf16);
    REQUIRE(line.unmodelled.empty());
    CHECK(line.l2_to_core_bytes == m.l2_to_sm);
    ++checked;
  }
  CHECK(checked > (with_bf16 ? 60 : 5));
}

TEST_CASE("a partition gives what it has, and gives up what is longest unused", "[predict]") {
  predict::L2Partition cache(100, {4, 2});
  CHECK(cache.read(0, 0, 40) == 40);
  CHECK(cache.read(0, 1, 40) == 40);
  CHECK(cache.read(0, 0, 40) == 0);
  SECTION("part of a block leaves") {
    CHECK(cache.read(0, 2, 40) == 40);  // 20 bytes of block 1 leave
    CHECK(cache.read(0, 0, 40) == 0);
    CHECK(cache.read(0, 1, 40, 10) == 5);
    CHECK(cache.read(0, 1, 40) == 15);
  }
  SECTION("written bytes are written to DRAM when they leave") {
    cache.write(1, 0, 30);
    CHECK(cache.dram_written() == 0);
    CHECK(cache.read(0, 0, 40) == 0);
    CHECK(cache.read(0, 3, 40) == 40);
    CHECK(cache.dram_written() == 10);
  }
  SECTION("a block larger than the cache passes through") {
    CHECK(cache.read(1, 1, 250) == 250);
    CHECK(cache.read(1, 1, 250) == 150);
  }
}

TEST_CASE("what cores of both halves read takes a cache's room twice", "[predict]") {
  predict::L2Cache cache(200, {6, 2});
  SECTION("read by one half alone it takes one and a half times its bytes, at the two partitions") {
    CHECK(cache.read(0, 0, 100, 0) == 100);
    CHECK(cache.read(0, 0, 100, 0) == 0);
    // The other half finds at home what is there, and copies the rest.
    CHECK(cache.read(0, 0, 100, 1) == 0);
    CHECK(cache.dram_read() == 100);
  }
  SECTION("what does not fit twice comes again") {
    const auto both_read = [&](int blocks) {
      for (int block = 0; block < blocks; ++block) {
        for (const int side : {0, 1}) cache.read(0, block, 40, side);
      }
      return cache.dram_read();
    };
    CHECK(both_read(2) == 80);
    CHECK(both_read(2) == 80);
    CHECK(both_read(3) == 120);
    CHECK(both_read(3) > 120);
  }
  SECTION("what is written is there once") {
    cache.write(1, 0, 180);
    CHECK(cache.dram_written() == 0);
    cache.read(0, 0, 40, 0);
    CHECK(cache.dram_written() > 0);
  }
}

TEST_CASE("CTAs fill one group of SMs after the other, half of the SMs near either partition",
          "[predict]") {
  int of_group[predict::kSmGroups] = {};
  int near_one = 0;
  for (int sm = 0; sm < 132; ++sm) {
    const int group = predict::group_of(sm, 132);
    CHECK((sm == 0 || group == predict::group_of(sm - 1, 132) ||
           group == predict::group_of(sm - 1, 132) + 1));
    ++of_group[group];
    near_one += predict::side_of(sm, 132);
  }
  for (const int sms : of_group) CHECK((sms == 16 || sms == 18));
  CHECK(near_one == 66);
}

TEST_CASE("each SM has a CTA before any has two, and what is left is spread over all groups",
          "[predict]") {
  for (const int ctas : {9, 64, 132, 200, 263, 264}) {
    int of_sm[132] = {};
    int second_of[predict::kSmGroups] = {};
    for (int cta = 0; cta < ctas; ++cta) {
      const auto sm = static_cast<int>(predict::sm_of(cta, ctas, 132));
      REQUIRE((sm >= 0 && sm < 132));
      ++of_sm[sm];
      if (cta >= ctas / 132 * 132) ++second_of[predict::group_of(sm, 132)];
    }
    const auto [least, most] = std::minmax_element(std::begin(of_sm), std::end(of_sm));
    CHECK(*most - *least <= 1);
    const auto [few, many] = std::minmax_element(std::begin(second_of), std::end(second_of));
    CHECK(*many - *few <= 3);  // of 16 SMs and of 18
  }
}

TEST_CASE("DRAM gives granules of 64 bytes, and opens pages for short rows", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  const auto line = [&](int bn, double page_seconds) {
    const Outcome outcome = counted(
        kernels, "add_blocked m=4096 n=4096 bm=64 bn=" + std::to_string(bn), "h200", 1 << 20);
    REQUIRE(outcome.result.ok());
    Plan plan = outcome.result.plan;
    plan.device.model["page_seconds"].value = page_seconds;
    return predict::timeline_of(plan, outcome.result.trace, DType::f32);
  };
  // Two blocks of 32 bytes a row come at once; each byte comes once for every width.
  for (const int bn : {8, 16, 64}) {
    CAPTURE(bn);
    CHECK(line(bn, 2.64e-11).dram_read_bytes == predict::kCodeBytes + 2 * 4096 * 4096 * 4);
  }
  // A row of a block is a page that is opened: 2 * 4096 * 4096 / bn of them, with neighbours.
  const double slow = 1e-9;
  const double opened = 2. * 4096 * 4096 * slow;
  CHECK(line(16, slow).seconds == Approx(opened / 16).epsilon(0.4));
  CHECK(line(16, slow).seconds < opened / 16);
  CHECK(line(64, slow).seconds == Approx(opened / 64).epsilon(0.4));
  CHECK(line(64, 2.64e-11).seconds == line(64, 0).seconds);
  CHECK(line(16, 2.64e-11).seconds > line(16, 0).seconds);
}

TEST_CASE("a TPU's pipeline hides transfers behind products, or products behind transfers",
          "[predict]") {
  const Kernels& kernels = builtin_kernels();
  if (!bf16_built(kernels)) return;
  DeviceSpec device = load_device("tpu-v5e");
  const Outcome outcome = counted(kernels, "matmul m=1024 n=1024 k=1024 --dtype bf16", "tpu-v5e",
                                  StepTrace::kMostSteps);
  REQUIRE(outcome.result.ok());
  Plan plan = outcome.result.plan;
  const StepTrace& trace = outcome.result.trace;
  REQUIRE(trace.steps == 512);
  const double block = 128 * 128 * 2;
  const double product = 2. * 128 * 128 * 128;
  const auto seconds = [&](double bytes_per_s, double flops_per_s) {
    plan.device.hbm_bytes_per_s = bytes_per_s;
    plan.device.peak_flops["bf16"] = flops_per_s;
    return predict::timeline_of(plan, trace, DType::bf16);
  };
  SECTION("products bind: the first blocks and the last write-back show") {
    const predict::Timeline line = seconds(1e15, 1e12);
    CHECK(line.seconds == Approx(512 * product / 1e12 + 3 * block / 1e15).epsilon(1e-12));
    CHECK(line.binds == "matrix unit");
  }
  SECTION("transfers bind: all of them, and the last product") {
    const predict::Timeline line = seconds(1e10, 1e18);
    const double fetched = static_cast<double>(outcome.result.ledger().padded_hbm_read_bytes());
    const double written = static_cast<double>(outcome.result.ledger().padded_hbm_write_bytes());
    CHECK(line.seconds == Approx((fetched + written) / 1e10).epsilon(1e-3));
    CHECK(line.exposed_seconds > 0.9 * line.seconds);
    CHECK(line.binds == "HBM");
  }
  SECTION("with one buffer they take turns") {
    for (auto& op : plan.operands) op.buffers = 1;
    const predict::Timeline line = seconds(1e12, 2e14);
    const double moved = static_cast<double>(outcome.result.ledger().padded_hbm_read_bytes() +
                                             outcome.result.ledger().padded_hbm_write_bytes());
    CHECK(line.seconds == Approx(moved / 1e12 + 512 * product / 2e14).epsilon(1e-9));
  }
}

TEST_CASE("what is not modelled says so", "[predict]") {
  const Kernels& kernels = builtin_kernels();
  const auto reason = [&](const std::string& run, const std::string& device, std::int64_t steps) {
    const Outcome outcome = counted(kernels, run, device, steps);
    REQUIRE(outcome.result.ok());
    return predict::timeline_of(outcome.result.plan, outcome.result.trace, DType::f32).unmodelled;
  };
  CHECK(reason("dma_matmul bm=64 bn=64 bk=64", "h200", 1000) == "its body copies by itself (x)");
  CHECK(reason("dma_matmul", "tpu-v5e", 1000).empty());
  CHECK(reason("matmul", "a100", 1000) == "no model has been fitted to a100");
  CHECK(reason("matmul", "tpu-v5e", 10) == "more than 10 steps: --timeline");
  CHECK(reason("matmul", "tpu-v5e", 1000).empty());
  Plan plan = counted(kernels, "matmul bk=64", "h200", 0).result.plan;
  OperandPlan scratch;
  scratch.name = "buf";
  scratch.role = Role::vmem;
  plan.operands.push_back(scratch);
  CHECK(predict::unmodelled(plan, DType::f32).empty());
  plan.peers = true;
  CHECK(predict::unmodelled(plan, DType::f32) == "its scratch lies in device memory (buf)");
}
