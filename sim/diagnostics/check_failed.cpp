#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic check_failed(const char* message, Here at) {
  Diagnostic d{.slug = "check", .headline = message};
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(at));
  add_replay_field(d);
  return d;
}

}  // namespace tessera
