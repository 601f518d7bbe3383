#include <string_view>

#include "sim/diagnostics/machine_parts.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera {

Diagnostic parallel_dependence_scratch(const BlockPart& part, std::int64_t first_stale) {
  const OperandPlan& op = *part.op;
  Diagnostic d{.slug = "parallel-dependence",
               .headline = op.name + "[" + std::to_string(first_stale / op.cols) + ", " +
                           std::to_string(first_stale % op.cols) + "] is read, but only another " +
                           (op.of_run ? "run or " : "") + "parallel cell has written it"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("ref", describe_ref(op));
  const std::int64_t first = packed_bytes(op.dtype, first_stale);
  d.fields.emplace_back("bytes", "[" + std::to_string(first) + ", " +
                                     std::to_string(first + packed_bytes(op.dtype, 1)) + ")");
  d.fields.emplace_back(
      "help", op.of_run ? "cells of a parallel dimension, and runs of a sum, may be different "
                          "cores': initialise scratch in each, and add what runs give by sum_runs()"
                        : "cells of a parallel dimension may run on different cores, in any order: "
                          "initialise scratch in every cell, or make the dimension arbitrary");
  add_replay_field(d);
  return d;
}

Diagnostic parallel_dependence_output(const OperandPlan& op, const std::int64_t* index,
                                      std::int64_t earlier_cell) {
  Diagnostic d{.slug = "parallel-dependence",
               .headline = "two parallel cells write block " + index_string(index, op.block.rank) +
                           " of " + op.name};
  add_kernel_field(d);
  d.fields.emplace_back("line", source_excerpt(op.at));
  d.fields.emplace_back("ref", describe_ref(op));
  d.fields.emplace_back("other", "parallel cell " + std::to_string(earlier_cell) +
                                     " (in row-major order) wrote it before");
  d.fields.emplace_back("help",
                        "the index map must use every parallel dimension, or the dimension that it "
                        "ignores must be arbitrary");
  add_replay_field(d);
  return d;
}

Diagnostic parallel_dependence_array(const MachineCore& c, const Buffer& buffer,
                                     const Access& later, const Access* earlier) {
  const bool after_write = earlier == nullptr || earlier->write;
  Diagnostic d{.slug = "parallel-dependence",
               .headline = "a parallel cell " + std::string(later.write ? "writes" : "reads") +
                           " elements of " + buffer.name + " that another one " +
                           (after_write ? "writes" : "reads")};
  add_kernel_field(d);
  const auto line = [](const Access& a) {
    return site_line(a.site) + (std::string_view(a.kind) == "DMA"
                                    ? ""
                                    : std::string("   ") + a.kind + " of the pipeline");
  };
  d.fields.emplace_back(later.write ? "write" : "read", line(later));
  if (earlier != nullptr) {
    d.fields.emplace_back(earlier->write ? "write" : "read",
                          line(*earlier) + "   " + site_place(c, earlier->site));
  }
  d.fields.emplace_back("ref", describe_buffer(c, buffer));
  d.fields.emplace_back(
      "help",
      "cells of a parallel dimension may run on different cores, in any order: give "
      "each cell its own part of the array, or make the dimension arbitrary");
  add_command_field(d);
  return d;
}

Diagnostic parallel_dependence_semaphore(const MachineCore& c, const Semaphore& s) {
  const std::string what = describe_semaphore(*c.machine, s);
  Diagnostic d{.slug = "parallel-dependence",
               .headline = what + " holds " + amount_of(s, s.outstanding()) +
                           " when a parallel cell ends: the next one may be another core's"};
  add_kernel_field(d);
  const Site& site = s.last_issue();
  d.fields.emplace_back(s.kind == Semaphore::Kind::dma ? "start" : "signal",
                        site_line(site) + "   the last, " + site_place(c, site));
  d.fields.emplace_back(
      "help",
      "cells of a parallel dimension may run on different cores, in any order: wait "
      "in the cell that signals or copies, or make the dimension arbitrary");
  add_command_field(d);
  return d;
}

}  // namespace tessera
