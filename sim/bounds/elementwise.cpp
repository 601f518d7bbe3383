#include "sim/bounds/elementwise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "memory_model/float_format.hpp"
#include "sim/bounds/rules.hpp"
#include "sim/bounds/sum.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/numerics/op_state.hpp"
#include "sim/numerics/reduce_row.hpp"

namespace tessera::bounds {

namespace {

constexpr int kStrip = 512;  // elements at a time: operands, bounds and result stay in L1

/// Values and bounds of an operand along a strip.
template <class C>
struct Strip {
  const C* value;
  const C* bound;
};

template <class C>
using StripFunction = void (*)(const Setting<C>&, int n, const C* z, const Strip<C>* in, float* to);

template <class C>
bool is_number(C v) {
  return std::abs(v) <= std::numeric_limits<C>::max();
}

/// A rule's result as a bound: inflated for the roundings of its formula. An infinity or a NaN that
/// an operand brought is certain; another one may not arise on the other side. `carried`: NaN if an
/// operand is none or infinite, else 0.
template <class C>
float settled(C z, C bound, C carried) {
  constexpr C kMax = std::numeric_limits<float>::max();
  const C inflated = bound * C(1 + 0x1p-20);
  const C e = select(std::abs(z) + inflated <= kMax, inflated, kInf<C>);  // NaN too
  const C born = select(bound == 0, C(0), kInf<C>);
  const C of_none = select(carried == 0, born, C(0));
  return static_cast<float>(select(is_number(z), e, of_none));
}

template <class R, class C, int kArity>
[[gnu::flatten]] void run_rule(const Setting<C>& setting, int n, const C* __restrict z,
                               const Strip<C>* in, float* __restrict to) {
  const Setting<C> s = setting;
  const auto [a, ea] = in[0];
  const auto [b, eb] = in[kArity > 1 ? 1 : 0];
  const auto [c, ec] = in[kArity > 2 ? 2 : 0];
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) {
    if constexpr (kArity == 1) {
      to[i] = settled(z[i], R::bound(s, z[i], a[i], ea[i]), a[i] - a[i]);
    } else if constexpr (kArity == 2) {
      to[i] =
          settled(z[i], R::bound(s, z[i], a[i], ea[i], b[i], eb[i]), (a[i] - a[i]) + (b[i] - b[i]));
    } else {
      to[i] = settled(z[i], R::bound(s, z[i], a[i], ea[i], b[i], eb[i], c[i], ec[i]),
                      (a[i] - a[i]) + (b[i] - b[i]) + (c[i] - c[i]));
    }
  }
}

enum class Exactness {
  ieee,      ///< exact operands make an exact result
  sum,       ///< ... unless theirs is a real number
  product,   ///< ... unless products may stay unrounded
  function,  ///< ... if the other side's function is correctly rounded
};

}  // namespace

struct Rule {
  const char* op;
  int arity;
  Exactness exactness;
  StripFunction<float> f32;
  StripFunction<double> f64;
};

