// What messages of the asynchronous machine share.
#include "sim/diagnostics/machine_parts.hpp"

#include <set>

namespace tessera {

std::string site_line(const Site& site) {
  return site.at.line != 0 ? source_excerpt(site.at) : trace_excerpt(site.trace);
}

std::string core_name(const Machine& machine, int id) {
  std::string text;
  if (machine.devices() > 1) text = "device " + std::to_string(machine.core(id).device);
  if (machine.cores_per_device() > 1) {
    text += (text.empty() ? "core " : ", core ") + std::to_string(machine.core(id).core);
  }
  return text.empty() ? "the core" : text;
}

std::string site_place(const MachineCore& c, const Site& site) {
  std::string text;
  if (c.machine->cores() > 1) text = core_name(*c.machine, site.core);
  if (step_context != nullptr && step_context->plan != nullptr) {
    text +=
        (text.empty() ? "grid " : ", grid ") + describe_step(*step_context->plan, site.ids.data());
  }
  return text;
}

std::string devices_heard(const MachineCore& c) {
  const Machine& m = *c.machine;
  std::set<int> heard;
  for (int id = 0; id < m.cores(); ++id) {
    if (c.clock[id] > 0 && m.core(id).device != c.device) heard.insert(m.core(id).device);
  }
  if (heard.empty()) return "no other device";
  std::string text;
  for (const int device : heard) text += (text.empty() ? "" : ", ") + std::to_string(device);
  return (heard.size() > 1 ? "devices " : "device ") + text;
}

std::string describe_buffer(const MachineCore& c, const Buffer& buffer) {
  std::string text = buffer.name + ": " + name(buffer.space) + " ";
  text += describe(buffer.dtype, buffer.shape);
  if (c.machine->cores() == 1) return text;
  if (buffer.core >= 0) return text + " of " + core_name(*c.machine, buffer.core);
  return c.machine->devices() > 1 ? text + " of device " + std::to_string(buffer.device) : text;
}

std::string describe_semaphore(const Machine& machine, const std::string& name, int core) {
  return machine.cores() == 1 ? name : name + " of " + core_name(machine, core);
}
std::string describe_semaphore(const Machine& machine, const Semaphore& s) {
  return describe_semaphore(machine, s.name, s.core);
}

std::string amount_of(const Semaphore& s, std::int64_t amount) {
  const std::string n = with_commas(amount);
  return s.kind == Semaphore::Kind::dma ? n + (amount == 1 ? " byte" : " bytes") : n;
}

void add_command_field(Diagnostic& d) {
  if (step_context != nullptr && !step_context->command.empty()) {
    d.fields.emplace_back("replay", step_context->command);
  }
}

}  // namespace tessera
