// What the TPU's compiler knows of values while a program's ops are priced (units.hpp): which were
// computed before, which are constants, which are never negative. What follows from these it does
// not compute.
//
//   floor_divide(iota, 4)   a shift: of what is never negative sign and remainder need no look
//   fma(x, 0.18, y)         made of integers: the factor's exponent and significand are constants
//   0 + x, max(-inf, x)     x, as where a sum or a maximum begins
//   select(m, x, x)         x, as where fma(x, y, 0) is exact or not
//   the same mask of another head's scores, or of wider rows      computed once
//   the same slice of an array      has one address
//   the same word of SMEM, where nothing was written in between   loaded once
//
// Of arith's and math's ops, broadcasts, iota and views; the compiler's own rules are not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/units.hpp"

namespace tessera::program {

class UnitValues {
 public:
  explicit UnitValues(const Module& module) : module_(module) {}

  /// Notes the op. The value that its result is the same as, which need not be a value of the
  /// module (a constant is not); none: it is to be computed.
  std::optional<int> note(const Operation& op, const KnownValues& known);

  void know(int value, std::int64_t constant) { constants_[value] = constant; }
  std::optional<std::int64_t> constant(int value, const KnownValues& known) const;
  /// Of an integer that is never negative: bits that hold it, 31 at most.
  std::optional<int> bits(int value, const KnownValues& known) const;

  /// Of what is computed by the way, as "shift %3 by 4096": not yet.
  bool is_first(const std::string& text);
  /// The value that it is the same as.
  int name_of(int value) const;

  /// Memory may have been written: what is loaded from now on may be something else.
  void wrote() { ++written_; }

  /// What is computed in a region nobody finds outside of it.
  std::size_t mark() const { return order_.size(); }
  void forget(std::size_t mark);

 private:
  int same(int value, const KnownValues& known);
  int constant_value(std::int64_t constant, DType dtype);
  std::optional<std::int64_t> folded(const Operation& op, const KnownValues& known) const;
  std::optional<std::int64_t> folded_float(const Operation& op, const KnownValues& known) const;
  std::optional<std::int64_t> float_bits(int value, const KnownValues& known) const;
  std::optional<std::size_t> operand_that_is_it(const Operation& op, const KnownValues& known);
  std::optional<int> bits_of(const Operation& op, const KnownValues& known) const;
  std::string key(const Operation& op, const KnownValues& known);

  const Module& module_;
  std::unordered_map<int, int> same_;
  std::unordered_map<int, std::int64_t> constants_;
  std::unordered_map<int, int> bits_;
  std::unordered_map<std::string, int> seen_;
  std::vector<std::string> order_;  ///< keys of seen_, as they came
  int next_constant_ = -1;
  int written_ = 0;  ///< how often memory was
};

}  // namespace tessera::program
