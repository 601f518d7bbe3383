#include "triton/widths.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>

namespace tessera::triton {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;

std::int64_t power_in(std::int64_t value) { return value == 0 ? kMost : value & -value; }

/// Of a value along its dims: runs of elements that go up by one; what the first of each run is a
/// multiple of (a pointer: bytes); runs of elements that are equal.
struct Axis {
  std::int64_t run = 1;
  std::int64_t multiple = 1;
  std::int64_t equal = 1;
  bool operator==(const Axis&) const = default;
};
struct KnownAxes {
  std::vector<Axis> axes = {};
  std::optional<std::int64_t> value = {};
  bool operator==(const KnownAxes&) const = default;
};

Axis joined(const Axis& a, const Axis& b) {
  return {std::gcd(a.run, b.run), std::gcd(a.multiple, b.multiple), std::gcd(a.equal, b.equal)};
}

class Widths {
 public:
  explicit Widths(const Module& module) : module_(module), known_(module.values.size()) {}

  std::vector<AccessWidth> of(const Function& f) {
    const auto attributes = f.attributes.find("arg_attrs");
    for (std::size_t i = 0; i < f.body.arguments.size(); ++i) {
      KnownAxes k = nothing_of(f.body.arguments[i]);
      if (attributes != f.attributes.end() && i < attributes->second.list.size()) {
        const auto& of_argument = attributes->second.list[i].dictionary;
        const auto it = of_argument.find("tt.divisibility");
        if (it != of_argument.end())
          for (Axis& a : k.axes) a.multiple = std::max<std::int64_t>(1, it->second.integer);
      }
      know(f.body.arguments[i], std::move(k));
    }
    do {  // loops go back
      changed_ = false;
      region(f.body, {});
    } while (changed_);
    return widths_;
  }

 private:
  std::vector<std::int64_t> extents(int v) const {
    const Type& t = module_.type(v);
    std::vector<std::int64_t> all;
    if (t.kind == Type::Kind::vector) {
      for (int d = 0; d < t.shape.rank; ++d) all.push_back(t.shape[d]);
    }
    if (all.empty()) all.push_back(1);
    return all;
  }
  KnownAxes nothing_of(int v) const { return {std::vector<Axis>(extents(v).size()), {}}; }
  const KnownAxes& of(int v) { return known_[static_cast<std::size_t>(v)]; }

  /// What is found of a value later can only be less.
  void know(int v, KnownAxes k) {
    KnownAxes& old = known_[static_cast<std::size_t>(v)];
    if (!old.axes.empty() && old.axes.size() == k.axes.size()) {
      for (std::size_t d = 0; d < k.axes.size(); ++d) k.axes[d] = joined(old.axes[d], k.axes[d]);
      if (old.value != k.value) k.value.reset();
    }
    changed_ = changed_ || old != k;
    old = std::move(k);
  }

  void region(const Region& r, const std::vector<std::vector<int>>& yields) {
    for (const Operation& op : r.operations) {
      if (&op == &r.operations.back() && !yields.empty() && yields.size() == op.operands.size()) {
        for (std::size_t i = 0; i < yields.size(); ++i) {
          for (const int to : yields[i]) know(to, of(op.operands[i]));
        }
        continue;
      }
      operation(op);
    }
    for (const Region& other : r.others) {
      for (const int v : other.arguments) know(v, nothing_of(v));
      region(other, yields);
    }
  }