namespace {

template <class R, int kArity>
constexpr Rule make_rule(const char* op, Exactness exactness) {
  return {op, kArity, exactness, run_rule<R, float, kArity>, run_rule<R, double, kArity>};
}

/// Of compilers that fuse products of narrow floats, too.
constexpr const char* kMulOfAny = "mul_of_any";

constexpr Rule kRules[] = {
    make_rule<SameRule, 1>("abs", Exactness::ieee),
    make_rule<AddRule, 2>("add", Exactness::sum),
    make_rule<AndRule, 2>("and", Exactness::ieee),
    make_rule<BitsRule, 2>("bit_and", Exactness::ieee),
    make_rule<BitsRule, 2>("bit_or", Exactness::ieee),
    make_rule<BitsRule, 2>("bit_xor", Exactness::ieee),
    make_rule<CeilRule, 1>("ceil", Exactness::ieee),
    make_rule<ClampRule, 3>("clamp", Exactness::ieee),
    make_rule<SinRule, 1>("cos", Exactness::function),
    make_rule<DivRule, 2>("div", Exactness::function),
    make_rule<CompareRule, 2>("equal", Exactness::ieee),
    make_rule<ErfRule, 1>("erf", Exactness::function),
    make_rule<ExpRule, 1>("exp", Exactness::function),
    make_rule<Exp2Rule, 1>("exp2", Exactness::function),
    make_rule<Expm1Rule, 1>("expm1", Exactness::function),
    make_rule<FloorRule, 1>("floor", Exactness::ieee),
    make_rule<FmaRule, 3>("fma", Exactness::product),
    make_rule<CompareRule, 2>("greater", Exactness::ieee),
    make_rule<CompareRule, 2>("greater_equal", Exactness::ieee),
    make_rule<CompareRule, 2>("less", Exactness::ieee),
    make_rule<CompareRule, 2>("less_equal", Exactness::ieee),
    make_rule<LogRule, 1>("log", Exactness::function),
    make_rule<Log1pRule, 1>("log1p", Exactness::function),
    make_rule<Log2Rule, 1>("log2", Exactness::function),
    make_rule<LogisticRule, 1>("logistic", Exactness::function),
    make_rule<MaxRule, 2>("max", Exactness::ieee),
    make_rule<MinRule, 2>("min", Exactness::ieee),
    make_rule<MulRule, 2>("mul", Exactness::product),
    make_rule<MulRule, 2>(kMulOfAny, Exactness::product),
    make_rule<BitsRule, 2>("mul_hi", Exactness::ieee),
    make_rule<SameRule, 1>("negate", Exactness::ieee),
    make_rule<SameRule, 1>("not", Exactness::ieee),
    make_rule<CompareRule, 2>("not_equal", Exactness::ieee),
    make_rule<OrRule, 2>("or", Exactness::ieee),
    make_rule<PowRule, 2>("pow", Exactness::function),
    make_rule<ReciprocalRule, 1>("reciprocal", Exactness::function),
    make_rule<BitsRule, 2>("rem", Exactness::ieee),
    make_rule<RoundEvenRule, 1>("round_even", Exactness::ieee),
    make_rule<RsqrtRule, 1>("rsqrt", Exactness::function),
    make_rule<BitsRule, 2>("shift_left", Exactness::ieee),
    make_rule<BitsRule, 2>("shift_right", Exactness::ieee),
    make_rule<SinRule, 1>("sin", Exactness::function),
    make_rule<SqrtRule, 1>("sqrt", Exactness::function),
    make_rule<SubRule, 2>("sub", Exactness::sum),
    make_rule<TanhRule, 1>("tanh", Exactness::function),
    make_rule<SelectRule, 3>("where", Exactness::ieee),
};

/// n values of a tile from (row, col) on, converted unless they are C's already.
template <class C>
const C* values_of(const TileView& t, int row, int col, int n, C* held) {
  const std::int64_t at = (t.rows == 1 ? 0 : row) * t.stride;
  return visit_dtype(t.dtype, [&]<class Tag>(Tag) -> const C* {
    using T = typename Tag::type;
    const T* from = static_cast<const T*>(t.data) + at;
    if (t.cols == 1) {
      std::fill_n(held, n, convert<C>(*from));
      return held;
    }
    if constexpr (std::is_same_v<T, C>) {
      return from + col;
    } else {
      for (int i = 0; i < n; ++i) held[i] = convert<C>(from[col + i]);
      return held;
    }
  });
}
template <class C>
const C* bounds_of(const TileView& t, int row, int col, int n, C* held) {
  if (t.error == nullptr) {
    std::fill_n(held, n, C(0));
    return held;
  }
  const float* from = t.error + std::int64_t{t.rows == 1 ? 0 : row} * t.cols;
  if (t.cols == 1) {
    std::fill_n(held, n, C(*from));
    return held;
  }
  if constexpr (std::is_same_v<C, float>) return from + col;
  for (int i = 0; i < n; ++i) held[i] = from[col + i];
  return held;
}

StorageHandle bounds_for(const TileView& t) {
  return StorageHandle(
      Storage::allocate(sizeof(float) * static_cast<std::size_t>(std::int64_t{t.rows} * t.cols)));
}
float* floats(const StorageHandle& h) { return reinterpret_cast<float*>(h.bytes()); }

/// f64 tiles, and integers, whose values f32 does not hold.
bool in_double(DType d) { return d == DType::f64 || (!is_float(d) && bit_width(d) > 16); }

/// The smallest normal number, as f32 has it for f64: bounds are f32.
double tiny_of(DType d) {
  if (!is_float(d) || d == DType::f8e8m0fnu) return 0;
  return std::ldexp(1., std::max(smallest_exponent(d), smallest_exponent(DType::f32)));
}

/// Theirs rounds nothing: the bound is how far ours is from the real number.
bool of_reals(const ErrorModel& model) { return model.accumulate == 0; }

/// Of narrower types too: roundings to those count where products read them, and in outputs.
constexpr double kF32Unit = 0x1p-24;

constexpr std::size_t kOperands = 3;  // of an op, at most

/// Tiles that lie alike are one long row.
struct Flat {
  TileView z;
  std::array<TileView, kOperands> in{};
  std::size_t operands = 0;

