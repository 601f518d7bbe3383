// A program as text, step by step: what was planned, in the order in which it runs.
#pragma once

#include <string>

#include "program/program.hpp"

namespace tessera::program {

/// Windows with what their index maps do, the steps of those, the steps of the body: slots of
/// scalars (s), vectors (v) and memrefs (m), groups with their members in brackets, jumps, vectors
/// that nobody reads any more, source lines.
std::string print(const Program& program);

/// An element as a register holds it.
std::string element_text(const std::byte* at, DType dtype);

}  // namespace tessera::program
