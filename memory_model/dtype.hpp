// Element types, and how a value of one becomes a value of another.
//
// Modelled: f64 f32 f16 bf16 f8e4m3fn f8e5m2 f8e4m3b11fnuz f8e8m0fnu f4e2m1fn, i64 i32 i16 i8 i4
// i2, u32 u8 u4 u2, bool. Conversions to a float type round to nearest even; they agree bit for bit
// with ml_dtypes 0.6 (and numpy for f16), the oracle of tests/memory_model/dtype_tables_test.cpp.
// As there, a double or an integer reaches a type narrower than f32 through f32 (two roundings),
// except f16, which takes a double directly. Overflow gives infinity; NaN in formats without
// infinities, the largest number in f4e2m1fn, which has no NaN either (one becomes a zero of the
// other sign). A NaN becomes the quiet NaN of its sign. f8e8m0fnu holds powers of two: halves round
// up, what is not positive is NaN. A float outside an integer's range saturates and NaN gives 0 (as
// XLA and CUDA do; C++ leaves it undefined); integers wrap. 4-bit types are packed two to a byte,
// 2-bit ones four, the lowest index in the lowest bits, and counted packed.
//
// Left out: f8e4m3, f8e3m4, the other fnuz formats.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "memory_model/tessera_fn.hpp"

namespace tessera {

namespace detail {

/// What the patterns with the largest exponent mean.
enum class Top {
  ieee,  ///< infinities and NaNs
  fn,    ///< numbers, but for the last, which is NaN
  none,  ///< numbers
  fnuz,  ///< numbers; NaN is the pattern of -0, which there is not
};

/// Rounds f to a float format with `kMan` mantissa bits and `kExp` exponent bits.
template <int kExp, int kMan, Top kTop, int kBias = (1 << (kExp - 1)) - 1>
TESSERA_FN constexpr std::uint32_t encode_small_float(float f) {
  constexpr std::uint32_t kInf = ((1u << kExp) - 1) << kMan;
  constexpr std::uint32_t kLast = (1u << (kExp + kMan)) - 1;
  constexpr std::uint32_t kMax = kTop == Top::ieee ? kInf - 1 : kTop == Top::fn ? kLast - 1 : kLast;
  constexpr std::uint32_t kNan = kTop == Top::ieee ? (kInf | (1u << (kMan - 1))) : kLast;
  constexpr std::uint32_t kSign = 1u << (kExp + kMan);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (bits >> 31) << (kExp + kMan);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    if (kTop == Top::fnuz) return kSign;
    return kTop == Top::none ? sign ^ kSign : sign | kNan;
  }
  const std::uint32_t beyond = kTop == Top::ieee   ? sign | kInf
                               : kTop == Top::fn   ? sign | kNan
                               : kTop == Top::none ? sign | kMax
                                                   : kSign;
  if (magnitude == 0x7f800000u) return beyond;
  const std::uint32_t zero = kTop == Top::fnuz ? 0u : sign;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;  // -127 for f32 subnormals
  // Units of the result's last place, as a shift of the 24-bit significand.
  int shift = 23 - kMan;
  const int smallest = 1 - kBias;
  if (exponent < smallest) shift += smallest - exponent;
  if (shift > 25) return zero;  // below half of the smallest subnormal
  const std::uint32_t significand =
      exponent == -127 ? (magnitude & 0x7fffffu) << 1 : (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t half = 1u << (shift - 1);
  const std::uint32_t lost = significand & ((1u << shift) - 1);
  std::uint32_t kept = significand >> shift;
  if (lost > half || (lost == half && (kept & 1u))) ++kept;
  // A carry out of the significand lands in the exponent, where it belongs.
  const std::uint32_t base =
      exponent < smallest ? 0u : static_cast<std::uint32_t>(exponent + kBias - 1) << kMan;
  const std::uint32_t result = base + kept;
  if (result > kMax) return beyond;
  return result == 0 ? zero : sign | result;
}

template <int kExp, int kMan, Top kTop, int kBias = (1 << (kExp - 1)) - 1>
TESSERA_FN constexpr float decode_small_float(std::uint32_t bits) {
  const std::uint32_t sign = (bits >> (kExp + kMan)) << 31;
  const std::uint32_t exponent = (bits >> kMan) & ((1u << kExp) - 1);
  const std::uint32_t mantissa = bits & ((1u << kMan) - 1);
  constexpr std::uint32_t kLargest = (1u << kExp) - 1;
  if (exponent == kLargest && kTop == Top::ieee) {
    // numpy's f16 keeps a NaN's payload; ml_dtypes' fp8 does not.
    if (kMan == 2 && mantissa != 0) return std::bit_cast<float>(sign | 0x7fc00000u);
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << (23 - kMan)));
  }
  if (exponent == kLargest && kTop == Top::fn && mantissa == (1u << kMan) - 1) {
    return std::bit_cast<float>(sign | 0x7fc00000u);
  }
  if (kTop == Top::fnuz && bits == 1u << (kExp + kMan)) return std::bit_cast<float>(0xffc00000u);
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 127 - kBias) << 23) |
                                (mantissa << (23 - kMan)));
  }
  // Subnormal: mantissa x 2^(1 - bias - kMan), exact in f32.
  const float unit = std::bit_cast<float>(static_cast<std::uint32_t>(1 - kBias - kMan + 127) << 23);
  const float value = static_cast<float>(mantissa) * unit;
  return sign != 0 ? -value : value;
}

}  // namespace detail

