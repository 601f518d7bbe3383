// The files of memory_model/devices/, compiled in by CMake (cmake/embed_json.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tessera {

struct EmbeddedDevice {
  std::string_view name;
  std::string_view json;
};

std::span<const EmbeddedDevice> embedded_devices();

}  // namespace tessera
