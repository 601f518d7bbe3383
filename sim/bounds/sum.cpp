#include "sim/bounds/sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "sim/diagnostics/diagnostic.hpp"
#include "sim/numerics/mxu.hpp"
#include "sim/numerics/op_state.hpp"

namespace tessera::bounds {

namespace {

constexpr int kChunk = 64;  // terms between two samples of our partial sums

/// |x| of an operand, or its bounds, as C in row-major order, rows x cols.
template <class C>
struct Packed {
  std::vector<C> values;
  bool whole = true;
  Operand2d<C> operand(int cols) const { return {values.data(), cols, 1}; }
};

template <class C, class T>
void pack_magnitudes(Packed<C>& to, Operand2d<T> from, int rows, int cols) {
  to.values.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  C* out = to.values.data();
  bool whole = true;
  for (int i = 0; i < rows; ++i, out += cols) {
    const T* row = from.data + i * from.row;
    if (from.col == 1) {
      for (int j = 0; j < cols; ++j) out[j] = std::abs(convert<C>(row[j]));
    } else {
      for (int j = 0; j < cols; ++j) out[j] = std::abs(convert<C>(row[j * from.col]));
    }
    // A few looks settle it for all but integers.
    for (int j = 0; j < cols && whole; ++j) whole = std::trunc(out[j]) == out[j];
  }
  to.whole = whole;
}

/// bound + unit * |x|, or nothing if both are 0.
template <class C>
bool pack_bounds(Packed<C>& to, Operand2d<float> bound, const Packed<C>& magnitudes, double unit,
                 int rows, int cols) {
  if (bound.data == nullptr && unit == 0) return false;
  to.values.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  const C* x = magnitudes.values.data();
  C* out = to.values.data();
  const auto u = static_cast<C>(unit);
  for (int i = 0; i < rows; ++i, out += cols, x += cols) {
    for (int j = 0; j < cols; ++j) {
      out[j] = u * x[j];
      if (bound.data != nullptr) out[j] += C(bound.data[i * bound.row + j * bound.col]);
    }
  }
  return true;
}

template <class C>
struct Scratch {
  Packed<C> a;
  Packed<C> b;
  Packed<C> a_bound;
  Packed<C> b_bound;
  std::vector<C> magnitude;
  std::vector<C> propagated;
  std::vector<float> partial;
};
template <class C>
Scratch<C>& scratch() {
  static thread_local Scratch<C> s;
  return s;
}

/// partial += weight * |c|
template <class C>
void sample(std::vector<float>& partial, const C* c, std::int64_t ldc, int m, int n,
            double weight) {
  float* to = partial.data();
  const auto w = static_cast<float>(weight);
  for (int i = 0; i < m; ++i, to += n) {
    for (int j = 0; j < n; ++j) to[j] += w * static_cast<float>(std::abs(c[i * ldc + j]));
  }
}

/// Where no sum has begun, what the accumulator holds is its first term. Returns 0 if all of these
/// are exact integers.
template <class C>
std::uint32_t begin_row(int n, const C* __restrict c, const float* __restrict bound,
                        float* __restrict magnitude, float* __restrict terms) {
  std::uint32_t fractions = 0;
  for (int j = 0; j < n; ++j) {
    const auto held = static_cast<float>(std::abs(c[j]));
    const float odd = std::abs(held - std::trunc(held)) + bound[j];
    const float one = held > 0 ? 1.f : 0.f;
    const float begun = terms[j];
    magnitude[j] = begun == 0 ? held : magnitude[j];
    terms[j] = begun == 0 ? one : begun;
    fractions |= std::bit_cast<std::uint32_t>(begun == 0 ? odd : 0.f);
  }
  return fractions;
}

/// What a dot of depth `terms` adds to the bounds of a row of accumulators.
struct RowFactors {
  float ours;         ///< our unit roundoff, inflated
  float between;      ///< terms between a partial sum and the nearest sample
  float product;      ///< unit roundoff of products
  float inflate;      ///< for the roundings of magnitudes
  float underflow;    ///< where terms may be subnormal
  float exact_below;  ///< sums of magnitude below it are exact
  float terms;
};
template <class C>
void add_row(const RowFactors& factors, int n, const float* __restrict partial,
             const C* __restrict magnitudes, const C* __restrict propagated,
             float* __restrict bound, float* __restrict magnitude, float* __restrict terms) {
  const RowFactors f = factors;
  for (int j = 0; j < n; ++j) {
    const float added = static_cast<float>(magnitudes[j]) * f.inflate;
    const float sum = magnitude[j] + added;
    magnitude[j] = sum;
    terms[j] += f.terms;
    float e = f.ours * (partial[j] + f.between * added) + f.product * added;
    const float tiny = added < 0x1p-60f ? f.underflow : 0.f;
    e += added > 0 ? tiny : 0.f;
    bound[j] += sum < f.exact_below ? 0.f : e;
  }
  if (propagated == nullptr) return;
  for (int j = 0; j < n; ++j) bound[j] += static_cast<float>(propagated[j]) * f.inflate;
}

template <class T>
Operand2d<T> from_k(Operand2d<T> x, std::int64_t offset) {
  return {x.data + offset, x.row, x.col};
}

/// Of magnitudes and bounds: not as the profile has it.
template <class C>
void plain_dot(C* c, Operand2d<C> a, Operand2d<C> b, int m, int n, int k) {
  if constexpr (std::is_same_v<C, double>)
    tessera::dot_accumulate(c, n, a, b, m, n, k);
  else
    chain_accumulate(c, n, a, b, m, n, k);
}

/// What three or six passes leave out of a product, relative to it (sim/numerics/mxu.hpp): part i
/// of x is at most 2^-8i |x|, so of three second by second and two remainders, of six second by
/// third twice and two remainders.
double left_out(int passes) { return passes == 3 ? 0x1p-14 : 0x1p-21; }

/// Bounds of an MXU's operand, at the place of its first part in the last pass; false if there are
/// none. `expanded` holds it, `at` says where: (index of the element, pass).
template <class At>
bool expand_bounds(std::vector<float>& to, Operand2d<float> x, Operand2d<float> bound, int rows,
                   int cols, int passes, double theirs, At at) {
  if (bound.data == nullptr && theirs == 0) return false;
  to.assign(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) *
                static_cast<std::size_t>(passes),
            0.f);
  bool any = false;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      const float v = x.data[i * x.row + j * x.col];
      const float e = bound.data == nullptr ? 0.f : bound.data[i * bound.row + j * bound.col];
      const float first = convert<float>(convert<bf16>(v));
      const double size = std::abs(static_cast<double>(v));
      double off = 0;
      if (theirs > 0) {
        // Theirs multiplies what it was given, to within its own roundoff.
        off = e + theirs * size;
        off += passes == 1 ? std::abs(static_cast<double>(v) - static_cast<double>(first))
                           : left_out(passes) / 2 * size;
      } else if (e > 0 && passes == 1) {
        const auto end = [](double y) {
          return static_cast<double>(convert<float>(convert<bf16>(static_cast<float>(y))));
        };
        const double outward = e * (1 + 0x1p-20) + size * 0x1p-22;
        off = std::max(end(v + outward) - first, first - end(v - outward));
      } else if (e > 0) {
        off = e + 2 * left_out(passes) * (size + e);
      }
      // The other operand is its first part and at most 2^-8 of it more.
      if (passes > 1) off *= 1 + 0x1p-7;
      any = any || off > 0;
      to[at(i, j)] = static_cast<float>(off * (1 + 0x1p-20));
    }
  }
  return any;
}

