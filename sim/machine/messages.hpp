// What ranks send each other, as CBOR.
#pragma once

#include <nlohmann/json.hpp>

#include "memory_model/dma.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera {

using Json = nlohmann::json;

Json to_json(const Site& site);
Site site_from(const Json& j);
Json to_json(const Diagnostic& d);
Diagnostic diagnostic_from(const Json& j);
Json to_json(const Ref::View& view);
Ref::View view_from(const Json& j);
Json to_json(const Staged& staged);
Staged staged_from(const Json& j);

}  // namespace tessera
