#include "sim/diagnostics/slugs.hpp"

namespace tessera {

namespace {

const char* help_for(const OperandPlan* from, bool stale) {
  if (stale) {
    return "cells of a parallel dimension may run on different cores, in any order: initialise in "
           "every cell what it reads, or make the dimension arbitrary";
  }
  if (from == nullptr) return "memory of run_scoped starts undefined; write it before you read it";
  if (from->is_input()) {
    return "a block that reaches beyond its array is undefined there: select with where() before "
           "you compute";
  }
  if (from->is_output())
    return "an output block starts undefined; write it before you read it back";
  return "scratch starts undefined; initialise it in the first step that uses it, in every cell";
}

}  // namespace

Diagnostic undefined_output(const OperandPlan& op, const Missing& missing, const OperandPlan* from,
                            Here read, const std::string& memory) {
  const bool stale =
      missing.state == Shadow::stale || (Shadow::origin(missing.state) & kStale) != 0;
  const bool left = missing.state == Shadow::stale;  // by another cell, in the block itself
  const std::string name = left ? op.name : from != nullptr ? from->name : memory;
  const Shape element = unravel(op.array, missing.first_reached);
  Diagnostic d{.slug = stale ? "parallel-dependence" : "uninit-read"};
  d.headline = with_commas(missing.reached) + " of " + with_commas(op.array.elems()) +
               " elements of " + op.name +
               (left    ? " are what another parallel cell wrote"
                : stale ? " depend on " + name + ", which only another parallel cell had written"
                        : " depend on " + name + ", where nothing had been written");
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(left || read.file == nullptr ? op.at : read));
  if (from != nullptr && from != &op) d.fields.emplace_back("ref", describe_ref(*from));
  d.fields.emplace_back("ends",
                        "in " + describe_ref(op) + ", first at element " + to_string(element));
  d.fields.emplace_back("help", help_for(left ? &op : from, stale));
  add_replay_field(d);
  return d;
}

}  // namespace tessera
