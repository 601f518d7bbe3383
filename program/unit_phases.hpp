// Phases of a stretch of code on a TPU's core: what reads a reduction, a product or a transpose
// waits until all of it is there.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/program.hpp"

namespace tessera::program {

/// What reads the result of a row of costs waits until all of it is there.
bool ends_phase(const std::string& row);
bool ends_phase(const Program& program, const UnitOp& op);

/// Ops of a stretch, by how many ends of phases are before them.
class Phases {
 public:
  Phases(const Program& program, const std::vector<const UnitOp*>& ops);
  std::size_t count() const { return count_; }
  std::size_t of(std::size_t op) const { return of_[op]; }
  /// Where it follows from products, the phase of the last one: each register of what is popped is
  /// worked on, and reduced, while others pass; another product waits for all.
  std::size_t beside(std::size_t op) const { return beside_[op]; }

 private:
  struct Results {
    std::size_t some = 0;  ///< the phase in which a part of it is there
    std::size_t all = 0;   ///< and all of it
  };
  std::unordered_map<int, Results> results_;
  std::vector<std::size_t> of_;
  std::vector<std::size_t> beside_;
  std::size_t count_ = 0;
};

}  // namespace tessera::program
