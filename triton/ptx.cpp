#include "triton/ptx.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "memory_model/dtype.hpp"
#include "sim/ops/all.hpp"

namespace tessera::triton::ptx {

bool has(std::span<const std::string> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

namespace {

using Word = std::uint64_t;

constexpr Word low(Word bits, int width) {
  return width >= 64 ? bits : bits & ((Word{1} << width) - 1);
}
constexpr std::int64_t with_sign(Word bits, int width) {
  const int rest = 64 - width;
  return static_cast<std::int64_t>(bits << rest) >> rest;
}

}  // namespace

std::optional<Type> type_of(std::string_view word) {
  static const std::map<std::string_view, Type> others = {
      {"pred", {'p', 1, 1}},   {"bf16", {'h', 16, 1}},  {"bf16x2", {'h', 16, 2}},
      {"f16x2", {'f', 16, 2}}, {"e4m3x2", {'e', 8, 2}}, {"e5m2x2", {'d', 8, 2}},
      {"tf32", {'t', 32, 1}}};
  if (const auto it = others.find(word); it != others.end()) return it->second;
  if (word.size() < 2 || std::string_view("busf").find(word[0]) == std::string_view::npos)
    return std::nullopt;
  for (const int width : {8, 16, 32, 64}) {
    if (word.substr(1) == std::to_string(width) && (word[0] != 'f' || width > 8))
      return Type{word[0], width, 1};
  }
  return std::nullopt;
}

namespace {

/// Rounded to odd, so that rounding to a narrower type is the only rounding.
float odd(double x) {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  if (back == x || std::isnan(x) || std::isinf(nearest)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(back) > std::fabs(x)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <class T>
double value(Word bits) {
  using Bits = std::conditional_t<
      sizeof(T) == 8, std::uint64_t,
      std::conditional_t<sizeof(T) == 4, std::uint32_t,
                         std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  return convert<double>(std::bit_cast<T>(static_cast<Bits>(bits)));
}

}  // namespace

double real(std::uint64_t bits, const Type& t) {
  switch (t.kind) {
    case 'h':
      return value<bf16>(bits);
    case 'e':
      return value<f8e4m3fn>(bits);
    case 'd':
      return value<f8e5m2>(bits);
    default:
      return t.width == 16   ? value<f16>(bits)
             : t.width == 32 ? value<float>(bits)
                             : value<double>(bits);
  }
}

namespace {

/// To nearest even; of f8 with saturation, which is all that cvt has.
Word bits_of(double x, const Type& t) {
  const auto clamped = [&](double most) { return std::isnan(x) ? x : std::clamp(x, -most, most); };
  switch (t.kind) {
    case 'h':
      return std::isnan(x) ? 0x7fffu : std::bit_cast<std::uint16_t>(convert<bf16>(odd(x)));
    case 'e':
      return std::isnan(x) ? 0x7fu
                           : std::bit_cast<std::uint8_t>(convert<f8e4m3fn>(odd(clamped(448))));
    case 'd':
      return std::isnan(x) ? 0x7fu
                           : std::bit_cast<std::uint8_t>(convert<f8e5m2>(odd(clamped(57344))));
    default:
      break;
  }
  if (t.width == 16)
    return std::isnan(x) ? 0x7fffu : std::bit_cast<std::uint16_t>(convert<f16>(odd(x)));
  if (t.width == 32)
    return std::isnan(x) ? 0x7fffffffu : std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return std::bit_cast<std::uint64_t>(x);
}

double flushed(double x, bool ftz) {
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<float>::min());
  return ftz && std::fabs(x) < kLeast ? std::copysign(0., x) : x;
}

/// To an integral number, as .rni, .rzi, .rmi or .rpi say.
double rounded(double x, std::span<const std::string> words) {
  if (has(words, "rzi")) return std::trunc(x);
  if (has(words, "rmi")) return std::floor(x);
  if (has(words, "rpi")) return std::ceil(x);
  return std::nearbyint(x);
}
bool rounds(std::span<const std::string> words) {
  return has(words, "rni") || has(words, "rzi") || has(words, "rmi") || has(words, "rpi");
}

/// Toward zero, to a narrower float.
Word cut(double x, const Type& t) {
  const Word nearest = bits_of(x, t);
  const double back = real(nearest, t);
  if (std::isnan(x) || std::fabs(back) <= std::fabs(x)) return nearest;
  return nearest - 1;  // one nearer to zero: magnitudes are in the low bits
}

Word integer(double x, const Type& t) {
  if (std::isnan(x)) return 0;
  const double most = std::ldexp(1., t.kind == 's' ? t.width - 1 : t.width);
  const double least = t.kind == 's' ? -most : 0;
  if (x <= least) return low(t.kind == 's' ? Word{1} << (t.width - 1) : 0, t.width);
  if (x >= most) return low(t.kind == 's' ? (Word{1} << (t.width - 1)) - 1 : ~Word{0}, t.width);
  return low(x < 0 ? static_cast<Word>(static_cast<std::int64_t>(x)) : static_cast<Word>(x),
             t.width);
}

using Real1 = double (*)(double);
/// Of f32 correctly rounded; of halves by way of it.
template <class Op>
double in_f32(double x) {
  return static_cast<double>(Op::apply(static_cast<float>(x)));
}
Real1 function(std::string_view name) {
  static const std::map<std::string_view, Real1> all = {
      {"ex2", in_f32<Exp2>},
      {"lg2", in_f32<Log2>},
      {"sin", in_f32<Sin>},
      {"cos", in_f32<Cos>},
      {"tanh", in_f32<Tanh>},
      {"rcp", [](double x) { return 1 / x; }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"neg", [](double x) { return -x; }},
      {"abs", [](double x) { return std::fabs(x); }},
  };
  const auto it = all.find(name);
  return it == all.end() ? nullptr : it->second;
}

/// Of two or three reals; exact, or rounded to f64.
using Real3 = double (*)(double, double, double);
Real3 arithmetic(std::string_view name, bool nan) {
  if (name == "min" && nan)
    return [](double a, double b, double) { return a != a ? a : b != b ? b : b < a ? b : a; };
  if (name == "max" && nan)
    return [](double a, double b, double) { return a != a ? a : b != b ? b : a < b ? b : a; };
  static const std::map<std::string_view, Real3> all = {
      {"add", [](double a, double b, double) { return a + b; }},
      {"sub", [](double a, double b, double) { return a - b; }},
      {"mul", [](double a, double b, double) { return a * b; }},
      {"div", [](double a, double b, double) { return a / b; }},
      {"fma", [](double a, double b, double c) { return std::fma(a, b, c); }},
      {"mad", [](double a, double b, double c) { return std::fma(a, b, c); }},
      {"min", [](double a, double b, double) { return std::fmin(a, b); }},
      {"max", [](double a, double b, double) { return std::fmax(a, b); }},
  };
  const auto it = all.find(name);
  return it == all.end() ? nullptr : it->second;
}

Word prmt(Word a, Word b, Word selector) {
  const Word bytes = (b << 32) | a;
  Word r = 0;
  for (int i = 0; i < 4; ++i) {
    const auto s = static_cast<int>(selector >> (4 * i)) & 15;
    Word byte = (bytes >> (8 * (s & 7))) & 255;
    if ((s & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}
Word lop3(Word a, Word b, Word c, Word table) {
  Word r = 0;
  for (int i = 0; i < 32; ++i) {
    const auto at = ((a >> i & 1) << 2) | ((b >> i & 1) << 1) | (c >> i & 1);
    r |= (table >> at & 1) << i;
  }
  return r;
}
Word funnel(Word lo, Word hi, Word by, bool left, bool wrap) {
  const Word n = wrap ? by & 31 : std::min<Word>(by & 0xffffffffu, 32);
  const Word both = (hi << 32) | lo;
  return low(left ? (n == 0 ? hi : both << n >> 32) : n == 32 ? hi : both >> n, 32);
}
Word reversed(Word x, int width) {
  Word r = 0;
  for (int i = 0; i < width; ++i) r |= (x >> i & 1) << (width - 1 - i);
  return r;
}
Word field(Word a, Word at, Word length, const Type& t) {
  at &= 255;
  length &= 255;
  const auto width = static_cast<Word>(t.width);
  const bool sign =
      t.kind == 's' && length > 0 && (a >> std::min(at + length - 1, width - 1) & 1) != 0;
  Word r = at < width ? a >> at : 0;
  const Word kept = std::min(length, at < width ? width - at : 0);
  r = low(r, static_cast<int>(kept));
  if (sign && kept < 64) r |= ~Word{0} << kept;
  return low(r, t.width);
}
Word inserted(Word a, Word into, Word at, Word length, int width) {
  at &= 255;
  length = std::min<Word>(length & 255, 64);
  if (at >= static_cast<Word>(width)) return into;
  const Word mask = low(low(~Word{0}, static_cast<int>(length)) << at, width);
  return (into & ~mask) | (a << at & mask);
}

template <class T>
std::optional<bool> compared(std::string_view by, T a, T b) {
  if (by == "eq") return a == b;
  if (by == "ne") return a < b || b < a;
  if (by == "lt" || by == "lo") return a < b;
  if (by == "le" || by == "ls") return a <= b;
  if (by == "gt" || by == "hi") return a > b;
  if (by == "ge" || by == "hs") return a >= b;
  if constexpr (std::is_same_v<T, double>) {
    const bool unordered = a != a || b != b;
    if (by == "num") return !unordered;
    if (by == "nan") return unordered;
    if (by.ends_with("u")) {
      const auto ordered = compared(by.substr(0, by.size() - 1), a, b);
      if (ordered) return unordered || *ordered;
    }
  }
  return std::nullopt;
}

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == by && depth == 0)
      parts.push_back(std::exchange(part, {}));
    else
      part += c;
  }
  parts.push_back(part);
  return parts;
}
std::string trimmed(std::string_view text) {
  const auto space = " \t\r\n";
  const auto first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(space) - first + 1));
}

/// Without // and /* */.
std::string without_comments(std::string_view text) {
  std::string r;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (rest.starts_with("/*")) {
      const auto end = text.find("*/", i + 2);
      i = end == std::string_view::npos ? text.size() : end + 2;
    } else {
      r += text[i++];
    }
  }
  return r;
}

}  // namespace

