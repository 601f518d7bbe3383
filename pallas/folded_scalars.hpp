// Integer scalars that are computed from constants alone, as Mosaic's canonicalizer folds them:
// sums, products, quotients, comparisons, selections and casts. Left out: what carries a value
// through a loop or a branch, and what does not fit 32 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "program/ir.hpp"

namespace tessera::pallas {

class FoldedScalars {
 public:
  /// `made_by`: per value, the operation that it is a result of, nullptr for arguments. Both
  /// outlive this.
  FoldedScalars(const program::Module& module,
                const std::vector<const program::Operation*>& made_by)
      : module_(module), made_by_(made_by), known_(made_by.size()) {}

  /// A scalar's value; that of an i1 is 0 or 1.
  std::optional<std::int64_t> of(int value) const;

 private:
  struct Known {
    bool asked = false;
    std::optional<std::int64_t> value;
  };
  std::optional<std::int64_t> fold(int value, int depth) const;
  std::optional<std::int64_t> compute(const program::Operation& op, int depth) const;
  bool is_truth(int value) const;

  const program::Module& module_;
  const std::vector<const program::Operation*>& made_by_;
  mutable std::vector<Known> known_;
};

}  // namespace tessera::pallas
