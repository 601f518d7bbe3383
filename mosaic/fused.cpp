#include "mosaic/fused.hpp"

#include <cstdint>

namespace tessera::mosaic {

namespace {

/// 32 bits of every element.
struct Word {
  AnyTile tile;
};
struct Mask {
  Value value;
};

AnyTile made(const AnyTile& like, const char* op, std::vector<Value> operands, DType dtype,
             const char* attributes = "") {
  AnyTile t = like;
  t.dtype = dtype;
  t.value = trace().record(op, std::move(operands), attributes, type_of(like, dtype));
  return t;
}
Word word(const Word& like, std::uint32_t bits) {
  return {filled(bits, DType::u32, like.tile.rows, like.tile.cols)};
}
Word binary(const char* op, const Word& a, const Word& b) {
  return {made(a.tile, op, {a.tile.value, b.tile.value}, DType::i32)};
}

Word operator+(const Word& a, const Word& b) { return binary("arith.addi", a, b); }
Word operator-(const Word& a, const Word& b) { return binary("arith.subi", a, b); }
Word operator*(const Word& a, const Word& b) { return binary("arith.muli", a, b); }
Word operator&(const Word& a, const Word& b) { return binary("arith.andi", a, b); }
Word operator|(const Word& a, const Word& b) { return binary("arith.ori", a, b); }
Word operator^(const Word& a, const Word& b) { return binary("arith.xori", a, b); }
Word operator<<(const Word& a, const Word& b) { return binary("arith.shli", a, b); }
Word operator>>(const Word& a, const Word& b) { return binary("arith.shrui", a, b); }
Word operator+(const Word& a, std::uint32_t b) { return a + word(a, b); }
Word operator-(const Word& a, std::uint32_t b) { return a - word(a, b); }
Word operator&(const Word& a, std::uint32_t b) { return a & word(a, b); }
Word operator|(const Word& a, std::uint32_t b) { return a | word(a, b); }
Word operator<<(const Word& a, std::uint32_t b) { return a << word(a, b); }
Word operator>>(const Word& a, std::uint32_t b) { return a >> word(a, b); }

Mask compared(const char* predicate, const Word& a, const Word& b) {
  return {
      made(a.tile, "arith.cmpi", {a.tile.value, b.tile.value}, DType::boolean, predicate).value};
}
Mask is(const Word& a, std::uint32_t b) { return compared("predicate = 0 : i64", a, word(a, b)); }
/// With a sign.
Mask less(const Word& a, const Word& b) { return compared("predicate = 2 : i64", a, b); }
Mask less(const Word& a, std::int32_t b) { return less(a, word(a, static_cast<std::uint32_t>(b))); }
/// Without.
Mask below(const Word& a, const Word& b) { return compared("predicate = 6 : i64", a, b); }

Word pick(Mask m, const Word& a, const Word& b) {
  return {made(a.tile, "arith.select", {m.value, a.tile.value, b.tile.value}, DType::i32)};
}
Word pick(Mask m, std::uint32_t a, const Word& b) { return pick(m, word(b, a), b); }
Word one_if(Mask m, const Word& like) { return pick(m, 1, word(like, 0)); }
/// 1 in the last bit, if a is not 0.
Word sticky(const Word& a) { return pick(is(a, 0), 0, word(a, 1)); }

struct Wide {
  Word high;
  Word low;
};
Wide pick(Mask m, const Wide& a, const Wide& b) {
  return {pick(m, a.high, b.high), pick(m, a.low, b.low)};
}
Wide operator+(const Wide& a, const Wide& b) {
  const Word low = a.low + b.low;
  return {a.high + b.high + one_if(below(low, a.low), low), low};
}
Wide operator-(const Wide& a, const Wide& b) {
  return {a.high - b.high - one_if(below(a.low, b.low), a.low), a.low - b.low};
}
/// Down by n, 0 to 63; the last bit says whether anything was lost.
Wide shifted_down(const Wide& a, const Word& n) {
  const Word k = n & 31;
  const Mask by_a_word = less(word(n, 31), n);
  const Word mask = (word(n, 1) << k) - 1;
  const Word high = a.high >> k;
  const Word across = (a.high << 1) << (word(k, 31) - k);
  const Word low = pick(by_a_word, high, (a.low >> k) | across);
  const Word lost = pick(by_a_word, a.low | (a.high & mask), a.low & mask);
  return {pick(by_a_word, 0, high), low | sticky(lost)};
}

/// A number that is not 0, infinite or NaN: significand * 2^(exponent - 150), 24 bits of it.
struct Parts {
  Word exponent;
  Word significand;
};

AnyTile floats(const char* op, const AnyTile& a, const AnyTile& b) {
  return made(a, op, {a.value, b.value}, DType::f32);
}
Word bits_of(const AnyTile& a) { return {made(a, "arith.bitcast", {a.value}, DType::i32)}; }
AnyTile number_of(const Word& bits) {
  return made(bits.tile, "arith.bitcast", {bits.tile.value}, DType::f32);
}

Parts parts_of(const AnyTile& a) {
  // Subnormal numbers through normal ones: 2^24 times as large.
  const AnyTile larger = floats("arith.mulf", a, filled(0x1p24, DType::f32, a.rows, a.cols));
  const Word bits = bits_of(a);
  const Mask subnormal = is(bits & 0x7f800000, 0);
  const Word normal = pick(subnormal, bits_of(larger), bits);
  const Word scaled_by = pick(subnormal, 24, word(bits, 0));
  return {((normal >> 23) & 255) - scaled_by, (normal & 0x7fffff) | 0x800000};
}

}  // namespace

AnyTile fused_multiply_add(const AnyTile& a, const AnyTile& b, const AnyTile& c) {
  const Parts x = parts_of(a);
  const Parts y = parts_of(b);
  const Parts z = parts_of(c);
  const Word sign = (bits_of(a) ^ bits_of(b)) & 0x80000000;
  const Word other_sign = bits_of(c) & 0x80000000;

  // The product's 48 bits, from halves of 12: 24 of them in each of two words.
  const Word x_high = x.significand >> 12;
  const Word x_low = x.significand & 0xfff;
  const Word y_high = y.significand >> 12;
  const Word y_low = y.significand & 0xfff;
  const Word middle = x_high * y_low + x_low * y_high;
  const Word lower = x_low * y_low + ((middle & 0xfff) << 12);
  const Word upper = x_high * y_high + (middle >> 12) + (lower >> 24);
  // Both in 62 of 64 bits: product * 2^(its exponents' sum - 314), addend * 2^(exponent - 188).
  const Word lower_bits = lower & 0xffffff;
  const Wide product{(upper << 6) | (lower_bits >> 18), lower_bits << 14};
  const Wide addend{z.significand << 6, word(z.significand, 0)};
  const Word product_unit = x.exponent + y.exponent - 314;
  const Word addend_unit = z.exponent - 188;

  // The one whose last bit counts less goes down. What it loses lies far below the sum's 24 bits:
  // 14 bits of the product and 38 of the addend are zeros.
  const Word apart = product_unit - addend_unit;
  const Mask product_is_finer = less(apart, 0);
  const Word distance = pick(product_is_finer, word(apart, 0) - apart, apart);
  const Word by = pick(less(distance, 63), distance, word(distance, 63));
  const Wide moved = shifted_down(pick(product_is_finer, product, addend), by);
  const Wide left = pick(product_is_finer, moved, product);
  const Wide right = pick(product_is_finer, addend, moved);
  Word unit = pick(product_is_finer, addend_unit, product_unit);

  const Mask alike = is(sign ^ other_sign, 0);
  const Wide difference = left - right;
  const Mask turned = less(difference.high, 0);
  const Wide zero{word(sign, 0), word(sign, 0)};
  const Wide magnitude = pick(turned, zero - difference, difference);
  Wide sum = pick(alike, left + right, magnitude);
  const Word its_sign = pick(alike, sign, pick(turned, other_sign, sign));
  const Mask nothing = is(sum.high | sum.low, 0);

  // Its first bit to the top.
  const Mask in_low = is(sum.high, 0);
  sum = pick(in_low, Wide{sum.low, word(sum.low, 0)}, sum);
  unit = pick(in_low, unit - 32, unit);
  for (std::uint32_t n = 16; n > 0; n /= 2) {
    const Mask small = is(sum.high >> (32 - n), 0);
    sum = pick(small, Wide{(sum.high << n) | (sum.low >> (32 - n)), sum.low << n}, sum);
    unit = pick(small, unit - n, unit);
  }

  // 24 bits and 8 to round by; fewer of a subnormal one.
  const Word exponent = unit + 190;
  const Word all = sum.high | sticky(sum.low);
  const Mask subnormal = less(exponent, 1);
  const Word missing = word(exponent, 1) - exponent;
  const Word down = pick(less(missing, 31), missing, word(missing, 31));
  const Word lost = all & ((word(down, 1) << down) - 1);
  const Word kept = pick(subnormal, (all >> down) | sticky(lost), all);
  const Word rest = kept & 255;
  const Word even = kept >> 8;
  const Word up = pick(less(rest, 128), 0, pick(less(word(rest, 128), rest), 1, even & 1));
  const Word biased = pick(subnormal, 0, exponent - 1);
  const Word rounded =
      pick(less(exponent, 255), even + up + (biased << 23), word(exponent, 0x7f800000));
  const Word general = pick(nothing, 0, rounded | its_sign);

  // What the parts do not say. Then a product and a sum round once too.
  const AnyTile plain_product = floats("arith.mulf", a, b);
  const AnyTile plain = floats("arith.addf", plain_product, c);
  const auto magnitude_of = [](const AnyTile& t) { return bits_of(t) & 0x7fffffff; };
  const auto special = [&](const AnyTile& t) {
    const Word m = magnitude_of(t);
    return sticky(one_if(is(m, 0), m) | one_if(less(word(m, 0x7f7fffff), m), m));
  };
  const Word c_size = magnitude_of(c);
  const Word with_zero = pick(is(c_size, 0), bits_of(plain_product), general);
  const Word with_infinity =
      pick(less(word(c_size, 0x7f7fffff), c_size), bits_of(floats("arith.addf", c, c)), with_zero);
  return number_of(pick(is(special(a) | special(b), 0), with_infinity, bits_of(plain)));
}

}  // namespace tessera::mosaic