  Flat(const TileView& result, std::initializer_list<TileView> from) : z(result) {
    const auto whole = [&](const TileView& t) {
      return t.rows == z.rows && t.cols == z.cols && (t.stride == t.cols || t.rows == 1);
    };
    bool alike = whole(z);
    for (const TileView& t : from) {
      in[operands++] = t;
      alike = alike && (whole(t) || t.rows * t.cols == 1);
    }
    if (!alike) return;
    const auto flatten = [](TileView& t) {
      t.cols *= t.rows;
      t.rows = 1;
    };
    flatten(z);
    for (std::size_t k = 0; k < operands; ++k) flatten(in[k]);
  }
};

template <class C>
void run_strips(StripFunction<C> f, const Setting<C>& s, const Flat& flat, float* to) {
  const TileView& z = flat.z;
  alignas(64) C held_z[kStrip];
  alignas(64) C held[2 * kOperands][kStrip];
  for (int r = 0; r < z.rows; ++r) {
    for (int c = 0; c < z.cols; c += kStrip) {
      const int n = std::min(kStrip, z.cols - c);
      Strip<C> strips[kOperands];
      for (std::size_t k = 0; k < flat.operands; ++k) {
        strips[k].value = values_of(flat.in[k], r, c, n, held[2 * k]);
        strips[k].bound = bounds_of(flat.in[k], r, c, n, held[2 * k + 1]);
      }
      f(s, n, values_of(z, r, c, n, held_z), strips, to + std::int64_t{r} * z.cols + c);
    }
  }
}

}  // namespace

double unit_of(DType d) { return is_float(d) ? std::ldexp(0.5, -mantissa_bits(d)) : 0; }

const Rule& rule_of(const char* op) {
  for (const Rule& rule : kRules) {
    if (std::string_view(rule.op) == op) return rule;
  }
  throw KernelError({.slug = "unmodelled",
                     .kind = Diagnostic::Kind::unmodelled,
                     .headline = std::string("error bounds through ") + op});
}

StorageHandle elementwise(const Rule& rule, const ErrorModel& model, const TileView& z,
                          std::initializer_list<TileView> in) {
  const bool exact =
      std::all_of(in.begin(), in.end(), [](const TileView& t) { return t.error == nullptr; });
  const bool wide = in_double(z.dtype) || std::any_of(in.begin(), in.end(), [](const TileView& t) {
                      return in_double(t.dtype);
                    });
  const bool own_type = z.dtype == (wide ? DType::f64 : DType::f32);
  const bool fused = model.fused && (own_type || std::string_view(rule.op) == kMulOfAny);
  const double ulp = rule.exactness == Exactness::function ? model.ulp_of(rule.op) : 0.5;
  const bool real = of_reals(model);
  const bool rounds = real ? rule.exactness != Exactness::ieee && is_float(z.dtype)
                           : ulp > 0.5 || (rule.exactness == Exactness::product && fused);
  if (exact && !rounds) return {};
  StorageHandle bounds = bounds_for(z);
  const Flat flat(z, in);
  const double unit = real ? std::min(unit_of(z.dtype), kF32Unit) : unit_of(z.dtype);
  const double tiny = tiny_of(real && unit > 0 ? DType::f32 : z.dtype);
  const auto run = [&]<class C>(StripFunction<C> f) {
    const auto setting = real ? Setting<C>::of_reals(unit, tiny, own_type && is_float(z.dtype))
                              : Setting<C>(unit, tiny, ulp, fused);
    run_strips(f, setting, flat, floats(bounds));
  };
  if (wide)
    run(rule.f64);
  else
    run(rule.f32);
  return bounds;
}

