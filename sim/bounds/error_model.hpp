// What another build of a kernel may do otherwise, and still be right: the terms of an error bound.
//
// The other build runs the same body on the same inputs. It may add the terms of a dot, of a
// reduction and of an accumulation (`*acc += ...`) in any order, each addition rounded to nearest
// with unit roundoff `accumulate`, or to anything better; round f32 operands of dots to `operands`
// first; fuse a multiplication with the addition that follows; and miss the exact value of an
// elementary function by `function_ulp`. All else is IEEE 754's: casts round to nearest even. In a
// Mosaic module the sums inside products and reductions are in any order; those of its additions
// are in the program's, which no compiler changes.
// Results below the smallest normal number may be flushed to zero where something else is inexact.
//
// ulps of `cuda`: CUDA C++ Programming Guide 13.0, "Mathematical Functions", full range, without
// -use_fast_math. XLA and Mosaic state none: say what you hold them to.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct ErrorModel {
  double accumulate = 0x1p-24;  ///< unit roundoff of additions
  /// Unit roundoff of what becomes of the f32 operands of dots; 0: what the profile makes of them
  /// (sim/numerics/profile.hpp), which is nothing unless it is an MXU's.
  double operands = 0;
  bool fused = true;  ///< a * b + c may be rounded once
  /// Its blocks may have other sizes: what an online softmax multiplies was rounded at another
  /// scale, so that every computed operand of a dot is off by two roundings of its type. (Of f32 it
  /// may rescale more often than the body: its sums are bounded as the body's own.)
  bool other_blocks = false;
  std::vector<std::pair<std::string, double>> function_ulp = cuda_function_ulp();

  /// Of an op by its name; 0.5 (correctly rounded) if it is not among function_ulp.
  double ulp_of(std::string_view op) const;
  /// True if function_ulp has the op.
  bool states(std::string_view op) const;
  /// Throws InputError for no function, or less than half a unit.
  void set_ulp(const std::string& op, double ulp);

  static std::vector<std::pair<std::string, double>> cuda_function_ulp();
  /// Every elementary function correctly rounded, nothing fused: only the order is free.
  static ErrorModel order_alone();
};

/// Unit roundoff by the name of a format: "f32", "tf32", "bf16", "f16"; throws InputError.
double unit_roundoff(const std::string& format);
/// The format of a unit roundoff: the inverse, "" for none.
std::string format_of(double unit_roundoff);

}  // namespace tessera