/// f32 operands on an MXU: the dot of their parts, each operand's bound on the largest of them.
void dot_on_mxu(float* c, std::int64_t ldc, Operand2d<float> a, Operand2d<float> a_bound,
                Operand2d<float> b, Operand2d<float> b_bound, int m, int n, int k,
                const ErrorModel& model, const SumView& sum, int count) {
  static thread_local std::vector<bf16> left;
  static thread_local std::vector<bf16> right;
  static thread_local std::vector<float> left_bound;
  static thread_local std::vector<float> right_bound;
  const mxu::Passes& passes = mxu::passes(count);
  const Operand2d<bf16> parts_a = mxu::expand_left(left, a, m, k, passes);
  const Operand2d<bf16> parts_b = mxu::expand_right(right, b, k, n, passes);
  const auto n_passes = static_cast<std::size_t>(count);
  const bool off_a =
      expand_bounds(left_bound, a, a_bound, m, k, count, model.operands, [&](int i, int p) {
        return (static_cast<std::size_t>(i) * static_cast<std::size_t>(k) +
                static_cast<std::size_t>(p)) *
                   n_passes +
               n_passes - 1;
      });
  const bool off_b =
      expand_bounds(right_bound, b, b_bound, k, n, count, model.operands, [&](int p, int j) {
        return (static_cast<std::size_t>(p) * n_passes + n_passes - 1) *
                   static_cast<std::size_t>(n) +
               static_cast<std::size_t>(j);
      });
  dot_accumulate(c, ldc, parts_a,
                 Operand2d<float>{off_a ? left_bound.data() : nullptr, parts_a.row, parts_a.col},
                 parts_b,
                 Operand2d<float>{off_b ? right_bound.data() : nullptr, parts_b.row, parts_b.col},
                 m, n, k * count, model, sum);
}

}  // namespace

