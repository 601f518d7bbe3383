#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic uninit_read(const BlockPart& part, std::int64_t first_missing, std::int64_t missing) {
  const OperandPlan& op = *part.op;
  const std::int64_t row = first_missing / op.cols;
  const std::int64_t col = first_missing % op.cols;
  Diagnostic d{.slug = "uninit-read",
               .headline = op.name + "[" + std::to_string(row) + ", " + std::to_string(col) +
                           "] is read before anything was written there"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("ref", describe_ref(op));
  const std::int64_t first = packed_bytes(op.dtype, first_missing);
  d.fields.emplace_back("bytes", "[" + std::to_string(first) + ", " +
                                     std::to_string(first + packed_bytes(op.dtype, 1)) +
                                     ") is the first; " + with_commas(missing) + " of " +
                                     with_commas(std::int64_t{op.rows} * op.cols) +
                                     " elements hold no value");
  d.fields.emplace_back("help",
                        op.role == Role::out
                            ? "an output block starts undefined; write it before reading it back"
                            : "scratch starts undefined; initialise it in the first step, as in "
                              "if (env.first(d)) *" +
                                  op.name + " = 0.f");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
