#include "sim/diagnostics/machine_parts.hpp"
#include "sim/pipeline/aliased_pair.hpp"

namespace tessera {

std::string stale_alias(const MachineCore& c, const Plan& plan, const LostUpdate& lost) {
  const OperandPlan& out = plan.operands[static_cast<std::size_t>(lost.operand)];
  const OperandPlan& in = plan.operands[static_cast<std::size_t>(out.aliased)];
  const Shape block = unravel(out.blocks, lost.block);
  std::string text = "stale-alias: " + out.name + " overwrites " + in.name + ", and " +
                     (lost.steps == 1 ? "a step loses" : with_commas(lost.steps) + " steps lose") +
                     " what earlier ones wrote, " + with_commas(lost.elems) + " elements in all";
  text += "; first in block " + index_string(block.dims.data(), block.rank) + ": " +
          site_place(c, lost.wrote) + " wrote it (" + site_line(lost.wrote) + "), and " +
          site_place(c, lost.read) + " anew, from what " + in.name + " held before (" +
          site_line(lost.read) + ")";
  return text + "; a block that stays is not fetched again: read " + out.name +
         " where it was written";
}

}  // namespace tessera
