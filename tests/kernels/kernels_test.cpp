// Every kernel, every case, f32 and bf16, on a TPU and on a GPU: the oracle, and the closed form of
// its bytes against the ledger.
#include <catch2/catch.hpp>
#include <cstring>

#include "cli/registry.hpp"

using namespace tessera;
using namespace tessera::cli;

namespace {

/// Shared memory would reject most of the cases' blocks; the accounting is what is compared.
DeviceSpec roomy_gpu() {
  DeviceSpec d = load_device("h200");
  d.vmem_bytes = std::int64_t{1} << 30;
  return d;
}

void agrees_with_its_oracle(const KernelHandle& kernel) {
  for (std::size_t c = 0; c < kernel.cases.size(); ++c) {
    for (const DType dtype : kernel.dtypes) {
      for (const bool gpu : {false, true}) {
        Request request;
        request.case_index = static_cast<int>(c);
        request.dtype = dtype;
        request.device = gpu ? roomy_gpu() : load_device("tpu-v5e");
        request.seed = c;
        const Outcome outcome = kernel.run(request);
        CAPTURE(kernel.cases[c], name(dtype), gpu);
        for (const auto& d : outcome.result.diagnostics) FAIL_CHECK(d.text());
        REQUIRE(outcome.validation);
        CHECK(outcome.validation->passed);
        REQUIRE(outcome.closed_form);
        CHECK(outcome.closed_form->read == outcome.result.ledger().hbm_read_bytes());
        CHECK(outcome.closed_form->write == outcome.result.ledger().hbm_write_bytes());
        CHECK(outcome.closed_form->remote == outcome.result.ledger().remote_bytes());
      }
    }
  }
}

/// With products as an MXU has them. Under sanitizers the ragged case alone: the aligned one is
/// large.
void agrees_on_an_mxu(const KernelHandle& kernel) {
  for (std::size_t c = TESSERA_EVERY_CASE ? 0 : 1; c < kernel.cases.size(); ++c) {
    for (const Profile profile : {Profile::mxu, Profile::mxu_x3, Profile::mxu_x6}) {
      if (profile != Profile::mxu && c > (TESSERA_EVERY_CASE ? 0U : 1U)) continue;
      Request request;
      request.case_index = static_cast<int>(c);
      request.device = load_device("tpu-v5e");
      request.seed = c;
      request.options.profile = profile;
      const Outcome outcome = kernel.run(request);
      CAPTURE(kernel.cases[c], name(profile));
      for (const auto& d : outcome.result.diagnostics) FAIL_CHECK(d.text());
      REQUIRE(outcome.validation);
      CHECK(outcome.validation->passed);
    }
  }
}

bool on_a_mesh(const KernelHandle& kernel) { return kernel.make.front()()->devices().has_value(); }

/// Two cores share the cells; without a mesh of its own it runs on several devices.
void runs_on_cores_and_devices(const KernelHandle& kernel) {
  if (kernel.info.name == std::string("all_to_all")) return;  // its rows are per mesh
  Request request;
  request.device = default_device();
  request.case_index = 1;
  request.options.cores = 2;
  const Outcome outcome = kernel.run(request);
  // A collective's steps are not parallel: its second core has nothing to do.
  if (!on_a_mesh(kernel)) {
    for (const auto& d : outcome.result.diagnostics) FAIL_CHECK(d.text());
    CHECK(outcome.validation->passed);
  }
  request.options.cores = 1;
  request.devices = 3;
  request.options.mesh = {3};
  const Outcome spread = kernel.run(request);
  for (const auto& d : spread.result.diagnostics) FAIL_CHECK(d.text());
  CHECK(spread.validation->passed);
}

/// On every mesh, under every schedule, from the smallest shards unless others are asked for.
void agrees_on_every_mesh(const KernelHandle& kernel,
                          const std::vector<std::pair<std::string, std::string>>& sizes) {
  for (const int devices : {2, 3, 4, 5, 13, 31, 64}) {
    if (!TESSERA_EVERY_CASE && devices > 5) break;
    std::optional<RunResult> first;
    for (const char* schedule : {"eager", "on_wait", "adversarial", "random:1", "random:2"}) {
      CAPTURE(devices, schedule);
      Request request;
      request.case_index = static_cast<int>(kernel.cases.size()) - 1;
      request.assignments = sizes;
      request.device = default_device();
      request.devices = devices;
      request.options.mesh = {devices};
      request.options.schedule = parse_schedule(schedule);
      const Outcome outcome = kernel.run(request);
      for (const auto& d : outcome.result.diagnostics) FAIL_CHECK(d.text());
      REQUIRE(outcome.validation);
      CHECK(outcome.validation->passed);
      if (!first) first = outcome.result;
      for (std::size_t o = 0; o < outcome.result.outputs.size(); ++o) {
        const Array& a = outcome.result.outputs[o];
        const Array& b = first->outputs[o];
        CHECK(std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.size_bytes())) == 0);
      }
      CHECK(outcome.result.ledger().links() == first->ledger().links());
    }
  }
}