namespace {
/// Of [a - e, a + e] rounded to To, the farther end from z = To(a): rounding is monotone.
template <class To, class C>
void cast_strip(int n, const C* z, const C* a, const C* e, float* to) {
  for (int i = 0; i < n; ++i) {
    const C up = convert<C>(convert<To>(upper(a[i], e[i])));
    const C low = convert<C>(convert<To>(lower(a[i], e[i])));
    to[i] = e[i] > 0 ? settled(z[i], reach(z[i], up, low), a[i] - a[i]) : 0.f;
    // A NaN that one end became: of a format without infinities.
    if (e[i] > 0 && !(up - low >= 0)) to[i] = is_number(a[i]) ? kInf<float> : 0.f;
  }
}
/// How far z is from the real number that it was cast from. `charge`: 0 for a type narrower than
/// f32, whose rounding counts where products read it (sim/bounds/sum.cpp) and in outputs.
template <class C>
void cast_of_real_strip(int n, C charge, const C* z, const C* a, const C* e, float* to) {
  for (int i = 0; i < n; ++i) {
    const C lost = select(charge > 0, std::abs(z[i] - a[i]), z[i] - z[i]);
    to[i] = settled(z[i], lost + e[i], a[i] - a[i]);
  }
}
template <class C>
void run_cast(const Flat& flat, float* to, bool real) {
  const TileView& z = flat.z;
  const TileView& from = flat.in[0];
  alignas(64) C held[3][kStrip];
  for (int r = 0; r < z.rows; ++r) {
    for (int c = 0; c < z.cols; c += kStrip) {
      const int n = std::min(kStrip, z.cols - c);
      const C* values = values_of(from, r, c, n, held[0]);
      const C* bounds = bounds_of(from, r, c, n, held[1]);
      const C* results = values_of(z, r, c, n, held[2]);
      float* out = to + std::int64_t{r} * z.cols + c;
      if (real) {
        cast_of_real_strip(n, C(bit_width(z.dtype) >= 32 ? 1 : 0), results, values, bounds, out);
        continue;
      }
      visit_dtype(z.dtype, [&]<class Tag>(Tag) {
        cast_strip<typename Tag::type, C>(n, results, values, bounds, out);
      });
    }
  }
}
}  // namespace

StorageHandle cast(const TileView& z, const TileView& from) {
  // What becomes an integer is cut off on both sides.
  const bool real =
      op_state.error_model != nullptr && of_reals(*op_state.error_model) && is_float(z.dtype);
  // What was given and is narrowed is the kernel's loss: theirs has it whole.
  if (from.error == nullptr && !(real && bit_width(z.dtype) >= 32)) return {};
  StorageHandle bounds = bounds_for(z);
  if (in_double(from.dtype) || in_double(z.dtype))
    run_cast<double>(Flat(z, {from}), floats(bounds), real);
  else
    run_cast<float>(Flat(z, {from}), floats(bounds), real);
  return bounds;
}

namespace {
constexpr int kRowLanes = 16;  // partial results of a row, so that the loop over it is vector code

template <class C, class F>
void in_lanes(const C* a, const C* e, int n, F&& f) {
  int i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes) f(a + i, e + i, kRowLanes);
  if (i < n) f(a + i, e + i, n - i);
}
template <class C>
C total(const C* lanes) {
  C sum = 0;
  for (int l = 0; l < kRowLanes; ++l) sum += lanes[l];
  return sum;
}

/// What the bound of a row's sum rests on.
template <class C>
struct SumLanes {
  alignas(64) C magnitude[kRowLanes] = {};
  alignas(64) C propagated[kRowLanes] = {};
  alignas(64) C fraction[kRowLanes] = {};  ///< 0 if every element is an integer; NaN if one is none

