// What of a stretch of code a TPU's compiler works on beside one another though it lies in
// different phases (unit_phases.hpp): one block's exponentials beside another's products.
//
// An op waits for all of the ends of phases that it follows from, and for no others. Ops of a phase
// that wait for the same ones are a group; groups share the units:
//
//   block 1   product ---- maximum ---- exponentials ---- product
//   block 2       product ---- maximum ---- exponentials ---- product
//
// Where ops are one chain each group has its phase alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "program/program.hpp"

namespace tessera::program {

/// Ops of a phase that wait for the same ends of phases.
class WaitingGroups {
 public:
  /// `parts`: of each op its phase, counted on behind each wait (of so many phases).
  WaitingGroups(const Program& program, const std::vector<const UnitOp*>& ops,
                const std::vector<std::size_t>& parts, std::size_t phases);
  std::size_t count() const { return parts_.size(); }
  std::size_t of(std::size_t op) const { return of_[op]; }
  std::size_t part(std::size_t group) const { return parts_[group]; }
  /// The groups that are done before, by number.
  const std::set<std::size_t>& before(std::size_t group) const { return before_[group]; }
  /// Where in `part` the last end lies that an op waits for; its own group if there is none.
  std::size_t beside(std::size_t op, std::size_t part) const;

 private:
  using Ends = std::vector<std::uint64_t>;  ///< a bit for each
  std::vector<std::size_t> of_;
  std::vector<std::size_t> parts_;
  std::vector<std::set<std::size_t>> before_;
  std::vector<std::size_t> ends_;  ///< the op of each end
  std::vector<Ends> waits_for_;    ///< by group
};

/// A group's work.
struct GroupWork {
  double cycles = 0;                       ///< alone
  std::array<double, kCoreUnits> units{};  ///< for so many of them each unit has something to do
  std::set<std::size_t> before;            ///< indices of others
  std::size_t part = 0;
};

/// The cycles of all: what the longest chain follows from goes first, others have what it leaves of
/// the units.
double overlapped(const std::vector<GroupWork>& groups);

}  // namespace tessera::program
