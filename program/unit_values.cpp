#include "program/unit_values.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "program/predicates.hpp"
#include "program/unit_shapes.hpp"

namespace tessera::program {

namespace {

std::int64_t predicate_of(const Operation& op) {
  const Attribute* a = op.find("predicate");
  return a != nullptr ? a->integer : 0;
}

bool is_integer(const Type& t) {
  return (t.kind == Type::Kind::vector || t.kind == Type::Kind::scalar ||
          t.kind == Type::Kind::index) &&
         t.known && !is_float(t.dtype);
}

bool is_float32(const Type& t) {
  return (t.kind == Type::Kind::vector || t.kind == Type::Kind::scalar) && t.known &&
         t.dtype == DType::f32;
}

}  // namespace

std::optional<std::int64_t> UnitValues::constant(int value, const KnownValues& known) const {
  if (const auto it = constants_.find(value); it != constants_.end()) return it->second;
  const Type& t = module_.type(value);
  const auto c = is_integer(t) ? known.constant(value) : std::nullopt;
  return c && bit_width(t.dtype) == 32 ? std::optional<std::int64_t>(static_cast<std::int32_t>(*c))
                                       : c;
}

std::optional<int> UnitValues::bits(int value, const KnownValues& known) const {
  if (const auto it = bits_.find(value); it != bits_.end()) return it->second;
  const auto c = constant(value, known);
  if (!c || *c < 0 || *c > INT32_MAX) return std::nullopt;
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(*c)));
}

int UnitValues::constant_value(std::int64_t constant, DType dtype) {
  const std::string text = "constant " + std::to_string(constant) + " " + name(dtype);
  const auto [it, fresh] = seen_.try_emplace(text, next_constant_);
  if (fresh) --next_constant_;  // for good: constants are the same everywhere
  return it->second;
}

int UnitValues::same(int value, const KnownValues& known) {
  const Type& t = module_.type(value);
  if (const auto c = constant(value, known)) return constant_value(*c, t.dtype);
  if (const auto c = float_bits(value, known)) return constant_value(*c, t.dtype);
  const auto it = same_.find(value);
  return it == same_.end() ? value : it->second;
}

/// The bits of a float that is a constant.
std::optional<std::int64_t> UnitValues::float_bits(int value, const KnownValues& known) const {
  if (const auto it = constants_.find(value); it != constants_.end()) return it->second;
  return is_float32(module_.type(value)) ? known.constant(value) : std::nullopt;
}

/// The bits of a float that it computes of constants.
std::optional<std::int64_t> UnitValues::folded_float(const Operation& op,
                                                     const KnownValues& known) const {
  if (op.name == "arith.sitofp") {
    const auto c = constant(op.operands[0], known);
    if (!c) return std::nullopt;
    return std::bit_cast<std::int32_t>(static_cast<float>(*c));
  }
  if (op.name == "vector.broadcast" && is_float32(module_.type(op.operands[0])))
    return float_bits(op.operands[0], known);
  if (op.operands.size() != 2 || !is_float32(module_.type(op.operands[0]))) return std::nullopt;
  const auto a = float_bits(op.operands[0], known);
  const auto b = float_bits(op.operands[1], known);
  if (!a || !b) return std::nullopt;
  const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(*a));
  const auto y = std::bit_cast<float>(static_cast<std::uint32_t>(*b));
  std::optional<float> result;
  if (op.name == "arith.addf") result = x + y;
  if (op.name == "arith.subf") result = x - y;
  if (op.name == "arith.mulf") result = x * y;
  if (!result) return std::nullopt;
  return std::bit_cast<std::int32_t>(*result);
}

