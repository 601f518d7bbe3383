// tt.dot_scaled: products of numbers in blocks that share a scale, as Triton computes them on GPUs
// without such an instruction (Hopper and before): each operand times its scales, rounded to bf16
// (to f16 if the other operand is f16), then tt.dot of what that gives.
//
// A scale is a power of two (f8e8m0: 255 is NaN, and what it scales too, unless fastMath; 0 scales
// to 0) or an e4m3. Two numbers of e2m1 lie in a byte, the first one in its low half.
//
// Bounds: another build rounds the same scaled numbers, once and to nearest, and adds their
// products in any order (sim/bounds/sum.hpp). A number that may be another one, x' within e of x,
// becomes one between what x - e and x + e become, since rounding is monotone. Scales must be
// known.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "program/product.hpp"
#include "sim/numerics/op_state.hpp"
#include "triton/plan_kernel.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

/// Numbers of the op's types of elements.
enum Element : std::int64_t { kE4m3, kE5m2, kE2m3, kE3m2, kE2m1, kBf16, kF16 };

/// An operand with its scales.
struct Scaled {
  Element element = kBf16;
  DType compute = DType::bf16;
  Shape shape;      ///< of the numbers
  Shape held;       ///< of what holds them
  int packed = -1;  ///< the dim along which two of e2m1 are in a byte
  int k = 0;        ///< the dim that is summed over
  int kept = 0;     ///< the other one
  DType scale = DType::i8;
  Shape scales;  ///< of rank 0: none. The last dim goes along k
  bool nan = true;

  float number(const std::byte* from, std::int64_t at, bool upper) const {
    switch (element) {
      case kE4m3:
        return convert<float>(reinterpret_cast<const f8e4m3fn*>(from)[at]);
      case kE5m2:
        return convert<float>(reinterpret_cast<const f8e5m2*>(from)[at]);
      case kE2m1: {
        const auto byte = std::to_integer<std::uint8_t>(from[at]);
        return convert<float>(
            std::bit_cast<f4e2m1fn>(static_cast<std::uint8_t>(upper ? byte >> 4 : byte & 15)));
      }
      case kBf16:
        return convert<float>(reinterpret_cast<const bf16*>(from)[at]);
      default:
        return convert<float>(reinterpret_cast<const f16*>(from)[at]);
    }
  }
  float scale_of(const std::byte* from, std::int64_t at) const {
    if (scale != DType::i8) return convert<float>(reinterpret_cast<const f8e4m3fn*>(from)[at]);
    const auto bits = std::to_integer<std::uint32_t>(from[at]);
    return bits == 255 && nan ? std::numeric_limits<float>::quiet_NaN()
                              : std::bit_cast<float>(bits << 23);
  }

  /// As it is multiplied.
  float computed(float x) const {
    return compute == DType::bf16 ? convert<float>(convert<bf16>(x))
                                  : convert<float>(convert<f16>(x));
  }
  /// How far from computed(x * scale) it may be, of a number within `bound` of x.
  float off(float x, float bound, float by) const {
    if (bound == 0) return 0;
    const float outward = bound + (std::fabs(x) + bound) * 0x1p-22f;
    const float is = computed(x * by);
    const float apart = std::max(std::fabs(computed((x + outward) * by) - is),
                                 std::fabs(computed((x - outward) * by) - is));
    return apart >= 0 ? apart * (1 + 0x1p-22f) : std::numeric_limits<float>::infinity();
  }

  Vector run(const Vector& v, const Vector& by) const {
    if (by.bound) fail_bounds_of("of a product of numbers whose scales may be others");
    const std::int64_t n = shape.elems();
    Vector r{StorageHandle(Storage::allocate(static_cast<std::size_t>(n) * 2))};
    if (v.bound) r.bound = bound_storage(n);
    const Shape strides = row_major_strides(held);
    const Shape scale_strides = row_major_strides(scales);
    for (std::int64_t e = 0; e < n; ++e) {
      const Shape at = unravel(shape, e);
      std::int64_t from = 0;
      std::int64_t scale_at = 0;
      for (int d = 0; d < shape.rank; ++d) {
        from += (d == packed ? at[d] / 2 : at[d]) * strides[d];
        if (scales.rank > 0 && d < shape.rank - 2) scale_at += at[d] * scale_strides[d];
      }
      float x = number(v.data.bytes(), from, packed >= 0 && at[packed] % 2 != 0);
      const float unscaled = x;
      float scale_is = 1;
      Origin poison = v.poison_at(from);
      if (scales.rank > 0) {
        const int last = scales.rank - 1;
        scale_at += at[kept] * scale_strides[last - 1] + at[k] * scales[last] / shape[k];
        scale_is = scale_of(by.data.bytes(), scale_at);
        x *= scale_is;
        if (poison == 0) poison = by.poison_at(scale_at);
      }
      if (compute == DType::bf16)
        reinterpret_cast<bf16*>(r.data.bytes())[e] = convert<bf16>(x);
      else
        reinterpret_cast<f16*>(r.data.bytes())[e] = convert<f16>(x);
      if (v.bound) floats(r.bound)[e] = off(unscaled, v.bounds()[from], scale_is);
      if (poison == 0) continue;
      if (!r.poison) r.poison = poison_mask(n, 0);
      r.poison.bytes()[e] = std::byte{computed_from(poison)};
    }
    return r;
  }
};

