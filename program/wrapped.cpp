// Which of the integers that wrapped an address is made of.
#include <algorithm>
#include <set>

#include "program/program.hpp"
#include "program/step_slots.hpp"

namespace tessera::program {

Here Exec::wrapped() const {
  if (wraps.empty()) return {};
  const Code& code = program.main;
  std::set<StepSlot> sources;
  const auto add_read = [&](std::size_t step) {
    for (const StepSlot& s : read_by(code, step)) sources.insert(s);
  };
  const auto makes_any = [&](std::size_t step) {
    return std::ranges::any_of(made_by(code, step),
                               [&](const StepSlot& s) { return sources.contains(s); });
  };
  add_read(next - 1);
  for (std::size_t before = 0; before != sources.size();) {  // loops go back
    before = sources.size();
    for (std::size_t i = code.steps.size(); i-- > 0;) {
      const StepNote& note = code.notes[i];
      if (moves(note)) {
        for (std::size_t k = 0; k < note.makes.size(); ++k) {
          if (sources.contains(slot_of(note.makes[k]))) sources.insert(slot_of(note.reads[k]));
        }
      } else if (makes_any(i)) {
        add_read(i);
      }
    }
  }
  for (const auto& [step, line] : wraps) {
    if (makes_any(step)) return line;
  }
  return wraps.begin()->second;
}

}  // namespace tessera::program
