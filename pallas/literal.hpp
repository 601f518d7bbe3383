// Values as XLA prints literals, which is how a TPU prints what a kernel logs: f32[2,3] { ... }.
#pragma once

#include <string>

#include "program/program.hpp"

namespace tessera::pallas {

using namespace program;

/// An element as a register holds it: floats with as many digits as it takes to read them back.
std::string literal_element(const std::byte* at, DType dtype);

/// "f32[] 42".
std::string literal(const Scalar& s, DType dtype);
/// "s32[3] {1, 2, 3}"; of more dims a line for each row, in braces. An undefined element is "?".
std::string literal(const Vector& v, const Shape& s, DType dtype);

}  // namespace tessera::pallas