/// The upper half of an f32.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  TESSERA_FN constexpr explicit bf16(float f) {
    const auto u = std::bit_cast<std::uint32_t>(f);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t nan = 0x7fc0u | ((u >> 16) & 0x8000u);
    bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
  TESSERA_FN constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  TESSERA_FN constexpr explicit f16(float f)
      : bits(static_cast<std::uint16_t>(detail::encode_small_float<5, 10, detail::Top::ieee>(f))) {}
  /// One rounding: the double is first rounded to f32 by "round to odd", which a later rounding to
  /// 11 bits cannot tell from the double itself (Boldo & Melquiond, doi:10.1109/TC.2007.70819).
  TESSERA_FN constexpr explicit f16(double d) : f16(round_to_odd(d)) {}
  TESSERA_FN constexpr explicit operator float() const {
    return detail::decode_small_float<5, 10, detail::Top::ieee>(bits);
  }

 private:
  TESSERA_FN static constexpr float round_to_odd(double d) {
    const auto nearest = static_cast<float>(d);
    const auto u = std::bit_cast<std::uint32_t>(nearest);
    if (nearest != nearest || static_cast<double>(nearest) == d || (u & 1u) != 0) return nearest;
    if ((u & 0x7fffffffu) == 0x7f800000u) return nearest;
    const bool away =
        nearest < 0 ? static_cast<double>(nearest) < d : static_cast<double>(nearest) > d;
    if (u == 0x80000000u || u == 0) return std::bit_cast<float>((u & 0x80000000u) | 1u);
    return std::bit_cast<float>(away ? u - 1 : u + 1);
  }
};

/// OCP 8-bit float, 4 exponent and 3 mantissa bits, no infinities; NaN is 0x7f.
struct f8e4m3fn {
  std::uint8_t bits = 0;
  f8e4m3fn() = default;
  TESSERA_FN constexpr explicit f8e4m3fn(float f)
      : bits(static_cast<std::uint8_t>(detail::encode_small_float<4, 3, detail::Top::fn>(f))) {}
  TESSERA_FN constexpr explicit operator float() const {
    return detail::decode_small_float<4, 3, detail::Top::fn>(bits);
  }
};

/// OCP 8-bit float, 5 exponent and 2 mantissa bits.
struct f8e5m2 {
  std::uint8_t bits = 0;
  f8e5m2() = default;
  TESSERA_FN constexpr explicit f8e5m2(float f)
      : bits(static_cast<std::uint8_t>(detail::encode_small_float<5, 2, detail::Top::ieee>(f))) {}
  TESSERA_FN constexpr explicit operator float() const {
    return detail::decode_small_float<5, 2, detail::Top::ieee>(bits);
  }
};

/// 8-bit float, 4 exponent bits with bias 11 and 3 mantissa bits, no infinities, no -0; NaN is
/// 0x80.
struct f8e4m3b11fnuz {
  std::uint8_t bits = 0;
  f8e4m3b11fnuz() = default;
  TESSERA_FN constexpr explicit f8e4m3b11fnuz(float f)
      : bits(
            static_cast<std::uint8_t>(detail::encode_small_float<4, 3, detail::Top::fnuz, 11>(f))) {
  }
  TESSERA_FN constexpr explicit operator float() const {
    return detail::decode_small_float<4, 3, detail::Top::fnuz, 11>(bits);
  }
};

/// OCP scale of microscaling formats: 2^(bits - 127), NaN is 0xff.
struct f8e8m0fnu {
  std::uint8_t bits = 0;
  f8e8m0fnu() = default;
  TESSERA_FN constexpr explicit f8e8m0fnu(float f) {
    const auto u = std::bit_cast<std::uint32_t>(f);
    // A carry out of the mantissa's upper bit is the next power. 0x400000 is 2^-127; what is
    // between that and 2^-126 rounds up, as in ml_dtypes.
    const std::uint32_t rounded = (u + 0x400000u) >> 23;
    const bool positive = u > 0 && u < 0x7f800000u;
    bits = static_cast<std::uint8_t>(!positive ? 0xffu : u <= 0x400000u ? 0u : rounded);
  }
  TESSERA_FN constexpr explicit operator float() const {
    if (bits == 0xff) return std::bit_cast<float>(0x7fc00000u);
    return std::bit_cast<float>(bits == 0 ? 0x400000u : static_cast<std::uint32_t>(bits) << 23);
  }
};

