#include "sim/body/smem.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic oob_index(const OperandPlan& op, const char* dim, std::int64_t start, std::int64_t size,
                     std::int64_t extent) {
  Diagnostic d{.slug = "oob-index"};
  const std::string last = std::to_string(start + size);
  d.headline = size == 1 ? "index " + std::to_string(start) + " is outside the " +
                               std::to_string(extent) + " " + dim + " of " + op.name
                         : dim + std::string(" [") + std::to_string(start) + ", " + last +
                               ") are outside the " + std::to_string(extent) + " of " + op.name;
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("ref", describe_ref(op));
  d.fields.emplace_back("help",
                        "valid " + std::string(dim) + " are [0, " + std::to_string(extent) + ")");
  add_replay_field(d);
  return d;
}

void fail_scalar_index(const char* name, long long index, long long size) {
  Diagnostic d{.slug = "oob-index",
               .headline = "index " + std::to_string(index) + " is outside the " +
                           std::to_string(size) + " scalars of " + name};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("ref", std::string(name) + ": SMEM, " + std::to_string(size) + " elements");
  d.fields.emplace_back("help", "valid indices are [0, " + std::to_string(size) + ")");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

}  // namespace tessera
