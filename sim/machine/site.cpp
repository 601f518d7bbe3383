#include "sim/machine/machine.hpp"

namespace tessera {

Site site_of(const MachineCore& c, Here at) {
  Site site;
  site.at = at;
  site.core = c.id;
  if (step_context != nullptr && step_context->ids != nullptr) {
    std::copy_n(step_context->ids, step_context->plan->grid_rank, site.ids.begin());
  }
  return site;
}

// Frame pointers are kept (tessera_flags), so a few loads give the callers; the lines are looked up
// if the access is ever printed.
Site site_of_caller(const MachineCore& c) {
  Site site = site_of(c, {});
  const auto* frame = static_cast<const void* const*>(__builtin_frame_address(0));
  for (auto& address : site.trace) {
    if (!c.fiber->holds(frame) || !c.fiber->holds(frame + 1)) break;
    address = frame[1];
    const auto* next = static_cast<const void* const*>(frame[0]);
    if (next <= frame) break;
    frame = next;
  }
  return site;
}

}  // namespace tessera
