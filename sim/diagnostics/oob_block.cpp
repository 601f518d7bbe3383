#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic oob_block(const OperandPlan& op, const std::int64_t* index) {
  Shape last = op.blocks;
  int bad = 0;
  for (int d = 0; d < last.rank; ++d) {
    if (index[d] < 0 || index[d] >= op.blocks[d]) bad = d;
    --last[d];
  }
  const char* const what = op.by_element ? " has no window at " : " has no block ";
  Diagnostic d{.slug = "oob-block",
               .headline = op.name + what + index_string(index, op.block.rank) + "; its last is " +
                           index_string(last.dims.data(), last.rank)};
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(op.at));
  d.fields.emplace_back("ref", describe_ref(op));
  if (op.by_element) {
    d.fields.emplace_back(
        "help", "a window of " + std::to_string(op.block[bad]) + " in dim " + std::to_string(bad) +
                    ", which has " + std::to_string(op.array[bad]) + " elements and padding of " +
                    std::to_string(op.pad_low[bad]) + " and " + std::to_string(op.pad_high[bad]) +
                    "; check its index map and the grid");
    add_replay_field(d);
    return d;
  }
  if (index[bad] >= 0) {
    const std::int64_t first = packed_bytes(op.dtype, op.offset(index));
    const std::int64_t run = packed_bytes(op.dtype, op.block[bad] * op.strides[bad]);
    d.fields.emplace_back("bytes", "wanted from " + std::to_string(first) + ", " +
                                       std::to_string(run) + " per block of dim " +
                                       std::to_string(bad) + "; " + op.name + " ends at " +
                                       std::to_string(packed_bytes(op.dtype, op.array.elems())));
  }
  d.fields.emplace_back("help", "dim " + std::to_string(bad) + " of " + op.name + " has " +
                                    std::to_string(op.blocks[bad]) + " blocks, ceil(" +
                                    std::to_string(op.array[bad]) + " / " +
                                    std::to_string(op.block[bad]) +
                                    "); check its index map and the grid");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
