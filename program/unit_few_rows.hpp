// What lies in VMEM in tiles of fewer rows than a register has, since its array has so few: f32 of
// R rows in tiles of T, the power of two from R on. A register then holds 8 / T tiles beside one
// another, and what is computed of it element by element stays so; products and what else takes
// whole registers have them put together.
//
//   x of 1 x 512 in a block of 24 x 512   24 registers of a row each, where 24 x 512 has 12
//
// Of one tile across they lie behind one another as the rows of a whole one do. Of 16-bit elements
// each tile comes by itself, where a table says so ("few rows b16").
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "program/unit_costs.hpp"

namespace tessera::program {

class FewRows {
 public:
  using Rows = std::vector<std::pair<int, std::int64_t>>;

  /// Of a stretch's ops.
  FewRows(const Program& program, const std::vector<const UnitOp*>& ops, const WindowArrays& arrays,
          const UnitCosts& costs);

  /// Registers that the op's rows take.
  Rows rows(const UnitOp& op) const;
  /// Of a load, and of what packs words in halves, those that are put together, and what each
  /// takes; null: none.
  std::pair<const UnitCost*, std::int64_t> together(const UnitOp& op) const;

 private:
  struct Tiled {
    double few;    ///< registers that it takes
    double whole;  ///< and would of tiles of eight rows
    const UnitCost* together;
  };
  static Tiled tiled(const Window& w, std::int64_t rows_of_tile, const UnitCost& together);
  const Tiled* of(const UnitOp& op) const;
  bool element_by_element(const UnitOp& op) const;
  /// Packs what it makes: of whole registers.
  bool packs(const UnitOp& op) const;
  double more(const UnitOp& op) const;  ///< that what it reads takes

  const Program& program_;
  const UnitCost* packed_ = nullptr;  ///< what putting together for packing takes
  std::map<int, Tiled> windows_;      ///< by argument
  std::set<int> whole_;               ///< values that somebody takes in whole registers
  std::map<int, double> more_;        ///< values that take so many times the registers
};

}  // namespace tessera::program
