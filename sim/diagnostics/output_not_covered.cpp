#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic output_not_covered(const OperandPlan& op, std::int64_t first_missing,
                              std::int64_t missing) {
  const Shape element = unravel(op.array, first_missing);
  Shape block = element;
  for (int i = 0; i < block.rank; ++i) block[i] /= op.block[i];
  Diagnostic d{.slug = "output-not-covered",
               .headline = with_commas(missing) + " of " + with_commas(op.array.elems()) +
                           " elements of " + op.name + " were never written"};
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(op.at));
  d.fields.emplace_back("ref", describe_ref(op));
  const std::int64_t first = packed_bytes(op.dtype, first_missing);
  d.fields.emplace_back("bytes", "first [" + std::to_string(first) + ", " +
                                     std::to_string(first + packed_bytes(op.dtype, 1)) +
                                     "): element " + to_string(element) + ", block " +
                                     index_string(block.dims.data(), block.rank));
  d.fields.emplace_back("help",
                        "every block of an output must be visited by the grid and written whole");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
