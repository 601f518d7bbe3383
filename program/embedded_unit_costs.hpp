// The tables of unit_costs/*.json, compiled in (cmake/embed_json.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tessera::program {

struct EmbeddedUnitCosts {
  std::string_view name;
  std::string_view json;
};
std::span<const EmbeddedUnitCosts> embedded_unit_costs();

}  // namespace tessera::program
