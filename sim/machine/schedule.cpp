#include "sim/machine/schedule.hpp"

#include <algorithm>
#include <charconv>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera {

namespace {
struct Known {
  const char* name;
  Schedule::Kind kind;
  bool numbered;
};
constexpr Known kKnown[] = {{"eager", Schedule::Kind::eager, false},
                            {"on_wait", Schedule::Kind::on_wait, false},
                            {"adversarial", Schedule::Kind::adversarial, false},
                            {"random", Schedule::Kind::random, true},
                            {"explore", Schedule::Kind::explore, true}};
}  // namespace

std::string to_string(const Schedule& s) {
  const auto* known =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](auto& k) { return k.kind == s.kind; });
  return known->name + (known->numbered ? ":" + std::to_string(s.number) : "");
}

Schedule parse_schedule(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  for (const Known& k : kKnown) {
    if (name != k.name) continue;
    Schedule s{k.kind, 0};
    if (!k.numbered) {
      if (colon == std::string::npos) return s;
      break;
    }
    if (colon == std::string::npos) break;
    const char* first = text.data() + colon + 1;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, s.number);
    if (error != std::errc{} || end != last) break;
    if (s.kind == Schedule::Kind::explore && s.number == 0) break;
    return s;
  }
  throw InputError("bad-input", "no schedule '" + text +
                                    "'; there are eager, on_wait, adversarial, random:SEED and "
                                    "explore:N");
}

}  // namespace tessera
