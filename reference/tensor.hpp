// What oracles take and give: plain f64 arrays.
//
// An oracle computes in f64 what a kernel computes in f32, and says how far an f32 computation may
// lie from it: `error` bounds |kernel - value| for every order of summation (Higham, Accuracy and
// Stability of Numerical Algorithms, 2002, ch. 3 and 4), before the result is rounded to the
// output's type. Nothing here sees sim/.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera::reference {

struct Tensor {
  std::vector<std::size_t> shape;
  std::vector<double> values;  ///< row-major
};

struct Expected {
  Tensor value;
  Tensor error;  ///< same shape: absolute bound per element
};

/// Unit roundoff of f32.
inline constexpr double kU32 = 0x1p-24;
/// Unit roundoff of bf16.
inline constexpr double kUBf16 = 0x1p-8;

}  // namespace tessera::reference
