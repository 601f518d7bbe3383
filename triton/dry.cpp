#include "triton/dry.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "program/step_slots.hpp"

namespace tessera::triton {

namespace {

/// Of slots those that are not regular, which are always known.
class Steps {
 public:
  explicit Steps(Kernel& kernel) : kernel_(kernel), code_(kernel.program.main) {
    for (std::size_t s = 0; s < kernel.sites.size(); ++s) site_of_[kernel.sites[s].step] = s;
    for (const auto& [slot, bytes] : kernel.program.dense)
      constants_.insert({Type::Kind::vector, false, slot});
  }

  void plan() {
    for (std::size_t i = 0; i < code_.steps.size(); ++i) seed(i);
    std::size_t before = 0;
    do {  // loops go back
      before = needed_.size();
      for (std::size_t i = code_.steps.size(); i-- > 0;) follow(i);
    } while (needed_.size() != before);
    std::set<StepSlot> made = constants_;
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      const std::vector<StepSlot> makes = made_by(i);
      made.insert(makes.begin(), makes.end());
      mark(i, makes);
    }
    for (const StepSlot& s : needed_) {
      if (s.kind == Type::Kind::vector && !made.contains(s))
        kernel_.undry = "what decides an address is made by an op that does not say so";
    }
  }

 private:
  using Note = StepNote::Slot;
  bool moves(std::size_t i) const { return program::moves(code_.notes[i]); }

  static std::vector<StepSlot> may_be_unknown(std::vector<StepSlot> all) {
    std::erase_if(all, [](const StepSlot& s) { return s.regular; });
    return all;
  }
  std::vector<StepSlot> made_by(std::size_t i) const {
    return may_be_unknown(program::made_by(code_, i));
  }
  std::vector<StepSlot> read_by(std::size_t i) const {
    return may_be_unknown(program::read_by(code_, i));
  }
  void need(const std::vector<StepSlot>& all) { needed_.insert(all.begin(), all.end()); }

  /// What decides where an access is, or which way a program goes.
  void seed(std::size_t i) {
    if (const auto it = site_of_.find(i); it != site_of_.end()) {
      for (const Note& n : kernel_.sites[it->second].where) {
        if (!n.regular) needed_.insert(slot_of(n));
      }
      return;
    }
    // What is kept without elements is always known.
    if (!moves(i) && std::ranges::any_of(code_.notes[i].makes, &Note::regular)) need(read_by(i));
    const std::string_view op = code_.steps[i].op;
    if (moves(i)) {
      // What is kept without elements may be given some.
      const StepNote& note = code_.notes[i];
      for (std::size_t k = 0; k < note.makes.size(); ++k) {
        if (note.makes[k].regular && !note.reads[k].regular) needed_.insert(slot_of(note.reads[k]));
      }
      return;
    }
    if (op == "tt.map_elementwise" || op == "tt.turn") {
      need(read_by(i));
    } else if (code_.notes[i].target != nullptr || op.starts_with("scf.") ||
               op.starts_with("cf.")) {
      // Scalars decide; vectors are what a loop's body hands on, or lets go of, at its end.
      for (const StepSlot& s : read_by(i)) {
        if (s.kind == Type::Kind::scalar) needed_.insert(s);
      }
    }
  }

  void follow(std::size_t i) {
    if (moves(i)) {
      const StepNote& note = code_.notes[i];
      for (std::size_t k = 0; k < note.makes.size(); ++k) {
        if (!note.makes[k].regular && !note.reads[k].regular &&
            needed_.contains(slot_of(note.makes[k])))
          needed_.insert(slot_of(note.reads[k]));
      }
      return;
    }
    if (site_of_.contains(i)) return;
    const std::vector<StepSlot> makes = made_by(i);
    if (std::ranges::any_of(makes, [&](const StepSlot& s) { return needed_.contains(s); }))
      need(read_by(i));
  }

  void mark(std::size_t i, const std::vector<StepSlot>& makes) {
    Step& step = code_.steps[i];
    step.on_values = false;
    step.unknown.clear();
    const bool wanted =
        std::ranges::any_of(makes, [&](const StepSlot& s) { return needed_.contains(s); });
    if (const auto it = site_of_.find(i); it != site_of_.end()) {
      kernel_.sites[it->second].wanted = wanted;
      return;
    }
    if (wanted || moves(i) || code_.notes[i].target != nullptr ||
        std::string_view(step.op) == "tt.map_elementwise")
      return;
    const auto vector = [](const StepSlot& s) { return s.kind == Type::Kind::vector; };
    if (!std::ranges::any_of(read_by(i), vector) && !std::ranges::any_of(makes, vector)) return;
    step.on_values = true;
    for (const StepSlot& s : makes) {
      if (!vector(s)) step.unknown.push_back(s.slot);
    }
  }

  Kernel& kernel_;
  Code& code_;
  std::map<std::size_t, std::size_t> site_of_;  ///< by step
  std::set<StepSlot> constants_;
  std::set<StepSlot> needed_;
};

}  // namespace

void plan_dry_run(Kernel& kernel) { Steps(kernel).plan(); }

}  // namespace tessera::triton
