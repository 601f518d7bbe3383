// Bounds of what PTX instructions give (ptx.hpp).
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "triton/ptx.hpp"

namespace tessera::triton::ptx {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// Unit roundoff, and the least normal number.
double unit_of(const Type& t) {
  if (t.kind == 'h') return 0x1p-8;
  return t.width == 16 ? 0x1p-11 : t.width == 32 ? 0x1p-24 : 0x1p-53;
}
double tiny_of(const Type& t) { return t.kind == 'f' && t.width == 16 ? 0x1p-14 : 0x1p-126; }

/// What the PTX ISA states of a function's error.
struct Stated {
  double relative = 0;
  double absolute = 0;
};
Stated stated(std::string_view name, std::span<const std::string> words, const Type& t, double x) {
  const bool half = t.width == 16;
  if (half && name == "ex2") return {.relative = t.kind == 'h' ? 0x1p-7 : std::exp2(-9.9)};
  if (half && name == "tanh") return {.absolute = t.kind == 'h' ? 0x1p-8 : std::exp2(-10.987)};
  if (half || t.width == 64) return {.relative = kUnknown};
  if (name == "ex2") return {.relative = 0x1p-22};  // two ulps
  if (name == "lg2") {
    if (x > 0.5 && x < 2) return {.absolute = 0x1p-22};
    return {.relative = 0x1p-22};
  }
  if (name == "tanh") return {.relative = 0x1p-11};
  if (name == "sqrt") return {.relative = 0x1p-23};
  if (name == "rsqrt") return {.relative = std::exp2(-22.9)};
  if (name == "rcp") return {.relative = 0x1p-23};  // an ulp
  if (name == "sin" || name == "cos") {
    constexpr double kPi = 3.141592653589793;
    if (std::fabs(x) <= 2 * kPi) return {.absolute = std::exp2(-20.5)};
    if (std::fabs(x) <= 100 * kPi) return {.absolute = std::exp2(-14.7)};
    return {.absolute = kUnknown};
  }
  if (name == "div") {  // two ulps; of .approx not where the divisor is very large or small
    const double size = std::fabs(x);
    const bool within = has(words, "full") || (size >= 0x1p-126 && size <= 0x1p126);
    return {.relative = within ? 0x1p-22 : kUnknown};
  }
  return {.relative = kUnknown};
}

/// How far f is from f(x) anywhere within e of x, of one that is monotone there.
template <class F>
double reach(F&& f, double x, double e) {
  const double is = f(x);
  const double apart = std::max(std::fabs(f(x + e) - is), std::fabs(f(x - e) - is));
  return apart >= 0 ? apart * (1 + 0x1p-40) : kUnknown;
}

/// What operands' bounds do to an exact result.
double propagated(std::string_view name, const std::array<double, 3>& x,
                  const std::array<double, 3>& e) {
  if (name == "add" || name == "sub") return e[0] + e[1];
  if (name == "mul") return std::fabs(x[0]) * e[1] + std::fabs(x[1]) * e[0] + e[0] * e[1];
  if (name == "fma" || name == "mad")
    return std::fabs(x[0]) * e[1] + std::fabs(x[1]) * e[0] + e[0] * e[1] + e[2];
  if (name == "min" || name == "max") return std::max(e[0], e[1]);
  if (name == "neg" || name == "abs" || name == "sin" || name == "cos") return e[0];
  if (name == "div") {
    const double least = std::fabs(x[1]) - e[1];
    if (e[0] == 0 && e[1] == 0) return 0;
    return least > 0 ? (std::fabs(x[0] / x[1]) * e[1] + e[0]) / least : kUnknown;
  }
  if (e[0] == 0) return 0;
  if (name == "ex2") return reach([](double v) { return std::exp2(v); }, x[0], e[0]);
  if (name == "tanh") return reach([](double v) { return std::tanh(v); }, x[0], e[0]);
  const double least = std::fabs(x[0]) - e[0];
  if (name == "rcp" && least > 0) return reach([](double v) { return 1 / v; }, x[0], e[0]);
  if (x[0] < 0 || least <= 0) return kUnknown;
  if (name == "sqrt") return reach([](double v) { return std::sqrt(v); }, x[0], e[0]);
  if (name == "rsqrt") return reach([](double v) { return 1 / std::sqrt(v); }, x[0], e[0]);
  if (name == "lg2") return reach([](double v) { return std::log2(v); }, x[0], e[0]);
  return kUnknown;
}

std::string joined(const std::vector<std::string>& words) {
  std::string whole;
  for (const std::string& w : words) whole += (whole.empty() ? "" : ".") + w;
  return whole;
}

std::uint64_t lane(std::uint64_t bits, const Type& t, int k) {
  const std::uint64_t from = bits >> (t.width * k);
  return t.width >= 64 ? from : from & ((std::uint64_t{1} << t.width) - 1);
}

}  // namespace

