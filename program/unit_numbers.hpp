// Registers of the vectors of a program by what they hold, while its ops are priced (units.hpp):
// one number for all that hold the same, in whatever vector. The TPU's compiler computes each once.
//
//   a = select(iota(1) < 128, x, 0)    of 96 x 256, 12 x 2 registers: the 12 of the right half are
//   b = roll(a, 1, 0) * a              zeros, and so b has 13 products
//
// Of 32-bit elements and masks, element by element, broadcasts, iota and rotations of rows; vectors
// of thousands of registers are left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/unit_masks.hpp"
#include "program/units.hpp"

namespace tessera::program {

class UnitNumbers {
 public:
  UnitNumbers(const Module& module, const UnitMasks& masks) : module_(module), masks_(masks) {}

  /// Notes the op, whose mask is noted.
  void note(const Operation& op, const KnownValues& known);

  /// Of the registers of a value those that its op computed; none: nobody knows.
  std::optional<std::int64_t> fresh(int value) const;

  /// What is computed in a region nobody finds outside of it.
  std::size_t mark() const { return order_.size(); }
  void forget(std::size_t mark);

 private:
  using Key = std::vector<std::int64_t>;
  struct Grid {
    std::int64_t outer = 1;
    std::int64_t down = 1;
    std::int64_t across = 1;
    std::int64_t all() const { return outer * down * across; }
    bool operator==(const Grid&) const = default;
  };
  /// None of what is left out.
  std::optional<Grid> grid_of(const Type& type) const;
  int number(Key key);
  int name(const Operation& op);
  std::vector<int> numbers_of(int value, const Grid& grid, const KnownValues& known);
  std::vector<int> elementwise(const Operation& op, const Grid& grid, const KnownValues& known);
  std::vector<int> broadcast(const Operation& op, const Grid& grid, const KnownValues& known);
  std::vector<int> rotated(const Operation& op, const Grid& grid, const KnownValues& known);

  const Module& module_;
  const UnitMasks& masks_;
  std::map<std::string, int> names_;
  std::map<Key, int> seen_;
  std::vector<Key> order_;  ///< keys of seen_, as they came
  int next_ = 2;            ///< 0 and 1: false and true
  std::unordered_map<int, std::vector<int>> numbers_;
  std::unordered_map<int, std::int64_t> fresh_;
};

}  // namespace tessera::program
