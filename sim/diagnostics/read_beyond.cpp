#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic read_beyond(const OperandPlan& from, const OperandPlan& to, std::int64_t elems,
                       std::int64_t first, const std::string& ended) {
  Diagnostic d{.slug = "uninit-read"};
  d.headline = (ended.empty() ? with_commas(elems) + " of " + with_commas(to.array.elems()) +
                                    " elements of " + to.name + " depend"
                              : "whether the kernel ends with " + ended + " depends") +
               " on what a block holds beyond the end of " + from.name;
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(from.at));
  d.fields.emplace_back("ref", describe_ref(from));
  if (ended.empty())
    d.fields.emplace_back("ends", "in " + describe_ref(to) + ", first at element " +
                                      to_string(unravel(to.array, first)));
  d.fields.emplace_back("help",
                        "a device finds anything there: select with where_at() before you compute, "
                        "or declare what it is with .pad(value)");
  add_replay_field(d);
  return d;
}

}  // namespace tessera
