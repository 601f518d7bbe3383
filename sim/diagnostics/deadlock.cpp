#include <algorithm>

#include "sim/diagnostics/machine_parts.hpp"

namespace tessera {

namespace {

std::string state_of(const Machine& m, const MachineCore& c) {
  if (c.state == MachineCore::State::finished) return "has finished";
  if (c.state == MachineCore::State::waiting) {
    return "waits for " + describe_semaphore(m, *c.waits_for);
  }
  return "runs";
}

/// Who has signalled the semaphore so far, and what became of them.
std::string signallers(const Machine& m, const Semaphore& s) {
  const std::vector<int> senders = s.senders();
  if (senders.empty()) return "nobody has signalled it so far";
  std::string text = "signalled so far by ";
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < senders.size() && i < kShown; ++i) {
    const int id = senders[i];
    text += (i > 0 ? "; " : "") + (id == s.core
                                       ? std::string("itself")
                                       : core_name(m, id) + ", which " + state_of(m, m.core(id)));
  }
  if (senders.size() > kShown) {
    text += "; and " + std::to_string(senders.size() - kShown) + " more";
  }
  return text;
}

}  // namespace

Diagnostic deadlock(const Machine& machine) {
  Diagnostic d{.slug = "deadlock"};
  std::vector<const MachineCore*> blocked;
  int finished = 0;
  for (int id = 0; id < machine.cores(); ++id) {
    const MachineCore& c = machine.core(id);
    if (c.state == MachineCore::State::waiting) blocked.push_back(&c);
    finished += c.state == MachineCore::State::finished ? 1 : 0;
  }
  // The most telling wait first: one that a wrong size or a missed barrier explains.
  const auto rank = [](const MachineCore* c) {
    const Semaphore& s = *c->waits_for;
    if (s.kind == Semaphore::Kind::dma && s.outstanding() > 0) return 0;
    return s.kind == Semaphore::Kind::barrier ? 1 : 2;
  };
  std::stable_sort(blocked.begin(), blocked.end(),
                   [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  const MachineCore& first = *blocked.front();
  const Semaphore& s = *first.waits_for;
  const std::string wanted = amount_of(s, first.needs);
  const std::string held = amount_of(s, s.value());
  const std::string what = describe_semaphore(machine, s);
  if (rank(&first) == 0) {
    d.slug = "dma-size-mismatch";
    d.headline = "a wait for " + wanted + " on " + what + ", whose transfers bring " +
                 amount_of(s, s.outstanding());
  } else if (rank(&first) == 1) {
    d.slug = "barrier-divergence";
    d.headline = core_name(machine, first.id) + " waits at " + s.name + " for " + wanted +
                 " signals and has " + held + "; no more will come";
  } else {
    d.headline = machine.cores() == 1
                     ? what + " is waited for, and nothing can signal it"
                     : std::to_string(blocked.size()) + " of " + std::to_string(machine.cores()) +
                           " cores are blocked, and nothing can wake them";
  }
  add_kernel_field(d);
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < blocked.size() && i < kShown; ++i) {
    const MachineCore& c = *blocked[i];
    const Semaphore& w = *c.waits_for;
    d.fields.emplace_back("waits", site_line(c.wait_site) + "   " + site_place(c, c.wait_site));
    d.fields.emplace_back("for", describe_semaphore(machine, w) + ": holds " +
                                     amount_of(w, w.value()) + ", needs " + amount_of(w, c.needs) +
                                     "; " + signallers(machine, w));
  }
  if (blocked.size() > kShown) {
    d.fields.emplace_back("waits", "and " + std::to_string(blocked.size() - kShown) + " more");
  }
  if (finished > 0) {
    d.fields.emplace_back("others", std::to_string(finished) + " finished");
  }
  if (d.slug == "dma-size-mismatch") {
    d.fields.emplace_back("help",
                          "the ref that is waited for must be as large as the one that was copied; "
                          "or one transfer fewer was started than is waited for");
  } else if (d.slug == "barrier-divergence") {
    d.fields.emplace_back("help",
                          "every device must signal and wait at the same barriers, as often");
  } else {
    d.fields.emplace_back("help",
                          "a transfer or a signal on that semaphore is missing, or the "
                          "cores wait for each other in a circle");
  }
  add_command_field(d);
  return d;
}

}  // namespace tessera
