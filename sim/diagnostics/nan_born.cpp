#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic nan_born(const char* op, const Shape& at, const std::string& operands) {
  Diagnostic d{.slug = "nan-born",
               .headline = std::string(op) + " makes a NaN from numbers at " + to_string(at)};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("values", operands);
  d.fields.emplace_back("help", "the first NaN of this run; later ones may only carry it on");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
