#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic output_not_covered(const Plan& plan, const OperandPlan& op, std::int64_t first_missing,
                              std::int64_t missing) {
  Shape element = op.array;
  Shape block = op.array;
  std::int64_t rest = first_missing;
  for (int i = 0; i < op.array.rank; ++i) {
    element[i] = rest / op.strides[i];
    rest %= op.strides[i];
    block[i] = element[i] / op.block[i];
  }
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
  (void)plan;
  add_replay_field(d);
  return d;
}

}  // namespace tessera