Assembly::Assembly(std::string_view text, const std::vector<int>& named) : named_(named) {
  for (const int r : named) registers_ = std::max(registers_, r + 1);
  scopes_.emplace_back();
  const std::string code = without_comments(text);
  std::string part;
  int depth = 0;
  for (const char c : code) {
    const bool starts = trimmed(part).empty();
    if (c == '{' && starts) {
      scopes_.emplace_back();
    } else if (c == '}' && starts) {
      if (scopes_.size() < 2) throw Refused("a brace that closes nothing");
      scopes_.pop_back();
    } else if (c == ';' && depth == 0) {
      statement(trimmed(std::exchange(part, {})));
    } else {
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      part += c;
    }
  }
  statement(trimmed(part));
}

void Assembly::statement(std::string_view text) {
  if (text.empty()) return;
  if (text.starts_with(".reg")) {
    std::string_view rest = text.substr(4);
    rest.remove_prefix(std::min(rest.find('.'), rest.size()));
    rest.remove_prefix(std::min(rest.find_first_of(" \t\r\n"), rest.size()));
    return declare(rest);
  }
  std::optional<Operand> guard;
  if (text.starts_with('@')) {
    const auto end = std::min(text.find_first_of(" \t\r\n"), text.size());
    guard = operand(text.substr(1, end - 1));
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n", end), text.size()));
  }
  const auto end = std::min(text.find_first_of(" \t\r\n"), text.size());
  const std::vector<std::string> words = split(text.substr(0, end), '.');
  std::vector<Operand> operands;
  const std::string rest = trimmed(text.substr(end));
  if (rest.find('[') != std::string::npos || words[0] == "ld" || words[0] == "st" ||
      words[0] == "atom" || words[0] == "red")
    throw Refused(words[0] + ", which accesses memory");
  for (const std::string& each : split(rest, ',')) operands.push_back(operand(trimmed(each)));
  Step step = instruction(words, operands);
  BoundStep bound = bound_step(words, operands);
  if (guard) {
    bound = [bound = std::move(bound), at = guard->registers.at(0), no = guard->negated](
                const Registers& before, const Registers& after, Bounds& b) {
      if ((before[static_cast<std::size_t>(at)] != 0) != no) bound(before, after, b);
    };
    step = [step = std::move(step), at = guard->registers.at(0),
            no = guard->negated](Registers& r) {
      if ((r[static_cast<std::size_t>(at)] != 0) != no) step(r);
    };
  }
  steps_.push_back(std::move(step));
  bound_steps_.push_back(std::move(bound));
}

