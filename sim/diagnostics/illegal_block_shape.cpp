#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic illegal_block_shape(const Plan& plan, const OperandPlan& op, const std::string& fault) {
  Diagnostic d{.slug = "illegal-block-shape",
               .headline = plan.device.name + " cannot take " + to_string(op.block) +
                           " blocks of " + op.name + ": " + describe(op.dtype, op.array)};
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(op.at));
  d.fields.emplace_back("help", fault);
  add_replay_field(d);
  return d;
}

}  // namespace tessera
