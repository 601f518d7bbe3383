// What a turn of the pipeline does for a window's copy besides starting it: it checks that the
// block lies in its array, and keeps in scalar registers where it is.
//
// A v5e's and a v6e's compiler leaves the check of what is read out where it knows the range of an
// index: of ids and what is computed of them, but not of quotients and rests, of what is loaded,
// and of a grid of one dim, whose id is the loop's counter and runs beyond its end.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.hpp"

namespace tessera::program {

/// By operand: a window that is read where the index map's numbers are known to lie in a range.
std::vector<bool> known_ranges(const Program& program);

/// Words that go from one turn to the next: the turn's number, of each index the buffers that its
/// windows have in this turn, the one before and the next one, the ids of the dims that count, and
/// those of a turn before that say where a result goes or that the body reads.
std::int64_t carried_words(const Program& program, const std::vector<bool>& moves,
                           std::int64_t indices);

}  // namespace tessera::program
