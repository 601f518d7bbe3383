// Asynchronous calls that no machine could carry out.
#include "sim/diagnostics/machine_parts.hpp"

namespace tessera {

namespace {
Diagnostic at_site(Diagnostic d, const Site& site) {
  add_kernel_field(d);
  d.fields.emplace_back("line", site_line(site));
  return d;
}
}  // namespace

Diagnostic dma_size_mismatch(const std::string& what, const Site& site) {
  Diagnostic d = at_site({.slug = "dma-size-mismatch", .headline = what}, site);
  d.fields.emplace_back("help", "source and destination have the same type and extents");
  add_command_field(d);
  return d;
}

Diagnostic semaphore_underflow(const MachineCore& c, const Semaphore& s, std::int64_t amount,
                               const Site& site) {
  Diagnostic d = at_site({.slug = "semaphore-underflow",
                          .headline = describe_semaphore(*c.machine, s) +
                                      " would count below zero: " + with_commas(s.value()) +
                                      " changed by " + with_commas(amount)},
                         site);
  d.fields.emplace_back("help", "signal and wait by positive amounts");
  add_command_field(d);
  return d;
}

Diagnostic bad_device_id(const MachineCore& c, std::int64_t device, std::int64_t core,
                         const Site& site) {
  const Machine& m = *c.machine;
  const bool bad_device = device < 0 || device >= m.devices();
  Diagnostic d = at_site(
      {.slug = "bad-device-id",
       .headline = bad_device ? "there is no device " + std::to_string(device) + ": the mesh has " +
                                    std::to_string(m.devices()) + ", from 0"
                              : "there is no core " + std::to_string(core) + ": a device has " +
                                    std::to_string(m.cores_per_device()) + ", from 0"},
      site);
  d.fields.emplace_back("help", "ids wrap by hand: (env.device_id() + 1) % env.num_devices()");
  add_command_field(d);
  return d;
}

namespace {
Diagnostic bad_mesh_place(const std::string& headline) {
  Diagnostic d{.slug = "bad-device-id", .headline = headline};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("help", "env.mesh_extent(axis) is the number of devices along an axis");
  add_command_field(d);
  return d;
}
}  // namespace

Diagnostic oob_mesh_axis(int axis, int axes) {
  return bad_mesh_place("there is no mesh axis " + std::to_string(axis) + ": the mesh has " +
                        std::to_string(axes));
}

Diagnostic oob_mesh_coordinate(int axis, int coordinate, int extent) {
  return bad_mesh_place("axis " + std::to_string(axis) + " of the mesh has no coordinate " +
                        std::to_string(coordinate) + ": it has " + std::to_string(extent) +
                        ", from 0");
}

Diagnostic use_after_scope(const std::string& name, const Site& site) {
  Diagnostic d = at_site(
      {.slug = "use-after-scope", .headline = name + " is used outside its run_scoped"}, site);
  d.fields.emplace_back("help",
                        "a scoped ref lives until the end of the function given to run_scoped; "
                        "another device must be inside the same scope");
  add_command_field(d);
  return d;
}

}  // namespace tessera
