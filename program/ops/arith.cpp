// arith.*, and the conversions of the tpu dialect.
#include <cmath>

#include "program/elements.hpp"
#include "program/predicates.hpp"
#include "program/rules.hpp"
#include "sim/ops/all.hpp"

namespace tessera::program {

namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Integers wrap; what MLIR leaves undefined has XLA's value: x / 0 is all ones, x rem 0 is x, a
// shift by the width or more gives zeros, or copies of the sign.
struct AddI {
  static constexpr RegularKernel kRegular = regular_add;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct SubI {
  static constexpr RegularKernel kRegular = regular_sub;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct MulI {
  static constexpr RegularKernel kRegular = regular_mul;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
};
/// The upper half of a product of 32-bit numbers.
struct HighS {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<std::int64_t>(a) * static_cast<std::int64_t>(b) >> 32);
  }
};
struct HighU {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(
        std::uint64_t{static_cast<std::uint32_t>(a)} * static_cast<std::uint32_t>(b) >> 32);
  }
};
struct DivS {
  static constexpr RegularKernel kRegular = regular_div;
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return T(-1);
    return b == -1 ? SubI::apply(T(0), a) : static_cast<T>(a / b);
  }
};
struct DivU {
  template <class T>
  static T apply(T a, T b) {
    return b == 0 ? T(-1)
                  : static_cast<T>(static_cast<Unsigned<T>>(a) / static_cast<Unsigned<T>>(b));
  }
};
struct RemS {
  static constexpr RegularKernel kRegular = regular_rem;
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return a;
    return b == -1 ? T(0) : static_cast<T>(a % b);
  }
};
struct RemU {
  template <class T>
  static T apply(T a, T b) {
    return b == 0 ? a : static_cast<T>(static_cast<Unsigned<T>>(a) % static_cast<Unsigned<T>>(b));
  }
};
struct CeilDivS {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0 || b == -1) return DivS::apply(a, b);
    return static_cast<T>(a / b + ((a % b != 0 && (a < 0) == (b < 0)) ? 1 : 0));
  }
};
struct FloorDivS {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0 || b == -1) return DivS::apply(a, b);
    return static_cast<T>(a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
  }
};
struct AndI {
  static constexpr RegularKernel kRegular = regular_and;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct OrI {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct XorI {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
template <class T>
constexpr int kBits = static_cast<int>(8 * sizeof(T));
struct ShL {
  template <class T>
  static T apply(T a, T b) {
    if (static_cast<Unsigned<T>>(b) >= kBits<T>) return T(0);
    return static_cast<T>(static_cast<std::uint64_t>(a) << static_cast<int>(b));
  }
};
struct ShrS {
  template <class T>
  static T apply(T a, T b) {
    const bool all = static_cast<Unsigned<T>>(b) >= kBits<T>;
    return static_cast<T>(a >> (all ? kBits<T> - 1 : static_cast<int>(b)));
  }
};
struct ShrU {
  template <class T>
  static T apply(T a, T b) {
    if (static_cast<Unsigned<T>>(b) >= kBits<T>) return T(0);
    return static_cast<T>(static_cast<Unsigned<T>>(a) >> static_cast<int>(b));
  }
};
struct MaxS {
  template <class T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};
struct MinS {
  template <class T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct MaxU {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<Unsigned<T>>(a) > static_cast<Unsigned<T>>(b) ? a : b;
  }
};
struct MinU {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<Unsigned<T>>(a) < static_cast<Unsigned<T>>(b) ? a : b;
  }
};
struct RemF {
  template <class T>
  static T apply(T a, T b) {
    return std::fmod(a, b);
  }
};
/// -0 lies below 0: of two zeros the sum is the larger.
struct MaxF {
  template <class T>
  static T apply(T a, T b) {
    return a == 0 && b == 0 ? a + b : Maximum::apply(a, b);
  }
};
struct MinF {
  template <class T>
  static T apply(T a, T b) {
    return a == 0 && b == 0 ? -(-a - b) : Minimum::apply(a, b);
  }
};
/// The number where the other is NaN.
struct MaxNum {
  template <class T>
  static T apply(T a, T b) {
    return a != a ? b : b != b ? a : Maximum::apply(a, b);
  }
};
struct MinNum {
  template <class T>
  static T apply(T a, T b) {
    return a != a ? b : b != b ? a : Minimum::apply(a, b);
  }
};

template <int kPredicate>
struct CmpI {
  template <class T>
  static bool apply(T a, T b) {
    using U =
        std::conditional_t<std::is_same_v<T, bool>, std::uint8_t,
                           Unsigned<std::conditional_t<std::is_same_v<T, bool>, std::int8_t, T>>>;
    const auto ua = static_cast<U>(a);
    const auto ub = static_cast<U>(b);
    if constexpr (kPredicate < 6) return signed_holds(kPredicate, a, b);
    switch (kPredicate) {
      case 6:
        return ua < ub;
      case 7:
        return ua <= ub;
      case 8:
        return ua > ub;
      default:
        return ua >= ub;
    }
  }
};
template <int kPredicate>
struct CmpF {
  template <class T>
  static bool apply(T a, T b) {
    const bool unordered = a != a || b != b;
    switch (kPredicate) {
      case 0:
        return false;
      case 1:
        return !unordered && a == b;
      case 2:
        return a > b;
      case 3:
        return a >= b;
      case 4:
        return a < b;
      case 5:
        return a <= b;
      case 6:
        return a != b;  // "one", for which TPUs have "ne" alone: true of NaN
      case 7:
        return !unordered;
      case 8:
        return unordered || a == b;
      case 9:
        return unordered || a > b;
      case 10:
        return unordered || a >= b;
      case 11:
        return unordered || a < b;
      case 12:
        return unordered || a <= b;
      case 13:
        return unordered || a != b;
      case 14:
        return unordered;
      default:
        return true;
    }
  }
};

template <template <int> class Cmp, int... kP, class With>
bool compare_kernel(std::integer_sequence<int, kP...>, std::int64_t predicate, ElementOp& e,
                    With&& with) {
  return with([&](auto tag) {
    using T = typename decltype(tag)::type;
    ((kP == predicate ? static_cast<void>(e.kernel = run_elements<Cmp<kP>, T, T>) : void()), ...);
  });
}

void plan_cmpi(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  ElementOp e;
  e.result = DType::boolean;
  const DType d = p.type(op.operands[0]).dtype;
  p.expect_type(op, d);
  compare_kernel<CmpI>(std::make_integer_sequence<int, 10>{}, p.integer(op, "predicate"), e,
                       [&](auto f) {
                         if (d == DType::boolean) {
                           f(TypeTag<bool>{});
                           return true;
                         }
                         return with_integer(d, f);
                       });
  if (e.kernel == nullptr) p.unsupported(op, "its type or predicate is not built yet");
  if (d != DType::boolean) e.regular = regular_compare(p.integer(op, "predicate"));
  p.element_op(op, e, op.operands);
}
void plan_cmpf(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  ElementOp e;
  e.result = DType::boolean;
  e.flops = 1;
  e.bound = {BoundRule::Kind::rule, "equal"};  // as of every comparison
  const DType d = p.type(op.operands[0]).dtype;
  p.expect_type(op, d);
  compare_kernel<CmpF>(std::make_integer_sequence<int, 16>{}, p.integer(op, "predicate"), e,
                       [&](auto f) { return with_real(d, f); });
  if (e.kernel == nullptr) p.unsupported(op, "its type or predicate is not built yet");
  p.element_op(op, e, op.operands);
}

template <class T>
void run_select(std::byte* out, const std::byte* const* in, std::int64_t n) {
  T* const __restrict to = reinterpret_cast<T*>(out);
  const auto* const c = reinterpret_cast<const std::uint8_t*>(in[0]);
  const T* const a = reinterpret_cast<const T*>(in[1]);
  const T* const b = reinterpret_cast<const T*>(in[2]);
  for (std::int64_t i = 0; i < n; ++i) to[i] = c[i] != 0 ? a[i] : b[i];
}
void plan_select(Planner& p, const Operation& op) {
  p.expect(op, 3, 1);
  const Type& t = p.type(op.results[0]);
  if (t.kind == Type::Kind::memref) p.unsupported(op, "of memrefs");
  p.expect_type(op, t.dtype, 1);
  if (p.type(op.operands[0]).dtype != DType::boolean) p.unsupported(op, "by something not i1");
  ElementOp e;
  e.result = t.dtype;
  e.poison = PoisonRule::select;
  e.bound = {BoundRule::Kind::rule, "where"};
  e.flops = 0;
  with_width(register_bytes(t.dtype), [&]<class T>(T) { e.kernel = run_select<T>; });
  p.element_op(op, e, op.operands);
}

template <class To, class From>
void run_convert(std::byte* out, const std::byte* const* in, std::int64_t n) {
  To* const __restrict to = reinterpret_cast<To*>(out);
  const From* const from = reinterpret_cast<const From*>(in[0]);
  for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
}
/// From an integer type read without its sign.
template <class To, class From>
void run_convert_unsigned(std::byte* out, const std::byte* const* in, std::int64_t n) {
  To* const __restrict to = reinterpret_cast<To*>(out);
  const auto* const from = reinterpret_cast<const From*>(in[0]);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, bool>)
      to[i] = convert<To>(std::int32_t{from[i] ? 1 : 0});
    else if constexpr (kIsSmallInt<From>)
      to[i] = convert<To>(std::int64_t{pattern_of(from[i])});
    else
      to[i] = convert<To>(static_cast<std::make_unsigned_t<From>>(from[i]));
  }
}
/// To an integer type without sign.
template <class To, class From>
void run_convert_to_unsigned(std::byte* out, const std::byte* const* in, std::int64_t n) {
  To* const __restrict to = reinterpret_cast<To*>(out);
  const From* const from = reinterpret_cast<const From*>(in[0]);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (kIsSmallInt<To>)
      to[i] =
          To(std::int64_t{std::min<unsigned>(kPatternMask<To>, convert<std::uint8_t>(from[i]))});
    else
      to[i] = static_cast<To>(convert<std::make_unsigned_t<To>>(from[i]));
  }
}

