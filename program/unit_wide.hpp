// What a product asks of matrix units of 256 x 256 (a v6e's, a v7x's), register by register.
#pragma once

#include <cstdint>
#include <optional>

#include "program/program.hpp"
#include "program/unit_costs.hpp"

namespace tessera::program {

struct WideProduct {
  std::int64_t tiles;     ///< of a whole unit
  std::int64_t deep;      ///< so many of 128 rows add to one register of the result
  std::int64_t results;   ///< registers
  std::int64_t rows;      ///< registers
  std::int64_t pops;      ///< registers, of all tiles
  std::int64_t pushes;    ///< of a tile, each of two registers of weights, or of one and none
  std::int64_t together;  ///< registers that two of the left side give
  int push;               ///< cycles
  bool packs = false;     ///< words of weights, two registers to one that is pushed
  // In the highest precision, in which a tile takes six rounds (unit_rounds.hpp).
  bool splits = false;
  std::int64_t split_left = 0;   ///< registers
  std::int64_t split_right = 0;  ///< likewise
  bool rows_alone = false;       ///< an odd number: of what each gives half is nothing
  bool apart = false;            ///< two tiles lie beside one another and have results of their own

  /// Whether it is known how its weights are pushed: they are bf16, or f32 by f32.
  bool knows_pushes() const { return pushes > 0; }
  /// Tiles that add to one register of the result.
  std::int64_t tiles_deep() const { return (deep + 1) / 2; }
  std::int64_t pops_of_tile(std::int64_t tile) const {
    return (tile + 1) * pops / tiles - tile * pops / tiles;
  }
  /// Cycles in which rows pass a tile, and in which it is pushed; of a round.
  double passes_take() const {
    return kOfPop * static_cast<double>(pops) / static_cast<double>(tiles);
  }
  double pushes_take() const { return static_cast<double>(pushes * push); }
  static constexpr int kOfPop = 2;  ///< cycles in which a register of the result is made
  static constexpr std::size_t kSplitRounds = 6;
};

/// None of what multiplies no matrices.
std::optional<WideProduct> wide_product(const Program& program, const UnitOp& op,
                                        const UnitCosts& costs);

}  // namespace tessera::program