void check_same_counts(const RunResult& dry, const RunResult& full) {
  CHECK(dry.dry);
  CHECK(dry.steps == full.steps);
  CHECK(dry.grid == full.grid);
  CHECK(dry.ledger().links() == full.ledger().links());
  REQUIRE(dry.ledger().refs().size() == full.ledger().refs().size());
  for (std::size_t i = 0; i < full.ledger().refs().size(); ++i) {
    const RefTotals& a = dry.ledger().refs()[i];
    const RefTotals& b = full.ledger().refs()[i];
    CHECK(a.name == b.name);
    for (const auto count : Ledger::kCounts) CHECK(a.*count == b.*count);
  }
}

void counts_dry_what_a_run_counts(const KernelHandle& kernel) {
  for (std::size_t c = 0; c < kernel.cases.size(); ++c) {
    for (const DType dtype : kernel.dtypes) {
      for (const auto& [gpu, cores] : {std::pair{false, 1}, {true, 1}, {false, 2}}) {
        Request request;
        request.case_index = static_cast<int>(c);
        request.dtype = dtype;
        request.device = gpu ? roomy_gpu() : load_device("tpu-v5e");
        request.check = false;
        request.options.cores = cores;
        const Outcome full = kernel.run(request);
        request.options.dry = true;
        const Outcome dry = kernel.run(request);
        CAPTURE(kernel.cases[c], name(dtype), gpu, cores);
        REQUIRE(full.result.ok());
        for (const auto& d : dry.result.diagnostics) FAIL_CHECK(d.text());
        check_same_counts(dry.result, full.result);
        CHECK(dry.result.no_work.empty());
        CHECK(dry.result.flops == full.result.flops);
        CHECK(dry.result.transcendentals == full.result.transcendentals);
        CHECK(dry.result.plan.vmem_bytes() == full.result.plan.vmem_bytes());
      }
    }
  }
}

/// A check of one kernel as a test case: ctest runs them beside each other, and a failure names its
/// kernel.
class OfKernel final : public Catch::ITestInvoker {
 public:
  using Check = void (*)(const KernelHandle&);
  OfKernel(KernelHandle kernel, Check check) : kernel_(std::move(kernel)), check_(check) {}
  void invoke() const override { check_(kernel_); }

 private:
  KernelHandle kernel_;
  Check check_;
};

[[maybe_unused]] const bool kRegistered = [] {
  for (const KernelHandle& kernel : builtin_kernels().all()) {
    const auto add = [&](const char* what, OfKernel::Check check) {
      const Catch::AutoReg registered(new OfKernel(kernel, check), CATCH_INTERNAL_LINEINFO, "",
                                      {std::string(kernel.info.name) + ": " + what, "[kernels]"});
    };
    add("every case agrees with its oracle and its closed form", agrees_with_its_oracle);
    add("in f32 with products as an MXU has them it agrees with its oracle", agrees_on_an_mxu);
    add("it runs on two cores, and on several devices", runs_on_cores_and_devices);
    add("a dry run counts what a run counts", counts_dry_what_a_run_counts);
    if (on_a_mesh(kernel))
      add("it agrees with its oracle on every mesh, under every schedule",
          [](const KernelHandle& k) { agrees_on_every_mesh(k, {}); });
  }
  return true;
}();

}  // namespace

TEST_CASE("both ways round a ring, products agree with their oracles on every mesh", "[kernels]") {
  for (const char* name : {"all_gather_matmul", "matmul_reduce_scatter"}) {
    CAPTURE(name);
    const KernelHandle& kernel = builtin_kernels().find(name);
    agrees_on_every_mesh(kernel, {{"ways", "2"}, {"m", "32"}});
    // As many bytes over twice the links: the busiest of four devices has half of them.
    std::int64_t busiest[2];
    for (const int ways : {1, 2}) {
      Request request;
      request.device = default_device();
      request.assignments = {{"ways", std::to_string(ways)}};
      const Outcome outcome = kernel.run(request);
      REQUIRE(outcome.result.ok());
      busiest[ways - 1] = 0;
      for (const auto& [link, bytes] : outcome.result.ledger().links())
        busiest[ways - 1] = std::max(busiest[ways - 1], bytes);
    }
    CHECK(busiest[0] == 2 * busiest[1]);
  }
}

