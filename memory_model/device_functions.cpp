#include "memory_model/device_functions.hpp"

#include <nlohmann/json.hpp>

namespace tessera {

std::optional<DeviceFunctions> functions_of(const DeviceSpec& device) {
  const auto json = nlohmann::json::parse(device.json, nullptr, false);
  if (!json.is_object() || !json.contains("functions")) return std::nullopt;
  const auto& entry = json["functions"];
  const auto text = [&](const char* key) {
    if (!entry.is_object() || !entry.contains(key) || !entry[key].is_string())
      throw SpecError(device.origin + ": \"functions\" needs a string \"" + key + "\"");
    return entry[key].get<std::string>();
  };
  return DeviceFunctions{text("profile"), text("source")};
}

}  // namespace tessera
