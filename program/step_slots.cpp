#include "program/step_slots.hpp"

#include <string_view>

#include "program/group.hpp"

namespace tessera::program {

StepSlot slot_of(const StepNote::Slot& s) {
  return {s.kind == Type::Kind::vector ? s.kind : Type::Kind::scalar, s.regular, s.slot};
}

std::vector<StepSlot> read_by(const Code& code, std::size_t step) {
  std::vector<StepSlot> all;
  for (const StepNote::Slot& s : code.notes[step].reads) all.push_back(slot_of(s));
  for (const int v : code.steps[step].reads) all.push_back({Type::Kind::vector, false, v});
  if (const Group* const g = code.notes[step].group.get()) {
    for (const Lane& l : g->lanes) {
      if (l.kind == Lane::Kind::result) continue;
      all.push_back(
          {l.kind == Lane::Kind::splat ? Type::Kind::scalar : Type::Kind::vector, false, l.slot});
    }
  }
  return all;
}

std::vector<StepSlot> made_by(const Code& code, std::size_t step) {
  std::vector<StepSlot> all;
  for (const StepNote::Slot& s : code.notes[step].makes) all.push_back(slot_of(s));
  if (const Group* const g = code.notes[step].group.get()) {
    for (const Group::Member& m : g->members) {
      if (m.vector >= 0) all.push_back({Type::Kind::vector, false, m.vector});
    }
  }
  return all;
}

bool moves(const StepNote& note) { return std::string_view(note.what) == "move"; }

}  // namespace tessera::program