void Assembly::declare(std::string_view names) {
  for (const std::string& each : split(names, ',')) {
    std::string name = trimmed(each);
    int count = -1;
    if (const auto open = name.find('<'); open != std::string::npos) {
      count = std::atoi(name.c_str() + open + 1);
      name = trimmed(name.substr(0, open));
    }
    if (count < 0)
      scopes_.back()[name] = registers_++;
    else
      for (int i = 0; i < count; ++i) scopes_.back()[name + std::to_string(i)] = registers_++;
  }
}

int Assembly::register_named(std::string_view name) const {
  if (name.starts_with('$')) {
    std::size_t n = named_.size();
    std::from_chars(name.data() + 1, name.data() + name.size(), n);
    if (n < named_.size()) return named_[n];
    throw Refused("the operand " + std::string(name) + ", which the constraints do not have");
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto it = scope->find(name); it != scope->end()) return it->second;
  }
  if (name.starts_with('%')) throw Refused("the register " + std::string(name));
  throw Refused("the name " + std::string(name));
}

Assembly::Operand Assembly::operand(std::string_view text) const {
  Operand o;
  if (text.starts_with('!')) {
    o.negated = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('{')) {
    for (const std::string& each : split(text.substr(1, text.size() - 2), ','))
      o.registers.push_back(register_named(trimmed(each)));
    return o;
  }
  if (const auto bar = text.find('|'); bar != std::string_view::npos) {
    o.second = register_named(trimmed(text.substr(bar + 1)));
    text = text.substr(0, bar);
  }
  const std::string name = trimmed(text);
  const std::string digits = name.starts_with('-') ? name.substr(1) : name;
  if (digits.empty() || std::isdigit(static_cast<unsigned char>(digits[0])) == 0) {
    o.registers = {register_named(name)};
    return o;
  }
  if (digits.size() > 2 && digits[0] == '0' &&
      (digits[1] == 'f' || digits[1] == 'F' || digits[1] == 'd' || digits[1] == 'D')) {
    const Word bits = std::strtoull(digits.c_str() + 2, nullptr, 16);
    o.is_real = true;
    o.real = digits.size() > 10
                 ? std::bit_cast<double>(bits)
                 : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  } else if (digits.find('.') != std::string::npos) {
    o.is_real = true;
    o.real = std::strtod(digits.c_str(), nullptr);
  } else {
    o.immediate = digits.starts_with("0b") || digits.starts_with("0B")
                      ? std::strtoull(digits.c_str() + 2, nullptr, 2)
                      : std::strtoull(digits.c_str(), nullptr, 0);
  }
  if (name.starts_with('-')) {
    o.real = -o.real;
    o.immediate = Word{0} - o.immediate;
  }
  return o;
}

