// What a GPU's compiler makes of ops of f32 (--profile gpu:hopper), where that is not what the
// other rules have.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

#include "program/elements.hpp"
#include "program/rules.hpp"
#include "sim/numerics/libdevice.hpp"
#include "sim/ops/all.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

using Plan = std::function<void(Planner&, const Operation&)>;

template <float (*kFunction)(float)>
struct UnaryFunction {
  static float apply(float x) { return kFunction(x); }
};
/// Of f32 alone: of other floats nobody has looked.
template <class Op, int kArity>
Plan of_f32(bool transcendental = true) {
  return [=](Planner& p, const Operation& op) {
    p.expect(op, kArity, 1);
    if (p.type(op.results[0]).dtype != DType::f32)
      p.unmodelled(op, "as a GPU has it, of another type than f32");
    float_rule<Op, kArity>(1, transcendental)(p, op);
  };
}
template <float (*kOne)(float)>
Plan function() {
  return of_f32<UnaryFunction<kOne>, 1>();
}

/// libdevice's with subnormal operands and results taken for zero.
template <class Op>
struct Flushed {
  template <class... T>
  static float apply(T... x) {
    return libdevice::flushed(Op::apply(libdevice::flushed(x)...));
  }
};
struct MultiplyAdd {
  static float apply(float a, float b, float c) { return std::fma(a, b, c); }
};

struct Remainder {
  static float apply(float a, float b) { return libdevice::rem(a, b); }
};
struct Quotient {
  static float apply(float a, float b) { return libdevice::div(a, b); }
};

/// a b + c of numbers of at most 11 bits, cut to f32 with its last bit set where that is not exact,
/// so that another rounding to at most 22 bits is the only one.
float odd_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double sum = product + static_cast<double>(c);
  const double part = sum - product;
  const double error = (product - (sum - part)) + (static_cast<double>(c) - part);
  const auto nearest = static_cast<float>(sum);
  const double rest = (sum - static_cast<double>(nearest)) + error;
  if (!(rest != 0) || std::isinf(nearest)) return nearest;
  if (nearest == 0)
    return rest < 0 ? -std::numeric_limits<float>::denorm_min()
                    : std::numeric_limits<float>::denorm_min();
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if ((rest < 0) == (nearest > 0)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <int kForm, bool kOnce>
struct Contracted {
  static float apply(float a, float b, float c) {
    const float x = (kForm & 1) != 0 ? -a : a;
    const float z = (kForm & 2) != 0 ? -c : c;
    return kOnce ? std::fma(x, b, z) : odd_fma(x, b, z);
  }
};
template <int kForm>
void plan_form(Planner& p, const Operation& op) {
  constexpr int kFlops = 2;
  if (p.type(op.results[0]).dtype == DType::f32)
    float_rule<Contracted<kForm, true>, 3>(kFlops)(p, op);
  else
    float_rule<Contracted<kForm, false>, 3>(kFlops)(p, op);
}
void plan_contracted(Planner& p, const Operation& op) {
  constexpr void (*kForms[])(Planner&, const Operation&) = {plan_form<0>, plan_form<1>,
                                                            plan_form<2>, plan_form<3>};
  kForms[p.integer(op, "form")](p, op);
}

/// By libdevice's name, without "__nv_".
const std::map<std::string, Plan>& libdevice_functions() {
  static const std::map<std::string, Plan> all = {
      {"cosf", function<libdevice::cos>()},
      {"erff", function<libdevice::erf>()},
      {"exp2f", function<libdevice::exp2>()},
      {"expf", function<libdevice::expf>()},
      {"log1pf", function<libdevice::log1p>()},
      {"log2f", function<libdevice::log2>()},
      {"logf", function<libdevice::log>()},
      {"rsqrtf", function<libdevice::rsqrt>()},
      {"sinf", function<libdevice::sin>()},
      {"sqrtf", function<libdevice::sqrt>()},
      {"tanhf", function<libdevice::tanh>()},
      {"ceilf", of_f32<Flushed<Ceil>, 1>(false)},
      {"fabsf", of_f32<Flushed<Abs>, 1>(false)},
      {"fadd_rn", of_f32<Flushed<Add>, 2>(false)},
      {"fdiv_rn", of_f32<Flushed<Div>, 2>(false)},
      {"floorf", of_f32<Flushed<Floor>, 1>(false)},
      {"fmaf", of_f32<Flushed<MultiplyAdd>, 3>(false)},
      {"fmul_rn", of_f32<Flushed<Mul>, 2>(false)},
      {"fsqrt_rn", of_f32<Flushed<Sqrt>, 1>(false)},
      {"fsub_rn", of_f32<Flushed<Sub>, 2>(false)},
  };
  return all;
}

void plan_extern(Planner& p, const Operation& op) {
  const std::string symbol = p.text(op, "symbol");
  const std::string name = symbol.starts_with("__nv_") ? symbol.substr(5) : symbol;
  if (const auto it = libdevice_functions().find(name); it != libdevice_functions().end())
    return it->second(p, op);
  if (differs_on_gpus(name))
    p.unmodelled(op, "nobody has modelled a GPU's " + symbol + " bit by bit");
  plan_libdevice(p, op);
}

}  // namespace

Rules gpu_rules() {
  static const std::vector<Rule> rules = {
      {"arith.divf", "a / b, div.full", true, of_f32<Quotient, 2>(false)},
      {"arith.remf", "a - trunc(a / b) b", true, of_f32<Remainder, 2>(false)},
      {"math.cos", "cos a, libdevice's", true, function<libdevice::cos>()},
      {"math.erf", "erf a, libdevice's", true, function<libdevice::erf>()},
      {"math.exp", "e^a by ex2.approx", true, function<libdevice::exp>()},
      {"math.exp2", "2^a, ex2.approx.ftz", true, function<libdevice::exp2>()},
      {"math.log", "ln a, libdevice's", true, function<libdevice::log>()},
      {"math.log2", "log2 a, libdevice's", true, function<libdevice::log2>()},
      {"math.rsqrt", "rsqrt.approx.ftz", true, function<libdevice::rsqrt>()},
      {"math.sin", "sin a, libdevice's", true, function<libdevice::sin>()},
      {"math.sqrt", "sqrt.approx.ftz", true, function<libdevice::sqrt>()},
      {"tt.contracted", "a product and a sum, rounded once", true, plan_contracted},
      {"tt.extern_elementwise", "a function of libdevice, by name", true, plan_extern},
  };
  return rules;
}

}  // namespace tessera::triton
