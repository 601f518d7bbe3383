// What messages of the asynchronous machine share.
#pragma once

#include <string>

#include "sim/machine/machine.hpp"

namespace tessera {

/// "device 2, core 1", as far as there are several
std::string core_name(const Machine& machine, int id);
/// "kernels/ring.hpp:57  copy.start();"
std::string site_line(const Site& site);
/// "device 1, grid (i=3)"
std::string site_place(const MachineCore& c, const Site& site);
/// "device 1", "devices 1, 3", "no other device": whose signals and copies the core knows of
std::string devices_heard(const MachineCore& c);
/// "x: HBM f32[64, 300] of device 1"
std::string describe_buffer(const MachineCore& c, const Buffer& buffer);
/// "recv[1] of device 2"
std::string describe_semaphore(const Machine& machine, const Semaphore& s);
std::string describe_semaphore(const Machine& machine, const std::string& name, int core);
/// "4,096 bytes", "2"
std::string amount_of(const Semaphore& s, std::int64_t amount);
/// A parallel cell touches what another one wrote, or writes what another one read; `earlier`:
/// where that did, null if it is not known.
Diagnostic parallel_dependence_array(const MachineCore& c, const Buffer& buffer,
                                     const Access& later, const Access* earlier);
/// A parallel cell ends with something on a semaphore that the next one may not find.
Diagnostic parallel_dependence_semaphore(const MachineCore& c, const Semaphore& s);
/// "replay" field: the command, without a grid step: the schedule decides what happens when.
void add_command_field(Diagnostic& d);

}  // namespace tessera