TEST_CASE("every kernel has an aligned, a ragged and a degenerate case", "[kernels]") {
  for (const KernelHandle& kernel : builtin_kernels().all()) {
    CAPTURE(kernel.info.name);
    for (const char* what : {"aligned", "ragged", "degenerate"}) {
      bool found = false;
      for (const auto& c : kernel.cases) found = found || c.find(what) != std::string::npos;
      CHECK(found);
    }
  }
}

TEST_CASE("closed forms hold over odd sizes and tiles", "[kernels]") {
  const Kernels& kernels = builtin_kernels();
  using Settings = std::vector<std::pair<std::string, std::string>>;
  const std::vector<std::pair<const char*, Settings>> table{
      {"matmul", {{"m", "100"}, {"n", "90"}, {"k", "128"}, {"bm", "16"}}},
      {"matmul", {{"m", "100"}, {"n", "290"}, {"k", "77"}, {"bm", "104"}}},
      {"grad_x", {{"m", "33"}, {"n", "128"}, {"k", "300"}, {"bm", "8"}}},
      {"grad_w", {{"m", "128"}, {"n", "70"}, {"k", "300"}}},
      {"grouped_matmul", {{"m", "257"}, {"n", "128"}, {"k", "256"}, {"groups", "7"}, {"bm", "16"}}},
      {"grouped_matmul", {{"m", "257"}, {"n", "384"}, {"k", "100"}, {"groups", "1"}, {"bm", "16"}}},
      {"grouped_matmul",
       {{"m", "257"},
        {"n", "128"},
        {"k", "100"},
        {"groups", "2"},
        {"before", "3"},
        {"all_groups", "9"},
        {"existing", "1"},
        {"bm", "16"}}},
      {"grouped_matmul", {{"m", "200"}, {"n", "300"}, {"k", "200"}, {"epilogue", "16"}}},
      {"grouped_matmul",
       {{"m", "200"}, {"n", "90"}, {"k", "200"}, {"groups", "3"}, {"epilogue", "25"}}},
      {"matmul_epilogue", {{"m", "200"}, {"n", "300"}, {"k", "90"}, {"epilogue", "3"}}},
      {"matmul_epilogue", {{"m", "200"}, {"n", "90"}, {"k", "90"}, {"epilogue", "26"}}},
      {"tgmm", {{"m", "257"}, {"n", "128"}, {"k", "256"}, {"groups", "7"}, {"bm", "16"}}},
      {"tgmm", {{"m", "30"}, {"n", "100"}, {"k", "300"}, {"groups", "4"}, {"existing", "1"}}},
      {"tgmm",
       {{"m", "200"}, {"n", "90"}, {"k", "70"}, {"groups", "3"}, {"before", "1"}, {"bm", "16"}}},
      {"flash_attention",
       {{"heads", "6"}, {"kv_heads", "2"}, {"q_len", "64"}, {"kv_len", "128"}, {"causal", "0"}}},
      {"flash_attention",
       {{"heads", "3"},
        {"kv_heads", "1"},
        {"q_len", "500"},
        {"kv_len", "200"},
        {"window", "30"},
        {"bq", "32"}}},
      {"flash_attention",
       {{"q_len", "100"}, {"kv_len", "700"}, {"segments", "1"}, {"batch", "2"}, {"bq", "64"}}},
      {"flash_attention",
       {{"q_len", "64"},
        {"kv_len", "128"},
        {"segments", "1"},
        {"ragged", "1"},
        {"causal", "0"},
        {"batch", "3"}}},
      {"flash_attention",
       {{"q_len", "300"},
        {"kv_len", "300"},
        {"segments", "1"},
        {"window", "50"},
        {"softcap", "5.5"}}},
      {"flash_attention", {{"q_len", "70"}, {"kv_len", "300"}, {"bias", "1"}, {"window", "50"}}},
      {"flash_attention_dq",
       {{"q_len", "90"}, {"kv_len", "200"}, {"bias", "1"}, {"batch", "2"}, {"bk", "128"}}},
      {"flash_attention_dkv",
       {{"heads", "4"}, {"kv_heads", "2"}, {"q_len", "90"}, {"kv_len", "100"}, {"bias", "1"}}},
      {"flash_attention",
       {{"q_len", "70"}, {"kv_len", "70"}, {"sinks", "1"}, {"heads", "1"}, {"kv_heads", "1"}}},
      {"flash_attention",
       {{"q_len", "70"},
        {"kv_len", "90"},
        {"batch", "3"},
        {"bias", "1"},
        {"bias_shared", "1"},
        {"causal", "0"}}},
      {"flash_attention",
       {{"q_len", "150"}, {"kv_len", "90"}, {"dropout", "1"}, {"drop_rate", "0.5"}, {"bq", "64"}}},
      {"flash_attention_dq",
       {{"q_len", "60"},
        {"kv_len", "50"},
        {"batch", "2"},
        {"bias", "1"},
        {"bias_shared", "3"},
        {"bk", "128"},
        {"dropout", "1"},
        {"drop_rate", "0.2"}}},
      {"flash_attention_dkv",
       {{"q_len", "90"},
        {"kv_len", "30"},
        {"batch", "2"},
        {"bias", "1"},
        {"bias_shared", "2"},
        {"causal", "0"},
        {"dropout", "1"},
        {"drop_rate", "0.2"}}},
      {"flash_attention_grad",
       {{"heads", "4"}, {"kv_heads", "2"}, {"q_len", "300"}, {"kv_len", "300"}, {"window", "70"}}},
      {"flash_attention_grad",
       {{"q_len", "90"}, {"kv_len", "200"}, {"bias", "1"}, {"batch", "2"}, {"causal", "0"}}},
      {"flash_attention_grad",
       {{"q_len", "90"}, {"kv_len", "100"}, {"segments", "1"}, {"batch", "3"}, {"ragged", "1"}}},
      {"flash_attention_grad",
       {{"q_len", "150"},
        {"kv_len", "300"},
        {"bias", "1"},
        {"bias_shared", "2"},
        {"dropout", "1"},
        {"drop_rate", "0.3"}}},
      {"flash_attention_dbias",
       {{"batch", "3"}, {"q_len", "200"}, {"kv_len", "300"}, {"window", "40"}, {"causal", "0"}}},
      {"flash_attention_dbias",
       {{"heads", "4"},
        {"kv_heads", "1"},
        {"q_len", "60"},
        {"kv_len", "100"},
        {"bias_shared", "2"},
        {"segments", "1"}}},
      {"attention_sink_grad", {{"batch", "2"}, {"heads", "30"}, {"q_len", "700"}}},
      {"norm_rows_grad", {{"m", "100"}, {"parts", "5"}, {"residual", "1"}}},
      {"quantised_matmul", {{"m", "100"}, {"n", "90"}, {"k", "400"}, {"group", "512"}}},
      {"quantised_matmul",
       {{"m", "100"}, {"n", "128"}, {"k", "77"}, {"format", "1"}, {"group", "32"}, {"bg", "4"}}},
      {"quantised_matmul",
       {{"m", "70"}, {"n", "130"}, {"k", "99"}, {"format", "2"}, {"group", "32"}, {"bg", "4"}}},
      {"quantised_matmul", {{"m", "20"}, {"n", "90"}, {"k", "700"}, {"splits", "5"}, {"bm", "32"}}},
      {"quantised_matmul",
       {{"m", "20"},
        {"n", "90"},
        {"k", "1300"},
        {"splits", "2"},
        {"bm", "32"},
        {"bw", "64"},
        {"bg", "4"}}},
      {"quantised_matmul_int8",
       {{"m", "90"}, {"n", "60"}, {"k", "170"}, {"group", "32"}, {"bg", "4"}}},
      {"quantised_matmul_int8",
       {{"m", "9"}, {"n", "60"}, {"k", "300"}, {"splits", "3"}, {"bm", "8"}}},
      {"quantised_matmul_fp8", {{"m", "30"}, {"n", "140"}, {"k", "99"}}},
      {"quantised_matmul_fp8",
       {{"m", "9"}, {"n", "60"}, {"k", "70"}, {"format", "1"}, {"group", "16"}, {"bg", "8"}}},
      {"split_matmul", {{"m", "30"}, {"n", "140"}, {"k", "900"}, {"splits", "5"}}},
      {"split_sum", {{"parts", "7"}, {"m", "3"}, {"n", "140"}}},
      {"cross_entropy", {{"m", "100"}, {"n", "700"}, {"k", "100"}, {"bm", "16"}, {"bk", "128"}}},
      {"cross_entropy",
       {{"m", "70"}, {"n", "140"}, {"k", "90"}, {"teacher", "50"}, {"bk", "128"}, {"bt", "128"}}},
      {"cross_entropy", {{"m", "70"}, {"n", "90"}, {"teacher", "30"}}},
      {"cross_entropy_grad_x", {{"m", "100"}, {"n", "77"}, {"k", "20"}}},
      {"cross_entropy_grad_x", {{"m", "100"}, {"n", "77"}, {"k", "20"}, {"teacher", "9"}}},
      {"cross_entropy_grad_w", {{"m", "30"}, {"n", "200"}, {"k", "20"}, {"teacher", "40"}}},
      {"cross_entropy_grad_x", {{"m", "30"}, {"n", "300"}, {"bm", "16"}}},
      {"cross_entropy_grad_w", {{"m", "30"}, {"n", "300"}}},
      {"embedding_rows", {{"m", "50"}, {"n", "3"}, {"d", "20"}, {"bag", "9"}, {"bm", "7"}}},
      {"embedding_rows", {{"m", "50"}, {"n", "9"}, {"bag", "3"}, {"weighted", "1"}, {"bm", "8"}}},
      {"embedding_rows",
       {{"m", "50"}, {"n", "70"}, {"bag", "3"}, {"weighted", "1"}, {"back", "1"}, {"bm", "8"}}},
      {"moe_route", {{"m", "70"}, {"n", "13"}, {"k", "90"}, {"top", "5"}, {"bm", "16"}}},
      {"linear_recurrence", {{"len", "70"}, {"d", "130"}, {"reverse", "1"}, {"bt", "24"}}},
      {"complex_recurrence", {{"len", "70"}, {"d", "130"}, {"reverse", "1"}, {"bt", "24"}}},
      {"linear_attention",
       {{"len", "90"}, {"dk", "24"}, {"dv", "40"}, {"gate", "2"}, {"stateful", "1"}, {"bt", "16"}}},
      {"delta_rule",
       {{"len", "90"}, {"dk", "24"}, {"dv", "40"}, {"rule", "2"}, {"gate", "1"}, {"bt", "16"}}},
      {"delta_rule", {{"len", "75"}, {"dv", "20"}, {"gate", "0"}, {"stateful", "0"}, {"bt", "8"}}},
      {"rnn", {{"len", "5"}, {"batch", "50"}, {"d", "20"}, {"gates", "3"}, {"bb", "16"}}},
      {"rnn", {{"len", "3"}, {"batch", "30"}, {"d", "24"}, {"gates", "1"}, {"bb", "8"}}},
      {"selective_scan", {{"len", "50"}, {"d", "300"}, {"states", "5"}, {"bt", "16"}}},
      {"selective_scan", {{"len", "30"}, {"d", "90"}, {"stateful", "1"}}},
      {"selective_scan", {{"len", "30"}, {"d", "290"}, {"stateful", "1"}}},
      {"wkv", {{"len", "20"}, {"batch", "20"}, {"d", "90"}, {"bt", "3"}}},
      {"wkv", {{"len", "20"}, {"batch", "20"}, {"d", "290"}, {"stateful", "1"}}},
      {"flash_attention_dq",
       {{"heads", "6"}, {"kv_heads", "2"}, {"q_len", "64"}, {"kv_len", "90"}, {"causal", "0"}}},
      {"flash_attention_dq", {{"q_len", "200"}, {"kv_len", "100"}, {"window", "30"}, {"bq", "32"}}},
      {"flash_attention_dq",
       {{"segments", "1"}, {"q_len", "100"}, {"kv_len", "300"}, {"batch", "2"}, {"bk", "128"}}},
      {"flash_attention_dkv",
       {{"heads", "6"}, {"kv_heads", "2"}, {"q_len", "64"}, {"kv_len", "90"}, {"causal", "0"}}},
      {"flash_attention_dkv",
       {{"q_len", "64"}, {"kv_len", "200"}, {"window", "30"}, {"causal", "0"}, {"bk", "64"}}},
      {"flash_attention_dkv",
       {{"batch", "3"}, {"ragged", "1"}, {"q_len", "60"}, {"kv_len", "200"}}},
      {"paged_attention", {{"batch", "9"}, {"kv_heads", "1"}, {"page", "16"}, {"pages", "3"}}},
      {"paged_attention", {{"batch", "5"}, {"kv_heads", "3"}, {"pages", "5"}, {"window", "70"}}},
      {"paged_attention",
       {{"batch", "3"}, {"kv_heads", "1"}, {"sinks", "1"}, {"splits", "4"}, {"pages", "7"}}},
      {"paged_attention_int8", {{"batch", "5"}, {"window", "40"}, {"splits", "2"}}},
      {"ragged_paged_attention",
       {{"sequences", "6"}, {"kv_heads", "1"}, {"tokens", "99"}, {"window", "9"}, {"bt", "8"}}},
      {"splash_attention",
       {{"heads", "3"}, {"kv_heads", "1"}, {"q_len", "99"}, {"mask", "3"}, {"window", "17"}}},
      {"splash_attention", {{"kv_len", "65"}, {"mask", "5"}, {"lse", "1"}, {"bk", "16"}}},
      {"native_sparse_attention",
       {{"batch", "2"}, {"group", "4"}, {"len", "99"}, {"window", "33"}, {"br", "16"}}},
      {"native_sparse_attention",
       {{"len", "130"}, {"top", "9"}, {"window", "5"}, {"compressed", "0"}, {"gated", "0"}}},
      {"native_sparse_select",
       {{"len", "250"},
        {"block", "16"},
        {"blocks", "16"},
        {"bn", "16"},
        {"top", "6"},
        {"bt", "6"}}},
      {"native_sparse_select", {{"len", "226"}, {"top", "1"}, {"bt", "1"}, {"br", "32"}}},
      {"splash_attention_dq",
       {{"heads", "3"}, {"kv_heads", "1"}, {"q_len", "99"}, {"mask", "3"}, {"window", "17"}}},
      {"splash_attention_dq", {{"kv_len", "65"}, {"mask", "5"}, {"bk", "16"}}},
      {"splash_attention_dkv",
       {{"heads", "4"}, {"kv_heads", "2"}, {"kv_len", "99"}, {"mask", "3"}, {"window", "17"}}},
      {"splash_attention_dkv", {{"q_len", "65"}, {"mask", "5"}}},
      {"splash_attention_dkv",
       {{"heads", "2"}, {"kv_heads", "1"}, {"mask", "4"}, {"window", "70"}}},
      {"linear_attention_dq",
       {{"len", "90"}, {"dk", "24"}, {"dv", "40"}, {"gate", "2"}, {"stateful", "1"}, {"bt", "16"}}},
      {"linear_attention_dkv",
       {{"len", "90"}, {"dk", "24"}, {"dv", "40"}, {"gate", "2"}, {"stateful", "1"}, {"bt", "16"}}},
      {"linear_attention",
       {{"batch", "1"}, {"len", "90"}, {"gate", "1"}, {"sequences", "6"}, {"bt", "16"}}},
      {"linear_attention",
       {{"batch", "3"},
        {"heads", "2"},
        {"len", "70"},
        {"gate", "0"},
        {"bonus", "1"},
        {"bt", "16"}}},
      {"linear_attention_dq",
       {{"batch", "1"}, {"len", "90"}, {"gate", "2"}, {"sequences", "5"}, {"bt", "16"}}},
      {"linear_attention_dkv",
       {{"batch", "2"}, {"heads", "1"}, {"len", "70"}, {"gate", "2"}, {"bonus", "1"}, {"bt", "8"}}},
      {"linear_attention_dkv",
       {{"batch", "1"},
        {"len", "130"},
        {"gate", "1"},
        {"sequences", "7"},
        {"decay_grad", "1"},
        {"bt", "16"}}},
      {"linear_attention_dkv",
       {{"len", "50"}, {"dk", "40"}, {"dv", "24"}, {"gate", "1"}, {"stateful", "1"}, {"bt", "8"}}},
      {"mla", {{"batch", "3"}, {"heads", "1"}, {"q_len", "100"}, {"causal", "0"}, {"bq", "16"}}},
      {"ring_attention",
       {{"devices", "3"},
        {"heads", "6"},
        {"bg", "6"},
        {"rows", "16"},
        {"head_dim", "24"},
        {"causal", "0"},
        {"missing", "50"}}},
      {"mla_absorbed", {{"batch", "4"}, {"heads", "7"}, {"q_len", "5"}, {"bq", "8"}}},
      {"selective_scan",
       {{"batch", "3"}, {"len", "50"}, {"d", "300"}, {"states", "5"}, {"keep", "1"}, {"bt", "8"}}},
      {"selective_scan",
       {{"len", "20"}, {"d", "100"}, {"stateful", "1"}, {"reverse", "1"}, {"keep", "1"}}},
      {"selective_scan_grad",
       {{"batch", "3"},
        {"len", "50"},
        {"d", "300"},
        {"states", "5"},
        {"stateful", "1"},
        {"bt", "8"}}},
      {"selective_scan_grad", {{"len", "20"}, {"d", "100"}, {"states", "3"}, {"reverse", "1"}}},
  };
  for (const auto& [name, settings] : table) {
    for (const bool gpu : {false, true}) {
      for (const std::uint64_t seed : {1, 2, 3}) {
        if (!TESSERA_EVERY_CASE && seed > 1) break;
        Request request;
        request.assignments = settings;
        request.device = gpu ? roomy_gpu() : load_device("tpu-v5e");
        request.seed = seed;
        const Outcome outcome = kernels.find(name).run(request);
        CAPTURE(name, gpu, seed);
        for (const auto& d : outcome.result.diagnostics) FAIL_CHECK(d.text());
      }
    }
  }
}