void plan_dot_scaled(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() != 5 || op.results.size() != 1) p.refuse(op);
  for (std::size_t i = 0; i < 3; ++i) {
    if (parts[i].size() != 1 || !is_tensor(p.type(parts[i][0]))) p.refuse(op);
  }
  const Type& result = p.type(op.results[0]);
  if (p.type(parts[2][0]).text != result.text || result.dtype != DType::f32)
    p.unsupported(op, "of these types");
  const bool fast = p.integer_or(op, "fastMath", 0) != 0;
  const std::array<std::int64_t, 2> elements{p.integer(op, "a_elem_type"),
                                             p.integer(op, "b_elem_type")};
  const bool halves = elements[0] == kF16 || elements[1] == kF16;
  std::array<Scaled, 2> sides;
  std::array<Type, 2> types;
  for (std::size_t i = 0; i < 2; ++i) {
    Scaled& s = sides[i];
    const Type& t = p.type(parts[i][0]);
    s.element = static_cast<Element>(elements[i]);
    const bool wide = s.element == kBf16 || s.element == kF16;
    if (s.element < kE4m3 || s.element > kF16 || s.element == kE2m3 || s.element == kE3m2 ||
        !t.known || register_bytes(t.dtype) != (wide ? 2 : 1) || bit_width(t.dtype) < 8)
      p.unsupported(op, "of elements that are not built: e4m3, e5m2, e2m1, bf16 and f16 are");
    const int rank = t.shape.rank;
    if (rank < 2 || rank > 3) p.unsupported(op, "of these types");
    s.compute = halves ? DType::f16 : DType::bf16;
    if (wide && t.dtype != s.compute) p.unsupported(op, "of bf16 beside f16");
    s.shape = s.held = t.shape;
    s.k = i == 0 ? rank - 1 : rank - 2;
    s.kept = i == 0 ? rank - 2 : rank - 1;
    if (s.element == kE2m1) {
      const bool along_k = p.integer_or(op, i == 0 ? "lhs_k_pack" : "rhs_k_pack", 1) != 0;
      s.packed = along_k ? s.k : s.kept;
      s.shape[s.packed] *= 2;
    }
    s.nan = !fast;
    if (!parts[3 + i].empty()) {
      const Type& scale = p.type(parts[3 + i][0]);
      s.scale = scale.dtype;
      s.scales = scale.shape;
      const bool fits =
          scale.known && scale.shape.rank == rank && scale.shape[rank - 2] == s.shape[s.kept] &&
          s.shape[s.k] % scale.shape[rank - 1] == 0 && (rank == 2 || scale.shape[0] == s.shape[0]);
      if (!fits || (scale.dtype != DType::i8 && scale.dtype != DType::f8e4m3fn))
        p.unsupported(op, "with such scales");
    }
    types[i] = t;
    types[i].shape = s.shape;
    types[i].dtype = s.compute;
  }
  const int rank = result.shape.rank;
  ProductDims left{{rank - 1}, {rank - 2}, {}};
  ProductDims right{{rank - 2}, {rank - 1}, {}};
  if (rank == 3) {
    left.batch = {0};
    right.batch = {0};
  }
  Product product;
  if (const char* const why = plan_product(types[0], left, types[1], right, result, {}, product))
    p.unsupported(op, why);
  std::array<int, 2> value{};
  std::array<int, 2> scale{-1, -1};
  for (std::size_t i = 0; i < 2; ++i) {
    value[i] = p.vector(parts[i][0]);
    if (!parts[3 + i].empty()) scale[i] = p.vector(parts[3 + i][0]);
  }
  const int start = p.vector(parts[2][0]);
  const int to = p.new_vector(op.results[0]);
  for (const int slot : {value[0], value[1], scale[0], scale[1], start}) {
    if (slot >= 0) p.read(slot);
  }
  p.emit([=](Exec& x) {
    const auto side = [&](std::size_t i) {
      return sides[i].run(x.vector(value[i]), scale[i] < 0 ? Vector() : x.vector(scale[i]));
    };
    x.vector(to) = product.run(side(0), side(1), x.vector(start), "tt.dot_scaled");
  });
  p.carries_bounds();
  p.work(product.work());
  note_product(p, types[0].dtype, false);
}

}  // namespace

Rules dot_scaled_rules() {
  static const std::vector<Rule> rules = {
      {"tt.dot_scaled", "c + a b of numbers with scales for blocks of them, in bf16 or f16", true,
       plan_dot_scaled},
  };
  return rules;
}

}  // namespace tessera::triton
