// A module's body under a debugger: where gdb can stop in it, and what each of its source lines has
// computed there (tessera run MODULE --at i,j --break, scripts/tessera_gdb.py).
//
// From watch_lines() on, each op is planned as a step of its own and its vectors are kept until its
// line ends. gdb sets a breakpoint in tessera_module_stop() and says with tessera_module_go() what
// is to reach it. Needs no debug information: release builds have these functions too.
//
// Left out: SparseCores; several threads (a run that is watched has one).
#pragma once

#include <cstddef>

#include "program/program.hpp"

namespace tessera::program {

void watch_lines();
bool lines_watched();

/// Before and after step `i` of the main code; after the last one.
void before_step(Exec& exec, std::size_t i);
void after_step(Exec& exec, std::size_t i);
void after_body(Exec& exec);

}  // namespace tessera::program

extern "C" {
/// 1 if a module's lines are watched.
int tessera_module_watched();
/// Reached when what tessera_module_go() asked for has happened.
void tessera_module_stop();
/// What to stop at next. `line` > 0: when that line has run; 0: when any line has; -1: before the
/// first line of the next grid step.
void tessera_module_go(int line);
/// "grid (i=0, j=1), after kernel.py:12  o_ref[...] = x + y"
const char* tessera_module_place();
/// What the line read and made, vectors as tables of their first rows and columns.
const char* tessera_module_vectors();
}