template <class T, class C>
void dot_accumulate(C* c, std::int64_t ldc, Operand2d<T> a, Operand2d<float> a_bound,
                    Operand2d<T> b, Operand2d<float> b_bound, int m, int n, int k,
                    const ErrorModel& model, const SumView& sum) {
  if constexpr (std::is_integral_v<C>) {
    if (a_bound.data != nullptr || b_bound.data != nullptr) {
      throw KernelError({.slug = "unmodelled",
                         .kind = Diagnostic::Kind::unmodelled,
                         .headline = "error bounds through a dot of integers that were rounded"});
    }
    tessera::dot_accumulate(c, ldc, a, b, m, n, k);
  } else {
    if constexpr (std::is_same_v<T, float>) {
      if (const int count = mxu_passes(op_state.profile); count > 0)
        return dot_on_mxu(c, ldc, a, a_bound, b, b_bound, m, n, k, model, sum, count);
    }
    constexpr bool kWide = std::is_same_v<C, double>;
    constexpr double kOurs = kWide ? 0x1p-53 : 0x1p-24;
    const double theirs = kWide ? kOurs : model.accumulate;
    Scratch<C>& s = scratch<C>();
    pack_magnitudes(s.a, a, m, k);
    pack_magnitudes(s.b, b, k, n);
    const std::size_t elems = static_cast<std::size_t>(m) * static_cast<std::size_t>(n);

    // What the accumulator begins with is a term.
    std::uint32_t fractions = 0;
    for (int i = 0; i < m; ++i) {
      const std::int64_t at = i * sum.stride;
      fractions |= begin_row(n, c + i * ldc, sum.bound + at, sum.magnitude + at, sum.terms + at);
    }
    *sum.whole = *sum.whole && fractions == 0;

    // Ours: between two samples a partial sum is at most either of them and the terms between.
    s.partial.assign(elems, 0.f);
    const bool chain = !on_tensor_cores(op_state.profile) || std::is_same_v<T, C>;
    const int chunk = chain ? kChunk : k;
    int before = 0;
    for (int k0 = 0; k0 < k; k0 += chunk) {
      const int depth = std::min(chunk, k - k0);
      sample(s.partial, c, ldc, m, n, (before + depth) / 2.);
      tessera::dot_accumulate(c, ldc, from_k(a, k0 * a.col), from_k(b, k0 * b.row), m, n, depth);
      before = depth;
    }
    sample(s.partial, c, ldc, m, n, before / 2.);

    s.magnitude.assign(elems, C(0));
    plain_dot(s.magnitude.data(), s.a.operand(k), s.b.operand(n), m, n, k);
    const auto rounded = [&](Operand2d<float> bound) {
      if constexpr (std::is_same_v<T, float>) return model.operands;
      // Computed, and cast: each side within the unit roundoff of what it cast.
      if (model.accumulate == 0 && bound.data != nullptr) return unit_of(kDTypeOf<T>);
      return model.other_blocks && bound.data != nullptr ? 2 * unit_of(kDTypeOf<T>) : 0.;
    };
    const bool from_a = pack_bounds(s.a_bound, a_bound, s.a, rounded(a_bound), m, k);
    const bool from_b = pack_bounds(s.b_bound, b_bound, s.b, rounded(b_bound), k, n);
    const bool propagates = from_a || from_b;
    if (propagates) {
      // |a' b' - a b| <= ea |b| + (|a| + ea) eb
      s.propagated.assign(elems, C(0));
      C* p = s.propagated.data();
      if (from_a) plain_dot(p, s.a_bound.operand(k), s.b.operand(n), m, n, k);
      if (from_b) {
        if (from_a) {
          for (std::size_t i = 0; i < s.a.values.size(); ++i) s.a.values[i] += s.a_bound.values[i];
        }
        plain_dot(p, s.a.operand(k), s.b_bound.operand(n), m, n, k);
      }
    }
    *sum.whole = *sum.whole && s.a.whole && s.b.whole && !propagates;

    // These sums were rounded themselves, by less than k 2^-22 of them.
    const float inflate = 1.f + static_cast<float>(k) * 0x1p-22f;
    const float between = chain ? kChunk / 2.f : static_cast<float>(k);
    // Products of f32 are inexact unless they are fused.
    const auto product = static_cast<float>(std::is_same_v<T, C> ? theirs : 0);
    const auto ours = static_cast<float>(kOurs) * inflate;
    // Integers are added without a rounding while their sum stays below this.
    const float exact_below = *sum.whole ? static_cast<float>(1 / std::max(theirs, kOurs)) : 0.f;
    for (int i = 0; i < m; ++i) {
      const std::size_t row = static_cast<std::size_t>(i) * static_cast<std::size_t>(n);
      const std::int64_t at = i * sum.stride;
      add_row({.ours = ours,
               .between = between,
               .product = product,
               .inflate = inflate,
               .underflow = static_cast<float>(k) * 0x1p-126f,
               .exact_below = exact_below,
               .terms = static_cast<float>(k)},
              n, s.partial.data() + row, s.magnitude.data() + row,
              propagates ? s.propagated.data() + row : nullptr, sum.bound + at, sum.magnitude + at,
              sum.terms + at);
    }
  }
}

