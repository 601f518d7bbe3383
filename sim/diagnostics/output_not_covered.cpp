#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic output_not_covered(const OperandPlan& op, std::int64_t first_missing,
                              std::int64_t missing) {
  const Shape element = unravel(op.array, first_missing);
  Shape block = element;
  for (int i = 0; i < block.rank; ++i) block[i] /= op.block[i];
  // An array that overwrites an input began as what that holds: only copies of undefined memory
  // undo it. Blocks begin undefined.
  const bool overwritten = op.aliased >= 0 && !op.pipelined();
  Diagnostic d{.slug = overwritten ? "uninit-read" : "output-not-covered",
               .headline = with_commas(missing) + " of " + with_commas(op.array.elems()) +
                           " elements of " + op.name +
                           (overwritten ? " were overwritten by memory that nothing had written"
                                        : " were never written")};
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(op.at));
  d.fields.emplace_back("ref", describe_ref(op));
  const std::int64_t first = packed_bytes(op.dtype, first_missing);
  d.fields.emplace_back("bytes", "first [" + std::to_string(first) + ", " +
                                     std::to_string(first + packed_bytes(op.dtype, 1)) +
                                     "): element " + to_string(element) + ", block " +
                                     index_string(block.dims.data(), block.rank));
  d.fields.emplace_back(
      "help",
      overwritten
          ? "they held the input's values: copy to them what was written alone, or fill the "
            "rest of the block first with what they held"
          : "every block of an output must be visited by the grid and written whole");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
