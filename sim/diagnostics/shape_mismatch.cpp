#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic shape_mismatch(const char* op, const std::string& operands) {
  Diagnostic d{.slug = "shape-mismatch",
               .headline = std::string(op) + " of " + operands + ": the extents do not match"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back(
      "help",
      "rows and columns agree, or are 1 and broadcast; in dot(a, b) the columns of a "
      "are the rows of b");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
