#include "mosaic/tile.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "mosaic/fused.hpp"
#include "mosaic/types.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/mul.hpp"

namespace tessera::mosaic {

std::string type_of(const AnyTile& t, DType dtype) {
  return vector_type({t.rows, t.cols}, element_type(dtype));
}

namespace {

std::string type_of(const AnyTile& t) { return type_of(t, t.dtype); }

AnyTile with(const AnyTile& t, Value value, DType dtype) {
  return {value, t.rows, t.cols, dtype, 0};
}

bool is_small(DType d) { return is_float(d) && bit_width(d) < 32; }

struct Integer {
  const char* name;
  const char* attributes;
};
/// The operation on integers beside that on floats.
const std::map<std::string_view, Integer>& integers() {
  static const std::map<std::string_view, Integer> names{
      {"add", {"arith.addi", ""}},
      {"sub", {"arith.subi", ""}},
      {"mul", {"arith.muli", ""}},
      {"div", {"arith.divsi", ""}},
      {"max", {"arith.maxsi", ""}},
      {"min", {"arith.minsi", ""}},
      {"abs", {"math.absi", ""}},
      {"equal", {"arith.cmpi", "predicate = 0 : i64"}},
      {"not_equal", {"arith.cmpi", "predicate = 1 : i64"}},
      {"less", {"arith.cmpi", "predicate = 2 : i64"}},
      {"less_equal", {"arith.cmpi", "predicate = 3 : i64"}},
      {"greater", {"arith.cmpi", "predicate = 4 : i64"}},
      {"greater_equal", {"arith.cmpi", "predicate = 5 : i64"}},
      {"and", {"arith.andi", ""}},
      {"or", {"arith.ori", ""}},
      {"not", {"arith.xori", ""}},
      {"where", {"arith.select", ""}},
      {"bit_and", {"arith.andi", ""}},
      {"bit_or", {"arith.ori", ""}},
      {"bit_xor", {"arith.xori", ""}},
      {"rem", {"arith.remsi", ""}},
      {"shift_left", {"arith.shli", ""}},
      {"shift_right", {"arith.shrsi", ""}},
  };
  return names;
}
/// Of integers without a sign, where it is another one.
const std::map<std::string_view, Integer>& unsigned_integers() {
  static const std::map<std::string_view, Integer> names{
      {"div", {"arith.divui", ""}},
      {"max", {"arith.maxui", ""}},
      {"min", {"arith.minui", ""}},
      {"rem", {"arith.remui", ""}},
      {"shift_right", {"arith.shrui", ""}},
      {"less", {"arith.cmpi", "predicate = 6 : i64"}},
      {"less_equal", {"arith.cmpi", "predicate = 7 : i64"}},
      {"greater", {"arith.cmpi", "predicate = 8 : i64"}},
      {"greater_equal", {"arith.cmpi", "predicate = 9 : i64"}},
  };
  return names;
}
/// Null if no single operation means it.
const Integer* integer_operation(std::string_view op, DType dtype) {
  if (is_unsigned(dtype)) {
    const auto at = unsigned_integers().find(op);
    if (at != unsigned_integers().end()) return &at->second;
  }
  const auto at = integers().find(op);
  return at == integers().end() ? nullptr : &at->second;
}

/// Of floats that are compared: ordered, but "one", which a TPU takes to be true of NaN.
const char* float_predicate(std::string_view op) {
  static const std::map<std::string_view, const char*> predicates{
      {"equal", "predicate = 1 : i64"},   {"not_equal", "predicate = 6 : i64"},
      {"less", "predicate = 4 : i64"},    {"less_equal", "predicate = 5 : i64"},
      {"greater", "predicate = 2 : i64"}, {"greater_equal", "predicate = 3 : i64"}};
  const auto at = predicates.find(op);
  return at == predicates.end() ? "" : at->second;
}

const char* reduction_of(std::string_view op, bool floats) {
  const std::string_view kind = op.substr(op.find('_') + 1);  // of rows or of columns
  if (kind == "sum") return "add";
  if (kind == "max") return floats ? "maximumf" : "maxsi";
  if (kind == "min") return floats ? "minimumf" : "minsi";
  return nullptr;
}
double identity_of(std::string_view op, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (op.ends_with("_sum")) return 0;
  const bool largest = op.ends_with("_max");
  if (is_float(dtype)) return largest ? -kInfinity : kInfinity;
  const double half = static_cast<double>(std::int64_t{1} << (bit_width(dtype) - 1));
  return largest ? -half : half - 1;
}

}  // namespace

void fail_shapes(const char* op, std::initializer_list<std::pair<int, int>> extents) {
  Diagnostic d{.slug = "shape-mismatch", .headline = std::string(op) + " of"};
  for (const auto& [rows, cols] : extents)
    d.headline += " (" + std::to_string(rows) + ", " + std::to_string(cols) + ")";
  d.fields.emplace_back("line", caller_excerpt());
  throw KernelError(std::move(d));
}

AnyTile filled(double value, DType dtype, int rows, int cols) {
  AnyTile t{kNoValue, rows, cols, dtype, 0};
  const std::string type = type_of(t);
  t.value = trace().constant("dense<" + number_text(value, dtype) + "> : " + type, type);
  return t;
}

AnyTile broadcast(const AnyTile& t, int rows, int cols) {
  if (t.value == kNoValue) return filled(t.number, t.dtype, rows, cols);
  if (!t.scalar && t.rows == rows && t.cols == cols) return t;
  AnyTile wide = t;
  wide.rows = rows;
  wide.cols = cols;
  wide.scalar = false;
  wide.value = trace().record("vector.broadcast", {t.value}, "", type_of(wide));
  return wide;
}

namespace {
/// Of tiles of one shape and type.
AnyTile integers_of(const char* name, const AnyTile& a, const AnyTile& b) {
  return with(a, trace().record(name, {a.value, b.value}, "", type_of(a)), a.dtype);
}
AnyTile beside(const AnyTile& a, std::int64_t number) {
  return filled(static_cast<double>(number), a.dtype, a.rows, a.cols);
}
/// The upper half of a product of 32-bit integers, from products of 16-bit halves: no operation of
/// a TPU gives it.
AnyTile upper_product(const AnyTile& a, const AnyTile& b) {
  const AnyTile mask = beside(a, 0xffff);
  const AnyTile half = beside(a, 16);
  const auto low = [&](const AnyTile& x) { return integers_of("arith.andi", x, mask); };
  const auto high = [&](const AnyTile& x) { return integers_of("arith.shrui", x, half); };
  const auto times = [](const AnyTile& x, const AnyTile& y) {
    return integers_of("arith.muli", x, y);
  };
  const auto plus = [](const AnyTile& x, const AnyTile& y) {
    return integers_of("arith.addi", x, y);
  };
  const AnyTile a_low = low(a);
  const AnyTile a_high = high(a);
  const AnyTile b_low = low(b);
  const AnyTile b_high = high(b);
  const AnyTile cross = times(a_low, b_high);
  const AnyTile other = times(a_high, b_low);
  const AnyTile carried = plus(plus(high(times(a_low, b_low)), low(cross)), low(other));
  AnyTile upper = plus(plus(times(a_high, b_high), high(cross)), plus(high(other), high(carried)));
  if (is_unsigned(a.dtype)) return upper;
  // Of signed ones: less the other factor where one is negative.
  const AnyTile sign = beside(a, 31);
  const auto if_negative = [&](const AnyTile& x, const AnyTile& y) {
    return integers_of("arith.andi", integers_of("arith.shrsi", x, sign), y);
  };
  upper = integers_of("arith.subi", upper, if_negative(a, b));
  return integers_of("arith.subi", upper, if_negative(b, a));
}
/// By amounts that may be the number of bits or more, which MLIR leaves open.
AnyTile shifted_by_any(const char* name, const AnyTile& a, const AnyTile& b) {
  const AnyTile bits = beside(a, bit_width(a.dtype));
  const LaneMask inside{trace().record("arith.cmpi", {b.value, bits.value}, "predicate = 6 : i64",
                                       type_of(a, DType::boolean)),
                        a.rows, a.cols};
  const AnyTile shifted = integers_of(name, a, b);
  const AnyTile rest = std::string_view(name) == "arith.shrsi"
                           ? integers_of(name, a, beside(a, bit_width(a.dtype) - 1))
                           : beside(a, 0);
  return with(
      a, trace().record("arith.select", {inside.value, shifted.value, rest.value}, "", type_of(a)),
      a.dtype);
}
}  // namespace

AnyTile number_beside(Number n, DType dtype) {
  if (n.known()) return {kNoValue, 1, 1, dtype, static_cast<double>(n.lo)};
  AnyTile t{n.i32(), 1, 1, dtype, 0, true};
  if (bit_width(dtype) == 32 && !is_float(dtype)) return t;
  if (dtype != DType::f32)
    refuse(std::string("a number that is data beside a tile of ") + name(dtype) +
           ": cast the tile to i32 or f32");
  t.value = trace().record("arith.sitofp", {t.value}, "", "f32");
  return t;
}

AnyTile number_beside(Real r, DType dtype) {
  if (r.value == kNoValue) return {kNoValue, 1, 1, dtype, r.known_value};
  if (dtype != DType::f32)
    refuse(std::string("an f32 of a prefetched array beside a tile of ") + name(dtype) +
           ": cast the tile to f32");
  return {r.value, 1, 1, dtype, 0, true};
}

AnyTile elementwise(const OpInfo& info, DType result, std::vector<AnyTile> operands) {
  const std::string_view op = info.name;
  int rows = 1;
  int cols = 1;
  for (const AnyTile& t : operands) {
    rows = std::max(rows, t.rows);
    cols = std::max(cols, t.cols);
  }
  for (const AnyTile& t : operands) {
    if ((t.rows != rows && t.rows != 1) || (t.cols != cols && t.cols != 1)) {
      const AnyTile& first = operands.front();
      const AnyTile& last = operands.back();
      fail_shapes(info.name, {{first.rows, first.cols}, {last.rows, last.cols}});
    }
  }
  // Narrow floats are computed with in f32 and rounded once.
  bool small = false;
  bool floats = false;
  const bool known_amount = operands.back().value == kNoValue;
  const double amount = operands.back().number;
  for (AnyTile& t : operands) {
    t = broadcast(t, rows, cols);
    small = small || is_small(t.dtype);
    floats = floats || is_float(t.dtype);
  }
  if (small) {
    for (AnyTile& t : operands) {
      if (is_small(t.dtype)) t = cast(t, DType::f32);
    }
  }
  const DType computed = small && is_small(result) ? DType::f32 : result;
  if (op == "fma") {
    AnyTile sum;
    if (trace().fused) {
      sum = fused_multiply_add(operands[0], operands[1], operands[2]);
    } else {
      const AnyTile scaled = elementwise(Mul::info, computed, {operands[0], operands[1]});
      sum = elementwise(Add::info, computed, {scaled, operands[2]});
    }
    return computed == result ? sum : cast(sum, result);
  }
  std::string name = info.mosaic;
  std::string attributes = float_predicate(op);
  if (!floats) {
    if (op == "mul_hi") return upper_product(operands[0], operands[1]);
    if (op == "negate") return integers_of("arith.subi", beside(operands[0], 0), operands[0]);
    const Integer* const integer = integer_operation(op, operands.back().dtype);
    name = integer == nullptr ? "" : integer->name;
    attributes = integer == nullptr ? "" : integer->attributes;
    const bool shift = op == "shift_left" || op == "shift_right";
    if (shift && !(known_amount && amount >= 0 && amount < bit_width(result)))
      return shifted_by_any(name.c_str(), operands[0], operands[1]);
  }
  if (name.empty())
    refuse(std::string("the op ") + info.name + " on " + tessera::name(operands.back().dtype) +
           ": no single operation of a module means it");
  std::vector<Value> values;
  for (const AnyTile& t : operands) values.push_back(t.value);
  if (op == "not") values.push_back(filled(1, DType::boolean, rows, cols).value);
  const AnyTile shape{kNoValue, rows, cols, computed, 0};
  const AnyTile made =
      with(shape, trace().record(name, std::move(values), attributes, type_of(shape)), computed);
  return computed == result ? made : cast(made, result);
}

AnyTile cast(const AnyTile& a, DType to) {
  const DType from = a.dtype;
  if (from == to) return a;
  const auto as = [&](const char* op, DType dtype) {
    return with(a, trace().record(op, {a.value}, "", type_of(a, dtype)), dtype);
  };
  const auto not_zero = [&](const char* op, const char* predicate) {
    const AnyTile zero = filled(0, from, a.rows, a.cols);
    return with(a, trace().record(op, {a.value, zero.value}, predicate, type_of(a, DType::boolean)),
                DType::boolean);
  };
  const int wider = bit_width(to) - bit_width(from);
  // Packed integers are widened, and narrowed, as i32.
  if (bit_width(from) < 8 && to != DType::i32) return cast(cast(a, DType::i32), to);
  if (bit_width(to) < 8 && from != DType::i32) {
    if (!is_float(from)) return cast(cast(a, DType::i32), to);
    const double half = 1 << (bit_width(to) - 1);
    const AnyTile whole = cast(a, DType::i32);
    const double least = is_unsigned(to) ? 0 : -half;
    const AnyTile above =
        integers_of("arith.maxsi", whole, filled(least, DType::i32, a.rows, a.cols));
    return cast(
        integers_of("arith.minsi", above, filled(least + 2 * half - 1, DType::i32, a.rows, a.cols)),
        to);
  }
  if (is_float(from) && is_float(to)) {
    if (wider > 0) return as("arith.extf", to);
    if (wider < 0) return as("arith.truncf", to);
    return cast(as("arith.extf", DType::f32), to);
  }
  if (to == DType::boolean)
    return is_float(from) ? not_zero("arith.cmpf", "predicate = 6 : i64")
                          : not_zero("arith.cmpi", "predicate = 1 : i64");
  if (from == DType::boolean) {
    if (to == DType::i32) return as("arith.extui", to);
    return cast(as("arith.extui", DType::i32), to);
  }
  if (is_float(to)) return as(is_unsigned(from) ? "arith.uitofp" : "arith.sitofp", to);
  if (is_float(from)) return as(is_unsigned(to) ? "arith.fptoui" : "arith.fptosi", to);
  if (wider == 0) return with(a, a.value, to);  // a module's integers have no sign
  if (wider < 0) return as("arith.trunci", to);
  return as(is_unsigned(from) ? "arith.extui" : "arith.extsi", to);
}

namespace {
AnyTile reduced(const OpInfo& info, const AnyTile& a, bool rows) {
  const char* const kind = reduction_of(info.name, is_float(a.dtype));
  if (kind == nullptr || (is_unsigned(a.dtype) && std::string_view(kind) != "add"))
    refuse(std::string("the op ") + info.name + " on " + name(a.dtype));
  const std::string line = vector_type({rows ? a.rows : a.cols}, element_type(a.dtype));
  const Value start = trace().constant(
      "dense<" + number_text(identity_of(info.name, a.dtype), a.dtype) + "> : " + line, line);
  const Value sums = trace().record(info.mosaic, {a.value, start},
                                    std::string("kind = #vector.kind<") + kind +
                                        ">, reduction_dims = array<i64: " + (rows ? "1>" : "0>"),
                                    line);
  AnyTile result{kNoValue, rows ? a.rows : 1, rows ? 1 : a.cols, a.dtype, 0};
  result.value = trace().record("vector.shape_cast", {sums}, "", type_of(result));
  return result;
}
}  // namespace
AnyTile reduce_rows(const OpInfo& info, const AnyTile& a) { return reduced(info, a, true); }
AnyTile reduce_cols(const OpInfo& info, const AnyTile& a) { return reduced(info, a, false); }

AnyTile bitcast(const AnyTile& a, DType to) {
  const std::string type = type_of(a, to);
  if (type == type_of(a)) return with(a, a.value, to);
  return with(a, trace().record("arith.bitcast", {a.value}, "", type), to);
}
AnyTile concatenated(bool rows, const AnyTile& a, const AnyTile& b) {
  AnyTile all{kNoValue, a.rows + (rows ? b.rows : 0), a.cols + (rows ? 0 : b.cols), a.dtype, 0};
  all.value =
      trace().record("tpu.concatenate", {a.value, b.value},
                     std::string("dimension = ") + (rows ? "0" : "1") + " : i32", type_of(all));
  return all;
}
AnyTile rolled(bool rows, const AnyTile& a, int n) {
  const int extent = rows ? a.rows : a.cols;
  const int amount = (n % extent + extent) % extent;
  if (amount == 0) return a;
  return with(
      a,
      trace().record("tpu.dynamic_rotate", {a.value, known(amount).i32()},
                     std::string("dimension = ") + (rows ? "0" : "1") + " : si32", type_of(a)),
      a.dtype);
}
AnyTile repeated(bool rows, const AnyTile& a, int times) {
  if (times == 1) return a;
  // Columns as rows: lanes are not regrouped.
  if (!rows) return transposed(repeated(true, transposed(a), times));
  const std::string element = element_type(a.dtype);
  const Value apart =
      trace().record("vector.shape_cast", {a.value}, "", vector_type({a.rows, 1, a.cols}, element));
  const Value wide = trace().record("vector.broadcast", {apart}, "",
                                    vector_type({a.rows, times, a.cols}, element));
  AnyTile all{kNoValue, a.rows * times, a.cols, a.dtype, 0};
  all.value = trace().record("vector.shape_cast", {wide}, "", type_of(all));
  return all;
}
AnyTile part_of(bool rows, const AnyTile& a, int parts, int which) {
  AnyTile part{kNoValue, rows ? a.rows / parts : a.rows, rows ? a.cols : a.cols / parts, a.dtype,
               0};
  const std::string row = std::to_string(rows ? which * part.rows : 0);
  const std::string col = std::to_string(rows ? 0 : which * part.cols);
  part.value =
      trace().record("vector.extract_strided_slice", {a.value},
                     "offsets = [" + row + ", " + col + "], sizes = [" + std::to_string(part.rows) +
                         ", " + std::to_string(part.cols) + "], strides = [1, 1]",
                     type_of(part));
  return part;
}

AnyTile choose(const LaneMask& mask, const AnyTile& a, double otherwise) {
  const AnyTile other = filled(otherwise, a.dtype, a.rows, a.cols);
  return with(a, trace().record("arith.select", {mask.value, a.value, other.value}, "", type_of(a)),
              a.dtype);
}

AnyTile transposed(const AnyTile& a) {
  AnyTile t{kNoValue, a.cols, a.rows, a.dtype, 0};
  t.value =
      trace().record("tpu.transpose", {a.value}, "permutation = array<i64: 1, 0>", type_of(t));
  return t;
}

AnyTile product(const AnyTile& a, bool a_transposed, const AnyTile& b, bool b_transposed,
                const AnyTile& sum) {
  if (is_unsigned(a.dtype)) refuse("a product of u8, which the integers of a module do not tell");
  const std::string lk = a_transposed ? "0" : "1";  // contracting, kept
  const std::string lm = a_transposed ? "1" : "0";
  const std::string rk = b_transposed ? "1" : "0";
  const std::string rn = b_transposed ? "0" : "1";
  std::string attributes = "dimension_numbers = #tpu.dot_dimension_numbers<[" + lk + "], [" + rk +
                           "], [" + lm + "], [" + rn + "], [0, " + lm + ", 1, " + rn +
                           "], [], []>, ";
  if (a.dtype == DType::f32) attributes += "precision = #tpu.contract_precision<fp32>, ";
  attributes += "transpose_lhs = false, transpose_rhs = false";
  const AnyTile start = sum.value == kNoValue ? filled(0, sum.dtype, sum.rows, sum.cols) : sum;
  return with(
      start,
      trace().record("tpu.matmul", {a.value, b.value, start.value}, attributes, type_of(start)),
      sum.dtype);
}

}  // namespace tessera::mosaic
