#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic misaligned_slice(const OperandPlan& op, const char* dim, int start, int unit) {
  Diagnostic d{.slug = "misaligned-slice",
               .headline = "a slice of " + op.name + " starts at " + dim + " " +
                           std::to_string(start) + ", inside a native tile"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("ref", describe_ref(op));
  d.fields.emplace_back("help", "start at a multiple of " + std::to_string(unit) + ", as in " +
                                    std::to_string(start / unit * unit) + " or " +
                                    std::to_string((start / unit + 1) * unit));
  add_replay_field(d);
  return d;
}

}  // namespace tessera
