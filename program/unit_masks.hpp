// Which registers of a vector the TPU's compiler knows: masks of what lies before or behind a
// constant index, and what they select.
//
// Masks of vectors of less than 32 bits the compilers of some generations do not know.
//
//   select(iota(1) < 240, x, 0) of 16 x 512   of the 4 registers of a row one is x, one is mixed,
//                                             two are 0: one select, two for another mask of it
//
// Of iota, constants added to it and what it is taken from; a mask of a mask is not known, nor what
// a select of 8 bits leaves, which goes through memory. What a select throws away of an operand
// that nobody else reads is not computed either, nor loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "program/unit_shapes.hpp"
#include "program/units.hpp"

namespace tessera::program {

class UnitMasks {
 public:
  /// `knows_narrow_masks`: those of vectors of less than 32 bits.
  UnitMasks(const Module& module, bool knows_narrow_masks)
      : module_(module), knows_narrow_masks_(knows_narrow_masks) {}

  void note(const Operation& op, const KnownValues& known);

  /// Of the vector's registers those that are no constants, a part of 1.
  double computed(int value) const;
  /// Along a dim of a vector the index behind which selects leave nothing but 0.
  std::int64_t filled(int value, int dim) const;
  /// Of a mask's registers those that are neither true nor false as a whole; none: nobody knows.
  std::optional<double> mixed(int value, DType of) const;
  /// Of a select's operand (1 or 2) those that it does not throw away.
  double needed(const Operation& select, std::size_t operand) const;

  /// True where the index along a dim is in [begin, end), or is not.
  struct Mask {
    int dim;
    std::int64_t begin;
    std::int64_t end;
    bool outside;
  };
  /// Of registers of this type.
  std::optional<Mask> mask(int value, DType of) const {
    const auto it = masks_.find(value);
    const bool known = it != masks_.end() && (knows_narrow_masks_ || !is_narrow(of));
    return known ? std::optional(it->second) : std::nullopt;
  }

 private:
  /// Numbers that rise by one along a dim, or fall: `first` and so on.
  struct Rising {
    int dim;
    std::int64_t first;
    bool falls = false;
  };
  void note_rising(const Operation& op, const KnownValues& known);
  void note_filled(const Operation& select, const KnownValues& known);
  std::optional<Mask> compared(const Operation& op, const KnownValues& known) const;
  /// Of a vector of this type, of the registers along the mask's dim.
  struct Parts {
    double mixed;
    double inside;  ///< mixed ones too
    double outside;
  };
  Parts parts(const Mask& mask, const Shape& shape, DType dtype) const;

  const Module& module_;
  bool knows_narrow_masks_;
  std::unordered_map<int, Rising> rising_;
  std::unordered_map<int, Mask> masks_;
  std::unordered_map<int, double> computed_;
  std::unordered_map<int, std::vector<std::int64_t>> filled_;  ///< by dim
  std::unordered_map<int, int> rest_;  ///< of a select: the constant that its other registers are
};

}  // namespace tessera::program
