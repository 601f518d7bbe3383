#include "sim/diagnostics/slugs.hpp"
#include "sim/diagnostics/stop.hpp"

namespace tessera {

const char* slug(Stop why) { return why == Stop::time_limit ? "time-limit" : "interrupted"; }
const char* headline(Stop why) {
  return why == Stop::time_limit ? "the run took longer than its limit of time"
                                 : "the run was interrupted";
}

void stop(Stop why) {
  Diagnostic d{.slug = slug(why), .headline = headline(why)};
  add_kernel_field(d);
  d.fields.emplace_back("line", step_context->ids != nullptr ? caller_excerpt() : "");
  add_replay_field(d);
  throw Stopped(std::move(d));
}

}  // namespace tessera