template void dot_accumulate(float*, std::int64_t, Operand2d<float>, Operand2d<float>,
                             Operand2d<float>, Operand2d<float>, int, int, int, const ErrorModel&,
                             const SumView&);
template void dot_accumulate(float*, std::int64_t, Operand2d<bf16>, Operand2d<float>,
                             Operand2d<bf16>, Operand2d<float>, int, int, int, const ErrorModel&,
                             const SumView&);
template void dot_accumulate(float*, std::int64_t, Operand2d<f16>, Operand2d<float>, Operand2d<f16>,
                             Operand2d<float>, int, int, int, const ErrorModel&, const SumView&);
template void dot_accumulate(float*, std::int64_t, Operand2d<f8e4m3fn>, Operand2d<float>,
                             Operand2d<f8e4m3fn>, Operand2d<float>, int, int, int,
                             const ErrorModel&, const SumView&);
template void dot_accumulate(float*, std::int64_t, Operand2d<f8e5m2>, Operand2d<float>,
                             Operand2d<f8e5m2>, Operand2d<float>, int, int, int, const ErrorModel&,
                             const SumView&);
template void dot_accumulate(double*, std::int64_t, Operand2d<double>, Operand2d<float>,
                             Operand2d<double>, Operand2d<float>, int, int, int, const ErrorModel&,
                             const SumView&);
