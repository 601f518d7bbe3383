// Elementary functions over rows of f32, several elements at a time.
//
// The bits are those of the op's apply() (sim/ops): computed in f64 and rounded to f32. A vector
// function that is off by a few units of f64 rounds to the same f32, unless the result lies that
// close to the midpoint of two; such elements, and those outside the middle of the range, go
// through apply(). Input and output must not overlap. tests/sim/vector_math_test.cpp compares them.
#pragma once

#include <cstdint>

namespace tessera {

void exp_rows(float* out, const float* in, std::int64_t n);
void exp2_rows(float* out, const float* in, std::int64_t n);

}  // namespace tessera
