#include "program/unit_by_registers.hpp"

#include <cmath>

#include "program/unit_phases.hpp"

namespace tessera::program {

namespace {

/// Of all of those ops.
struct FactsOfOps {
  double alone = 0;
  bool has_copies = false;
  bool waits_within = false;  ///< for an end of a phase
  bool blocks = false;        ///< products of which it has no registers
  std::int64_t spilled = 0;   ///< registers
  bool spills_sums = false;
  bool splits = true;  ///< each product, into parts
  std::int64_t products = 0;

  void note(const ScheduledOp& op, bool ends_a_phase) {
    alone += op.alone;
    has_copies = has_copies || op.copies;
    waits_within = waits_within || ends_a_phase;
    blocks = blocks || (op.product > 0 && !op.tiles && !op.wide);
    spilled += op.spilled;
    spills_sums = spills_sums || op.spills_sums;
    splits = splits && (op.product <= 0 || (op.wide && op.wide->splits));
    products += op.product > 0 ? 1 : 0;
  }
};

void add_op(UnitSchedule& schedule, const Program& program,
            const std::vector<const UnitCost*>& rows, const UnitOp& op, const ScheduledOp& of) {
  const auto add_rows = [&] {
    for (const auto& [row, times] : of.rows) {
      const auto r = static_cast<std::size_t>(row);
      if (rows[r] != nullptr) schedule.add(program.unit_rows[r], *rows[r], times);
    }
  };
  if (of.tiles || of.wide) {
    add_rows();
    if (of.tiles)
      schedule.multiply(op, *of.tiles);
    else
      schedule.multiply(op, *of.wide, of.of_first);
  } else {
    schedule.add_serial(std::llround(of.product));
    const bool stores = op.makes.empty();  // what has been parted before
    const auto put = [&] {
      if (of.put.each != nullptr) schedule.put_together(of.put);
    };
    if (stores) put();
    if (of.packs > 0) schedule.pack_masks(op, of.packs);
    if (of.stored.each != nullptr)
      schedule.store(of.stored);
    else
      add_rows();
    if (!stores) put();
    schedule.end(op);
  }
  schedule.spill(op, of.spilled);
}

}  // namespace

double bundles_by_registers(const Program& program, const std::vector<const UnitCost*>& rows,
                            const std::vector<const UnitOp*>& ops,
                            const std::vector<ScheduledOp>& scheduled,
                            const std::vector<std::size_t>& here, const UnitCosts& costs,
                            const ByRegisters& where, double by_slots) {
  if (!costs.schedules || by_slots <= 0) return by_slots;
  // With the registers of all products on wide units what it takes is the least, however much there
  // is.
  const bool is_least = costs.schedules->turn > 0;
  FactsOfOps all;
  for (const std::size_t i : here) all.note(scheduled[i], ends_phase(program, *ops[i]));
  if (all.spills_sums || (all.has_copies && !(is_least && all.waits_within))) return by_slots;
  UnitSchedule schedule(costs);
  for (const std::size_t i : here) add_op(schedule, program, rows, *ops[i], scheduled[i]);
  const std::optional<std::int64_t> bundles = schedule.bundles(all.has_copies);
  if (!bundles) return by_slots;
  const double by_registers = static_cast<double>(*bundles) + all.alone;
  // What neither multiplies nor spills is as its registers are scheduled, however much; what
  // spills without a product is left to slots.
  const bool is_plain = all.products == 0 && all.spilled == 0;
  // Parts that are packed are stored, which is not modelled.
  const bool knows_parts = all.splits && !costs.schedules->packs_words;
  // Of 64 registers too many a quarter is stored; of more the order is another.
  constexpr std::int64_t kFew = 16;
  const bool knows_all = knows_parts ? all.spilled <= kFew : all.spilled == 0 && all.products == 1;
  const bool decides = all.products > 0 && (by_registers > by_slots || knows_all);
  const double part = is_plain || (is_least && !all.blocks && decides) ? 1
                      : all.products > 0 ? where.part_of_product(by_slots, by_registers)
                                         : where.part(by_slots);
  return by_slots + part * (by_registers - by_slots);
}

}  // namespace tessera::program