template void dot_accumulate(std::int32_t*, std::int64_t, Operand2d<std::int8_t>, Operand2d<float>,
                             Operand2d<std::int8_t>, Operand2d<float>, int, int, int,
                             const ErrorModel&, const SumView&);
template void dot_accumulate(std::int32_t*, std::int64_t, Operand2d<std::uint8_t>, Operand2d<float>,
                             Operand2d<std::uint8_t>, Operand2d<float>, int, int, int,
                             const ErrorModel&, const SumView&);

void add_term(const TileView& before, const TileView& term, const SumView& sum) {
  const double unit = before.dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  visit_dtype(before.dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const auto* was = static_cast<const T*>(before.data);
    const auto* adds = static_cast<const T*>(term.data);
    for (int i = 0; i < before.rows; ++i) {
      for (int j = 0; j < before.cols; ++j) {
        const std::int64_t at = i * sum.stride + j;
        const auto x = convert<double>(was[i * before.stride + j]);
        const int row = term.rows == 1 ? 0 : i;
        const int col = term.cols == 1 ? 0 : j;
        const auto t = convert<double>(adds[row * term.stride + col]);
        if (sum.terms[at] == 0) {
          sum.magnitude[at] = static_cast<float>(std::abs(x));
          sum.terms[at] = x != 0 ? 1.f : 0.f;
          *sum.whole = *sum.whole && std::trunc(x) == x && sum.bound[at] == 0;
        }
        *sum.whole = *sum.whole && std::trunc(t) == t && term.error == nullptr;
        sum.magnitude[at] = (sum.magnitude[at] + static_cast<float>(std::abs(t))) * (1 + 0x1p-22f);
        sum.terms[at] += 1;
        const bool exact = *sum.whole && sum.magnitude[at] * unit < 1;
        float e = exact ? 0.f : static_cast<float>(unit * std::abs(x + t) * (1 + 0x1p-20));
        if (term.error != nullptr) e += term.error[std::int64_t{row} * term.cols + col];
        sum.bound[at] = (sum.bound[at] + e) * (1 + 0x1p-22f);
      }
    }
  });
}

StorageHandle write_bounds(const TileView& value, const SumView& sum, const ErrorModel& model) {
  const std::int64_t elems = std::int64_t{value.rows} * value.cols;
  StorageHandle bounds(Storage::allocate(sizeof(float) * static_cast<std::size_t>(elems)));
  auto* to = reinterpret_cast<float*>(bounds.bytes());
  const bool wide = value.dtype == DType::f64;
  const double ours = wide ? 0x1p-53 : 0x1p-24;
  const double theirs = wide ? ours : model.accumulate;
  const auto exact_below = static_cast<float>(1 / std::max(theirs, ours));
  const auto unit = static_cast<float>(theirs);
  const bool whole = *sum.whole;
  visit_dtype(value.dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const auto* v = static_cast<const T*>(value.data);
    for (int i = 0; i < value.rows; ++i, to += value.cols) {
      for (int j = 0; j < value.cols; ++j) {
        const std::int64_t at = i * sum.stride + j;
        const float bound = sum.bound[at];
        const float steps = std::max(0.f, sum.terms[at] - 1) * unit;
        const auto x = std::abs(convert<float>(v[i * value.stride + j]));
        const float partial = (sum.magnitude[at] + x + 3 * bound) / 2;
        const float rounding = steps * partial / (1 - steps) * (1 + 0x1p-20f);
        float e = whole && sum.magnitude[at] < exact_below ? bound : bound + rounding;
        const bool number = x <= std::numeric_limits<float>::max();
        if (!(e == e) || steps >= 0.5f) e = std::numeric_limits<float>::infinity();
        // An infinity or a NaN that a term brought is certain, one that the sum ran into is not.
        const bool carried = !(sum.magnitude[at] <= std::numeric_limits<float>::max());
        to[j] = number || !carried ? e : 0.f;
      }
    }
  });
  return bounds;
}

}  // namespace tessera::bounds
