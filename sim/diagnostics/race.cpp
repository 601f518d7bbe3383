#include <string_view>

#include "sim/diagnostics/machine_parts.hpp"

namespace tessera {

namespace {

bool is_dma(const Access& a) { return a.half && a.half->transfer != nullptr; }
bool is_pipeline(const Access& a) {
  return std::string_view(a.kind) == "fetch" || std::string_view(a.kind) == "write-back";
}

/// The smallest range of bytes that holds what both touch.
std::string shared_bytes(const Buffer& buffer, const Box& a, const Box& b) {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t elems = 1;
  std::int64_t stride = 1;
  for (int d = a.rank - 1; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    const std::int64_t from = std::max(a.dims[i].start, b.dims[i].start);
    const std::int64_t to = std::min(a.dims[i].end(), b.dims[i].end());
    first += from * stride;
    last += (to - 1) * stride;
    elems *= to - from;
    stride *= d == a.rank - 1 ? buffer.shape[d] * bit_width(buffer.dtype) : buffer.shape[d];
  }
  const std::string range =
      "[" + std::to_string(first / 8) + ", " + std::to_string((last + 8) / 8) + ")";
  const bool whole = last + 1 - first == elems;
  return whole ? "both touch " + range : "both touch parts of " + range;
}

std::string line_of(const MachineCore& c, const Access& a, const Site& now) {
  std::string text = site_line(a.site);
  if (is_dma(a)) text += "   DMA " + std::to_string(a.half->transfer->id);
  if (is_pipeline(a)) text += std::string("   ") + a.kind + " of the pipeline";
  const bool elsewhere = a.site.core != now.core || a.site.ids != now.ids;
  if (elsewhere) text += (is_dma(a) || is_pipeline(a) ? ", from " : "   ") + site_place(c, a.site);
  return text;
}

std::string help_for(const MachineCore& c, const Access& earlier, const Access& later) {
  const Machine& m = *c.machine;
  if (earlier.half) {
    const Transfer& t = *earlier.half->transfer;
    const bool source = earlier.half.get() == &t.source && t.remote();
    const int core = source ? t.core : t.landed_core;
    const std::string name = describe_semaphore(m, source ? t.sent_name : t.landed_name, core);
    // One that a wait has seen may have had a semaphore whose scope has ended.
    if (earlier.half->seen.core < 0) {
      const Semaphore& s = source ? *t.sent : *t.landed;
      for (const auto& [number, open] : s.open()) {
        if (open.half.get() != earlier.half.get() && open.half && s.waits() > 0) {
          return "several transfers share " + name +
                 ", and a wait does not tell which of them is complete: give each its own";
        }
      }
    }
    if (later.site.core == core) return "no wait on " + name + " comes between them";
    return "no wait on " + name + " comes between them, followed by a signal to " +
           core_name(m, later.site.core);
  }
  return "nothing orders them: " + core_name(m, earlier.site.core) +
         " would have to signal after the " + (earlier.write ? "write" : "read") + ", and " +
         core_name(m, later.site.core) + " to wait for it before";
}

Diagnostic conflict(Diagnostic d, const MachineCore& c, const Buffer& buffer, const Access& earlier,
                    const Access& later) {
  add_kernel_field(d);
  const auto field = [](const Access& a) { return a.write ? "write" : "read"; };
  d.fields.emplace_back(field(later), line_of(c, later, later.site));
  d.fields.emplace_back(field(earlier), line_of(c, earlier, later.site));
  d.fields.emplace_back("ref", describe_buffer(c, buffer));
  d.fields.emplace_back("bytes", shared_bytes(buffer, earlier.box, later.box));
  return d;
}

}  // namespace

Diagnostic race(const MachineCore& c, const Buffer& buffer, const Access& earlier,
                const Access& later) {
  Diagnostic d{.slug = "race"};
  const std::string later_does = later.write ? "written" : "read";
  if (earlier.half && !later.half) {
    d.headline = buffer.name + " is " + later_does + " while a DMA may still be " +
                 (earlier.write ? "writing" : "reading") + " it";
  } else if (earlier.half) {
    d.headline =
        later.half.get() == earlier.half.get() || later.half->transfer == earlier.half->transfer
            ? "a DMA reads and writes the same bytes of " + buffer.name
            : "two DMAs may be under way at once on " + buffer.name + ": one " +
                  (earlier.write ? "writes" : "reads") + ", the other " +
                  (later.write ? "writes" : "reads");
  } else {
    d.headline = buffer.name + " is " + later_does + (later.half ? " by a DMA" : "") + " while " +
                 core_name(*c.machine, earlier.site.core) + " may still be " +
                 (earlier.write ? "writing" : "reading") + " it";
  }
  d = conflict(std::move(d), c, buffer, earlier, later);
  d.fields.emplace_back("help", help_for(c, earlier, later));
  add_command_field(d);
  return d;
}

std::string writes_that_agree(const MachineCore& c, const Buffer& buffer, const Access& earlier,
                              const Access& later) {
  return "several cores copy the same values to the same bytes of " + buffer.name +
         ", or read them, in any order: " + line_of(c, later, later.site) + "; " +
         line_of(c, earlier, later.site);
}

Diagnostic alias_hazard(const MachineCore& c, const Buffer& buffer, const Access& earlier,
                        const Access& later) {
  Diagnostic d{.slug = "alias-hazard"};
  d.headline = "the pipeline reads a block of " + buffer.name +
               " that an aliased output may not have written back yet";
  d = conflict(std::move(d), c, buffer, earlier, later);
  d.fields.emplace_back(
      "help",
      "blocks are prefetched a step ahead and written back a step behind: read a block of an "
      "aliased array before it is written, or at least three steps after");
  add_command_field(d);
  return d;
}

}  // namespace tessera
