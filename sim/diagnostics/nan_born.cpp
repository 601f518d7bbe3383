#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic nan_born(const char* op, int row, int col, const std::string& operands) {
  Diagnostic d{.slug = "nan-born",
               .headline = std::string(op) + " makes a NaN from numbers at [" +
                           std::to_string(row) + ", " + std::to_string(col) + "]"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("values", operands);
  d.fields.emplace_back("help", "the first NaN of this run; later ones may only carry it on");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
