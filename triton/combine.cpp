#include "triton/combine.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::triton {

namespace {

[[noreturn]] void malformed(const Operation& op) {
  throw InputError("bad-module", "the module makes no sense: " + op.name);
}

std::int64_t integer(const Operation& op, const char* attribute) {
  const Attribute* a = op.find(attribute);
  if (a == nullptr || a->kind != Attribute::Kind::integer) malformed(op);
  return a->integer;
}

class Expander {
 public:
  Expander(Module& module, bool bounded) : module_(module), bounded_(bounded) {}

  void region(Region& r) {
    std::vector<Operation> all;
    for (Operation& op : r.operations) {
      const bool reduce = op.name == "tt.reduce";
      if (reduce || op.name == "tt.scan") {
        to_ = &all;
        expand(op, reduce);
        continue;
      }
      for (Region& each : op.regions) region(each);
      all.push_back(std::move(op));
    }
    r.operations = std::move(all);
    for (Region& other : r.others) region(other);
  }

 private:
  using Values = std::vector<int>;

  int new_value(Type type) {
    std::size_t at = 0;
    while (at < module_.types.size() && module_.types[at].text != type.text) ++at;
    if (at == module_.types.size()) module_.types.push_back(std::move(type));
    module_.values.push_back(static_cast<int>(at));
    return static_cast<int>(module_.values.size()) - 1;
  }
  /// As a tensor of that shape.
  static Type spread(const Type& element, const Shape& shape) {
    Type t = element;
    t.kind = Type::Kind::vector;
    t.shape = shape;
    const std::string of = element.kind == Type::Kind::vector
                               ? element.text.substr(element.text.find_last_of('x') + 1)
                               : element.text + ">";
    t.text = "tensor<";
    for (int d = 0; d < shape.rank; ++d) t.text += std::to_string(shape[d]) + "x";
    t.text += of;
    return t;
  }

  Operation make(
      const char* name, Values operands, Values results,
      std::initializer_list<std::pair<const char*, std::int64_t>> attributes = {}) const {
    Operation op;
    op.name = name;
    op.operands = std::move(operands);
    op.results = std::move(results);
    Attributes all;
    for (const auto& [key, value] : attributes) {
      all[key].kind = Attribute::Kind::integer;
      all[key].integer = value;
    }
    op.attributes = std::make_shared<const Attributes>(std::move(all));
    op.location = location_;
    return op;
  }
  int emit(const char* name, Values operands, const Type& type,
           std::initializer_list<std::pair<const char*, std::int64_t>> attributes) {
    const int result = new_value(type);
    to_->push_back(make(name, std::move(operands), {result}, attributes));
    return result;
  }

  const Region& body_of(const Operation& call) const {
    const Attribute* const callee = call.find("callee");
    std::string name = callee == nullptr ? "" : callee->text;
    std::erase_if(name, [](char c) { return c == '@' || c == '"'; });
    const Function* const f = module_.function(name);
    if (f == nullptr || f->body.blocks != 1 || f->body.operations.empty() ||
        f->body.arguments.size() != call.operands.size() ||
        f->body.operations.back().operands.size() != call.results.size())
      malformed(call);
    return f->body;
  }

  /// The region on tensors; gives what it returns. A function that it calls is written out, too; of
  /// a branch both sides are, and each element has its own.
  Values combine(const Region& body, const Values& arguments, const Shape& shape,
                 std::map<int, int> known = {}, int depth = 0) {
    for (std::size_t i = 0; i < arguments.size(); ++i) known[body.arguments[i]] = arguments[i];
    const auto of = [&](int v) {
      if (const auto it = known.find(v); it != known.end()) return it->second;
      // A scalar from outside: constants are hoisted.
      return known[v] = emit("tt.splat", {v}, spread(module_.type(v), shape), {});
    };
    for (std::size_t i = 0; i + 1 < body.operations.size(); ++i) {
      Operation op = body.operations[i];
      constexpr int kDeepest = 64;  // calls do not recur
      if (depth == kDeepest) malformed(op);
      if (op.name == "tt.call") {
        Values given;
        for (const int v : op.operands) given.push_back(of(v));
        const Values made = combine(body_of(op), given, shape, {}, depth + 1);
        for (std::size_t r = 0; r < made.size(); ++r) known[op.results[r]] = made[r];
        continue;
      }
      if (op.name == "scf.if" && op.regions.size() == 2 && op.operands.size() == 1) {
        std::array<Values, 2> sides;
        for (std::size_t s = 0; s < sides.size(); ++s) {
          const Region& side = op.regions[s];
          if (side.blocks != 1 || side.operations.empty() ||
              side.operations.back().operands.size() != op.results.size())
            malformed(op);
          sides[s] = combine(side, {}, shape, known, depth + 1);
        }
        const int condition = of(op.operands[0]);
        for (std::size_t r = 0; r < op.results.size(); ++r)
          known[op.results[r]] = emit("arith.select", {condition, sides[0][r], sides[1][r]},
                                      spread(module_.type(op.results[r]), shape), {});
        continue;
      }
      if (!op.regions.empty()) malformed(op);
      if (op.operands.empty()) {  // a constant, spread where it is used
        Values own;
        for (const int v : op.results) {
          const int copy = new_value(Type(module_.type(v)));
          own.push_back(copy);
        }
        const Values named = op.results;
        op.results = own;
        to_->push_back(std::move(op));
        for (std::size_t r = 0; r < own.size(); ++r)
          known[named[r]] = emit("tt.splat", {own[r]}, spread(module_.type(own[r]), shape), {});
        continue;
      }
      for (int& v : op.operands) v = of(v);
      for (int& v : op.results) {
        const int copy = new_value(spread(module_.type(v), shape));
        known[v] = copy;
        v = copy;
      }
      to_->push_back(std::move(op));
    }
    Values results;
    for (const int v : body.operations.back().operands) results.push_back(of(v));
    return results;
  }