enum class Sign { kept, without };

template <Sign kSign>
void plan_convert(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const DType from = p.type(op.operands[0]).dtype;
  const DType to = p.type(op.results[0]).dtype;
  if (const Attribute* mode = op.find("rounding_mode")) {
    if (mode->text.find("to_nearest_even") == std::string::npos &&
        mode->text.find("tonearesteven") == std::string::npos &&
        !(is_float(from) && !is_float(to) && mode->text.find("toward_zero") != std::string::npos))
      p.unsupported(op, "rounding_mode " + mode->text);
  }
  ElementOp e;
  e.result = to;
  e.poison = PoisonRule::same;
  visit_dtype(to, [&](auto to_tag) {
    using To = typename decltype(to_tag)::type;
    visit_dtype(from, [&](auto from_tag) {
      using From = typename decltype(from_tag)::type;
      if constexpr (!std::is_same_v<To, bool>) {
        if constexpr (kSign == Sign::kept)
          e.kernel = run_convert<To, From>;
        else if constexpr (std::is_integral_v<From> || kIsSmallInt<From>)
          e.kernel = run_convert_unsigned<To, From>;
        else if constexpr (std::is_integral_v<To> || kIsSmallInt<To>)
          e.kernel = run_convert_to_unsigned<To, From>;
      }
    });
  });
  if (e.kernel == nullptr) p.unsupported(op, "its types are not built yet");
  if (kSign == Sign::kept || from == DType::boolean) e.bound.kind = BoundRule::Kind::cast;
  e.flops = is_float(from) == is_float(to) ? 0 : 1;
  if (op.name == "arith.extsi") e.regular = regular_same;
  p.element_op(op, e, op.operands);
}