  void operation(const Operation& op) {
    if (op.name == "tt.load" || op.name == "tt.store") access(op);
    if (op.name == "scf.for" && op.regions.size() == 1 &&
        op.operands.size() == op.results.size() + 3 &&
        op.regions[0].arguments.size() == op.results.size() + 1) {
      const Region& body = op.regions[0];
      KnownAxes turn = nothing_of(body.arguments[0]);
      turn.axes[0].multiple =
          std::gcd(of(op.operands[0]).axes[0].multiple, of(op.operands[2]).axes[0].multiple);
      know(body.arguments[0], std::move(turn));
      std::vector<std::vector<int>> yields;
      for (std::size_t i = 0; i < op.results.size(); ++i) {
        know(body.arguments[i + 1], of(op.operands[i + 3]));
        know(op.results[i], of(op.operands[i + 3]));
        yields.push_back({body.arguments[i + 1], op.results[i]});
      }
      region(body, yields);
      return;
    }
    std::vector<std::vector<int>> yields;
    const bool branch = op.name == "scf.if";
    if (branch) {
      for (const int v : op.results) yields.push_back({v});
    }
    for (const Region& body : op.regions) {
      for (const int v : body.arguments) know(v, nothing_of(v));
      region(body, yields);
    }
    if (branch) return;
    for (std::size_t i = 0; i < op.results.size(); ++i)
      know(op.results[i], i == 0 ? made_by(op) : nothing_of(op.results[i]));
  }

