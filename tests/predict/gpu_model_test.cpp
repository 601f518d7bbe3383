// The constants of models of time in device files.
#include <catch2/catch.hpp>
#include <regex>

#include "memory_model/embedded_devices.hpp"
#include "predict/gpu_model.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("a model has all of its figures or none", "[predict][device]") {
  std::string h200;
  for (const auto& device : embedded_devices()) {
    if (std::string_view(device.name) == "h200") h200 = device.json;
  }
  CHECK_NOTHROW(predict::check_models(parse_device(h200, "my.json")));
  const std::regex figure(R"re("model_cell_latency": \{[^}]*\},?)re");
  REQUIRE(std::regex_search(h200, figure));
  const std::string without = std::regex_replace(h200, figure, "");
  const std::string fixed = std::regex_replace(without, std::regex(R"(\},(\s*\}))"), "}$1");
  CHECK_THROWS_WITH(predict::check_models(parse_device(fixed, "my.json")),
                    Contains("figure 'model_cell_latency' is missing: a model has all of them"));
  const std::string other =
      std::regex_replace(h200, std::regex("model_cell_latency"), "model_cell_latencies");
  CHECK_THROWS_WITH(predict::check_models(parse_device(other, "my.json")),
                    Contains("figure 'model_cell_latencies' is not one that tessera knows"));
}

TEST_CASE("a TPU's model figures are those of its compiler's listings", "[predict][device]") {
  DeviceSpec tpu = load_device("tpu-v5e");
  CHECK_NOTHROW(predict::check_models(tpu));
  tpu.model["clock"] = {"model_clock", 1.5e3, "MHz", "test"};
  CHECK_THROWS_WITH(predict::check_models(tpu),
                    Contains("figure 'model_clock' must have the unit Hz"));
  tpu.model["clock"] = {"model_clock", 1.5e9, "Hz", "test"};
  tpu.model["cycles_stop"] = {"model_cycles_stop", 100, "cycle", "test"};
  CHECK_THROWS_WITH(predict::check_models(tpu),
                    Contains("'model_cycles_stop' is not one that tessera knows"));
}
