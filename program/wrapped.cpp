// Which of the integers that wrapped an address is made of.
#include <set>
#include <string_view>
#include <tuple>

#include "program/group.hpp"
#include "program/program.hpp"

namespace tessera::program {

namespace {

/// Scalars, vectors and regular vectors are numbered apart.
using Slot = std::tuple<Type::Kind, bool, int>;

Slot slot_of(const StepNote::Slot& s) {
  return {s.kind == Type::Kind::vector ? s.kind : Type::Kind::scalar, s.regular, s.slot};
}

std::set<Slot> read_by(const Code& code, std::size_t i) {
  std::set<Slot> all;
  for (const StepNote::Slot& s : code.notes[i].reads) all.insert(slot_of(s));
  for (const int v : code.steps[i].reads) all.insert({Type::Kind::vector, false, v});
  if (const Group* const g = code.notes[i].group.get()) {
    for (const Lane& l : g->lanes) {
      if (l.kind == Lane::Kind::result) continue;
      all.insert(
          {l.kind == Lane::Kind::splat ? Type::Kind::scalar : Type::Kind::vector, false, l.slot});
    }
  }
  return all;
}

std::set<Slot> made_by(const Code& code, std::size_t i) {
  std::set<Slot> all;
  for (const StepNote::Slot& s : code.notes[i].makes) all.insert(slot_of(s));
  if (const Group* const g = code.notes[i].group.get()) {
    for (const Group::Member& m : g->members) {
      if (m.vector >= 0) all.insert({Type::Kind::vector, false, m.vector});
    }
  }
  return all;
}

bool any_in(const std::set<Slot>& some, const std::set<Slot>& all) {
  for (const Slot& s : some) {
    if (all.contains(s)) return true;
  }
  return false;
}

}  // namespace

Here Exec::wrapped() const {
  if (wraps.empty()) return {};
  const Code& code = program.main;
  std::set<Slot> sources = read_by(code, next - 1);
  for (std::size_t before = 0; before != sources.size();) {  // loops go back
    before = sources.size();
    for (std::size_t i = code.steps.size(); i-- > 0;) {
      const StepNote& note = code.notes[i];
      if (std::string_view(note.what) == "move") {
        for (std::size_t k = 0; k < note.makes.size(); ++k) {
          if (sources.contains(slot_of(note.makes[k]))) sources.insert(slot_of(note.reads[k]));
        }
      } else if (any_in(made_by(code, i), sources)) {
        sources.merge(read_by(code, i));
      }
    }
  }
  for (const auto& [step, line] : wraps) {
    if (any_in(made_by(code, step), sources)) return line;
  }
  return wraps.begin()->second;
}

}  // namespace tessera::program
