// Element types, and how a value of one becomes a value of another.
//
// Modelled: f64 f32 f16 bf16 f8e4m3fn f8e5m2, i64 i32 i16 i8 i4, u32 u8 u4, bool. Conversions to a
// float type round to nearest even; they agree bit for bit with ml_dtypes 0.6 (and numpy for f16),
// the oracle of tests/memory_model/dtype_tables_test.cpp. As there, a double or an integer reaches
// a type narrower than f32 through f32 (two roundings), except f16, which takes a double directly.
// Overflow gives infinity, or NaN in f8e4m3fn, which has none. A NaN becomes the quiet NaN of its
// sign. A float outside an integer's range saturates and NaN gives 0 (as XLA and CUDA do; C++
// leaves it undefined); integers wrap. i4 and u4 are packed two to a byte, the lower index in the
// low nibble, and counted packed.
//
// Left out: f4e2m1fn, e8m0 scales.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "memory_model/tessera_fn.hpp"

namespace tessera {

namespace detail {

/// Rounds f to a float format with `kMan` mantissa bits and `kExp` exponent bits.
/// kFinite: no infinities, the all-ones pattern is NaN (the "fn" formats).
template <int kExp, int kMan, bool kFinite>
TESSERA_FN constexpr std::uint32_t encode_small_float(float f) {
  constexpr int kBias = (1 << (kExp - 1)) - 1;
  constexpr std::uint32_t kInf = ((1u << kExp) - 1) << kMan;
  constexpr std::uint32_t kMax = kFinite ? (kInf | ((1u << kMan) - 2)) : kInf - 1;
  constexpr std::uint32_t kNan =
      kFinite ? (kInf | ((1u << kMan) - 1)) : (kInf | (1u << (kMan - 1)));
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (bits >> 31) << (kExp + kMan);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | kNan;
  if (magnitude == 0x7f800000u) return sign | (kFinite ? kNan : kInf);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;  // -127 for f32 subnormals
  // Units of the result's last place, as a shift of the 24-bit significand.
  int shift = 23 - kMan;
  const int smallest = 1 - kBias;
  if (exponent < smallest) shift += smallest - exponent;
  if (shift > 25) return sign;  // below half of the smallest subnormal
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
  if (result > kMax) return sign | (kFinite ? kNan : kInf);
  return sign | result;
}

template <int kExp, int kMan, bool kFinite>
TESSERA_FN constexpr float decode_small_float(std::uint32_t bits) {
  constexpr int kBias = (1 << (kExp - 1)) - 1;
  const std::uint32_t sign = (bits >> (kExp + kMan)) << 31;
  const std::uint32_t exponent = (bits >> kMan) & ((1u << kExp) - 1);
  const std::uint32_t mantissa = bits & ((1u << kMan) - 1);
  constexpr std::uint32_t kTop = (1u << kExp) - 1;
  if (exponent == kTop && !kFinite) {
    // numpy's f16 keeps a NaN's payload; ml_dtypes' fp8 does not.
    if (kMan == 2 && mantissa != 0) return std::bit_cast<float>(sign | 0x7fc00000u);
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << (23 - kMan)));
  }
  if (exponent == kTop && kFinite && mantissa == (1u << kMan) - 1) {
    return std::bit_cast<float>(sign | 0x7fc00000u);
  }
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
      : bits(static_cast<std::uint16_t>(detail::encode_small_float<5, 10, false>(f))) {}
  /// One rounding: the double is first rounded to f32 by "round to odd", which a later rounding to
  /// 11 bits cannot tell from the double itself (Boldo & Melquiond, doi:10.1109/TC.2007.70819).
  TESSERA_FN constexpr explicit f16(double d) : f16(round_to_odd(d)) {}
  TESSERA_FN constexpr explicit operator float() const {
    return detail::decode_small_float<5, 10, false>(bits);
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
      : bits(static_cast<std::uint8_t>(detail::encode_small_float<4, 3, true>(f))) {}
  TESSERA_FN constexpr explicit operator float() const {
    return detail::decode_small_float<4, 3, true>(bits);
  }
};

/// OCP 8-bit float, 5 exponent and 2 mantissa bits.
struct f8e5m2 {
  std::uint8_t bits = 0;
  f8e5m2() = default;
  TESSERA_FN constexpr explicit f8e5m2(float f)
      : bits(static_cast<std::uint8_t>(detail::encode_small_float<5, 2, false>(f))) {}
  TESSERA_FN constexpr explicit operator float() const {
    return detail::decode_small_float<5, 2, false>(bits);
  }
};

/// A four-bit integer, alone in its byte; arrays pack two (load_element, in array.hpp).
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

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3fn,
  f8e5m2,
  i64,
  i32,
  i16,
  i8,
  i4,
  u32,
  u8,
  u4,
  boolean
};
inline constexpr int kDTypes = 15;

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
    case DType::u32:
      return f(TypeTag<std::uint32_t>{});
    case DType::u8:
      return f(TypeTag<std::uint8_t>{});
    case DType::u4:
      return f(TypeTag<u4>{});
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
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return DType::u32;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, u4>)
    return DType::u4;
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
    case DType::i4:
    case DType::u4:
      return 4;
    default:
      return 8;
  }
}

/// Bytes of `elems` elements, sub-byte ones packed.
constexpr std::int64_t packed_bytes(DType d, std::int64_t elems) {
  return (elems * bit_width(d) + 7) / 8;
}

constexpr bool is_float(DType d) { return d <= DType::f8e5m2; }

constexpr const char* name(DType d) {
  constexpr const char* kNames[kDTypes] = {"f64",    "f32", "f16", "bf16", "f8e4m3fn",
                                           "f8e5m2", "i64", "i32", "i16",  "i8",
                                           "i4",     "u32", "u8",  "u4",   "bool"};
  return kNames[static_cast<int>(d)];
}

/// Floats that C++ has no built-in type for: arithmetic on them happens in f32.
template <class T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, bf16> || std::is_same_v<T, f16> ||
                                      std::is_same_v<T, f8e4m3fn> || std::is_same_v<T, f8e5m2>;
template <class T>
inline constexpr bool kIsFloat = kIsSmallFloat<T> || std::is_floating_point_v<T>;
template <class T>
inline constexpr bool kIsNibble = std::is_same_v<T, i4> || std::is_same_v<T, u4>;

/// The value of `from` in type To, by the rules at the top of this file.
template <class To, class From>
TESSERA_FN constexpr To convert(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (kIsNibble<From>) {
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
  } else if constexpr (kIsNibble<To>) {
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
