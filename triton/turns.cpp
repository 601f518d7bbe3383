#include "triton/turns.hpp"

#include <algorithm>

namespace tessera::triton {

namespace {

void note(const Module& module, Region& r) {
  for (Operation& op : r.operations) {
    for (Region& each : op.regions) note(module, each);
    if (op.name != "scf.while" || op.regions.size() != 2 || op.regions[1].operations.empty())
      continue;
    std::vector<Operation>& after = op.regions[1].operations;
    const auto scalar = [&](int v) { return module.type(v).kind == Type::Kind::scalar; };
    if (!std::ranges::all_of(after.back().operands, scalar)) continue;
    Operation turn;
    turn.name = "tt.turn";
    turn.operands = after.back().operands;
    turn.location = op.location;
    after.insert(after.end() - 1, std::move(turn));
  }
  for (Region& other : r.others) note(module, other);
}

}  // namespace

void note_turns(Module& module) {
  for (Function& f : module.functions) note(module, f.body);
}

}  // namespace tessera::triton