/// The constant that it computes of constants, or in any case.
std::optional<std::int64_t> UnitValues::folded(const Operation& op,
                                               const KnownValues& known) const {
  if (is_float32(module_.type(op.results[0]))) return folded_float(op, known);
  if (!is_integer(module_.type(op.results[0]))) return std::nullopt;
  if (op.name.ends_with(".bitcast") && is_float32(module_.type(op.operands[0]))) {
    const auto c = float_bits(op.operands[0], known);
    return c ? std::optional<std::int64_t>(static_cast<std::int32_t>(*c)) : std::nullopt;
  }
  const auto of = [&](std::size_t i) { return constant(op.operands[i], known); };
  const std::string& n = op.name;
  if (op.operands.size() == 1) {
    const bool keeps = n == "arith.extui" || n == "arith.index_cast" || n == "vector.broadcast" ||
                       n == "vector.shape_cast";
    return keeps ? of(0) : std::nullopt;
  }
  if (op.operands.size() != 2 || !is_integer(module_.type(op.operands[0]))) return std::nullopt;
  const auto a = of(0);
  const auto b = of(1);
  if (n == "arith.cmpi") {
    const std::int64_t p = predicate_of(op);
    if (a && b) {
      const auto result = compared(p, *a, *b);
      return result ? std::optional<std::int64_t>(*result ? 1 : 0) : std::nullopt;
    }
    const bool with_zero = b && *b == 0 && bits(op.operands[0], known);
    if (with_zero && p == 2) return 0;
    if (with_zero && p == 5) return 1;
    return std::nullopt;
  }
  if ((n == "arith.andi" || n == "arith.muli") && ((a && *a == 0) || (b && *b == 0))) return 0;
  if (n == "arith.remsi" && b && *b == 1) return 0;
  if (!a || !b) return std::nullopt;
  if (module_.type(op.results[0]).dtype != DType::i32) return std::nullopt;
  const auto x = static_cast<std::uint32_t>(*a);
  const auto y = static_cast<std::uint32_t>(*b);
  std::optional<std::uint32_t> result;
  if (n == "arith.addi") result = x + y;
  if (n == "arith.ori") result = x | y;
  if (n == "arith.xori") result = x ^ y;
  if (n == "arith.subi") result = x - y;
  if (n == "arith.muli") result = x * y;
  if (n == "arith.andi") result = x & y;
  if (n == "arith.shrui" && y < 32) result = x >> y;
  if (n == "arith.shli" && y < 32) result = x << y;
  if (!result) return std::nullopt;
  return static_cast<std::int32_t>(*result);
}

/// The operand that the result is the same as.
std::optional<std::size_t> UnitValues::operand_that_is_it(const Operation& op,
                                                          const KnownValues& known) {
  const std::string& n = op.name;
  const auto is = [&](std::size_t i, std::int64_t wanted) {
    const auto c = constant(op.operands[i], known);
    return c && *c == wanted;
  };
  const auto it = [&](std::size_t i) -> std::optional<std::size_t> {
    if (module_.type(op.operands[i]).kind != module_.type(op.results[0]).kind) return std::nullopt;
    return i;
  };
  if (n == "arith.select" && op.operands.size() == 3) {
    if (is(0, 0)) return it(2);
    if (is(0, 1)) return it(1);
    if (same(op.operands[1], known) == same(op.operands[2], known)) return it(1);
    return std::nullopt;
  }
  if (op.operands.size() != 2) return std::nullopt;
  if (is_float32(module_.type(op.operands[0]))) {
    const auto is_float = [&](std::size_t i, float wanted) {
      const auto bits = float_bits(op.operands[i], known);
      return bits && std::bit_cast<float>(static_cast<std::uint32_t>(*bits)) == wanted;
    };
    constexpr float kMost = std::numeric_limits<float>::infinity();
    const float nothing = n == "arith.mulf"       ? 1.F
                          : n == "arith.maximumf" ? -kMost
                          : n == "arith.minimumf" ? kMost
                                                  : 0.F;
    const bool commutes =
        n == "arith.addf" || n == "arith.mulf" || n == "arith.maximumf" || n == "arith.minimumf";
    if ((commutes || n == "arith.subf") && is_float(1, nothing)) return it(0);
    if (commutes && is_float(0, nothing)) return it(1);
    return std::nullopt;
  }
  if (!is_integer(module_.type(op.operands[0]))) return std::nullopt;
  if ((n == "arith.addi" || n == "arith.subi" || n == "arith.ori" || n == "arith.xori") && is(1, 0))
    return it(0);
  if ((n == "arith.addi" || n == "arith.ori") && is(0, 0)) return it(1);
  if ((n == "arith.divsi" || n == "arith.muli") && is(1, 1)) return it(0);
  return std::nullopt;
}

