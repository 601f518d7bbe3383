#include "mosaic/number.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "mosaic/types.hpp"

namespace tessera::mosaic {

namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

struct Range {
  std::int64_t lo;
  std::int64_t hi;
};
Range of_corners(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return {std::min({a, b, c, d}), std::max({a, b, c, d})};
}
/// Where the result lies; an i32 that may wrap lies anywhere.
Range range_of(Arithmetic op, Number a, Number b) {
  Range r{kLeast, kMost};
  switch (op) {
    case Arithmetic::add:
      r = {a.lo + b.lo, a.hi + b.hi};
      break;
    case Arithmetic::subtract:
      r = {a.lo - b.hi, a.hi - b.lo};
      break;
    case Arithmetic::multiply:
      r = of_corners(a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi);
      break;
    case Arithmetic::divide:
      if (b.lo > 0) r = of_corners(a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi);
      break;
    case Arithmetic::remainder:
      if (b.lo > 0) r = {a.lo < 0 ? 1 - b.hi : 0, a.hi > 0 ? b.hi - 1 : 0};
      break;
    case Arithmetic::least:
      r = {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      break;
    case Arithmetic::most:
      r = {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      break;
  }
  return r.lo < kLeast || r.hi > kMost ? Range{kLeast, kMost} : r;
}

const char* name_of(Arithmetic op) {
  constexpr const char* kNames[] = {"arith.addi",  "arith.subi",  "arith.muli", "arith.divsi",
                                    "arith.remsi", "arith.minsi", "arith.maxsi"};
  return kNames[static_cast<int>(op)];
}
std::string predicate(Comparison op) {
  constexpr int kPredicates[] = {0, 1, 2, 3, 4, 5};  // eq, ne, slt, sle, sgt, sge
  return "predicate = " + std::to_string(kPredicates[static_cast<int>(op)]) + " : i64";
}

/// The one of the two that is the result for certain, or null.
const Number* unchanged(Arithmetic op, const Number& a, const Number& b) {
  const auto is = [](const Number& n, std::int64_t v) { return n.known() && n.lo == v; };
  switch (op) {
    case Arithmetic::add:
      return is(a, 0) ? &b : is(b, 0) ? &a : nullptr;
    case Arithmetic::subtract:
      return is(b, 0) ? &a : nullptr;
    case Arithmetic::multiply:
      return is(a, 1) || is(b, 0) ? &b : is(b, 1) || is(a, 0) ? &a : nullptr;
    case Arithmetic::divide:
      return is(b, 1) ? &a : nullptr;
    case Arithmetic::remainder:
      return a.lo >= 0 && b.lo > a.hi ? &a : nullptr;
    case Arithmetic::least:
      return a.hi <= b.lo ? &a : b.hi <= a.lo ? &b : nullptr;
    case Arithmetic::most:
      return a.lo >= b.hi ? &a : b.lo >= a.hi ? &b : nullptr;
  }
  return nullptr;
}

std::string lanes_type(int rows, int cols) { return vector_type({rows, cols}, "i32"); }
std::string mask_type(int rows, int cols) { return vector_type({rows, cols}, "i1"); }

}  // namespace

Value Number::i32() const {
  return known() ? trace().constant(std::to_string(lo) + " : i32", "i32") : value;
}
Value Number::index() const {
  if (known()) return trace().constant(std::to_string(lo) + " : index", "index");
  return trace().record("arith.index_cast", {value}, "", "index");
}

Value Number::word_of(const void* data, int size, const char* name, const char* type) const {
  if (known() && (lo < 0 || lo >= size)) fail_scalar_index(name, lo, size);
  for (const PrefetchedArray& a : trace().prefetched) {
    if (a.data == data && a.size == size && size > 0)
      return trace().record("memref.load", {a.memref, index()}, "", type);
  }
  refuse(std::string("an element of ") + name +
         ", which the spec does not list as scalars (or which is empty)");
}
Number Number::load(const int* data, int size, const char* name) const {
  if (known() && lo >= 0 && lo < size) return mosaic::known(data[lo]);
  const Value element = word_of(data, size, name, "i32");
  const auto [least, most] = std::minmax_element(data, data + size);
  return {element, *least, *most};
}
void refuse_elements(const char* array, DType dtype) {
  refuse(std::string("the prefetched array ") + array + " of " + tessera::name(dtype) +
         ": in the TPU build SMEM holds i32 and f32");
}

Value Truth::i1() const {
  return is_known ? trace().constant(known_value ? "true" : "false", "i1") : value;
}

Number compute(Arithmetic op, Number a, Number b) {
  if (const Number* same = unchanged(op, a, b)) return *same;
  const Range r = range_of(op, a, b);
  if (r.lo == r.hi) return known(r.lo);
  return {trace().record(name_of(op), {a.i32(), b.i32()}, "", "i32"), r.lo, r.hi};
}

Truth compare(Comparison op, Number a, Number b) {
  const bool same = a.value != kNoValue && a.value == b.value;
  switch (op) {
    case Comparison::equal:
    case Comparison::not_equal:
      if (same) return known_truth(op == Comparison::equal);
      if (a.hi < b.lo || b.hi < a.lo) return known_truth(op == Comparison::not_equal);
      if (a.known() && b.known()) return known_truth(op == Comparison::equal);
      break;
    case Comparison::less:
      if (a.hi < b.lo || a.lo >= b.hi) return known_truth(a.hi < b.lo);
      break;
    case Comparison::less_equal:
      if (a.hi <= b.lo || a.lo > b.hi) return known_truth(a.hi <= b.lo);
      break;
    case Comparison::greater:
      return compare(Comparison::less, b, a);
    case Comparison::greater_equal:
      return compare(Comparison::less_equal, b, a);
  }
  return {trace().record("arith.cmpi", {a.i32(), b.i32()}, predicate(op), "i1"), false, false};
}

Truth both(Truth a, Truth b) {
  if (a.is_known) return a.known_value ? b : a;
  if (b.is_known) return b.known_value ? a : b;
  return {trace().record("arith.andi", {a.value, b.value}, "", "i1"), false, false};
}
Truth either(Truth a, Truth b) {
  if (a.is_known) return a.known_value ? a : b;
  if (b.is_known) return b.known_value ? b : a;
  return {trace().record("arith.ori", {a.value, b.value}, "", "i1"), false, false};
}
Truth negated(Truth a) {
  if (a.is_known) return known_truth(!a.known_value);
  return {trace().record("arith.xori", {a.value, known_truth(true).i1()}, "", "i1"), false, false};
}

Lanes spread(Number n, int rows, int cols) {
  const std::string type = lanes_type(rows, cols);
  if (n.known())
    return {trace().constant("dense<" + std::to_string(n.lo) + "> : " + type, type), rows, cols};
  return {trace().record("vector.broadcast", {n.value}, "", type), rows, cols};
}
LaneMask spread(Truth t, int rows, int cols) {
  const std::string type = mask_type(rows, cols);
  if (t.is_known)
    return {trace().constant(
                std::string("dense<") + (t.known_value ? "true" : "false") + "> : " + type, type),
            rows, cols};
  return {trace().record("vector.broadcast", {t.value}, "", type), rows, cols};
}
Lanes compute(Arithmetic op, Lanes a, Lanes b) {
  return {trace().record(name_of(op), {a.value, b.value}, "", lanes_type(a.rows, a.cols)), a.rows,
          a.cols};
}
LaneMask compare(Comparison op, Lanes a, Lanes b) {
  return {
      trace().record("arith.cmpi", {a.value, b.value}, predicate(op), mask_type(a.rows, a.cols)),
      a.rows, a.cols};
}
LaneMask both(LaneMask a, LaneMask b) {
  return {trace().record("arith.andi", {a.value, b.value}, "", mask_type(a.rows, a.cols)), a.rows,
          a.cols};
}
LaneMask either(LaneMask a, LaneMask b) {
  return {trace().record("arith.ori", {a.value, b.value}, "", mask_type(a.rows, a.cols)), a.rows,
          a.cols};
}
LaneMask negated(LaneMask a) {
  const LaneMask all = spread(known_truth(true), a.rows, a.cols);
  return {trace().record("arith.xori", {a.value, all.value}, "", mask_type(a.rows, a.cols)), a.rows,
          a.cols};
}

Lanes row_numbers(int rows, int cols) {
  return {trace().record("tpu.iota", {}, "dimensions = array<i32: 0>", lanes_type(rows, cols)),
          rows, cols};
}
Lanes col_numbers(int rows, int cols) {
  return {trace().record("tpu.iota", {}, "dimensions = array<i32: 1>", lanes_type(rows, cols)),
          rows, cols};
}

}  // namespace tessera::mosaic