TEST_CASE("a causal kernel neither fetches nor computes blocks that are masked whole",
          "[kernels][flash_attention]") {
  const Kernels& kernels = builtin_kernels();
  Request request;
  request.device = load_device("tpu-v5e");
  request.assignments = {{"heads", "1"}, {"kv_heads", "1"}, {"q_len", "1024"}, {"kv_len", "1024"}};
  const auto causal = kernels.find("flash_attention").run(request);
  request.assignments.emplace_back("causal", "0");
  const auto full = kernels.find("flash_attention").run(request);
  CHECK(causal.result.steps == 8 * 9 / 2);
  CHECK(full.result.steps == 8 * 8);
  // Every block of queries starts at k block 0; only the second finds it in place.
  CHECK(causal.result.ledger().refs()[1].transfers == 8 * 9 / 2 - 1);
}

TEST_CASE(
    "splash_attention visits the live blocks of a mask alone, and brings masks of them that "
    "are not full",
    "[kernels][splash_attention]") {
  const KernelHandle& splash = builtin_kernels().find("splash_attention");
  const auto run = [&](const char* mask, const char* window) {
    Request request;
    request.device = load_device("tpu-v5e");
    request.assignments = {{"heads", "1"},     {"kv_heads", "1"}, {"q_len", "1024"},
                           {"kv_len", "1024"}, {"mask", mask},    {"window", window}};
    return splash.run(request).result;
  };
  const auto brought = [](const RunResult& r, const std::string& name) {
    for (const RefTotals& ref : r.ledger().refs()) {
      if (ref.name == name) return ref.transfers;
    }
    return std::int64_t{0};
  };
  // 16 blocks of 64 each way.
  const RunResult full = run("0", "1");
  CHECK(full.steps == 16 * 16);
  CHECK(brought(full, "mask_blocks") == 0);
  const RunResult causal = run("1", "1");
  CHECK(causal.steps == 16 * 17 / 2);
  CHECK(brought(causal, "mask_blocks") == 1);  // every block of the diagonal is the same
  const RunResult local = run("2", "65");  // the next block on each side, whole but for a corner
  CHECK(local.steps == 16 + 2 * 15);
  const RunResult chunks = run("4", "128");
  CHECK(chunks.steps == 2 * 2 + 14 * (2 + 2));
  CHECK(brought(chunks, "mask_blocks") == 0);
  // Its gradients meet the same pairs of blocks, by rows of queries or of keys. Where those are of
  // 32 keys and 128 queries, four kinds of blocks are on a diagonal, one after the other.
  struct Gradient {
    const char* name;
    const char* mask;
    const char* bq;
    const char* bk;
    std::int64_t steps;
    std::int64_t masks;
  };
  for (const Gradient& g :
       {Gradient{"splash_attention_dq", "0", "64", "64", 16 * 16, 0},
        Gradient{"splash_attention_dq", "1", "64", "64", 16 * 17 / 2, 1},
        Gradient{"splash_attention_dkv", "0", "128", "32", 8 * 32, 0},
        Gradient{"splash_attention_dkv", "1", "128", "32", 4 * 8 * 9 / 2, 32}}) {
    CAPTURE(g.name, g.mask);
    Request request;
    request.device = load_device("tpu-v5e");
    request.check = false;
    request.assignments = {{"heads", "1"},     {"kv_heads", "1"}, {"q_len", "1024"}, {"bq", g.bq},
                           {"kv_len", "1024"}, {"mask", g.mask},  {"bk", g.bk}};
    const RunResult result = builtin_kernels().find(g.name).run(request).result;
    CHECK(result.steps == g.steps);
    CHECK(brought(result, "mask_blocks") == g.masks);
  }
}

