#include "sim/diagnostics/findings.hpp"

#include <string_view>

#include "sim/diagnostics/slugs.hpp"

namespace tessera {

namespace {

/// What tells findings apart: not the step, the core or the transfer, which follow three spaces.
std::string place_of(const Diagnostic& d) {
  std::string place = d.slug;
  for (const auto& [label, value] : d.fields) {
    for (const std::string_view telling :
         {"line", "read", "write", "start", "signal", "sem", "ref"}) {
      if (label == telling) place += "\n" + value.substr(0, value.find("   "));
    }
  }
  return place;
}

}  // namespace

void Findings::add(Diagnostic d) {
  if (known_.insert(place_of(d)).second) all_.push_back(std::move(d));
}

std::vector<Diagnostic> Findings::take() {
  known_.clear();
  return std::exchange(all_, {});
}

void found(Diagnostic d) {
  Findings* const all = step_context == nullptr ? nullptr : step_context->findings;
  if (all == nullptr) throw KernelError(std::move(d));
  all->add(std::move(d));
}

}  // namespace tessera
