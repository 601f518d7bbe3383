// Products of vectors: batches of matrices that lie in their operands by strides, accumulated in
// the order of sim/numerics/dot.hpp: one FMA per k from the start value on. Operands of two types
// meet in f32 (8-bit integers in i8), where each is exact.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace tessera::program {

/// The dims of an operand, each in one of the lists.
struct ProductDims {
  std::vector<int> contracting;
  std::vector<int> kept;
  std::vector<int> batch;
};

struct Product {
  /// An operand as batch x rows x columns of one stride each, or moved until it is.
  struct Matrix {
    bool moved = false;
    Shape extents;  ///< of the move: batch, rows, columns
    Shape strides;
    std::int64_t batch_stride = 0;
    std::int64_t row = 0;
    std::int64_t col = 0;
  };

  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Matrix left;
  Matrix right;
  DType left_type = DType::f32;
  DType right_type = DType::f32;
  DType sum_type = DType::f32;  ///< f32 or i32
  DType result_type = DType::f32;
  Shape extents;  ///< of the result
  /// The result's dims in the order batch, left, right, unless it is in that order.
  Shape natural_extents;
  Shape from_natural;  ///< strides of the result's dims there
  Shape to_natural;    ///< and back
  bool in_order = true;
  bool tf32 = false;     ///< of f32: on tensor cores, if the profile has them
  bool highest = false;  ///< of an MXU: six passes, whatever the profile has for other products

  std::int64_t elems() const { return batch * m * n; }
  Work work() const;
  /// start + a b, in start's memory if nobody else has it; `op` is for messages.
  Vector run(const Vector& a, const Vector& b, Vector start, const char* op) const;
  /// sums += a b, of operands that need not move; false if these types have no product.
  bool accumulate(Vector& sums, const Vector& a, const Vector& b) const;

 private:
  void spread_poison(Vector& sums, const Vector& a, const Vector& b, const Vector& start) const;
  void trap_nan(const char* op, const Vector& sums, const Vector& a, const Vector& b,
                const Vector& start) const;
};

/// a x b into a result of type `result`; `order`: pairs of operand and dim, one per dim of the
/// result; empty: batch, left, right. Null, or why there is no such product.
const char* plan_product(const Type& a, const ProductDims& left, const Type& b,
                         const ProductDims& right, const Type& result,
                         const std::vector<int>& order, Product& product);

/// The type that operands are multiplied in, and that of their sums.
DType common_type(DType a, DType b);
inline DType sum_type_of(DType a, DType b) {
  const DType common = common_type(a, b);
  return common == DType::i8 ? DType::i32 : common == DType::f64 ? common : DType::f32;
}

}  // namespace tessera::program