  void add(const C* a, const C* e, int n) {
    in_lanes(a, e, n, [this](const C* __restrict x, const C* __restrict b, int lanes) {
      for (int l = 0; l < lanes; ++l) {
        magnitude[l] += std::abs(x[l]);
        propagated[l] += b[l];
        fraction[l] += std::abs(x[l] - std::trunc(x[l]));
      }
    });
  }
  /// In the order of sim/ops/reduce.hpp: a chain in each of 32 lanes, then a tree; for long rows
  /// again.
  float bound(C result, int cols, double theirs, double ours) const {
    const double inflate = 1 + cols * 0x1p-22;
    SumBound s{.propagated = total(propagated) * inflate,
               .magnitude = total(magnitude) * inflate,
               .terms = static_cast<double>(cols),
               .whole = total(fraction) == 0};
    int additions = 0;
    for (int n = cols; n > 0; n = n > kReduceChunk ? (n + kReduceChunk - 1) / kReduceChunk : 0)
      additions += std::min(n, kReduceChunk) / kReduceLanes + 6;
    s.own = additions * ours * s.magnitude;
    const C carried = total(fraction);
    return settled(result, static_cast<C>(s.at(result, theirs, ours)), carried - carried);
  }
};

/// What the bound of a row's largest element rests on; of the smallest, with signs changed.
template <class C>
struct ExtremeLanes {
  alignas(64) C top[kRowLanes];
  alignas(64) C low[kRowLanes];
  alignas(64) C carried[kRowLanes] = {};  ///< NaN if an element is no finite number

  ExtremeLanes() {
    std::fill_n(top, kRowLanes, -kInf<C>);
    std::fill_n(low, kRowLanes, -kInf<C>);
  }
  void add(const C* a, const C* e, int n, C sign) {
    in_lanes(a, e, n, [this, sign](const C* __restrict x, const C* __restrict b, int lanes) {
      for (int l = 0; l < lanes; ++l) {
        top[l] = larger(upper(sign * x[l], b[l]), top[l]);
        low[l] = larger(lower(sign * x[l], b[l]), low[l]);
        carried[l] += x[l] - x[l];
      }
    });
  }
  float bound(C result, C sign) const {
    const C highest = *std::max_element(top, top + kRowLanes);
    const C lowest = *std::max_element(low, low + kRowLanes);
    return settled(result, reach(sign * result, highest, lowest), total(carried));
  }
};

template <class C>
void run_reduce(std::string_view op, const ErrorModel& model, const TileView& z,
                const TileView& from, float* to) {
  alignas(64) C held[3][kStrip];
  const bool sum = op == "row_sum";
  const C sign = op == "row_min" ? C(-1) : C(1);
  const double ours = unit_of(z.dtype);
  const double theirs = z.dtype == DType::f64 ? ours : model.accumulate;
  for (int r = 0; r < z.rows; ++r) {
    const C result = *values_of(z, r, 0, 1, held[2]);
    SumLanes<C> terms;
    ExtremeLanes<C> ends;
    for (int c = 0; c < from.cols; c += kStrip) {
      const int n = std::min(kStrip, from.cols - c);
      const C* a = values_of(from, r, c, n, held[0]);
      const C* e = bounds_of(from, r, c, n, held[1]);
      if (sum)
        terms.add(a, e, n);
      else
        ends.add(a, e, n, sign);
    }
    to[r] = sum ? terms.bound(result, from.cols, theirs, ours) : ends.bound(result, sign);
  }
}
}  // namespace

StorageHandle reduce_rows(const char* op, const ErrorModel& model, const TileView& z,
                          const TileView& from) {
  const bool sum = std::string_view(op) == "row_sum";
  if (from.error == nullptr && (!sum || !is_float(z.dtype))) return {};
  StorageHandle bounds = bounds_for(z);
  if (in_double(from.dtype))
    run_reduce<double>(op, model, z, from, floats(bounds));
  else
    run_reduce<float>(op, model, z, from, floats(bounds));
  return bounds;
}

}  // namespace tessera::bounds
