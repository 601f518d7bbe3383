#include "pallas/folded_scalars.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "program/predicates.hpp"

namespace tessera::pallas {

namespace {

using Value = std::optional<std::int64_t>;

constexpr int kDeepest = 200;

/// arith.cmpi's predicates: eq, ne, slt, sle, sgt, sge; unsigned ones of what is not negative
/// alike.
Value compared(std::int64_t predicate, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kUnsigned = 6;
  if (predicate >= kUnsigned) {
    if (a < 0 || b < 0) return {};
    predicate -= 4;
  }
  const std::optional<bool> known = program::compared(predicate, a, b);
  return known ? Value(*known) : Value();
}

Value binary(const std::string& name, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (name == "arith.addi") return __builtin_add_overflow(a, b, &r) ? Value() : Value(r);
  if (name == "arith.subi") return __builtin_sub_overflow(a, b, &r) ? Value() : Value(r);
  if (name == "arith.muli") return __builtin_mul_overflow(a, b, &r) ? Value() : Value(r);
  if (name == "arith.andi") return a & b;
  if (name == "arith.ori") return a | b;
  if (name == "arith.xori") return a ^ b;
  if (name == "arith.minsi") return std::min(a, b);
  if (name == "arith.maxsi") return std::max(a, b);
  if (b == 0 || b == -1) return {};  // no quotient, or one that may not fit
  if (name == "arith.divsi") return a / b;
  if (name == "arith.remsi") return a % b;
  return {};
}

}  // namespace

std::optional<std::int64_t> FoldedScalars::of(int value) const { return fold(value, 0); }

bool FoldedScalars::is_truth(int value) const { return module_.type(value).text == "i1"; }

std::optional<std::int64_t> FoldedScalars::fold(int value, int depth) const {
  const auto place = static_cast<std::size_t>(value);
  const program::Operation* const op = made_by_[place];
  if (op == nullptr || op->results.size() != 1 || depth > kDeepest) return {};
  if (!known_[place].asked) {
    Value v = compute(*op, depth);
    if (v && (*v < std::numeric_limits<std::int32_t>::min() ||
              *v > std::numeric_limits<std::int32_t>::max()))
      v = {};
    known_[place] = {.asked = true, .value = v && is_truth(value) ? Value(*v != 0) : v};
  }
  return known_[place].value;
}

std::optional<std::int64_t> FoldedScalars::compute(const program::Operation& op, int depth) const {
  const std::string& name = op.name;
  if (name == "arith.constant") {
    const program::Attribute* const a = op.find("value");
    return a != nullptr && a->kind == program::Attribute::Kind::integer ? Value(a->integer)
                                                                        : Value();
  }
  if (!name.starts_with("arith.") || op.operands.empty() || op.operands.size() > 3) return {};
  const Value a = fold(op.operands[0], depth + 1);
  if (!a) return {};
  if (name == "arith.select") return fold(op.operands[*a != 0 ? 1 : 2], depth + 1);
  if (name == "arith.index_cast") return a;
  if (name == "arith.extui") return *a < 0 ? Value() : a;
  if (name == "arith.extsi") return is_truth(op.operands[0]) ? -*a : *a;
  if (op.operands.size() != 2) return {};
  const Value b = fold(op.operands[1], depth + 1);
  if (!b) return {};
  if (name != "arith.cmpi") return binary(name, *a, *b);
  const program::Attribute* const predicate = op.find("predicate");
  return predicate == nullptr ? Value() : compared(predicate->integer, *a, *b);
}

}  // namespace tessera::pallas
