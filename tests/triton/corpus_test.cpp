// Real kernels of packages, as their front end compiled them: every folder of
// ../shared/triton-corpus. Skipped, by name, where there is no such folder.
// tests/triton/corpus_table.cpp says how each runs.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/triton/recorded.hpp"
#include "triton/load.hpp"

namespace tessera::triton {

namespace {

/// What the kernels are found to do wrong, true of each: argmin reads past its rows; scatter stores
/// twice to one element; the others compute with lanes that a mask left out of a load.
const std::map<std::string, std::string> kFindings = {
    {"flag_gems___gen_module_rank_2___scatter_jit_function", "race"},
    {"flag_gems__argmin__argmin_kernel_opt_k1", "oob-index"},
    {"flag_gems__conv2d__conv2d_forward_kernel", "uninit-read"},
    {"flag_gems__unique__simple_unique_flat_kernel", "uninit-read"},
    {"flag_gems__weightnorm__weight_norm_kernel_first", "uninit-read"}};

/// Of the largest element. What bf16 was recorded as is NumPy's, which rounds otherwise; what f32
/// products were, is without tf32.
double bound_of(const std::string& name) {
  if (name == "fla_core__layernorm__layer_norm_fwd_kernel") return 1;  // a mean that cancels
  return 1e-2;
}

}  // namespace

TEST_CASE("real Triton kernels run, and agree with what was recorded", "[triton][corpus]") {
  int exact = 0;
  int near = 0;
  int of_h200 = 0;
  int ran = 0;
  int counted = 0;
  for (const std::string& folder : corpus()) {
    const std::string name = std::filesystem::path(folder).filename();
    CAPTURE(name);
    ++ran;
    Case c = read_case(folder);
    Launch again = c.launch;
    Launch slow = c.launch;
    RunOptions options;
    options.threads = 1;
    const LaunchResult r = run_launch(c.launch, options);
    options.threads = 2;
    const LaunchResult other = run_launch(again, options);
    // With the elements of every address.
    const auto kernel =
        plan_kernel(load_module_file(folder + "/kernel.generic.mlir"), Profile::exact, true, false);
    slow.kernel = kernel.get();
    options.threads = 1;
    const LaunchResult by_lanes = run_launch(slow, options);
    const auto finding = kFindings.find(name);
    if (finding != kFindings.end()) {
      REQUIRE(r.run.diagnostics.size() == 1);
      CHECK(r.run.diagnostics[0].slug == finding->second);
      REQUIRE(other.run.diagnostics.size() == 1);
      CHECK(other.run.diagnostics[0].text() == r.run.diagnostics[0].text());
      REQUIRE(by_lanes.run.diagnostics.size() == 1);
      CHECK(by_lanes.run.diagnostics[0].text() == r.run.diagnostics[0].text());
    } else {
      for (const Diagnostic& d : r.run.diagnostics) FAIL(d.text());
    }
    for (std::size_t k = 0; k < c.expected.size(); ++k) {
      const Array& got = c.launch.storages[k].data;
      REQUIRE(std::memcmp(got.bytes(), again.storages[k].data.bytes(),
                          static_cast<std::size_t>(got.size_bytes())) == 0);
      REQUIRE(std::memcmp(got.bytes(), slow.storages[k].data.bytes(),
                          static_cast<std::size_t>(got.size_bytes())) == 0);
    }
    CHECK(by_lanes.run.ledger().hbm_read_bytes() == r.run.ledger().hbm_read_bytes());
    CHECK(by_lanes.run.ledger().hbm_write_bytes() == r.run.ledger().hbm_write_bytes());
    // Lanes that are not masked off, counted in Python.
    std::ifstream meta(folder + "/meta.json");
    const auto crude = nlohmann::json::parse(meta).at("crude");
    if (r.run.ok() && crude.at("bytes_read").is_number()) {
      CHECK(r.run.ledger().hbm_read_bytes() == crude.at("bytes_read"));
      CHECK(r.run.ledger().hbm_write_bytes() == crude.at("bytes_written"));
      ++counted;
    }
    if (!r.run.complete) continue;
    Nearness worst;
    for (std::size_t k = 0; k < c.expected.size(); ++k) {
      if (!c.expected[k]) continue;
      const Nearness n = compare(c.launch.storages[k].data, *c.expected[k]);
      CHECK_FALSE(n.special);
      CHECK(n.of_largest <= bound_of(name));
      worst.bits = worst.bits && n.bits;
      worst.of_largest = std::max(worst.of_largest, n.of_largest);
      if (const auto w = read_npz(folder + "/h200.npz", "out" + std::to_string(k),
                                  c.launch.storages[k].data.dtype())) {
        const Nearness h = compare(c.launch.storages[k].data, *w);
        CHECK_FALSE(h.special);
        CHECK(h.of_largest <= bound_of(name));
        ++of_h200;
      }
    }
    exact += worst.bits ? 1 : 0;
    near += !worst.bits && worst.of_largest <= 1e-6 ? 1 : 0;
  }
  if (ran == 0) return;
  CHECK(counted >= 230);
  CHECK(exact >= 110);
  CHECK(exact + near >= 180);
  CHECK(of_h200 >= 180);
}

}  // namespace tessera::triton
