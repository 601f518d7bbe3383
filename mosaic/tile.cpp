#include "mosaic/tile.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "mosaic/types.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/mul.hpp"

namespace tessera::mosaic {

namespace {

std::string type_of(const AnyTile& t, DType dtype) {
  return vector_type({t.rows, t.cols}, element_type(dtype));
}
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
  };
  return names;
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
  if (op == "row_sum") return "add";
  if (op == "row_max") return floats ? "maximumf" : "maxsi";
  if (op == "row_min") return floats ? "minimumf" : "minsi";
  return nullptr;
}
double identity_of(std::string_view op, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (op == "row_sum") return 0;
  const bool largest = op == "row_max";
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
  if (t.rows == rows && t.cols == cols) return t;
  AnyTile wide = t;
  wide.rows = rows;
  wide.cols = cols;
  wide.value = trace().record("vector.broadcast", {t.value}, "", type_of(wide));
  return wide;
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
  if (op == "fma" && !trace().fused) {
    const AnyTile scaled = elementwise(Mul::info, computed, {operands.front(), operands[1]});
    const AnyTile sum = elementwise(Add::info, computed, {scaled, operands.back()});
    return computed == result ? sum : cast(sum, result);
  }
  std::string name = info.mosaic;
  std::string attributes = float_predicate(op);
  if (!floats) {
    const auto at = integers().find(op);
    name = at == integers().end() ? "" : at->second.name;
    attributes = at == integers().end() ? "" : at->second.attributes;
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
  if (is_float(to)) return as("arith.sitofp", to);
  if (is_float(from)) return as("arith.fptosi", to);
  return as(wider > 0 ? "arith.extsi" : "arith.trunci", to);
}

AnyTile reduce_rows(const OpInfo& info, const AnyTile& a) {
  const char* const kind = reduction_of(info.name, is_float(a.dtype));
  if (kind == nullptr) refuse(std::string("the op ") + info.name);
  const std::string row = vector_type({a.rows}, element_type(a.dtype));
  const Value start = trace().constant(
      "dense<" + number_text(identity_of(info.name, a.dtype), a.dtype) + "> : " + row, row);
  const Value reduced = trace().record(
      info.mosaic, {a.value, start},
      std::string("kind = #vector.kind<") + kind + ">, reduction_dims = array<i64: 1>", row);
  AnyTile result{kNoValue, a.rows, 1, a.dtype, 0};
  result.value = trace().record("vector.shape_cast", {reduced}, "", type_of(result));
  return result;
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
