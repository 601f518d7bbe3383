#include "program/unit_choices.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::program {

const std::vector<UnitOp>& ops_of(const Code& code, bool knows_narrow_masks) {
  const bool differ = knows_narrow_masks && !code.units_of_known_narrow_masks.empty();
  return differ ? code.units_of_known_narrow_masks : code.units;
}

std::vector<const Choice*> taken_both_ways(const Program& program, const Code& code,
                                           const UnitCosts& costs) {
  constexpr double kMostOperations = 126;
  constexpr double kNone = 0.1;  // of a slot: less is what fits leave over
  std::vector<const Choice*> found;
  const auto is_inside = [](std::size_t step, std::size_t begin, std::size_t end) {
    return step >= begin && step < end;
  };
  for (const Choice& choice : code.choices) {
    bool taken = true;
    std::array<double, 2> operations{};
    const auto add = [&](const UnitOp& op, double& to) {
      for (const auto& [row, times] : op.rows) {
        const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
        const auto cost = costs.rows.find(name);
        if (cost == costs.rows.end()) continue;
        const auto slots = [&](CoreUnit u) {
          return cost->second.slots[static_cast<std::size_t>(u)];
        };
        taken = taken && cost->second.alone == 0 && slots(CoreUnit::mxu) < kNone &&
                slots(CoreUnit::xlu) < kNone && slots(CoreUnit::store) < kNone;
        // Of masks and iotas tables have less than a slot: they are made beside other things.
        to += static_cast<double>(times) *
              cost->second.operations.value_or(std::max(1., std::round(slots(CoreUnit::valu))));
      }
    };
    for (const UnitOp& op : ops_of(code, costs.knows_narrow_masks)) {
      if (is_inside(op.step, choice.begin + 1, choice.end))
        add(op, operations[op.step >= choice.other ? 1 : 0]);
    }
    for (double& way : operations) {
      for (const UnitOp& op : choice.selects) add(op, way);
    }
    for (std::size_t i = choice.begin + 1; i < choice.end && taken; ++i) {
      const bool ends_way = i + 1 == choice.other;
      taken = !code.notes[i].target || code.notes[i].decided || ends_way ||
              std::ranges::any_of(
                  found, [&](const Choice* in) { return is_inside(i, in->begin, in->end); });
    }
    if (taken && std::ranges::max(operations) <= kMostOperations) found.push_back(&choice);
  }
  return found;
}

}  // namespace tessera::program
