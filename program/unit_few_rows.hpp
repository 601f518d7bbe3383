// What lies in VMEM in tiles of fewer rows than a register has, since its array has so few: f32 of
// R rows in tiles of T, the power of two from R on. A register then holds 8 / T tiles beside one
// another, and what is computed of it element by element stays so; products and what else takes
// whole registers have them put together.
//
//   x of 1 x 512 in a block of 24 x 512   24 registers of a row each, where 24 x 512 has 12
//
// Of one tile across they lie behind one another as the rows of a whole one do. Of 16-bit elements
// two rows are one of words, so that a tile of two has one sublane; what is stored there from whole
// registers is parted ("few rows b16 parted").
//
// Source: listings of 100 kernels that copy 24 and 64 rows of 128 to 2048 columns between blocks of
// arrays of 1 to 8 rows and whole ones, v4, v5e, v5p, v6e and tpu7x (libtpu 0.0.42.1).
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/unit_costs.hpp"
#include "program/unit_pipeline.hpp"

namespace tessera::program {

class FewRows {
 public:
  using Rows = std::vector<std::pair<int, std::int64_t>>;

  /// Of a stretch's ops.
  FewRows(const Program& program, const std::vector<const UnitOp*>& ops, const WindowArrays& arrays,
          const UnitCosts& costs);

  /// Registers that the op's rows take.
  Rows rows(const UnitOp& op) const;
  struct Together {
    const UnitCost* each = nullptr;  ///< null: none
    std::int64_t times = 0;
    std::int64_t whole = 0;     ///< registers that there are then
    std::int64_t stages = 0;    ///< where they go through memory: of 8 rows each
    int places = 1;             ///< for so many stages at a time
    std::int64_t computed = 0;  ///< of `times` those that are no constants
    bool has_halves = false;    ///< each is loaded in two parts, but the second is the same
                                ///< for all stages of a place
    /// What all of them ask.
    UnitCost all() const;
  };
  /// Of a load, and of what packs words in halves, those that are put together, of a store those
  /// that are parted.
  Together together(const UnitOp& op) const;
  /// A store of few rows: each is one of its own, however little of a register it fills.
  struct Stored {
    const UnitCost* each = nullptr;  ///< null: no such store
    std::int64_t times = 0;
    std::int64_t computed = 0;  ///< that are no constants
    std::int64_t alone = 0;  ///< of which no bundle has two: shuffled, or under masks that differ
  };
  Stored stored(const UnitOp& op) const;

 private:
  struct Tiled {
    double loads;  ///< registers that it takes
    double words;  ///< of what is cast to 32 bits
    double stores;
    double whole;  ///< and would of tiles of whole registers
    double whole_words;
    std::int64_t packed;  ///< whole registers that are parted, of eight rows each
    std::int64_t halves;  ///< what they are parted into
    std::int64_t across;  ///< registers
    std::int64_t stages;  ///< Together
    const UnitCost* together;
    const UnitCost* parted;  ///< null: by nothing
  };
  /// How many times the registers, of 16 bits and of words.
  struct Times {
    double own = 0;
    double words = 0;
  };
  Tiled tiled(const Window& w, std::int64_t rows_of_tile, const UnitCost& together) const;
  const std::string& name(const std::pair<int, std::int64_t>& row) const;
  bool stores(const UnitOp& op) const;
  std::set<int> numbered_masks(const std::vector<const UnitOp*>& ops) const;
  /// A load of few rows that are put together there.
  bool puts_through_memory(const UnitOp& op, const Tiled& w) const;
  const Tiled* of(const UnitOp& op) const;
  bool element_by_element(const UnitOp& op) const;
  /// Packs what it makes: of whole registers.
  bool packs(const UnitOp& op) const;
  Times more(const UnitOp& op) const;  ///< that what it reads takes

  const Program& program_;
  const UnitCost* packed_ = nullptr;  ///< what putting together for packing takes
  const UnitCost* parted_ = nullptr;  ///< and what parting whole registers takes
  const UnitCost* parted_words_ = nullptr;
  int places_of_words_ = 1;  ///< Together
  const UnitCosts& costs_;
  std::map<int, Tiled> windows_;  ///< by argument
  std::set<int> numbered_;        ///< masks of iotas
  std::set<int> whole_;           ///< values that somebody takes in whole registers
  std::map<int, Times> more_;     ///< values that take so many times the registers
};

}  // namespace tessera::program
