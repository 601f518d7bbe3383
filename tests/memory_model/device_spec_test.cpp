#include <catch2/catch.hpp>
#include <regex>

#include "memory_model/device_spec.hpp"
#include "memory_model/embedded_devices.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("every device has capacities, a bandwidth and a source for each figure",
          "[memory_model][device]") {
  const auto names = device_names();
  CHECK(names == std::vector<std::string>{"a100", "h100", "h200", "tpu-v4", "tpu-v5e", "tpu-v5p",
                                          "tpu-v6e", "tpu-v7x"});
  for (const auto& name : names) {
    const DeviceSpec d = load_device(name);
    CHECK(d.name == name);
    CHECK(d.hbm_bytes > 1'000'000'000);
    CHECK(d.vmem_bytes > 100'000);
    CHECK(d.smem_bytes > 1000);
    CHECK(d.hbm_bytes_per_s > 1e11);
    CHECK(d.peak(DType::bf16) > 1e14);
    for (const auto& f : d.figures) CHECK_FALSE(f.source.empty());
    CHECK((d.kind == DeviceSpec::Kind::tpu) == (d.lanes == 128));
  }
}

TEST_CASE("a spec with a figure missing, unsourced or unknown is refused by name",
          "[memory_model][device]") {
  CHECK_THROWS_WITH(load_device("tpu-v9"), Contains("no device 'tpu-v9'"));
  CHECK_THROWS_WITH(parse_device("{", "my.json"), Contains("my.json: not a JSON object"));
  const std::string head = R"({"name": "d", "title": "t", "kind": "tpu", "figures": {)";
  CHECK_THROWS_WITH(parse_device(head + "}}", "my.json"),
                    Contains("figure 'hbm_capacity' is missing"));
  CHECK_THROWS_WITH(parse_device(head + R"("cores": {"value": 1, "unit": "1"}}})", "my.json"),
                    Contains("figure 'cores' needs a \"source\""));
  CHECK_THROWS_WITH(
      parse_device(head + R"("core": {"value": 1, "unit": "1", "source": "s"}}})", "my.json"),
      Contains("figure 'core' is not one that tessera knows"));
  CHECK_THROWS_WITH(
      parse_device(head + R"("cores": {"value": 1, "unit": "B", "source": "s"}}})", "my.json"),
      Contains("must have the unit 1"));
}

TEST_CASE("figures that are not published may be left out", "[memory_model][device]") {
  const DeviceSpec v4 = load_device("tpu-v4");
  CHECK(v4.remote_links == 6);
  CHECK(v4.vector_ops_per_s == 4.3008e12);
  CHECK(load_device("tpu-v7x").remote_links == 0);
  CHECK(load_device("tpu-v5e").vector_ops_per_s == 0);
  std::string json;
  for (const auto& device : embedded_devices()) {
    if (std::string_view(device.name) == "tpu-v4") json = device.json;
  }
  const std::string other = std::regex_replace(json, std::regex("\"op/s\""), "\"FLOP/s\"");
  REQUIRE(other != json);
  CHECK_THROWS_WITH(parse_device(other, "my.json"),
                    Contains("figure 'peak_vector_ops' must have the unit op/s"));
}

TEST_CASE("a model has all of its figures or none", "[memory_model][device]") {
  std::string h200;
  for (const auto& device : embedded_devices()) {
    if (std::string_view(device.name) == "h200") h200 = device.json;
  }
  CHECK(parse_device(h200, "my.json").model.contains("cell_latency"));
  const std::regex figure(R"re("model_cell_latency": \{[^}]*\},?)re");
  REQUIRE(std::regex_search(h200, figure));
  const std::string without = std::regex_replace(h200, figure, "");
  const std::string fixed = std::regex_replace(without, std::regex(R"(\},(\s*\}))"), "}$1");
  CHECK_THROWS_WITH(parse_device(fixed, "my.json"),
                    Contains("figure 'model_cell_latency' is missing: a model has all of them"));
  const std::string other =
      std::regex_replace(h200, std::regex("model_cell_latency"), "model_cell_latencies");
  CHECK_THROWS_WITH(parse_device(other, "my.json"),
                    Contains("figure 'model_cell_latencies' is not one that tessera knows"));
}