std::optional<int> UnitValues::bits_of(const Operation& op, const KnownValues& known) const {
  constexpr int kMost = 31;
  const Type& to = module_.type(op.results[0]);
  if (!is_integer(to)) return std::nullopt;
  const std::string& n = op.name;
  const auto of = [&](std::size_t i) { return bits(op.operands[i], known); };
  if (n == "tpu.iota" && to.kind == Type::Kind::vector) {
    std::int64_t longest = 1;
    for (int d = 0; d < to.shape.rank; ++d) longest = std::max(longest, to.shape[d]);
    return std::min<int>(kMost, std::bit_width(static_cast<std::uint64_t>(longest - 1)));
  }
  if (op.operands.size() == 1) {
    const bool keeps =
        n == "vector.broadcast" || n == "vector.shape_cast" || n == "arith.index_cast";
    if (n == "arith.extui")
      return std::min(kMost, module_.type(op.operands[0]).dtype == DType::boolean
                                 ? 1
                                 : bit_width(module_.type(op.operands[0]).dtype));
    return keeps ? of(0) : std::nullopt;
  }
  const bool selects = n == "arith.select" && op.operands.size() == 3;
  if (!selects && op.operands.size() != 2) return std::nullopt;
  const auto a = of(selects ? 1 : 0);
  const auto b = of(selects ? 2 : 1);
  if (n == "arith.shrui") {
    const auto by = constant(op.operands[1], known);
    if (!by || *by < 1 || *by > kMost || bit_width(to.dtype) != 32) return a;
    return std::max(0, a.value_or(32) - static_cast<int>(*by));
  }
  if (n == "arith.andi") return a && b ? std::min(a, b) : a ? a : b;
  if (!a || !b) return std::nullopt;
  const auto fits = [](int bits) { return bits <= kMost ? std::optional(bits) : std::nullopt; };
  if (selects || n == "arith.maxsi" || n == "arith.ori" || n == "arith.xori") return std::max(a, b);
  if (n == "arith.addi") return fits(std::max(*a, *b) + 1);
  if (n == "arith.muli") return fits(*a + *b);
  if (n == "arith.divsi" || n == "arith.shrsi") return a;
  if (n == "arith.remsi" || n == "arith.minsi") return std::min(a, b);
  return std::nullopt;
}

/// What computes the same has the same; "": it is not looked for.
std::string UnitValues::key(const Operation& op, const KnownValues& known) {
  const std::string& n = op.name;
  const Type& to = module_.type(op.results[0]);
  const bool elementwise = n.starts_with("arith.") || n.starts_with("math.");
  const bool moves = n == "vector.broadcast" || n == "vector.shape_cast" || n == "tpu.iota";
  const bool views = n == "tpu.memref_slice" || n == "tpu.memref_squeeze";
  const bool loads = n == "memref.load";
  if ((!elementwise && !moves && !views && !loads) || !to.known || n == "arith.constant") return "";
  std::string text = n + " " + (views ? to.text : name(to.dtype));
  if (loads) text += " " + std::to_string(written_);
  if (n == "tpu.iota") {
    // Along lanes, or down: registers of other shapes have the same.
    const UnitRows rows = unit_rows(module_, op, known);
    if (rows.size() == 1) return text + rows[0].first + " " + std::to_string(rows[0].second);
  }
  if (to.kind == Type::Kind::vector) {
    if (elementwise)
      text += " " + std::to_string(registers_of(to.shape, to.dtype));
    else if (known.repeats(op.results[0]))
      text += " splat";
    else
      text += to_string(to.shape) + " of " +
              (op.operands.empty() ? "" : to_string(module_.type(op.operands[0]).shape));
  }
  for (const auto& [attribute, value] : *op.attributes) {
    text += " " + attribute + value.text + std::to_string(value.integer);
    for (const std::int64_t each : value.integers) text += "," + std::to_string(each);
  }
  for (const int v : op.operands) text += " %" + std::to_string(same(v, known));
  return text;
}

std::optional<int> UnitValues::note(const Operation& op, const KnownValues& known) {
  if (op.results.size() != 1 || !op.regions.empty()) return std::nullopt;
  const int result = op.results[0];
  if (!module_.type(result).known) return std::nullopt;
  if (const auto c = folded(op, known)) {
    constants_[result] = *c;
    return same(result, known);
  }
  if (const auto it = operand_that_is_it(op, known)) {
    if (const auto c = constant(op.operands[*it], known)) constants_[result] = *c;
    if (const auto n = bits(op.operands[*it], known)) bits_[result] = *n;
    return same_[result] = same(op.operands[*it], known);
  }
  if (const auto n = bits_of(op, known)) bits_[result] = *n;
  const std::string text = key(op, known);
  if (text.empty()) return std::nullopt;
  const auto [it, fresh] = seen_.try_emplace(text, result);
  if (fresh) {
    order_.push_back(text);
    return std::nullopt;
  }
  same_[result] = it->second;
  return it->second;
}

bool UnitValues::is_first(const std::string& text) {
  const bool fresh = seen_.try_emplace(text, 0).second;
  if (fresh) order_.push_back(text);
  return fresh;
}

int UnitValues::name_of(int value) const {
  const auto it = same_.find(value);
  return it == same_.end() ? value : it->second;
}

void UnitValues::forget(std::size_t mark) {
  for (; order_.size() > mark; order_.pop_back()) seen_.erase(order_.back());
}

}  // namespace tessera::program
