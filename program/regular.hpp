// Vectors that are known without their elements: integers and addresses that are affine in their
// index, masks that are a box of it.
//
// Which values a planner keeps so, a front end says (Planner::keep_regular). Ops on them compute a
// few numbers; where a result is not regular (an offset wraps, a box is none) its elements are
// computed as ever, and those of what follows from it: the same bits.
#pragma once

#include <array>
#include <cstdint>

#include "program/program.hpp"

namespace tessera::program {

/// Integers: element (i, j, ...) is base + i step[0] + j step[1] + ..., the step 0 along a dim of
/// extent 1. False if a number is too large for 64 bits, or the result is not regular; of `to` the
/// numbers are set.
using RegularKernel = bool (*)(Regular& to, const Regular* const* in, const Shape& shape);

/// A regular value as an operand: in a shape with more dims, or in another order, or repeated.
struct RegularView {
  int slot = -1;       ///< of Exec::regulars, or of a scalar
  bool splat = false;  ///< a scalar, in every element
  DType dtype = DType::i32;
  Shape own = {};    ///< the slot's shape
  Shape shape = {};  ///< the view's
  bool same = true;  ///< they are the same
  std::array<int, kRegularRank> from{0, 1, 2,
                                     3};  ///< per dim of the view one of the slot; -1: none
};

/// An operand's value; `own` holds it if it is not there as it is.
const Regular& regular_value(const Exec& x, const RegularView& v, Regular& own);
/// Its elements.
Vector elements_of(const Exec& x, const RegularView& v);
/// Least and largest element of integers; false if they do not fit into 64 bits.
bool regular_range(const Regular& r, const Shape& s, std::int64_t& least, std::int64_t& largest);
/// True if all elements are of an integer type.
bool fits(const Regular& r, const Shape& s, DType dtype);
/// Of a mask: every element is set.
bool is_full(const Regular& mask, const Shape& s);

// Kernels.
bool regular_add(Regular& to, const Regular* const* in, const Shape& s);
bool regular_sub(Regular& to, const Regular* const* in, const Shape& s);
bool regular_mul(Regular& to, const Regular* const* in, const Shape& s);
bool regular_div(Regular& to, const Regular* const* in, const Shape& s);
bool regular_rem(Regular& to, const Regular* const* in, const Shape& s);
bool regular_same(Regular& to, const Regular* const* in, const Shape& s);
bool regular_and(Regular& to, const Regular* const* in, const Shape& s);  ///< of masks
/// pointer + offset x bytes.
bool regular_add_scaled(Regular& to, const Regular* const* in, std::int64_t bytes);
/// arith.cmpi by its predicate: null if there is none.
RegularKernel regular_compare(std::int64_t predicate);

}  // namespace tessera::program