/// OCP 4-bit float, 2 exponent bits and 1 mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6. As i4, alone in
/// its byte.
struct f4e2m1fn {
  std::uint8_t bits = 0;
  f4e2m1fn() = default;
  TESSERA_FN constexpr explicit f4e2m1fn(float f)
      : bits(static_cast<std::uint8_t>(detail::encode_small_float<2, 1, detail::Top::none>(f))) {}
  TESSERA_FN constexpr explicit operator float() const {
    return detail::decode_small_float<2, 1, detail::Top::none>(bits);
  }
};

/// Integers of four and of two bits, alone in their byte; arrays pack them (load_element, in
/// array.hpp).
struct i4 {
  std::int8_t value = 0;
  i4() = default;
  TESSERA_FN constexpr explicit i4(std::int64_t v)
      : value(static_cast<std::int8_t>(static_cast<std::int8_t>(v << 4) >> 4)) {}
  TESSERA_FN constexpr explicit operator std::int64_t() const { return value; }
};
struct u4 {
  std::uint8_t value = 0;
  u4() = default;
  TESSERA_FN constexpr explicit u4(std::int64_t v) : value(static_cast<std::uint8_t>(v & 15)) {}
  TESSERA_FN constexpr explicit operator std::int64_t() const { return value; }
};
struct i2 {
  std::int8_t value = 0;
  i2() = default;
  TESSERA_FN constexpr explicit i2(std::int64_t v)
      : value(static_cast<std::int8_t>(static_cast<std::int8_t>(v << 6) >> 6)) {}
  TESSERA_FN constexpr explicit operator std::int64_t() const { return value; }
};
struct u2 {
  std::uint8_t value = 0;
  u2() = default;
  TESSERA_FN constexpr explicit u2(std::int64_t v) : value(static_cast<std::uint8_t>(v & 3)) {}
  TESSERA_FN constexpr explicit operator std::int64_t() const { return value; }
};

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3fn,
  f8e5m2,
  f8e4m3b11fnuz,
  f8e8m0fnu,
  f4e2m1fn,
  i64,
  i32,
  i16,
  i8,
  i4,
  i2,
  u32,
  u8,
  u4,
  u2,
  boolean
};
inline constexpr int kDTypes = 20;

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls f with TypeTag<element type of d>.
template <class F>
constexpr decltype(auto) visit_dtype(DType d, F&& f) {
  switch (d) {
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f16:
      return f(TypeTag<f16>{});
    case DType::bf16:
      return f(TypeTag<bf16>{});
    case DType::f8e4m3fn:
      return f(TypeTag<f8e4m3fn>{});
    case DType::f8e5m2:
      return f(TypeTag<f8e5m2>{});
    case DType::f8e4m3b11fnuz:
      return f(TypeTag<f8e4m3b11fnuz>{});
    case DType::f8e8m0fnu:
      return f(TypeTag<f8e8m0fnu>{});
    case DType::f4e2m1fn:
      return f(TypeTag<f4e2m1fn>{});
    case DType::i64:
      return f(TypeTag<std::int64_t>{});
    case DType::i32:
      return f(TypeTag<std::int32_t>{});
    case DType::i16:
      return f(TypeTag<std::int16_t>{});
    case DType::i8:
      return f(TypeTag<std::int8_t>{});
    case DType::i4:
      return f(TypeTag<i4>{});
    case DType::i2:
      return f(TypeTag<i2>{});
    case DType::u32:
      return f(TypeTag<std::uint32_t>{});
    case DType::u8:
      return f(TypeTag<std::uint8_t>{});
    case DType::u4:
      return f(TypeTag<u4>{});
    case DType::u2:
      return f(TypeTag<u2>{});
    case DType::boolean:
      break;
  }
  return f(TypeTag<bool>{});
}

template <class T>
inline constexpr DType kDTypeOf = [] {
  if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, f16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, f8e4m3fn>)
    return DType::f8e4m3fn;
  else if constexpr (std::is_same_v<T, f8e5m2>)
    return DType::f8e5m2;
  else if constexpr (std::is_same_v<T, f8e4m3b11fnuz>)
    return DType::f8e4m3b11fnuz;
  else if constexpr (std::is_same_v<T, f8e8m0fnu>)
    return DType::f8e8m0fnu;
  else if constexpr (std::is_same_v<T, f4e2m1fn>)
    return DType::f4e2m1fn;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return DType::i16;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return DType::i8;
  else if constexpr (std::is_same_v<T, i4>)
    return DType::i4;
  else if constexpr (std::is_same_v<T, i2>)
    return DType::i2;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return DType::u32;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, u4>)
    return DType::u4;
  else if constexpr (std::is_same_v<T, u2>)
    return DType::u2;
  else {
    static_assert(std::is_same_v<T, bool>, "not an element type of tessera");
    return DType::boolean;
  }
}();

