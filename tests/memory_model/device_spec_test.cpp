#include <catch2/catch.hpp>
#include <regex>

#include "memory_model/device_spec.hpp"
#include "memory_model/embedded_devices.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("every device has capacities, a bandwidth and a source for each figure",
          "[memory_model][device]") {
  REQUIRE(device_names().size() >= 8);
  for (const auto& name : device_names()) {
    const DeviceSpec d = load_device(name);
    CHECK(d.name == name);
    CHECK(d.hbm_bytes > 1'000'000'000);
    CHECK(d.vmem_bytes > 100'000);
    CHECK(d.smem_bytes > 1000);
    CHECK(d.hbm_bytes_per_s > 1e11);
    CHECK(d.peak(DType::bf16) > 1e14);
    for (const auto& f : d.figures) CHECK_FALSE(f.source.empty());
    CHECK((d.kind == DeviceSpec::Kind::tpu) == (d.lanes == 128));
    // A recorded call finds its device by the chip, JAX by the kind.
    CHECK((d.kind == DeviceSpec::Kind::tpu) == !d.jax.device_kind.empty());
    CHECK((d.kind == DeviceSpec::Kind::gpu) == (d.compute_capability >= 80));
    if (!d.jax.chip.empty()) CHECK(device_of_chip(d.jax.chip).value().name == name);
    CHECK(d.origin == name);
    CHECK(parse_device(d.json, "device.json").name == name);
  }
}

TEST_CASE("a chip is known as JAX and as its recordings name it", "[memory_model][device]") {
  CHECK(device_of_chip("v6e").value().name == "tpu-v6e");
  CHECK(device_of_chip("v5p-8").value().name == "tpu-v5p");
  CHECK(device_of_chip("v7x").value().name == "tpu-v7x");
  CHECK(device_of_chip("7x").value().name == "tpu-v7x");
  CHECK_FALSE(device_of_chip("v3").has_value());
  CHECK_FALSE(device_of_chip("").has_value());
}

TEST_CASE("what JAX calls a device comes with its source", "[memory_model][device]") {
  const DeviceSpec v6e = load_device("tpu-v6e");
  CHECK(v6e.jax.device_kind == "TPU v6 lite");
  const std::string other = std::regex_replace(v6e.json, std::regex("\"chip\""), "\"chips\"");
  REQUIRE(other != v6e.json);
  CHECK_THROWS_WITH(parse_device(other, "my.json"),
                    Contains("my.json: \"jax\" needs a string \"chip\""));
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

TEST_CASE("figures that no device has are refused, and values of other types",
          "[memory_model][device]") {
  const std::string json = load_device("tpu-v5e").json;
  const auto changed = [&](const std::string& from, const std::string& to) {
    const std::string text = std::regex_replace(json, std::regex(from), to);
    REQUIRE(text != json);
    return text;
  };
  CHECK_THROWS_WITH(parse_device(changed(R"("title": ")", R"("title": "\u0007)"), "my.json"),
                    Contains("its \"title\" has control characters"));
  CHECK_THROWS_WITH(parse_device(changed(R"("hbm_bandwidth": \{"value": [0-9.]+)",
                                         R"("hbm_bandwidth": {"value": 0)"),
                                 "my.json"),
                    Contains("figure 'hbm_bandwidth' must be at least 1"));
  CHECK_THROWS_WITH(parse_device(changed(R"("hbm_bandwidth": \{"value": [0-9.]+)",
                                         R"("hbm_bandwidth": {"value": 1e308)"),
                                 "my.json"),
                    Contains("figure 'hbm_bandwidth' is beyond any device: more than 1e+18"));
  CHECK_THROWS_WITH(parse_device(changed(R"("remote_bandwidth": \{"value": [0-9.]+)",
                                         R"("remote_bandwidth": {"value": 1e-300)"),
                                 "my.json"),
                    Contains("figure 'remote_bandwidth' is 0, for unknown, or at least 1"));
  CHECK_NOTHROW(parse_device(
      changed(R"("remote_bandwidth": \{"value": [0-9.]+)", R"("remote_bandwidth": {"value": 0)"),
      "my.json"));
  CHECK_THROWS_WITH(
      parse_device(changed(R"("tile_lanes": \{"value": 128)", R"("tile_lanes": {"value": 0)"),
                   "my.json"),
      Contains("figure 'tile_lanes' must be at least 1"));
  CHECK_THROWS_WITH(parse_device(changed(R"("unit": "B/s")", R"("unit": 1)"), "my.json"),
                    Contains("needs a \"unit\""));
  CHECK_THROWS_WITH(
      parse_device(changed(R"("title": "[^"]*")", "\"title\": \"" + std::string(300, 't') + "\""),
                   "my.json"),
      Contains("its \"title\" is too long"));
}
