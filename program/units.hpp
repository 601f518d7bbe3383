// What ops ask of the units of a TPU core: rows of a table of costs (unit_costs.hpp), and how many
// times each.
//
// A row is an op with its element type, or with its width where elements are only moved, and what
// decides its cost: "arith.addf f32", "vector.multi_reduction.add f32 lanes", "load b16 lanes".
// Times are registers of 8 x 128 words, of narrow types those that hold them packed; of products
// passes of 8 rows and tiles of weights. Registers have the default layout of their shape, but for
// vectors of one dim, which may lie along lanes, as memory has them, or down sublanes, as a
// reduction of lanes leaves them. What the compiler chooses besides is not known.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/ir.hpp"

namespace tessera::program {

/// Of an attribute that is an integer; `otherwise`: it is not there.
std::int64_t number_of(const Operation& op, const char* attribute, std::int64_t otherwise);

/// Of an attribute that is a list of them, or one.
std::vector<std::int64_t> numbers_of(const Operation& op, const char* attribute);

/// Of vectors of single rows that were loaded, and of what is computed of them, how they lie where
/// they are put together.
enum class LoneRows {
  none,       ///< in registers: each is turned to its sublane
  in_memory,  ///< words of an array of single rows are stored, and loaded together
  of_halves   ///< of a tile of one or two rows of 16 bits, in both halves of a register's sublane
};

/// What is known of a value while ops are planned.
struct KnownValues {
  std::function<bool(int)> repeats;  ///< a vector that repeats one scalar
  /// A scalar that is a constant, or a vector that repeats one.
  std::function<std::optional<std::int64_t>(int)> constant;
  std::function<bool(int)> down;  ///< a vector of one dim whose elements lie down the sublanes
  /// A row of words that lies as the line that it was, in all sublanes.
  std::function<bool(int)> packed = [](int) { return false; };
  /// Bits that hold an integer which is never negative.
  std::function<std::optional<int>(int)> bits = [](int) { return std::nullopt; };
  /// Of a vector's registers those that are no constants, a part of 1.
  std::function<double(int)> computed = [](int) { return 1; };
  /// A scalar that is 0, or a vector that repeats it.
  std::function<bool(int)> zero = [](int) { return false; };
  /// Along a dim of a vector the index behind which all elements are known to be 0.
  std::function<std::int64_t(int, int)> filled = [](int, int) {
    return std::numeric_limits<std::int64_t>::max();
  };
  /// Of the registers of a vector of this type those that a mask is neither true nor false for.
  std::function<std::optional<double>(int, DType)> mixed = [](int, DType) { return std::nullopt; };
  /// Of the registers of a vector with these elements and this type those that differ.
  std::function<std::int64_t(int, DType)> different = [](int, DType) {
    return std::numeric_limits<std::int64_t>::max();
  };
  /// Of the registers of a value those that hold what none held before it.
  std::function<std::optional<std::int64_t>(int)> fresh = [](int) { return std::nullopt; };
  std::function<LoneRows(int)> lone_rows = [](int) { return LoneRows::none; };
  /// The lane in which a vector's first column lies; none: all its columns are the same.
  std::function<std::optional<std::int64_t>(int)> first_lane = [](int) { return 0; };
};

using UnitRows = std::vector<std::pair<std::string, std::int64_t>>;

/// Whether an op's result is such a row.
bool lies_packed(const Module& module, const Operation& op, const KnownValues& known);

/// How single rows that are an op's result lie.
LoneRows lone_rows(const Module& module, const Operation& op, const KnownValues& known);

/// Rows and times; empty of what costs nothing: constants, views, the same registers.
UnitRows unit_rows(const Module& module, const Operation& op, const KnownValues& known);

/// Whether the op's result is a vector of one dim whose elements lie down the sublanes.
bool lies_down(const Module& module, const Operation& op, const KnownValues& known);

}  // namespace tessera::program
