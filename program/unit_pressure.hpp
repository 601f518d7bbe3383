// Registers that a TPU's core has too few of in a stretch of code, and so stores and loads again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"
#include "program/unit_phases.hpp"

namespace tessera::program {

/// Vector registers and masks that operations make while all are taken, operation after operation.
/// What no phase ends before and follows from loads of as many registers is made one register after
/// another, whenever it is read; what follows from none, an iota's registers or few that were
/// loaded, is made by each operation at once as well. What follows from a product alone, up to
/// where it is stored, is made one register after another too, as each waits in its matrix unit
/// until it is popped; of bf16 and much work all are popped at once.
class Pressure {
 public:
  /// Too many that an operation makes.
  struct TooMany {
    std::int64_t behind = 0;   ///< the end of a phase
    std::int64_t at_once = 0;  ///< before one, or popped so
    std::int64_t masks = 0;    ///< likewise
    double sums = 0;           ///< of digits that a constant multiplies by, of no load
    std::int64_t all() const { return behind + at_once + masks; }
    /// Of vectors those that are stored and loaded; `of_behind`: the share of those behind an end.
    double vectors(double of_behind) const {
      return of_behind * static_cast<double>(behind) + static_cast<double>(at_once);
    }
  };

  /// What is not in rows: vector operations of the stretch, whether two registers of bf16 are
  /// pushed side by side, if they are even, and whether integers are multiplied digit by digit.
  struct Pushes {
    double vector_ops = 0;
    bool pairs = false;
    bool digits = false;
  };

  Pressure(const Program& program, const std::vector<const UnitOp*>& ops, const Phases& phases,
           const Pushes& pushes);
  const TooMany& too_many(std::size_t op) const { return too_many_[op]; }

 private:
  int value(int v) const;
  void find_reads();
  /// Of the first phase what follows from no load, or from few registers that were spread, and is
  /// not made for what follows from one, as masks are, for a later phase, or for a product whose
  /// weights are made while others are pushed.
  void find_at_once(const Pushes& pushes);
  /// What follows from products and from no other end of a phase, and is neither made for one nor
  /// for what does.
  void find_popped(const Pushes& pushes);
  void find_too_many();
  /// What follows from ids and from words that all registers read, the compiler multiplies by the
  /// digits of a constant in all registers at once.
  void find_sums();
  bool pops_at_once(const UnitOp& op, const Pushes& pushes) const;
  bool pushes_odd_row(const UnitOp& op, const Pushes& pushes) const;
  const std::string& name(int row) const {
    return program_.unit_rows[static_cast<std::size_t>(row)];
  }
  bool has(const UnitOp& op, std::string_view prefix) const;
  bool makes_mask(const UnitOp& op) const;
  /// That hold its result, but for what is loaded, which can be loaded again.
  std::int64_t registers_made(const UnitOp& op) const;

  const Program& program_;
  const std::vector<const UnitOp*>& ops_;
  const Phases& phases_;
  std::unordered_map<int, int> is_;  ///< what casts and the like only pass on
  std::unordered_map<int, std::size_t> last_;
  std::vector<bool> at_once_;
  std::vector<bool> popped_;
  std::vector<TooMany> too_many_;
};

/// `rows`: the costs of the program's rows; null: none.
Pressure::Pushes pushes_of(const std::vector<const UnitOp*>& ops,
                           const std::vector<const UnitCost*>& rows, const UnitCosts& costs);

}  // namespace tessera::program
