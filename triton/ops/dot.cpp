// tt.dot: batches of matrix products, summed in f32 (8-bit integers in i32), one FMA per k.
//
// f32 operands have the input precision that the op asks for: tf32 (10 bits of mantissa, the rest
// cut off, as tensor cores take them), ieee, or tf32x3: hi hi + hi lo + lo hi. Sums of f16 results
// are rounded at the end, those of fp8 kept in f32 whatever maxNumImpreciseAcc allows.
#include <bit>

#include "program/product.hpp"
#include "program/rules.hpp"
#include "triton/plan_kernel.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

/// Numbers of tt.dot's inputPrecision.
enum Precision : std::int64_t { kTf32, kTf32x3, kIeee, kBf16x3, kBf16x6 };

float cut_to_tf32(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u);
}

/// hi: what tensor cores take of a vector; lo: of what they leave.
Vector as_tf32(const Vector& v, std::int64_t n, bool low) {
  Vector r{StorageHandle(Storage::allocate(static_cast<std::size_t>(n) * sizeof(float))), v.poison};
  const auto* const from = reinterpret_cast<const float*>(v.data.bytes());
  auto* const to = reinterpret_cast<float*>(r.data.bytes());
  for (std::int64_t i = 0; i < n; ++i) {
    const float high = cut_to_tf32(from[i]);
    to[i] = low ? cut_to_tf32(from[i] - high) : high;
  }
  return r;
}

void plan_dot(Planner& p, const Operation& op) {
  p.expect(op, 3, 1);
  const Type& a = p.type(op.operands[0]);
  const Type& b = p.type(op.operands[1]);
  const Type& result = p.type(op.results[0]);
  const int rank = a.shape.rank;
  if (!a.known || !b.known || !is_tensor(a) || !is_tensor(b) || rank != b.shape.rank || rank < 2 ||
      rank > 3 || p.type(op.operands[2]).text != result.text)
    p.unsupported(op, "of these types");
  ProductDims left{{rank - 1}, {rank - 2}, {}};
  ProductDims right{{rank - 2}, {rank - 1}, {}};
  if (rank == 3) {
    left.batch = {0};
    right.batch = {0};
  }
  Product product;
  if (const char* const why = plan_product(a, left, b, right, result, {}, product))
    p.unsupported(op, why);
  const std::int64_t precision = p.integer_or(op, "inputPrecision", kIeee);
  const bool f32 = a.dtype == DType::f32 && b.dtype == DType::f32;
  if (f32 && precision > kIeee) p.unsupported(op, "with operands as sums of bf16");
  product.tf32 = f32 && precision != kIeee;
  const int x_slot = p.vector(op.operands[0]);
  const int y_slot = p.vector(op.operands[1]);
  const int start = p.vector(op.operands[2]);
  const int to = p.new_vector(op.results[0]);
  const std::int64_t n = a.shape.elems();
  const std::int64_t m = b.shape.elems();
  p.emit(
      [=](Exec& x) {
        const Vector& l = x.vector(x_slot);
        const Vector& r = x.vector(y_slot);
        const Vector& c = x.vector(start);
        if (!f32 || precision == kIeee) {
          x.vector(to) = product.run(l, r, c, "tt.dot");
          return;
        }
        const Vector high_l = as_tf32(l, n, false);
        const Vector high_r = as_tf32(r, m, false);
        Vector sum = c;
        if (precision == kTf32x3) {
          sum = product.run(as_tf32(l, n, true), high_r, sum, "tt.dot");
          sum = product.run(high_l, as_tf32(r, m, true), sum, "tt.dot");
        }
        x.vector(to) = product.run(high_l, high_r, sum, "tt.dot");
      },
      {x_slot, y_slot, start});
  p.work(product.work());
  note_product(p, a.dtype, product.tf32);
}

}  // namespace

Rules dot_rules() {
  static const std::vector<Rule> rules = {
      {"tt.dot", "c + a b", true, plan_dot},
  };
  return rules;
}

}  // namespace tessera::triton
