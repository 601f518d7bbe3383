// The rules of sim/bounds/elementwise.hpp: for each op, how bounds of its operands become one of
// its result. A rule is a scalar function; elementwise.cpp makes the loops.
//
// Arguments: z the result, then each operand's value and bound. `propagated` is what the operands'
// bounds alone do to the exact result; finish() adds the roundings of both sides.
#pragma once

#include <cmath>
#include <limits>

namespace tessera::bounds {

/// What a rule knows besides the values.
template <class C>
struct Setting {
  C unit;      ///< unit roundoff of the result's type, 0 for integers and masks
  C tiny;      ///< its smallest normal number: what flushing may take away
  C rounding;  ///< roundings of both sides, relative: ours to nearest, theirs within so many ulps
  C exact_to;  ///< a result is exact if what is propagated is at most this: 0, or -1 for never
  C fused;     ///< 1 if a product may stay unrounded, else 0
  C residue;   ///< 1 where theirs is a real number and what our addition lost is a number of C
  C real;      ///< 1 where theirs is a real number

  /// Of two builds.
  Setting(double unit_, double tiny_, double ulp, bool fused_)
      : unit(static_cast<C>(unit_)),
        tiny(static_cast<C>(tiny_)),
        rounding(static_cast<C>((2 * ulp + 1) * unit_)),
        exact_to(ulp > 0.5 ? C(-1) : C(0)),
        fused(fused_ ? C(1) : C(0)),
        residue(0),
        real(0) {}
  /// Of ours and real numbers; `own`: the result has the type that rules compute in.
  static Setting of_reals(double unit_, double tiny_, bool own) {
    Setting s(unit_, tiny_, 0, own);
    s.exact_to = unit_ > 0 ? C(-1) : C(0);
    s.residue = own ? C(1) : C(0);
    s.real = 1;
    return s;
  }
};

template <class C>
inline constexpr C kInf = std::numeric_limits<C>::infinity();

// By value, without branches and with one comparison a condition (GCC 12 has no vector code for
// more), so that loops over rules become vector code.
template <class C>
C select(bool condition, C a, C b) {
  return condition ? a : b;
}
template <class C>
C larger(C a, C b) {
  return a > b ? a : b;
}
template <class C>
C smaller(C a, C b) {
  return a < b ? a : b;
}

template <class C>
C finish(const Setting<C>& s, C z, C propagated) {
  const C e = propagated + (s.rounding * (std::abs(z) + propagated) + s.tiny);
  return select(propagated > s.exact_to, e, C(0));
}

/// At least e^x - 1, x >= 0: e^y <= 1 + y + 0.72 y^2 for y <= 1; beyond, by e^x = (e^(x/128))^128.
template <class C>
C grow(C x) {
  const C y = x * C(1. / 128);
  C power = 1 + y + C(0.72) * y * y;
  for (int i = 0; i < 7; ++i) power *= power;
  const C far = select(x < 88, power * C(1 + 0x1p-14), kInf<C>);
  return select(x <= 1, x + C(0.72) * x * x, far);
}

/// The ends of [a - e, a + e], rounded outward; a itself if e is 0.
template <class C>
C upper(C a, C e) {
  return select(e > 0, a + (e + (std::abs(a) + e) * C(0x1p-22)), a);
}
template <class C>
C lower(C a, C e) {
  return select(e > 0, a - (e + (std::abs(a) + e) * C(0x1p-22)), a);
}
/// At most a - e; 0 if that is not positive.
template <class C>
C at_least(C a, C e) {
  return larger(lower(a, e), C(0));
}
/// For a monotone function: how far its values at the ends lie from z.
template <class C>
C reach(C z, C at_upper, C at_lower) {
  return larger(larger(at_upper - z, z - at_lower), C(0));
}
/// `e` where an operand has a bound; 0 / 0 and inf - inf are nobody's.
template <class C>
C where_bounded(C bound, C e) {
  return select(bound > 0, e, C(0));
}

struct AddRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea, C b, C eb) {
    const C of_b = z - a;  // z - (a + b), exactly (Knuth)
    const C lost = std::abs((a - (z - of_b)) + (b - of_b));
    return select(s.residue > 0, ea + eb + lost, finish(s, z, ea + eb));
  }
};
struct SubRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea, C b, C eb) {
    return AddRule::bound(s, z, a, ea, -b, eb);
  }
};
struct MulRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea, C b, C eb) {
    const C p = std::abs(a) * eb + std::abs(b) * ea + ea * eb;
    const C lost = s.fused * std::abs(std::fma(a, b, -z));
    // Where z is that small, what is lost may be too small for a number of C.
    const C below = where_bounded(std::abs(a), where_bounded(std::abs(b), s.tiny));
    const C rest = select(std::abs(z) < C(0x1p-100), below, C(0));
    return select(s.residue > 0, p + lost + rest, larger(lost, finish(s, z, p)));
  }
};
struct FmaRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea, C b, C eb, C, C ec) {
    const C p = std::abs(a) * eb + std::abs(b) * ea + ea * eb + ec;
    // Theirs may round the product.
    return finish(s, z, p + (s.fused - s.residue) * s.unit * (std::abs(a * b) + p));
  }
};
struct DivRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C, C ea, C b, C eb) {
    const C p = std::abs(z) * eb + ea;
    const C moved = p * (1 + 2 * s.unit) / at_least(std::abs(b), eb);
    const C truncation = select(s.unit == 0, C(1), C(0));  // of integers
    return finish(s, z, where_bounded(p, moved + truncation));
  }
};
struct ReciprocalRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    return DivRule::bound(s, z, C(1), C(0), a, ea);
  }
};
struct SameRule {  // abs, negate
  template <class C>
  static C bound(const Setting<C>&, C, C, C ea) {
    return ea;
  }
};
struct MaxRule {
  template <class C>
  static C bound(const Setting<C>&, C z, C a, C ea, C b, C eb) {
    return reach(z, larger(upper(a, ea), upper(b, eb)), larger(lower(a, ea), lower(b, eb)));
  }
};
struct MinRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea, C b, C eb) {
    return MaxRule::bound(s, -z, -a, ea, -b, eb);
  }
};
/// Of a, low, high: monotone in all three.
struct ClampRule {
  template <class C>
  static C bound(const Setting<C>&, C z, C a, C ea, C b, C eb, C c, C ec) {
    return reach(z, smaller(larger(upper(a, ea), upper(b, eb)), upper(c, ec)),
                 smaller(larger(lower(a, ea), lower(b, eb)), lower(c, ec)));
  }
};
struct FloorRule {
  template <class C>
  static C bound(const Setting<C>&, C z, C a, C ea) {
    return reach(z, std::floor(upper(a, ea)), std::floor(lower(a, ea)));
  }
};
struct CeilRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    return FloorRule::bound(s, -z, -a, ea);
  }
};
struct RoundEvenRule {
  template <class C>
  static C bound(const Setting<C>&, C z, C a, C ea) {
    return reach(z, std::nearbyint(upper(a, ea)), std::nearbyint(lower(a, ea)));
  }
};
struct CompareRule {
  template <class C>
  static C bound(const Setting<C>&, C, C a, C ea, C b, C eb) {
    const C e = ea + eb;
    const C overlap = select(std::abs(a - b) <= e * C(1 + 0x1p-20), C(1), C(0));
    return select(e > 0, overlap, C(0));
  }
};
struct AndRule {
  template <class C>
  static C bound(const Setting<C>&, C, C a, C ea, C b, C eb) {
    const bool settled = ((a == 0) & (ea == 0)) | ((b == 0) & (eb == 0));
    return select(settled, C(0), larger(ea, eb));
  }
};
struct OrRule {
  template <class C>
  static C bound(const Setting<C>&, C, C a, C ea, C b, C eb) {
    const bool settled = ((a != 0) & (ea == 0)) | ((b != 0) & (eb == 0));
    return select(settled, C(0), larger(ea, eb));
  }
};
struct SelectRule {
  template <class C>
  static C bound(const Setting<C>&, C, C mask, C em, C a, C ea, C b, C eb) {
    const C mine = select(mask != 0, ea, eb);
    const C off = std::abs(a - b) + select(mask != 0, eb, ea);
    const C other = select(off == off, off, kInf<C>);
    return select(em > 0, larger(other, mine), mine);
  }
};
/// Of bits, and of what is left of integers: where an operand may differ, anything.
struct BitsRule {
  template <class C>
  static C bound(const Setting<C>&, C, C, C ea, C, C eb) {
    return where_bounded(ea + eb, kInf<C>);
  }
};
struct SqrtRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    const C low = at_least(a, ea);
    const C moved = ea / (std::sqrt(low) + z * (1 - 4 * s.unit));
    return finish(s, z, where_bounded(ea, select(low > 0, moved, kInf<C>)));
  }
};
struct RsqrtRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    const C low = at_least(a, ea);
    return finish(s, z, where_bounded(ea, ea / (2 * low * std::sqrt(low))));
  }
};
struct ExpRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    const C grown = grow(ea);
    const C e = finish(s, z, where_bounded(ea, std::abs(z) * grown + s.tiny * (1 + grown)));
    const C near = select(upper(a, ea) < -88, 2 * s.tiny, e);  // e^-88 < tiny, both sides'
    return select(std::abs(z) + ea + s.real > 0, near, C(0));
  }
};
struct Exp2Rule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    return ExpRule::bound(s, z, a * C(0.6931472), ea * C(0.6931472));
  }
};
struct Expm1Rule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C, C ea) {
    return finish(s, z, (std::abs(z) + 1) * grow(ea));
  }
};
struct LogRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    return finish(s, z, where_bounded(ea, ea / at_least(a, ea)));
  }
};
struct Log2Rule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    return finish(s, z, where_bounded(ea, ea * C(1.442696) / at_least(a, ea)));
  }
};
struct Log1pRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    return finish(s, z, where_bounded(ea, ea / at_least(1 + a, ea)));
  }
};
/// At least e^-x, x >= 0: (1 + x / 8)^-8.
template <class C>
C decay(C x) {
  C power = 1 + x / 8;
  for (int i = 0; i < 3; ++i) power *= power;
  return 1 / power;
}
// Where a function flattens out, its slope on all of [a - ea, a + ea] is that nearest to 0: tanh's
// at most 4 e^-2|x|, logistic's e^-|x|, erf's 1.13 e^-x^2.
struct TanhRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    const C t = larger(std::abs(z) - ea, C(0));
    const C slope = smaller(1 - t * t + 4 * s.unit, 4 * decay(2 * at_least(std::abs(a), ea)));
    return finish(s, z, smaller(ea * smaller(slope, C(1)), 1 + std::abs(z)));
  }
};
struct LogisticRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    const C near = smaller(std::abs(z), std::abs(1 - z)) + 2 * s.unit + ea / 4;
    const C slope = smaller(near, decay(at_least(std::abs(a), ea)));
    return finish(s, z, smaller(ea * smaller(slope, C(0.25)), C(1)));
  }
};
struct SinRule {  // and cos
  template <class C>
  static C bound(const Setting<C>& s, C z, C, C ea) {
    return finish(s, z, smaller(ea, C(2)));
  }
};
struct ErfRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea) {
    const C nearest = at_least(std::abs(a), ea);
    const C slope = smaller(decay(nearest * nearest), C(1)) * C(1.1283792);
    return finish(s, z, smaller(ea * slope, 1 + std::abs(z)));
  }
};
struct PowRule {
  template <class C>
  static C bound(const Setting<C>& s, C z, C a, C ea, C b, C eb) {
    const C ratio = where_bounded(ea, ea / at_least(std::abs(a), ea));
    const C far = std::abs(std::log(std::abs(a))) + ratio;
    const C moved = where_bounded(ea, (std::abs(b) + eb) * ratio) + where_bounded(eb, eb * far);
    return finish(s, z, where_bounded(moved, std::abs(z) * grow(moved) + s.tiny));
  }
};

}  // namespace tessera::bounds
