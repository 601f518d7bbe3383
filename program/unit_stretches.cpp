#include "program/unit_stretches.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "program/unit_choices.hpp"

namespace tessera::program {

namespace {

/// First steps of the stretches that run without a branch, the first of all among them.
std::set<std::size_t> beginnings(const Code& code, const std::vector<const Choice*>& both_ways) {
  std::set<std::size_t> first{0};
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    const auto covers = [&](const Choice* c) { return i >= c->begin && i < c->end; };
    const StepNote& note = code.notes[i];
    if (!note.target || note.decided || std::ranges::any_of(both_ways, covers)) continue;
    first.insert(i + 1);
    first.insert(*note.target);
  }
  return first;
}

/// A step that jumps, and where to.
using Jump = std::pair<std::size_t, std::size_t>;

std::vector<Jump> jumps(const Code& code) {
  std::vector<Jump> found;
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    const StepNote& note = code.notes[i];
    if (note.target && !note.decided) found.emplace_back(i, *note.target);
  }
  return found;
}

/// Those that a step is passed over by, or repeated; where these are the same, steps run together.
std::vector<Jump> around(const std::vector<Jump>& jumps, std::size_t step) {
  std::vector<Jump> found;
  std::ranges::copy_if(jumps, std::back_inserter(found), [&](const Jump& jump) {
    const auto [from, to] = jump;
    return (from < step && step < to) || (to <= step && step <= from);
  });
  return found;
}

}  // namespace

std::vector<Stretch> stretches(const Code& code, bool knows_narrow_masks,
                               const std::vector<const Choice*>& both_ways) {
  const std::set<std::size_t> first = beginnings(code, both_ways);
  std::vector<Stretch> all;
  for (const std::size_t begin : first) {
    if (begin < code.steps.size() || begin == 0) all.push_back({.begin = begin});
  }
  std::map<std::vector<Jump>, int> regions;
  const std::vector<Jump> all_jumps = jumps(code);
  for (Stretch& s : all)
    s.region = regions.try_emplace(around(all_jumps, s.begin), std::ssize(regions)).first->second;
  const auto of = [&](std::size_t step) -> Stretch& {
    const auto next = std::ranges::upper_bound(all, step, {}, &Stretch::begin);
    return *std::prev(next);
  };
  auto choice = both_ways.begin();
  const auto select_before = [&](std::size_t step) {
    for (; choice != both_ways.end() && (*choice)->end <= step; ++choice)
      for (const UnitOp& op : (*choice)->selects) of((*choice)->begin).ops.push_back(&op);
  };
  for (const UnitOp& op : ops_of(code, knows_narrow_masks)) {
    select_before(op.step);
    of(op.step).ops.push_back(&op);
  }
  select_before(code.steps.size());
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    const auto covers = [&](const Choice* c) { return i >= c->begin && i < c->end; };
    const StepNote& note = code.notes[i];
    if (!note.target || note.decided || std::ranges::any_of(both_ways, covers)) continue;
    of(i).branches = true;
    of(i).branch_location = code.steps[i].location;
  }
  return all;
}

}  // namespace tessera::program
