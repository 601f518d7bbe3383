// How the TPU's compiler lays out vectors in registers while a program's ops are priced
// (units.hpp). What follows from registers that hold the same it computes once:
//
//   x / row_sum(x)                            one reciprocal for a row of registers
//   exp(select(iota(1) < 768, x, -inf) - m)   of 24 registers of a row six differ, and the eighteen
//                                             behind them are the same, whatever m is: seven
//
// Along each dim alone: registers are the same that are so along every dim. Of ops that compute
// element by element, broadcasts and iota.
//
// A slice of columns stays in the lanes where they are. What is computed of it lies as the first
// operand does, and the others are rotated:
//
//   x[:, :64] * c - x[:, 64:] * s    s is rotated to the second half, what is subtracted back
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "program/unit_masks.hpp"
#include "program/units.hpp"

namespace tessera::program {

class UnitRegisters {
 public:
  UnitRegisters(const Module& module, const UnitMasks& masks) : module_(module), masks_(masks) {}

  /// Notes the op, whose mask is noted.
  void note(const Operation& op, const KnownValues& known);

  /// Of a vector with this value's elements, in registers of this type.
  std::int64_t different(int value, DType of) const;
  /// The lane in which a vector's first column lies; none: all its columns are the same.
  std::optional<std::int64_t> first_lane(int value, const KnownValues& known) const;

 private:
  /// Of the parts of a dim, 8 rows or 128 columns each: those with one number are the same. Empty:
  /// all differ.
  using Parts = std::vector<int>;

  static std::int64_t parts_along(const Shape& shape, int dim);
  Parts along(int value, int dim, const KnownValues& known) const;
  void note_lane(const Operation& op, const KnownValues& known);
  void note_parts(const Operation& op, const KnownValues& known);
  Parts selected(const Operation& select, const UnitMasks::Mask& mask,
                 const KnownValues& known) const;

  const Module& module_;
  const UnitMasks& masks_;
  std::unordered_map<int, std::vector<Parts>> parts_;                 ///< by dim
  std::unordered_map<int, std::optional<std::int64_t>> first_lanes_;  ///< but 0
};

}  // namespace tessera::program
