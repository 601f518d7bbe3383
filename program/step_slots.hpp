// What a step reads and makes.
#pragma once

#include <compare>
#include <vector>

#include "program/program.hpp"

namespace tessera::program {

/// A place of a value. Scalars, vectors and regular vectors are numbered apart.
struct StepSlot {
  Type::Kind kind = Type::Kind::scalar;  ///< scalar or vector
  bool regular = false;
  int slot = -1;
  auto operator<=>(const StepSlot&) const = default;

  /// A vector with elements.
  bool is_vector() const { return kind == Type::Kind::vector && !regular; }
};

StepSlot slot_of(const StepNote::Slot& s);
/// With those of its group; one may be there twice.
std::vector<StepSlot> read_by(const Code& code, std::size_t step);
std::vector<StepSlot> made_by(const Code& code, std::size_t step);
/// Its values are handed on one by one: what note.reads[k] is, note.makes[k] becomes.
bool moves(const StepNote& note);

}  // namespace tessera::program
