// What must be gone at the end of a kernel or of a scope.
#include "sim/diagnostics/machine_parts.hpp"

namespace tessera {

namespace {

Diagnostic not_awaited(const MachineCore& c, const Transfer& t, const Semaphore& s) {
  Diagnostic d{.slug = "dma-not-awaited",
               .headline = "the transfer of " + with_commas(t.bytes()) + " bytes from " +
                           t.from.buffer().name + " to " + t.to.buffer().name +
                           " is never waited for"};
  add_kernel_field(d);
  d.fields.emplace_back(
      "start", site_line(t.site) + "   DMA " + std::to_string(t.id) + ", " + site_place(c, t.site));
  d.fields.emplace_back(
      "sem", describe_semaphore(*c.machine, s) + " still counts " + amount_of(s, s.outstanding()));
  d.fields.emplace_back("help", t.remote() ? "wait_send() on the sender and wait_recv() on the "
                                             "receiver, once for every start()"
                                           : "wait() once for every start()");
  add_command_field(d);
  return d;
}

}  // namespace

Diagnostic dma_not_awaited(const MachineCore& c, const Access& access) {
  const Transfer& t = *access.half->transfer;
  return not_awaited(c, t, access.half.get() == &t.source && t.remote() ? *t.sent : *t.landed);
}

Diagnostic semaphore_left(const MachineCore& c, const Semaphore& s) {
  const std::string what = describe_semaphore(*c.machine, s);
  const std::string left = amount_of(s, s.outstanding());
  if (s.kind == Semaphore::Kind::dma) {
    // As many waits as transfers: they asked for other sizes.
    const bool as_often = s.waits() >= s.issues();
    if (!as_often) {
      for (const auto& [number, open] : s.open()) {
        if (open.half) return not_awaited(c, *open.half->transfer, s);
      }
    }
    Diagnostic d{
        .slug = "dma-size-mismatch",
        .headline = "the waits on " + what + " took " + left + " less than its transfers brought"};
    add_kernel_field(d);
    d.fields.emplace_back(
        "start", site_line(s.last_issue()) + "   the last, " + site_place(c, s.last_issue()));
    d.fields.emplace_back("help", "wait for a ref as large as the one that was copied");
    add_command_field(d);
    return d;
  }
  const bool barrier = s.kind == Semaphore::Kind::barrier;
  Diagnostic d{.slug = barrier ? "barrier-divergence" : "semaphore-leak",
               .headline = what + " still holds " + left + " at the end of its " +
                           (barrier ? "kernel" : "scope or kernel")};
  add_kernel_field(d);
  constexpr int kShown = 4;
  int shown = 0;
  for (const auto& [number, open] : s.open()) {
    if (shown++ == kShown) break;
    d.fields.emplace_back("signal", site_line(open.site) + "   " + site_place(c, open.site));
  }
  // A wait took a part of each signal.
  if (shown == 0 && s.issues() > 0) {
    d.fields.emplace_back(
        "signal", site_line(s.last_issue()) + "   the last, " + site_place(c, s.last_issue()));
  }
  d.fields.emplace_back("help",
                        barrier ? "every device must wait for all the signals it is sent"
                                : "each signal must be waited for: the count must be zero again");
  add_command_field(d);
  return d;
}

}  // namespace tessera
