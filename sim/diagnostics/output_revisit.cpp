#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic output_revisit(const OperandPlan& op, const std::int64_t* index) {
  Diagnostic d{.slug = "output-revisit",
               .headline = op.name + " comes back to block " + index_string(index, op.block.rank) +
                           ", which has already been written back"};
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(op.at));
  d.fields.emplace_back("ref", describe_ref(op));
  d.fields.emplace_back(
      "help",
      "steps that share an output block must follow one another: put the dimension "
      "that its index map ignores last in the grid");
  add_replay_field(d);
  return d;
}

Diagnostic output_overlap(const OperandPlan& op, const std::int64_t* index) {
  Diagnostic d{.slug = "output-revisit",
               .headline = "the window of " + op.name + " at " +
                           index_string(index, op.block.rank) +
                           " overlaps one that has already been written back"};
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(op.at));
  d.fields.emplace_back("ref", describe_ref(op));
  d.fields.emplace_back("help",
                        "windows of an output counted in elements (pl.Element) are written back in "
                        "flight: let them be equal or apart");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