  KnownAxes made_by(const Operation& op) {
    const int v = op.results[0];
    KnownAxes k = nothing_of(v);
    const std::vector<std::int64_t> size = extents(v);
    const std::string_view name = op.name;
    const auto same = [&](int operand) { return of(operand).axes.size() == k.axes.size(); };
    const auto two = [&](auto&& rule) {
      if (!same(op.operands[0]) || !same(op.operands[1])) return;
      for (std::size_t d = 0; d < size.size(); ++d)
        k.axes[d] = rule(of(op.operands[0]).axes[d], of(op.operands[1]).axes[d]);
    };
    const auto value = [&](std::size_t i) { return of(op.operands[i]).value; };
    if (name == "arith.constant") {
      constant(op, size, k);
    } else if (name == "tt.make_range") {
      const Attribute* const start = op.find("start");
      const std::int64_t first = start != nullptr ? start->integer : 0;
      k.axes[0] = {size[0], power_in(first), 1};
    } else if (name == "tt.splat") {
      const KnownAxes& from = of(op.operands[0]);
      for (std::size_t d = 0; d < size.size(); ++d) k.axes[d] = {1, from.axes[0].multiple, size[d]};
      k.value = from.value;
    } else if (name == "arith.extsi" || name == "arith.extui" || name == "arith.trunci" ||
               name == "arith.index_cast" || name == "tt.bitcast" || name == "tt.ptr_to_int" ||
               name == "tt.int_to_ptr") {
      if (same(op.operands[0])) k = of(op.operands[0]);
    } else if (name == "arith.addi" || name == "tt.addptr") {
      const std::int64_t unit = name == "tt.addptr" ? pointee_bytes(v) : 1;
      two([&](const Axis& a, const Axis& b) {
        return Axis{std::max(std::gcd(a.run, b.equal), std::gcd(a.equal, b.run)),
                    std::gcd(a.multiple, std::min(kMost, b.multiple * unit)),
                    std::gcd(a.equal, b.equal)};
      });
      if (value(0) && value(1) && unit == 1 && name == "arith.addi")
        k.value = *value(0) + *value(1);
    } else if (name == "arith.subi") {
      two([](const Axis& a, const Axis& b) {
        return Axis{std::gcd(a.run, b.equal), std::gcd(a.multiple, b.multiple),
                    std::gcd(a.equal, b.equal)};
      });
    } else if (name == "arith.muli") {
      const auto one = [&](std::size_t i) { return value(i) == std::optional<std::int64_t>(1); };
      two([&](const Axis& a, const Axis& b) {
        const std::int64_t left = a.run > 1 && !one(1) ? 1 : a.multiple;
        const std::int64_t right = b.run > 1 && !one(0) ? 1 : b.multiple;
        return Axis{std::max(one(1) ? a.run : 1, one(0) ? b.run : 1), std::min(kMost, left * right),
                    std::gcd(a.equal, b.equal)};
      });
      if (value(0) && value(1)) k.value = *value(0) * *value(1);
    } else if (name == "arith.remsi" || name == "arith.remui") {
      two([](const Axis& a, const Axis& b) {
        const std::int64_t both = std::gcd(a.multiple, b.multiple);
        return Axis{std::gcd(a.run, both), both, std::gcd(a.equal, b.equal)};
      });
    } else if (name == "arith.divsi" || name == "arith.divui") {
      two([](const Axis& a, const Axis& b) {
        return Axis{1, 1,
                    std::max(std::gcd(a.equal, b.equal),
                             std::gcd(a.run, std::gcd(a.multiple, b.multiple)))};
      });
    } else if (name == "arith.cmpi") {
      two([](const Axis& a, const Axis& b) {
        const std::int64_t both = std::gcd(a.multiple, b.multiple);
        const std::int64_t left = b.equal > 1 || a.run > 1 ? std::gcd(a.run, both) : 1;
        const std::int64_t right = std::gcd(b.run, both);
        const std::int64_t over = std::max(std::gcd(left, b.equal), std::gcd(right, a.equal));
        return Axis{1, 1, std::max(std::gcd(a.equal, b.equal), over)};
      });
    } else if (name == "arith.andi" || name == "arith.ori" || name == "arith.xori") {
      two([](const Axis& a, const Axis& b) { return Axis{1, 1, std::gcd(a.equal, b.equal)}; });
    } else if (name == "arith.maxsi" || name == "arith.minsi" || name == "arith.maxui" ||
               name == "arith.minui") {
      two([](const Axis& a, const Axis& b) {
        return Axis{1, std::gcd(a.multiple, b.multiple), std::gcd(a.equal, b.equal)};
      });
    } else if (name == "arith.select") {
      if (op.operands.size() == 3 && same(op.operands[1]) && same(op.operands[2])) {
        const bool one = !same(op.operands[0]);
        for (std::size_t d = 0; d < size.size(); ++d) {
          const std::int64_t mask = one ? size[d] : of(op.operands[0]).axes[d].equal;
          k.axes[d] = joined(of(op.operands[1]).axes[d], of(op.operands[2]).axes[d]);
          k.axes[d].run = std::gcd(k.axes[d].run, mask);
          k.axes[d].equal = std::gcd(k.axes[d].equal, mask);
        }
      }
    } else if (name == "tt.expand_dims") {
      const Attribute* const axis = op.find("axis");
      const auto at = static_cast<std::size_t>(axis != nullptr ? axis->integer : 0);
      const KnownAxes& from = of(op.operands[0]);
      if (from.axes.size() + 1 == size.size() && at < size.size()) {
        std::int64_t multiple = kMost;
        for (const Axis& a : from.axes)
          multiple = std::gcd(multiple, a.run > 1 && size.size() > 1 ? 1 : a.multiple);
        k.axes = from.axes;
        k.axes.insert(k.axes.begin() + static_cast<std::ptrdiff_t>(at), Axis{1, multiple, 1});
        k.value = from.value;
      }
    } else if (name == "tt.broadcast") {
      const std::vector<std::int64_t> before = extents(op.operands[0]);
      if (same(op.operands[0])) {
        k = of(op.operands[0]);
        for (std::size_t d = 0; d < size.size(); ++d) {
          if (before[d] == 1) k.axes[d] = {1, k.axes[d].multiple, size[d]};
        }
      }
    } else if (name == "tt.trans") {
      const Attribute* const order = op.find("order");
      const KnownAxes& from = of(op.operands[0]);
      if (order != nullptr && order->integers.size() == size.size() && same(op.operands[0])) {
        for (std::size_t d = 0; d < size.size(); ++d)
          k.axes[d] = from.axes[static_cast<std::size_t>(order->integers[d])];
      }
    }
    hints(op, k);
    return k;
  }

