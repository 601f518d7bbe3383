// What the index maps of a kernel's windows compute, by name: numbers that are the same have the
// same one, whichever map computes them.
//
// The TPU's compiler computes what maps share once, and compares it once with that of the step
// before; constants, and ids of a grid's dims of one step, it knows. Left out: that a sum may be
// written in two ways.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/ir.hpp"
#include "program/program.hpp"

namespace tessera::program {

class IndexNumbers {
 public:
  /// Maps take an id of each dim of the grid, then prefetched arrays.
  explicit IndexNumbers(const Module& module, Program& program)
      : module_(module), program_(program) {}

  /// Ops that compute what the index follows from and is no constant. `makes`: the number's name;
  /// times of a load: the numbers that say where. The last one reads the numbers of a block's index
  /// and has no rows; constants have names below 0. The id of the grid's first dim is 1, or -1, and
  /// so on. Empty: the map branches.
  std::vector<UnitOp> of(const Function& map);

 private:
  /// Of what this text describes.
  int name_of(const std::string& text, bool constant);
  std::string text_of(const Operation& op, const std::map<int, int>& known) const;
  int row(const std::string& name);

  const Module& module_;
  Program& program_;
  std::map<std::string, int> names_;
};

}  // namespace tessera::program
