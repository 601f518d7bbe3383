#include "program/regular.hpp"

#include <algorithm>
#include <limits>

#include "program/gather.hpp"
#include "program/group.hpp"

namespace tessera::program {

namespace {

std::size_t at(int d) { return static_cast<std::size_t>(d); }

bool add(std::int64_t a, std::int64_t b, std::int64_t& to) {
  return !__builtin_add_overflow(a, b, &to);
}
bool subtract(std::int64_t a, std::int64_t b, std::int64_t& to) {
  return !__builtin_sub_overflow(a, b, &to);
}
bool multiply(std::int64_t a, std::int64_t b, std::int64_t& to) {
  return !__builtin_mul_overflow(a, b, &to);
}

bool is_constant(const Regular& r) {
  return std::ranges::all_of(r.step, [](std::int64_t s) { return s == 0; });
}

void set_all(Regular& mask, const Shape& s, bool on) {
  mask.step.fill(0);
  for (int d = 0; d < s.rank; ++d) mask.end[at(d)] = on ? s[d] : 0;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

/// Of a dividend that is not negative and a divisor that is one number: the quotient, if it is one
/// number too.
bool one_quotient(const Regular* const* in, const Shape& s, std::int64_t& quotient) {
  std::int64_t least = 0;
  std::int64_t largest = 0;
  if (!is_constant(*in[1]) || in[1]->base <= 0 || !regular_range(*in[0], s, least, largest) ||
      least < 0 || least / in[1]->base != largest / in[1]->base)
    return false;
  quotient = least / in[1]->base;
  return true;
}

/// The dim along which it changes; negative unless there is one alone.
int only_dim(const Regular& r, const Shape& s) {
  int along = -1;
  for (int d = 0; d < s.rank; ++d) {
    if (r.step[at(d)] == 0) continue;
    if (along >= 0) return -1;
    along = d;
  }
  return along;
}

/// Where `difference` is negative.
bool negative(Regular& to, const Regular& difference, const Shape& s) {
  std::int64_t least = 0;
  std::int64_t largest = 0;
  if (!regular_range(difference, s, least, largest)) return false;
  if (largest < 0 || least >= 0) {
    set_all(to, s, largest < 0);
    return true;
  }
  const int along = only_dim(difference, s);
  if (along < 0) return false;
  const std::int64_t base = difference.base;
  const std::int64_t step = difference.step[at(along)];
  if (base == INT64_MIN || step == INT64_MIN) return false;
  set_all(to, s, true);
  if (step > 0)
    to.end[at(along)] = std::clamp<std::int64_t>(-floor_div(base, step), 0, s[along]);
  else
    to.step[at(along)] = std::clamp<std::int64_t>(floor_div(base, -step) + 1, 0, s[along]);
  return true;
}

/// Where it is 0.
bool zero(Regular& to, const Regular& difference, const Shape& s) {
  std::int64_t least = 0;
  std::int64_t largest = 0;
  if (!regular_range(difference, s, least, largest)) return false;
  if (least > 0 || largest < 0 || least == largest) {
    set_all(to, s, least == 0 && largest == 0);
    return true;
  }
  const int along = only_dim(difference, s);
  if (along < 0) return false;
  const std::int64_t step = difference.step[at(along)];
  if (step == -1 && difference.base == INT64_MIN) return false;
  if (difference.base % step != 0) {
    set_all(to, s, false);
    return true;
  }
  set_all(to, s, true);
  to.step[at(along)] = -(difference.base / step);
  to.end[at(along)] = to.step[at(along)] + 1;
  return true;
}

bool all_or_none(const Regular& mask, const Shape& s) {
  return mask.end[0] == mask.step[0] || is_full(mask, s);
}

enum Predicate : std::uint8_t { kEq, kNe, kSlt, kSle, kSgt, kSge, kUlt, kUle, kUgt, kUge };

template <int kPredicate>
bool compare(Regular& to, const Regular* const* in, const Shape& s) {
  if constexpr (kPredicate >= kUlt) {
    // Numbers that are not negative compare alike with and without sign.
    for (int i = 0; i < 2; ++i) {
      std::int64_t least = 0;
      std::int64_t largest = 0;
      if (!regular_range(*in[i], s, least, largest) || least < 0) return false;
    }
    return compare<kPredicate - kUlt + kSlt>(to, in, s);
  } else if constexpr (kPredicate == kNe) {
    if (!compare<kEq>(to, in, s) || !all_or_none(to, s)) return false;
    set_all(to, s, !is_full(to, s));
    return true;
  } else {
    // a > b is b < a; a <= b is a - 1 < b.
    constexpr bool kTurned = kPredicate == kSgt || kPredicate == kSge;
    const Regular* const order[2] = {in[kTurned ? 1 : 0], in[kTurned ? 0 : 1]};
    Regular difference;
    if (!regular_sub(difference, order, s)) return false;
    if ((kPredicate == kSle || kPredicate == kSge) &&
        !subtract(difference.base, 1, difference.base))
      return false;
    if constexpr (kPredicate == kEq)
      return zero(to, difference, s);
    else
      return negative(to, difference, s);
  }
}

}  // namespace

const Regular& regular_value(const Exec& x, const RegularView& v, Regular& own) {
  if (v.splat) {
    const Scalar& s = x.scalars[at(v.slot)];
    own.step.fill(0);
    if (s.poison != 0 || s.bound > 0) {
      own.dense = elements_of(x, v);
      return own;
    }
    own.dense = Vector();
    switch (v.dtype) {
      case DType::boolean:
        set_all(own, v.shape, x.get<bool>(v.slot));
        break;
      case DType::i64:
        own.base = x.get<std::int64_t>(v.slot);
        break;
      case DType::i32:
        own.base = x.get<std::int32_t>(v.slot);
        break;
      case DType::i16:
        own.base = x.get<std::int16_t>(v.slot);
        break;
      default:
        own.base = x.get<std::int8_t>(v.slot);
    }
    return own;
  }
  const Regular& r = x.regulars[at(v.slot)];
  if (v.same) return r;
  if (r.dense.data) {
    own.dense = elements_of(x, v);
    return own;
  }
  own.dense = Vector();
  own.base = r.base;
  for (int d = 0; d < v.shape.rank; ++d) {
    const int from = v.from[at(d)];
    const bool repeats = from < 0 || v.own[from] != v.shape[d];
    if (v.dtype != DType::boolean) {
      own.step[at(d)] = repeats ? 0 : r.step[at(from)];
      continue;
    }
    own.step[at(d)] = repeats ? 0 : r.step[at(from)];
    own.end[at(d)] = !repeats                                         ? r.end[at(from)]
                     : from < 0 || r.end[at(from)] > r.step[at(from)] ? v.shape[d]
                                                                      : 0;
  }
  for (int d = v.shape.rank; d < kRegularRank; ++d) own.step[at(d)] = 0;
  return own;
}

Vector elements_of(const Exec& x, const RegularView& v) {
  const std::int64_t width = register_bytes(v.dtype);
  const std::int64_t n = v.shape.elems();
  if (v.splat) return expanded(x, {Lane::Kind::splat, v.slot, 1, v.dtype}, n);
  const Regular& r = x.regulars[at(v.slot)];
  if (r.dense.data) {
    if (v.same) return r.dense;
    const Shape own = row_major_strides(v.own);
    Shape strides = v.shape;
    for (int d = 0; d < v.shape.rank; ++d) {
      const int from = v.from[at(d)];
      strides[d] = from < 0 || v.own[from] != v.shape[d] ? 0 : own[from];
    }
    return rearranged(r.dense, n, width,
                      [&](std::byte* to, const std::byte* in, std::int64_t bytes) {
                        gather_strided(to, in, bytes, v.shape, strides);
                      });
  }
  Regular own;
  const Regular& value = regular_value(x, v, own);
  Vector made{StorageHandle(Storage::allocate(static_cast<std::size_t>(n * width)))};
  const int last = v.shape.rank - 1;
  const std::int64_t columns = v.shape[last];
  for (std::int64_t row = 0; row < n / columns; ++row) {
    Shape index = unravel(v.shape, row * columns);
    if (v.dtype == DType::boolean) {
      bool on = true;
      for (int d = 0; d < last; ++d)
        on = on && index[d] >= value.step[at(d)] && index[d] < value.end[at(d)];
      std::byte* const to = made.data.bytes() + row * columns;
      std::memset(to, 0, static_cast<std::size_t>(columns));
      if (on && value.end[at(last)] > value.step[at(last)])
        std::memset(to + value.step[at(last)], 1,
                    static_cast<std::size_t>(value.end[at(last)] - value.step[at(last)]));
      continue;
    }
    std::int64_t first = value.base;
    for (int d = 0; d < last; ++d) first += index[d] * value.step[at(d)];
    with_width(width, [&]<class T>(T) {
      auto* const to = reinterpret_cast<T*>(made.data.bytes()) + row * columns;
      const auto step = static_cast<T>(value.step[at(last)]);
      auto e = static_cast<T>(first);
      for (std::int64_t i = 0; i < columns; ++i, e = static_cast<T>(e + step)) to[i] = e;
    });
  }
  return made;
}

bool regular_range(const Regular& r, const Shape& s, std::int64_t& least, std::int64_t& largest) {
  least = largest = r.base;
  for (int d = 0; d < s.rank; ++d) {
    std::int64_t reach = 0;
    if (!multiply(r.step[at(d)], s[d] - 1, reach)) return false;
    std::int64_t& end = reach < 0 ? least : largest;
    if (!add(end, reach, end)) return false;
  }
  return true;
}

bool fits(const Regular& r, const Shape& s, DType dtype) {
  std::int64_t least = 0;
  std::int64_t largest = 0;
  if (!regular_range(r, s, least, largest)) return false;
  const int bits = bit_width(dtype);
  const std::int64_t most =
      bits >= 64 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << (bits - 1)) - 1;
  return least >= -most - 1 && largest <= most;
}

bool is_full(const Regular& mask, const Shape& s) {
  for (int d = 0; d < s.rank; ++d) {
    if (mask.step[at(d)] != 0 || mask.end[at(d)] != s[d]) return false;
  }
  return true;
}

bool regular_add(Regular& to, const Regular* const* in, const Shape& /*s*/) {
  bool ok = add(in[0]->base, in[1]->base, to.base);
  for (std::size_t d = 0; d < kRegularRank; ++d)
    ok = add(in[0]->step[d], in[1]->step[d], to.step[d]) && ok;
  return ok;
}
bool regular_sub(Regular& to, const Regular* const* in, const Shape& /*s*/) {
  bool ok = subtract(in[0]->base, in[1]->base, to.base);
  for (std::size_t d = 0; d < kRegularRank; ++d)
    ok = subtract(in[0]->step[d], in[1]->step[d], to.step[d]) && ok;
  return ok;
}
bool regular_mul(Regular& to, const Regular* const* in, const Shape& /*s*/) {
  const bool first = is_constant(*in[0]);
  if (!first && !is_constant(*in[1])) return false;
  const Regular& many = *in[first ? 1 : 0];
  const std::int64_t by = in[first ? 0 : 1]->base;
  bool ok = multiply(many.base, by, to.base);
  for (std::size_t d = 0; d < kRegularRank; ++d) ok = multiply(many.step[d], by, to.step[d]) && ok;
  return ok;
}
bool regular_div(Regular& to, const Regular* const* in, const Shape& s) {
  if (!one_quotient(in, s, to.base)) return false;
  to.step.fill(0);
  return true;
}
bool regular_rem(Regular& to, const Regular* const* in, const Shape& s) {
  std::int64_t quotient = 0;
  if (!one_quotient(in, s, quotient)) return false;
  to.base = in[0]->base - quotient * in[1]->base;
  to.step = in[0]->step;
  return true;
}
bool regular_same(Regular& to, const Regular* const* in, const Shape& /*s*/) {
  to.base = in[0]->base;
  to.step = in[0]->step;
  to.end = in[0]->end;
  return true;
}
bool regular_and(Regular& to, const Regular* const* in, const Shape& s) {
  bool any = true;
  for (std::size_t d = 0; d < at(s.rank); ++d) {
    to.step[d] = std::max(in[0]->step[d], in[1]->step[d]);
    to.end[d] = std::min(in[0]->end[d], in[1]->end[d]);
    any = any && to.step[d] < to.end[d];
  }
  if (!any) set_all(to, s, false);
  return true;
}
bool regular_add_scaled(Regular& to, const Regular* const* in, std::int64_t bytes) {
  bool ok = multiply(in[1]->base, bytes, to.base) && add(to.base, in[0]->base, to.base);
  for (std::size_t d = 0; d < kRegularRank; ++d) {
    ok = ok && multiply(in[1]->step[d], bytes, to.step[d]) &&
         add(to.step[d], in[0]->step[d], to.step[d]);
  }
  return ok;
}

RegularKernel regular_compare(std::int64_t predicate) {
  constexpr std::array<RegularKernel, 10> kAll = {
      compare<kEq>,  compare<kNe>,  compare<kSlt>, compare<kSle>, compare<kSgt>,
      compare<kSge>, compare<kUlt>, compare<kUle>, compare<kUgt>, compare<kUge>};
  return predicate < 0 || predicate >= std::ssize(kAll) ? nullptr
                                                        : kAll[static_cast<std::size_t>(predicate)];
}

}  // namespace tessera::program
