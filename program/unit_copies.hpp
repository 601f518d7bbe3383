// Views and copies as the TPU's compiler has them, while a program's ops are priced (units.hpp):
// what addresses, checks and waits ask of the scalar unit.
//
//   pages.at[head, i]    a sum, and a shift for each index that is no constant: once for all slices
//                        whose elements lie as far apart
//   buffer.at[2]         nothing, of what lies in VMEM: the compiler knows where
//   copy.start()         a look at either end, whether it lies in its array ("BoundsCheck" in a
//                        listing). Which generations look at ends of which the compiler knows that
//                        they do, since indices are constants or 0 or 1, tables say. Of a view
//                        that was looked at before it knows the answer, and looks at that.
//                        No vector work passes a look, so that of a copy's looks one alone lies
//                        beside some: the first, where vectors were stored to what is copied, or
//                        stored to or loaded from where it goes, since the last wait. In front of
//                        other vector work the copy is begun.
//   a.wait(); b.wait()   one wait, of the same semaphore
//
// Left out: strides of a copy, the order in which addresses are computed.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "program/program.hpp"
#include "program/unit_values.hpp"
#include "program/units.hpp"

namespace tessera::program {

class UnitCopies {
 public:
  UnitCopies(const Module& module, const Program& program) : module_(module), program_(program) {}

  /// What a slice or the start of a copy asks; none: it is another op. `values` know what was
  /// shifted before.
  std::optional<UnitRows> rows(const Operation& op, const KnownValues& known, UnitValues& values);

  /// Whether the op is a wait that the one just before has in it. To be told of every op.
  bool waited(const Operation& op);
  /// Of another block: what is before it is none of its waits.
  void forget() {
    waited_ = -1;
    forget_vectors();
  }

 private:
  const Type& type(int value) const { return module_.type(value); }
  bool is_view(const Operation& op) const;
  bool moves(int memref) const;
  UnitRows of_slice(const Operation& op, const KnownValues& known, UnitValues& values);
  UnitRows of_start(const Operation& op, UnitValues& values) const;
  /// The array that a view is of.
  int array_of(int memref) const;
  void note_vectors(const Operation& op);
  void forget_vectors() {
    stored_.clear();
    touched_.clear();
  }

  const Module& module_;
  const Program& program_;
  std::set<int> moving_;  ///< views that begin where the compiler does not know
  std::set<int> unsure_;  ///< of these those that may end beyond their array, for all that it knows
  int waited_ = -1;       ///< the semaphore that was waited for just before
  std::map<int, int> arrays_;  ///< of views
  // Arrays, since the last wait.
  std::set<int> stored_;   ///< to which vectors were stored
  std::set<int> touched_;  ///< or from which they were loaded
};

}  // namespace tessera::program
