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

 private:
  std::unordered_map<int, std::size_t> after_;
  std::vector<std::size_t> of_;
  std::size_t count_ = 0;
};

}  // namespace tessera::program
