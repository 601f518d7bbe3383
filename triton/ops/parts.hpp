// Bounds of products of f32 whose operands are multiplied in parts: tf32x3, bf16x3, bf16x6.
//
// An operand x is x0 + x1 (+ x2) + what is left: tf32's by cutting 13 bits off, |left| < 2^-20 |x|
// of two; bf16's rounded to nearest, |left| <= 2^-16 |x| of two, 2^-24 |x| of three. Of the
// products of parts some are left out (tf32x3 and bf16x3: x1 y1; bf16x6: x1 y2, x2 y1, x2 y2), so
// that what is added up is x y to within L |x y|, L = 2^-18, 2^-14, 2^-21.
//
// Another build multiplies the same parts, exactly, and adds these products and the start value in
// any order (sim/bounds/sum.hpp). Where x itself may be another number x', both sums are that close
// to x y and x' y: they differ by |x' - x| |y| + L (|x| + |x'|) |y| besides. (As for an MXU's
// passes, sim/bounds/sum.cpp; parts by Henry, Tang & Heinecke, arXiv:1904.06376.)
#pragma once

#include "program/product.hpp"

namespace tessera::triton {

using namespace program;

enum class InParts : std::uint8_t { tf32x3, bf16x3, bf16x6 };

/// Bounds of `result`, f32 elements that stand for start + l r, of the dims that `of` has, all in
/// row-major order.
StorageHandle bounds_in_parts(InParts how, const Product& of, const Vector& result, const Vector& l,
                              const Vector& r, const Vector& start);

}  // namespace tessera::triton