Assembly::BoundStep Assembly::bound_step(const std::vector<std::string>& words,
                                         const std::vector<Operand>& operands) {
  const std::string& name = words[0];
  std::vector<Type> types;
  for (const std::string& w : words) {
    if (const auto t = type_of(w)) types.push_back(*t);
  }
  const Type to = types.front();
  const Type t = types.back();
  const auto at = [](int r) { return static_cast<std::size_t>(r); };
  const std::string whole = joined(words);
  const auto refuse = [whole] { throw Refused(whole + " of bits that may be others"); };
  std::vector<int> reads;
  for (std::size_t i = 1; i < operands.size(); ++i)
    reads.insert(reads.end(), operands[i].registers.begin(), operands[i].registers.end());
  std::vector<int> writes = operands[0].registers;
  if (operands[0].second >= 0) writes.push_back(operands[0].second);
  const auto exact = [reads, at](const Bounds& b) {
    return std::ranges::all_of(reads, [&](int r) { return b[at(r)].exact(); });
  };
  const auto forget = [writes, at](Bounds& b) {
    for (const int r : writes) b[at(r)] = {};
  };
  /// Of operand i, of floats of type `of`: value and bound of lane k.
  const auto value = [operands, at, refuse](std::size_t i, const Type& of, int k,
                                            const Registers& before, const Bounds& b, double& off) {
    const Operand& o = operands[i];
    off = 0;
    if (o.registers.empty()) return o.is_real ? o.real : real(lane(o.immediate, of, k), of);
    const Bound& bound = b[at(o.registers[0])];
    if (!bound.exact() && (bound.kind != of.kind || bound.width != of.width)) refuse();
    off = bound.off[static_cast<std::size_t>(k)];
    return real(lane(before[at(o.registers[0])], of, k), of);
  };

  if (name == "mov" || name == "selp") {
    return [=](const Registers& before, const Registers&, Bounds& b) {
      if (exact(b)) return forget(b);
      const std::vector<int>& from = operands[1].registers;
      if (name == "selp") {
        const Operand& which = operands[3];
        if (which.registers.size() != 1) refuse();
        const bool first = (before[at(which.registers[0])] != 0) != which.negated;
        const std::vector<int>& taken = operands[first ? 1 : 2].registers;
        b[at(writes[0])] = taken.empty() ? Bound{} : b[at(taken[0])];
      } else if (from.size() == 1 && writes.size() == 1) {
        b[at(writes[0])] = b[at(from[0])];
      } else if (from.size() == 2 && writes.size() == 1) {
        const Bound low = b[at(from[0])];
        const Bound high = b[at(from[1])];
        const Bound& known = low.exact() ? high : low;
        if (2 * known.width != t.bits() ||
            (!low.exact() && !high.exact() && (low.kind != high.kind || low.width != high.width)))
          refuse();
        b[at(writes[0])] = {{low.off[0], high.off[0]}, known.kind, known.width};
      } else if (from.size() == 1 && writes.size() == 2) {
        const Bound both = b[at(from[0])];
        if (2 * both.width != t.bits()) refuse();
        b[at(writes[0])] = {{both.off[0], 0}, both.kind, both.width};
        b[at(writes[1])] = {{both.off[1], 0}, both.kind, both.width};
      } else {
        refuse();
      }
    };
  }
  const bool widen = name == "cvt" && to.pair == 2 && t.pair == 1;
  if (name == "cvt" && types.size() == 2 && t.real() && (to.real() || to.kind == 't')) {
    const bool integral = has(words, "rni") || has(words, "rzi") || has(words, "rmi") ||
                          has(words, "rpi") || to.width == 8;
    return [=](const Registers& before, const Registers& after, Bounds& b) {
      if (exact(b)) return forget(b);
      if (integral) refuse();
      Bound made{{}, to.kind == 't' ? 'f' : to.kind, to.width};
      for (int k = 0; k < to.pair; ++k) {
        double e = 0;
        const double x =
            widen ? value(k == 0 ? 2 : 1, t, 0, before, b, e) : value(1, t, k, before, b, e);
        // Both sides round to within an ulp, as .rz does, too.
        const double unit = to.kind == 't' ? 0x1p-11 : unit_of(to);
        const bool rounds = to.kind == 't' || unit > unit_of(t);
        const double is = real(lane(after[at(writes[0])], made.kind == to.kind ? to : t, k),
                               made.kind == to.kind ? to : t);
        if (e == 0) continue;
        made.off[static_cast<std::size_t>(k)] =
            e + (rounds ? 2 * unit * (std::fabs(is) + std::fabs(x) + e) + tiny_of(to) : 0);
      }
      b[at(writes[0])] = made;
    };
  }
  const bool function = operands.size() == 2;
  const bool approximate = has(words, "approx") || has(words, "full");
  const bool arithmetic = name == "add" || name == "sub" || name == "mul" || name == "fma" ||
                          name == "mad" || name == "min" || name == "max" || name == "neg" ||
                          name == "abs" || name == "div" || name == "ex2" || name == "lg2" ||
                          name == "sin" || name == "cos" || name == "tanh" || name == "rcp" ||
                          name == "sqrt" || name == "rsqrt";
  if (!t.real() || t.width == 8 || !arithmetic || name == "cvt") {
    return [=](const Registers&, const Registers&, Bounds& b) {
      if (!exact(b)) refuse();
      forget(b);
    };
  }
  const bool chosen = name == "min" || name == "max" || name == "neg" || name == "abs";
  const bool contracted = name == "mul" && !has(words, "rn");  // ptxas may fuse it
  const bool signs = has(words, "xorsign");
  return [=](const Registers& before, const Registers& after, Bounds& b) {
    if (signs && !exact(b)) refuse();
    Bound made{{}, t.kind, t.width};
    for (int k = 0; k < t.pair; ++k) {
      std::array<double, 3> x{};
      std::array<double, 3> e{};
      for (std::size_t i = 1; i < operands.size() && i <= 3; ++i)
        x[i - 1] = value(i, t, k, before, b, e[i - 1]);
      const double z = real(lane(after[at(writes[0])], t, k), t);
      const double p = propagated(name, x, e);
      double& off = made.off[static_cast<std::size_t>(k)];
      if (p == 0 && !approximate) {
        // An f64 holds a product of halves or of f32; of f64 nothing is contracted here.
        if (contracted && std::isfinite(z) && t.width < 64) off = std::fabs(x[0] * x[1] - z);
        continue;
      }
      const Stated s = approximate ? stated(name, words, t, function ? x[0] : x[1]) : Stated{};
      const double unit = chosen ? 0 : unit_of(t);
      const double size = (std::fabs(z) + p) * (1 + unit);
      off = p + (s.relative > 0 ? s.relative * size : 0) + s.absolute + 2 * unit * size +
            (chosen ? 0 : tiny_of(t));
      if (!(off >= 0) || !std::isfinite(z)) off = kUnknown;
    }
    b[at(writes[0])] = made;
  };
}

}  // namespace tessera::triton::ptx