TEST_CASE(
    "native_sparse_attention visits the blocks that were selected and those of the window, each "
    "once",
    "[kernels][native_sparse_attention]") {
  const KernelHandle& sparse = builtin_kernels().find("native_sparse_attention");
  const auto run = [&](const char* top, const char* window) {
    Request request;
    request.device = load_device("tpu-v5e");
    // 16 blocks of 32 keys, each with the queries of eight selections.
    request.assignments = {{"kv_heads", "1"},  {"group", "16"},     {"len", "512"}, {"top", top},
                           {"window", window}, {"compressed", "0"}, {"br", "64"},   {"bk", "32"}};
    const Outcome outcome = sparse.run(request);
    CHECK(outcome.validation->passed);
    return outcome.result.steps;
  };
  // Block i has i before it: no more than top blocks, and no more than there are.
  CHECK(run("1", "0") == 8 * 16);
  CHECK(run("4", "0") == 8 * (1 + 2 + 3 + 13 * 4));
  CHECK(run("16", "0") == 8 * 16 * 17 / 2);
  // A window of one key reaches the query's own block, which is selected too.
  CHECK(run("4", "1") == 8 * (1 + 2 + 3 + 13 * 4));
  // One of 33 always reaches the block before: of a selection of it alone that is one more.
  CHECK(run("1", "33") == 8 * (1 + 15 * 2));
  // All blocks are selected: whatever the window reaches is among them.
  CHECK(run("16", "200") == 8 * 16 * 17 / 2);
}

