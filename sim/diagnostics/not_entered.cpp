#include "sim/diagnostics/machine_parts.hpp"

namespace tessera {

Diagnostic not_entered(const MachineCore& c, int target, const std::string& reached,
                       const Site& site) {
  const Machine& m = *c.machine;
  const std::string them = "device " + std::to_string(m.core(target).device);
  Diagnostic d{.slug = "race",
               .headline = reached + " of " + them +
                           " is written, and that device may not have entered the kernel yet"};
  add_kernel_field(d);
  d.fields.emplace_back("line", site_line(site));
  d.fields.emplace_back("barrier", site_line(*c.met) + "   heard of " + devices_heard(c));
  d.fields.emplace_back("help", "wait at the barrier for a signal of " + them +
                                    ", or of a device that has heard of it");
  add_command_field(d);
  return d;
}

}  // namespace tessera
