// The stretches of a program's code that run without a branch, and what each asks of a TPU core's
// units.
#pragma once

#include <cstddef>
#include <vector>

#include "program/program.hpp"

namespace tessera::program {

struct Stretch {
  std::size_t begin = 0;
  bool branches = false;
  int region = 0;  ///< of the program, one number for all stretches that run if one does
  std::vector<const UnitOp*> ops = {};
  int branch_location = 0;
};

/// In order. `both_ways`: the choices that a stretch goes on across (unit_choices.hpp).
std::vector<Stretch> stretches(const Code& code, bool knows_narrow_masks,
                               const std::vector<const Choice*>& both_ways);

}  // namespace tessera::program