Assembly::Step Assembly::instruction(const std::vector<std::string>& words,
                                     const std::vector<Operand>& operands) {
  const std::string& name = words[0];
  std::string whole;
  for (const std::string& w : words) whole += (whole.empty() ? "" : ".") + w;
  const auto refuse = [&]() { throw Refused(whole); };
  std::vector<Type> types;
  for (const std::string& w : words) {
    if (const auto t = type_of(w)) types.push_back(*t);
  }
  if (types.empty() || operands.size() < 2) refuse();
  const Type t = types.back();
  const auto expect = [&](std::size_t count) {
    if (operands.size() != count) refuse();
  };
  const auto destination = [&]() {
    if (operands[0].registers.size() != 1) refuse();
    return static_cast<std::size_t>(operands[0].registers[0]);
  };
  // What an operand is, as bits of a type.
  const auto source = [&](std::size_t i, const Type& of) -> std::function<Word(const Registers&)> {
    const Operand& o = operands[i];
    if (o.registers.empty()) {
      const Word bits = o.is_real ? bits_of(o.real, of) : low(o.immediate, of.bits());
      return [bits](const Registers&) { return bits; };
    }
    if (o.registers.size() != 1) refuse();
    return [at = static_cast<std::size_t>(o.registers[0]), width = of.bits(), no = o.negated](
               const Registers& r) { return no ? Word{r[at] == 0} : low(r[at], width); };
  };
  for (const char* const mode : {"rm", "rp", "cc", "sync", "relu"}) {
    if (has(words, mode)) refuse();
  }

  if (name == "mov") {
    expect(2);
    const Operand& to = operands[0];
    const Operand& from = operands[1];
    const auto parts = static_cast<int>(std::max(to.registers.size(), from.registers.size()));
    if (parts > 1) {
      if (to.registers.size() > 1 && from.registers.size() > 1) refuse();
      const int width = t.bits() / parts;
      return [to, from, width, parts, bits = t.bits()](Registers& r) {
        if (from.registers.size() == 1) {
          const Word all = r[static_cast<std::size_t>(from.registers[0])];
          for (int i = 0; i < parts; ++i)
            r[static_cast<std::size_t>(to.registers[static_cast<std::size_t>(i)])] =
                low(all >> (width * i), width);
          return;
        }
        Word all = 0;
        for (int i = 0; i < parts; ++i)
          all |=
              low(r[static_cast<std::size_t>(from.registers[static_cast<std::size_t>(i)])], width)
              << (width * i);
        r[static_cast<std::size_t>(to.registers[0])] = low(all, bits);
      };
    }
    return [d = destination(), a = source(1, t)](Registers& r) { r[d] = a(r); };
  }

  if (name == "cvt") {
    if (types.size() != 2) refuse();
    const Type to = types[0];
    const Type from = t;
    const bool zero = has(words, "rz");
    const bool ftz = has(words, "ftz");
    const bool saturate = has(words, "sat");
    if (to.kind == 't') {
      const bool even = has(words, "rn");
      if (from.kind != 'f' || from.width != 32 || (!even && !has(words, "rna"))) refuse();
      return [d = destination(), a = source(1, from), even](Registers& r) {
        const Word x = a(r);
        const Word half = even ? 0xfffu + (x >> 13 & 1) : 0x1000u;
        r[d] = (x & 0x7f800000u) == 0x7f800000u ? x : low(x + half, 32) & 0xffffe000u;
      };
    }
    const auto one = [=, words = words](Word bits) -> Word {
      if (from.real() && to.real()) {
        double x = flushed(real(bits, from), ftz);
        if (rounds(words)) x = rounded(x, words);
        if (saturate) x = std::isnan(x) ? 0 : std::clamp(x, 0., 1.);
        if (std::isnan(x) && to.kind == from.kind && to.width == from.width) return bits;
        return zero ? cut(x, to) : bits_of(flushed(x, ftz && to.width == 32), to);
      }
      if (from.real()) return integer(rounded(flushed(real(bits, from), ftz), words), to);
      const std::int64_t n = from.kind == 's' ? with_sign(bits, from.width) : 0;
      if (to.real()) {
        if (to.width == 64) {
          return std::bit_cast<Word>(from.kind == 's' ? static_cast<double>(n)
                                                      : static_cast<double>(bits));
        }
        if (to.width == 32) {
          return std::bit_cast<std::uint32_t>(from.kind == 's' ? static_cast<float>(n)
                                                               : static_cast<float>(bits));
        }
        return bits_of(from.kind == 's' ? static_cast<double>(n) : static_cast<double>(bits), to);
      }
      if (saturate) {
        const double x = from.kind == 's' ? static_cast<double>(n) : static_cast<double>(bits);
        if (std::fabs(x) < 0x1p53) return integer(x, to);
      }
      return low(from.kind == 's' ? static_cast<Word>(n) : bits, to.width);
    };
    if (from.real() && !to.real() && !rounds(words)) refuse();
    if (to.pair == 2 && from.pair == 1) {  // two operands, the first one is the upper half
      expect(3);
      return [d = destination(), a = source(1, from), b = source(2, from), one, to](Registers& r) {
        r[d] = one(a(r)) << to.width | one(b(r));
      };
    }
    if (to.pair != from.pair) refuse();
    expect(2);
    return [d = destination(), a = source(1, from), one, to, from](Registers& r) {
      const Word x = a(r);
      Word all = 0;
      for (int i = 0; i < from.pair; ++i)
        all |= one(low(x >> (from.width * i), from.width)) << (to.width * i);
      r[d] = all;
    };
  }

  if (name == "setp") {
    expect(3);
    const std::string& by = words[1];
    const bool pair = operands[0].second >= 0;
    if (pair != (t.pair == 2)) refuse();
    const auto test = [t, by, ftz = has(words, "ftz")](Word a, Word b) {
      if (t.real()) return compared(by, flushed(real(a, t), ftz), flushed(real(b, t), ftz));
      if (t.kind == 's') return compared(by, with_sign(a, t.width), with_sign(b, t.width));
      return compared(by, a, b);
    };
    if (!test(0, 0)) refuse();
    return [d = destination(), second = operands[0].second, a = source(1, t), b = source(2, t),
            test, t](Registers& r) {
      const Word x = a(r);
      const Word y = b(r);
      r[d] = *test(low(x, t.width), low(y, t.width)) ? 1 : 0;
      if (second >= 0)
        r[static_cast<std::size_t>(second)] = *test(x >> t.width, y >> t.width) ? 1 : 0;
    };
  }
  if (name == "selp") {
    expect(4);
    return [d = destination(), a = source(1, t), b = source(2, t),
            p = source(3, {'p', 1, 1})](Registers& r) { r[d] = p(r) != 0 ? a(r) : b(r); };
  }

  // Of one to four operands, element by element.
  std::function<Word(const Word*)> one;
  Type to = t;
  std::vector<Type> in(operands.size() - 1, t);
  if (t.real()) {
    const bool ftz = has(words, "ftz");
    const bool saturate = has(words, "sat");
    if (has(words, "rz")) refuse();
    const std::size_t count = operands.size() - 1;
    const Real1 f = count == 1 ? function(name) : nullptr;
    const Real3 g = arithmetic(name, has(words, "NaN"));
    const std::size_t wanted = name == "fma" || name == "mad" ? 3 : 2;
    if (f == nullptr && (g == nullptr || count != wanted)) refuse();
    const bool xorsign = has(words, "xorsign");  // of magnitudes, with the product's sign
    if (xorsign && ((name != "min" && name != "max") || !has(words, "abs"))) refuse();
    if (t.width == 64 && f != nullptr &&
        !(name == "neg" || name == "abs" || name == "rcp" || name == "sqrt" || name == "rsqrt"))
      refuse();
    if (name == "neg" || name == "abs") {
      const Word sign = Word{1} << (t.width - 1);
      one = [sign, negate = name == "neg"](const Word* x) {
        return negate ? x[0] ^ sign : x[0] & ~sign;
      };
    } else {
      one = [=](const Word* x) -> Word {
        std::array<double, 3> v{};
        for (std::size_t i = 0; i < count; ++i) {
          v[i] = flushed(real(x[i], t), ftz);
          if (xorsign) v[i] = std::fabs(v[i]);
        }
        double y = 0;
        if (f != nullptr)
          y = f(v[0]);
        else if (t.width == 32 && wanted == 3)
          y = static_cast<double>(std::fma(static_cast<float>(v[0]), static_cast<float>(v[1]),
                                           static_cast<float>(v[2])));
        else
          y = g(v[0], v[1], v[2]);
        if (xorsign && !std::isnan(y))
          y = std::copysign(y, ((x[0] ^ x[1]) >> (t.width - 1) & 1) != 0 ? -1. : 1.);
        if (saturate) y = std::isnan(y) ? 0 : std::clamp(y, 0., 1.);
        const Word bits = bits_of(y, t);
        return ftz && t.width == 32 ? bits_of(flushed(real(bits, t), true), t) : bits;
      };
    }
  } else {
    const int w = t.width;
    const bool sign = t.kind == 's';
    const auto binary = [&](auto f) {
      expect(3);
      one = [f](const Word* x) { return f(x[0], x[1]); };
    };
    const auto unary = [&](auto f) {
      expect(2);
      one = [f](const Word* x) { return f(x[0]); };
    };
    const auto number = [sign, w](Word x) { return sign ? with_sign(x, w) : 0; };
    const auto product = [sign, w, number](Word a, Word b, bool high) -> Word {
      if (!high) return a * b;
      if (sign) return static_cast<Word>((static_cast<__int128>(number(a)) * number(b)) >> w);
      return static_cast<Word>((static_cast<unsigned __int128>(a) * b) >> w);
    };
    const bool wide = has(words, "wide");
    const bool high = has(words, "hi");
    if (has(words, "sat") || (wide && w > 32)) refuse();
    if (wide) to.width = 2 * w;
    const auto full = [sign, number](Word a, Word b) -> Word {
      return sign ? static_cast<Word>(number(a) * number(b)) : a * b;
    };
    if (name == "add") {
      binary([](Word a, Word b) { return a + b; });
    } else if (name == "sub") {
      binary([](Word a, Word b) { return a - b; });
    } else if (name == "mul") {
      binary([=](Word a, Word b) { return wide ? full(a, b) : product(a, b, high); });
    } else if (name == "mad") {
      expect(4);
      in[2] = to;
      one = [=](const Word* x) {
        return (wide ? full(x[0], x[1]) : product(x[0], x[1], high)) + x[2];
      };
    } else if (name == "div" || name == "rem") {
      const bool quotient = name == "div";
      binary([=](Word a, Word b) -> Word {
        if (b == 0) return quotient ? ~Word{0} : a;
        if (!sign) return quotient ? a / b : a % b;
        if (number(b) == -1) return quotient ? Word{0} - a : 0;
        return static_cast<Word>(quotient ? number(a) / number(b) : number(a) % number(b));
      });
    } else if (name == "min" || name == "max") {
      binary([=, least = name == "min"](Word a, Word b) {
        const bool less = sign ? number(a) < number(b) : a < b;
        return less == least ? a : b;
      });
    } else if (name == "and") {
      binary([](Word a, Word b) { return a & b; });
    } else if (name == "or") {
      binary([](Word a, Word b) { return a | b; });
    } else if (name == "xor") {
      binary([](Word a, Word b) { return a ^ b; });
    } else if (name == "not") {
      unary([pred = t.kind == 'p'](Word a) { return pred ? Word{a == 0} : ~a; });
    } else if (name == "neg") {
      unary([](Word a) { return Word{0} - a; });
    } else if (name == "abs") {
      unary([number](Word a) { return number(a) < 0 ? Word{0} - a : a; });
    } else if (name == "shl") {
      in[1] = {'u', 32, 1};
      binary([w](Word a, Word n) { return n >= static_cast<Word>(w) ? Word{0} : a << n; });
    } else if (name == "shr") {
      in[1] = {'u', 32, 1};
      binary([=](Word a, Word n) -> Word {
        const Word by = std::min<Word>(n, static_cast<Word>(w));
        if (sign) return static_cast<Word>(number(a) >> std::min<Word>(by, 63));
        return by >= static_cast<Word>(w) ? 0 : a >> by;
      });
    } else if (name == "popc") {
      to = {'u', 32, 1};
      unary([](Word a) { return static_cast<Word>(std::popcount(a)); });
    } else if (name == "clz") {
      to = {'u', 32, 1};
      unary([w](Word a) { return static_cast<Word>(std::countl_zero(a) - (64 - w)); });
    } else if (name == "brev") {
      unary([w](Word a) { return reversed(a, w); });
    } else if (name == "bfe") {
      expect(4);
      in[1] = in[2] = {'u', 32, 1};
      one = [t](const Word* x) { return field(x[0], x[1], x[2], t); };
    } else if (name == "bfi") {
      expect(5);
      in[2] = in[3] = {'u', 32, 1};
      one = [w](const Word* x) { return inserted(x[0], x[1], x[2], x[3], w); };
    } else if (name == "prmt" && words.size() == 2) {
      expect(4);
      one = [](const Word* x) { return prmt(x[0], x[1], x[2]); };
    } else if (name == "lop3") {
      expect(5);
      one = [](const Word* x) { return lop3(x[0], x[1], x[2], x[3]); };
    } else if (name == "shf") {
      expect(4);
      one = [left = has(words, "l"), wrap = has(words, "wrap")](const Word* x) {
        return funnel(x[0], x[1], x[2], left, wrap);
      };
    } else {
      refuse();
    }
  }
  std::vector<std::function<Word(const Registers&)>> sources;
  for (std::size_t i = 0; i < in.size(); ++i) sources.push_back(source(i + 1, in[i]));
  if (sources.size() > 4) refuse();
  return [d = destination(), sources, one, t, to](Registers& r) {
    std::array<Word, 4> all{};
    for (std::size_t i = 0; i < sources.size(); ++i) all[i] = sources[i](r);
    if (t.pair == 1) {
      r[d] = low(one(all.data()), to.width);
      return;
    }
    Word result = 0;
    for (int k = 0; k < t.pair; ++k) {
      std::array<Word, 4> part{};
      for (std::size_t i = 0; i < sources.size(); ++i)
        part[i] = low(all[i] >> (t.width * k), t.width);
      result |= low(one(part.data()), to.width) << (to.width * k);
    }
    r[d] = result;
  };
}

}  // namespace tessera::triton::ptx