/// To i1: the lowest bit.
struct LowestBit {
  template <class T>
  static bool apply(T a) {
    return (a & 1) != 0;
  }
};
void plan_trunci(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  if (p.type(op.results[0]).dtype != DType::boolean) {
    plan_convert<Sign::kept>(p, op);
    return;
  }
  ElementOp e;
  e.result = DType::boolean;
  with_integer(p.type(op.operands[0]).dtype,
               [&](auto tag) { e.kernel = run_elements<LowestBit, typename decltype(tag)::type>; });
  if (e.kernel == nullptr) p.unsupported(op, "its types are not built yet");
  p.element_op(op, e, op.operands);
}
/// Both halves of a product.
template <class High>
void plan_wide_product(Planner& p, const Operation& op) {
  p.expect(op, 2, 2);
  if (p.type(op.operands[0]).dtype != DType::i32) p.unsupported(op, "but of 32 bits");
  Operation half = op;
  half.results = {op.results[0]};
  integer_rule<MulI, 2>()(p, half);
  half.results = {op.results[1]};
  integer_rule<High, 2>()(p, half);
}
/// From i1: all bits are its own.
template <class T>
struct AllOnes {
  static T apply(bool a) { return static_cast<T>(a ? -1 : 0); }
};
void plan_extsi(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  if (p.type(op.operands[0]).dtype != DType::boolean) {
    plan_convert<Sign::kept>(p, op);
    return;
  }
  ElementOp e;
  e.result = p.type(op.results[0]).dtype;
  e.poison = PoisonRule::same;
  with_integer(e.result, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) e.kernel = run_elements<AllOnes<T>, bool>;
  });
  if (e.kernel == nullptr) p.unsupported(op, "its types are not built yet");
  p.element_op(op, e, op.operands);
}

void plan_constant(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const Attribute* value = op.find("value");
  static const Attribute kNone;
  p.constant(op.results[0], value == nullptr ? kNone : *value);
}

}  // namespace

void plan_conversion(Planner& p, const Operation& op) { plan_convert<Sign::kept>(p, op); }

void plan_bitcast(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  if (bit_width(p.type(op.operands[0]).dtype) != bit_width(p.type(op.results[0]).dtype))
    p.unsupported(op, "between widths");
  p.reinterpret(op.results[0], op.operands[0]);
}