TEST_CASE("the oracle notices a kernel that is wrong by a little", "[kernels][validate]") {
  const Kernels& kernels = builtin_kernels();
  Request request;
  request.device = load_device("tpu-v5e");
  request.case_index = 1;
  for (const char* name : {"matmul", "softmax_rows", "add_vectors", "all_gather_matmul"}) {
    const Outcome good = kernels.find(name).run(request);
    std::vector<reference::Expected> expected(1);
    expected[0].value = golden::to_tensor(good.result.outputs[0]);
    expected[0].error = expected[0].value;
    for (double& e : expected[0].error.values) e = 0;
    CHECK(golden::validate(good.result.plan, good.result.outputs, expected, name).passed);
    auto wrong = good.result.outputs;
    wrong[0].data<float>()[17] = std::nextafter(wrong[0].data<float>()[17], 100.f);
    wrong[0].data<float>()[17] = std::nextafter(wrong[0].data<float>()[17], 100.f);
    const auto verdict = golden::validate(good.result.plan, wrong, expected, name);
    CHECK_FALSE(verdict.passed);
    CHECK(verdict.max_ulp == 2);
  }
}

TEST_CASE("a dry run takes shapes of any size, and finds blocks that there are not",
          "[kernels][dry]") {
  const Kernels& kernels = builtin_kernels();
  const auto dry = [&](const char* name, std::vector<std::pair<std::string, std::string>> sizes) {
    Request request;
    request.assignments = std::move(sizes);
    request.dtype = kernels.find(name).dtypes.back();
    request.device = load_device("tpu-v5e");
    request.options.dry = true;
    return kernels.find(name).run(request);
  };
  const Outcome large = dry("matmul", {{"m", "16384"}, {"n", "53248"}, {"k", "8192"}});
  REQUIRE(large.result.ok());
  REQUIRE(large.closed_form);
  CHECK(large.closed_form->read == large.result.ledger().hbm_read_bytes());
  CHECK(large.closed_form->write == large.result.ledger().hbm_write_bytes());
  const Outcome attention =
      dry("flash_attention", {{"q_len", "1048576"}, {"kv_len", "1048576"}, {"head_dim", "128"}});
  REQUIRE(attention.result.ok());
  REQUIRE(attention.closed_form);
  CHECK(attention.closed_form->read == attention.result.ledger().hbm_read_bytes());
}