  void expand(const Operation& op, bool reduce) {
    const std::size_t count = op.operands.size();
    if (count == 0 || op.results.size() != count || op.regions.size() != 1 ||
        op.regions[0].arguments.size() != 2 * count || op.regions[0].operations.empty() ||
        op.regions[0].blocks != 1 || op.regions[0].operations.back().operands.size() != count)
      malformed(op);
    location_ = op.location;
    const Shape shape = module_.type(op.operands[0]).shape;
    const std::int64_t axis = integer(op, "axis");
    if (axis < 0 || axis >= shape.rank) malformed(op);
    for (const int v : op.operands) {
      const Type& t = module_.type(v);
      if (t.kind != Type::Kind::vector || t.shape != shape) malformed(op);
    }
    const std::int64_t n = shape[static_cast<int>(axis)];
    if (n < 1 || (n & (n - 1)) != 0) malformed(op);
    reduce ? expand_reduce(op, shape, static_cast<int>(axis))
           : expand_scan(op, shape, static_cast<int>(axis));
  }

  void expand_reduce(const Operation& op, Shape shape, int axis) {
    Values now = op.operands;
    while (shape[axis] > 1) {
      shape[axis] /= 2;
      Values halves;
      for (const int upper : {0, 1}) {
        for (const int v : now) {
          halves.push_back(emit("tt.reduce.half", {v}, spread(module_.type(v), shape),
                                {{"axis", axis}, {"upper", upper}}));
        }
      }
      now = combine(op.regions[0], halves, shape);
    }
    for (std::size_t i = 0; i < now.size(); ++i) {
      const int last = bounded_ ? new_value(Type(module_.type(op.results[i]))) : op.results[i];
      to_->push_back(make("tt.reduce.last", {now[i]}, {last}));
      if (bounded_) bound(op, i, last, "tt.reduce.any_order", {{"axis", axis}});
    }
  }

  void expand_scan(const Operation& op, const Shape& shape, int axis) {
    const std::int64_t reverse = integer(op, "reverse");
    Values now = op.operands;
    for (std::int64_t distance = 1; distance < shape[axis]; distance *= 2) {
      Values arguments;
      for (const int v : now) {
        arguments.push_back(emit("tt.scan.shift", {v}, Type(module_.type(v)),
                                 {{"axis", axis}, {"distance", distance}, {"reverse", reverse}}));
      }
      arguments.insert(arguments.end(), now.begin(), now.end());
      const Values combined = combine(op.regions[0], arguments, shape);
      for (std::size_t i = 0; i < now.size(); ++i) {
        now[i] = emit("tt.scan.keep", {now[i], combined[i]}, Type(module_.type(now[i])),
                      {{"axis", axis}, {"distance", distance}, {"reverse", reverse}});
      }
    }
    for (std::size_t i = 0; i < now.size(); ++i) {
      const int last = bounded_ ? new_value(Type(module_.type(op.results[i]))) : op.results[i];
      to_->push_back(make("tt.scan.last", {now[i]}, {last}));
      if (bounded_) bound(op, i, last, "tt.scan.any_order", {{"axis", axis}, {"reverse", reverse}});
    }
  }

  /// Result i of a combination, which is `last` in the order that is taken here, with what another
  /// order may make of it.
  void bound(const Operation& op, std::size_t i, int last, const char* sum,
             std::initializer_list<std::pair<const char*, std::int64_t>> attributes) {
    const Region& body = op.regions[0];
    if (is_sum(body, i, op.operands.size()))
      to_->push_back(make(sum, {op.operands[i], last}, {op.results[i]}, attributes));
    else
      to_->push_back(
          make(rounds(body, 0) ? "tt.combine.open" : "tt.scan.last", {last}, {op.results[i]}));
  }
  /// Result i of the region is the sum of its operands i, floats.
  static bool is_sum(const Region& body, std::size_t i, std::size_t count) {
    const int result = body.operations.back().operands[i];
    for (const Operation& op : body.operations) {
      if (op.results.size() != 1 || op.results[0] != result) continue;
      const int a = body.arguments[i];
      const int b = body.arguments[count + i];
      return op.name == "arith.addf" && op.operands.size() == 2 &&
             ((op.operands[0] == a && op.operands[1] == b) ||
              (op.operands[0] == b && op.operands[1] == a));
    }
    return false;
  }
  /// It may round, so that what comes first counts.
  bool rounds(const Region& body, int depth) const {
    constexpr int kDeepest = 64;
    for (const Operation& op : body.operations) {
      if (op.name == "tt.call" ? depth == kDeepest || rounds(body_of(op), depth + 1)
                               : !keeps_values(op))
        return true;
      for (const Region& each : op.regions) {
        if (rounds(each, depth)) return true;
      }
    }
    return false;
  }
  /// Results are operands, or no floats.
  bool keeps_values(const Operation& op) const {
    constexpr const char* kChoose[] = {"arith.constant", "arith.maximumf", "arith.maxnumf",
                                       "arith.minimumf", "arith.minnumf",  "arith.select",
                                       "scf.if"};
    for (const int v : op.results) {
      if (is_float(module_.type(v).dtype) &&
          std::find(std::begin(kChoose), std::end(kChoose), op.name) == std::end(kChoose))
        return false;
    }
    return true;
  }

  Module& module_;
  bool bounded_;
  std::vector<Operation>* to_ = nullptr;
  int location_ = 0;
};

}  // namespace

void expand_combines(Module& module, bool bounded) {
  Expander expander(module, bounded);
  for (Function& f : module.functions) expander.region(f.body);
}

}  // namespace tessera::triton