Rules arith_rules() {
  static const std::vector<Rule> rules = {
      {"arith.constant", "a constant", true, plan_constant},
      {"arith.addf", "a + b", true, float_rule<Add, 2>()},
      {"arith.subf", "a - b", true, float_rule<Sub, 2>()},
      {"arith.mulf", "a * b", true, float_rule<Mul, 2>()},
      {"arith.divf", "a / b", true, float_rule<Div, 2>()},
      {"arith.remf", "a rem b, the sign of a", true, float_rule<RemF, 2>()},
      {"arith.negf", "-a", true, float_rule<Negate, 1>()},
      {"arith.maximumf", "the larger, NaN if one is", true,
       float_rule<MaxF, 2>(1, false, {BoundRule::Kind::rule, "max"})},
      {"arith.minimumf", "the smaller, NaN if one is", true,
       float_rule<MinF, 2>(1, false, {BoundRule::Kind::rule, "min"})},
      {"arith.maxnumf", "the larger, the number beside a NaN", true,
       float_rule<MaxNum, 2>(1, false, {BoundRule::Kind::rule, "max"})},
      {"arith.minnumf", "the smaller, the number beside a NaN", true,
       float_rule<MinNum, 2>(1, false, {BoundRule::Kind::rule, "min"})},
      {"arith.addi", "a + b, wraps", true, integer_rule<AddI, 2>()},
      {"arith.subi", "a - b, wraps", true, integer_rule<SubI, 2>()},
      {"arith.muli", "a * b, wraps", true, integer_rule<MulI, 2>()},
      {"arith.mulsi_extended", "both halves of a * b", true, plan_wide_product<HighS>},
      {"arith.mului_extended", "both halves of a * b without sign", true, plan_wide_product<HighU>},
      {"arith.divsi", "a / b toward zero; -1 if b is 0", true, integer_rule<DivS, 2>()},
      {"arith.divui", "a / b without sign; all ones if b is 0", true, integer_rule<DivU, 2>()},
      {"arith.remsi", "a rem b, the sign of a; a if b is 0", true, integer_rule<RemS, 2>()},
      {"arith.remui", "a rem b without sign; a if b is 0", true, integer_rule<RemU, 2>()},
      {"arith.ceildivsi", "a / b upward", true, integer_rule<CeilDivS, 2>()},
      {"arith.floordivsi", "a / b downward", true, integer_rule<FloorDivS, 2>()},
      {"arith.andi", "a and b, bit by bit", true,
       integer_rule<AndI, 2, true>(PoisonRule::conjunction, "and")},
      {"arith.ori", "a or b, bit by bit", true,
       integer_rule<OrI, 2, true>(PoisonRule::disjunction, "or")},
      {"arith.xori", "a xor b, bit by bit", true,
       integer_rule<XorI, 2, true>(PoisonRule::any, "not_equal")},
      {"arith.shli", "a << b; 0 from the width on", true, integer_rule<ShL, 2>()},
      {"arith.shrsi", "a >> b with the sign", true, integer_rule<ShrS, 2>()},
      {"arith.shrui", "a >> b with zeros", true, integer_rule<ShrU, 2>()},
      {"arith.maxsi", "the larger", true, integer_rule<MaxS, 2>()},
      {"arith.minsi", "the smaller", true, integer_rule<MinS, 2>()},
      {"arith.maxui", "the larger without sign", true, integer_rule<MaxU, 2>()},
      {"arith.minui", "the smaller without sign", true, integer_rule<MinU, 2>()},
      {"arith.cmpi", "compares integers by predicate", true, plan_cmpi},
      {"arith.cmpf", "compares floats by predicate; one is true of NaN", true, plan_cmpf},
      {"arith.select", "condition ? a : b", true, plan_select},
      {"arith.extf", "a wider float", true, plan_conversion},
      {"arith.truncf", "a narrower float, to nearest even", true, plan_conversion},
      {"arith.extsi", "a wider integer with sign", true, plan_extsi},
      {"arith.extui", "a wider integer with zeros", true, plan_convert<Sign::without>},
      {"arith.trunci", "the low bits", true, plan_trunci},
      {"arith.sitofp", "integer to float", true, plan_conversion},
      {"arith.uitofp", "integer without sign to float", true, plan_convert<Sign::without>},
      {"arith.fptosi", "float to integer toward zero, saturating; NaN is 0", true, plan_conversion},
      {"arith.fptoui", "float to integer without sign, saturating", true,
       plan_convert<Sign::without>},
      {"arith.index_cast", "integer to index or back", true, plan_conversion},
      {"arith.bitcast", "the same bits as another type", true, plan_bitcast},
  };
  return rules;
}

}  // namespace tessera::program
