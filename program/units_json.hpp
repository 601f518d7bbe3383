// What a program asks of a TPU core's units, for those who fit costs to it, and its kind, by which
// they say how far these are off.
#pragma once

#include <cstdint>
#include <string>

#include "program/program.hpp"

namespace tessera::program {

/// What held_out and whole have of a program of so many steps: of "stretch products" and so on,
/// that is of one stretch of code or with a grid, loops or branches; and with copies of its own,
/// products, moves of elements within vectors, or none of these.
std::string held_out_kind(const Program& program, std::int64_t steps);

/// The stretches of a program's code and what they ask of units, as JSON: what costs are fitted to.
std::string units_json(const Program& program);

}  // namespace tessera::program