  void constant(const Operation& op, const std::vector<std::int64_t>& size, KnownAxes& k) const {
    const Attribute* const a = op.find("value");
    if (a == nullptr) return;
    std::optional<std::int64_t> value;
    if (a->kind == Attribute::Kind::integer) value = a->integer;
    const Type& t = module_.type(op.results[0]);
    if (a->kind == Attribute::Kind::dense && !is_float(t.dtype) && a->bytes.size() <= 8) {
      std::int64_t all = 0;  // two's complement: what a number is a multiple of needs no sign
      for (std::size_t i = a->bytes.size(); i-- > 0;)
        all = all << 8 | std::to_integer<std::int64_t>(a->bytes[i]);
      if (a->bytes.size() == static_cast<std::size_t>(std::max(8, bit_width(t.dtype)) / 8))
        value = all;
    }
    if (!value) return;
    k.value = value;
    for (std::size_t d = 0; d < size.size(); ++d)
      k.axes[d] = {1, std::min(kMost, power_in(*value)), size[d]};
  }

  /// What a program says of itself (tl.multiple_of and its kin).
  void hints(const Operation& op, KnownAxes& k) const {
    const std::pair<const char*, std::int64_t Axis::*> said[] = {
        {"tt.contiguity", &Axis::run},
        {"tt.divisibility", &Axis::multiple},
        {"tt.constancy", &Axis::equal}};
    for (const auto& [name, of] : said) {
      const Attribute* const a = op.find(name);
      if (a == nullptr) continue;
      for (std::size_t d = 0; d < k.axes.size(); ++d) {
        std::int64_t n = 0;
        if (d < a->integers.size())
          n = a->integers[d];
        else if (!a->bytes.empty() && a->bytes.size() % 4 == 0)
          n = std::to_integer<std::int64_t>(a->bytes[a->bytes.size() == 4 ? 0 : 4 * d]) |
              std::to_integer<std::int64_t>(a->bytes[a->bytes.size() == 4 ? 1 : 4 * d + 1]) << 8;
        else
          n = a->integer;
        k.axes[d].*of = std::max(k.axes[d].*of, n);
      }
    }
  }

  std::int64_t pointee_bytes(int pointer) const {
    return std::max(8, bit_width(module_.type(pointer).pointee)) / 8;
  }

  void access(const Operation& op) {
    const int pointer = op.operands.at(0);
    const KnownAxes& p = of(pointer);
    if (p.axes.empty()) return;
    const std::size_t fastest =
        static_cast<std::size_t>(std::ranges::max_element(p.axes, {}, &Axis::run) - p.axes.begin());
    const std::int64_t bytes = pointee_bytes(pointer);
    const Axis& a = p.axes[fastest];
    const std::int64_t run = std::max<std::int64_t>(
        1, std::min({a.run, std::max<std::int64_t>(1, a.multiple / bytes), 16 / bytes}));
    std::int64_t width = run;
    const std::size_t mask = op.name == "tt.load" ? 1 : 2;
    if (op.operands.size() > mask) {
      const Type& t = module_.type(op.operands[mask]);
      const KnownAxes& m = of(op.operands[mask]);
      if (t.dtype == DType::boolean && m.axes.size() == p.axes.size())
        width = std::min(width, m.axes[fastest].equal);
    }
    const Attribute* const number = op.find(kAccessNumber);
    if (number == nullptr || number->integer < 0) return;
    const auto at = static_cast<std::size_t>(number->integer);
    widths_.resize(std::max(widths_.size(), at + 1));
    widths_[at] = {static_cast<int>(std::max<std::int64_t>(1, width)), static_cast<int>(run)};
  }

  const Module& module_;
  std::vector<KnownAxes> known_;
  std::vector<AccessWidth> widths_;
  bool changed_ = false;
};

}  // namespace

std::vector<AccessWidth> access_widths(const Module& module, const Function& kernel) {
  return Widths(module).of(kernel);
}

}  // namespace tessera::triton