constexpr int bit_width(DType d) {
  switch (d) {
    case DType::f64:
    case DType::i64:
      return 64;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 32;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 16;
    case DType::f4e2m1fn:
    case DType::i4:
    case DType::u4:
      return 4;
    case DType::i2:
    case DType::u2:
      return 2;
    default:
      return 8;
  }
}

/// Bytes of `elems` elements, sub-byte ones packed.
constexpr std::int64_t packed_bytes(DType d, std::int64_t elems) {
  return (elems * bit_width(d) + 7) / 8;
}

constexpr bool is_float(DType d) { return d <= DType::f4e2m1fn; }

constexpr const char* name(DType d) {
  constexpr const char* kNames[kDTypes] = {
      "f64",       "f32",      "f16", "bf16", "f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz",
      "f8e8m0fnu", "f4e2m1fn", "i64", "i32",  "i16",      "i8",     "i4",
      "i2",        "u32",      "u8",  "u4",   "u2",       "bool"};
  return kNames[static_cast<int>(d)];
}

/// Floats that C++ has no built-in type for: arithmetic on them happens in f32.
template <class T>
inline constexpr bool kIsSmallFloat =
    std::is_same_v<T, bf16> || std::is_same_v<T, f16> || std::is_same_v<T, f8e4m3fn> ||
    std::is_same_v<T, f8e5m2> || std::is_same_v<T, f8e4m3b11fnuz> || std::is_same_v<T, f8e8m0fnu> ||
    std::is_same_v<T, f4e2m1fn>;
template <class T>
inline constexpr bool kIsFloat = kIsSmallFloat<T> || std::is_floating_point_v<T>;
/// Integers that C++ has no built-in type for.
template <class T>
inline constexpr bool kIsSmallInt = std::is_same_v<T, i4> || std::is_same_v<T, u4> ||
                                    std::is_same_v<T, i2> || std::is_same_v<T, u2>;
/// Several to a byte in arrays.
template <class T>
inline constexpr bool kIsPacked = kIsSmallInt<T> || std::is_same_v<T, f4e2m1fn>;
/// Of the patterns of a packed type.
template <class T>
inline constexpr unsigned kPatternMask = (1u << bit_width(kDTypeOf<T>)) - 1;

/// The pattern of a packed element, and the element of a pattern.
template <class T>
TESSERA_FN constexpr unsigned pattern_of(T v) {
  if constexpr (kIsSmallInt<T>)
    return static_cast<unsigned>(v.value) & kPatternMask<T>;
  else
    return v.bits;
}
template <class T>
TESSERA_FN constexpr T from_pattern(unsigned pattern) {
  if constexpr (kIsSmallInt<T>) {
    return T(static_cast<std::int64_t>(pattern));
  } else {
    T v;
    v.bits = static_cast<std::uint8_t>(pattern);
    return v;
  }
}

/// The value of `from` in type To, by the rules at the top of this file.
template <class To, class From>
TESSERA_FN constexpr To convert(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (kIsSmallInt<From>) {
    return convert<To>(static_cast<std::int64_t>(from));
  } else if constexpr (kIsSmallFloat<From>) {
    return convert<To>(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != From(0);
  } else if constexpr (std::is_same_v<To, f16> && std::is_same_v<From, double>) {
    return f16(from);
  } else if constexpr (std::is_same_v<To, f16> && std::is_integral_v<From>) {
    return f16(static_cast<double>(from));
  } else if constexpr (kIsSmallFloat<To>) {
    return To(static_cast<float>(from));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(from);
  } else if constexpr (kIsSmallInt<To> && std::is_floating_point_v<From>) {
    constexpr int kHalf = 1 << (bit_width(kDTypeOf<To>) - 1);
    constexpr bool kSigned = std::is_signed_v<decltype(To::value)>;
    const std::int64_t least = kSigned ? -kHalf : 0;
    const std::int64_t v = convert<std::int64_t>(from);
    return To(v < least ? least : v >= least + 2 * kHalf ? least + 2 * kHalf - 1 : v);
  } else if constexpr (kIsSmallInt<To>) {
    return To(convert<std::int64_t>(from));
  } else if constexpr (std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<To>;
    if (from != from) return To(0);
    if (from <= static_cast<From>(Limits::min())) return Limits::min();
    if (from >= static_cast<From>(Limits::max())) return Limits::max();
    return static_cast<To>(from);
  } else {
    return static_cast<To>(from);
  }
}

}  // namespace tessera
