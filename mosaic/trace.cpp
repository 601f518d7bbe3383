#include "mosaic/trace.hpp"

#include <execinfo.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::mosaic {

namespace {

thread_local Trace* current = nullptr;

constexpr std::size_t kMostPaths = 4096;
constexpr std::size_t kMostBranches = 100;
constexpr std::size_t kMostOperations = 1 << 20;

/// What is there for more than its results.
bool acts(const Operation& op) {
  static const std::set<std::string> acting{"tpu.vector_store", "tpu.enqueue_dma", "tpu.wait_dma2",
                                            "tpu.sem_signal",   "tpu.sem_wait",    "memref.store"};
  if (acting.contains(op.name)) return true;
  return std::ranges::any_of(
      op.regions, [](const Region& r) { return std::ranges::any_of(r.operations, acts); });
}

/// Leaves out what nobody uses. `used`: by what follows.
void leave_out_unused(std::vector<Operation>& operations, std::set<Value>& used) {
  std::vector<Operation> kept;
  for (auto op = operations.rbegin(); op != operations.rend(); ++op) {
    const bool wanted = std::ranges::any_of(op->results, [&](Value v) { return used.contains(v); });
    if (!wanted && !acts(*op)) continue;
    if (!op->regions.empty()) {
      for (std::size_t i = op->results.size(); i-- > 0;) {
        if (used.contains(op->results[i])) continue;
        op->results.erase(op->results.begin() + static_cast<std::ptrdiff_t>(i));
        for (Region& r : op->regions)
          r.yields.erase(r.yields.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    for (Region& r : op->regions) {
      used.insert(r.yields.begin(), r.yields.end());
      leave_out_unused(r.operations, used);
    }
    used.insert(op->operands.begin(), op->operands.end());
    kept.push_back(std::move(*op));
  }
  std::reverse(kept.begin(), kept.end());
  operations = std::move(kept);
}

/// Two arms' operations that are the same but for the values that they begin with.
class Match {
 public:
  explicit Match(const Trace& trace) : trace_(trace) {}

  /// What stands for both, or false. Values that differ between the arms become the branch's
  /// results, of which a stand-in is made: -2 - its place in `pairs`.
  bool match(const Operation& then_op, const Operation& else_op, Operation& both) {
    if (then_op.name != else_op.name || then_op.attributes != else_op.attributes ||
        then_op.operands.size() != else_op.operands.size() ||
        then_op.results.size() != else_op.results.size() ||
        then_op.regions.size() != else_op.regions.size())
      return false;
    both = then_op;
    if (!match(then_op.operands, else_op.operands, both.operands)) return false;
    for (std::size_t i = 0; i < then_op.regions.size(); ++i) {
      const Region& t = then_op.regions[i];
      const Region& e = else_op.regions[i];
      if (t.arguments.size() != e.arguments.size()) return false;
      for (std::size_t a = 0; a < t.arguments.size(); ++a) {
        same_[t.arguments[a]] = e.arguments[a];
        images_.insert(e.arguments[a]);
      }
      if (t.operations.size() != e.operations.size() || t.yields.size() != e.yields.size())
        return false;
      for (std::size_t k = 0; k < t.operations.size(); ++k) {
        if (!match(t.operations[k], e.operations[k], both.regions[i].operations[k])) return false;
      }
      if (!match(t.yields, e.yields, both.regions[i].yields)) return false;
    }
    for (std::size_t i = 0; i < then_op.results.size(); ++i) {
      if (trace_.type(then_op.results[i]) != trace_.type(else_op.results[i])) return false;
      same_[then_op.results[i]] = else_op.results[i];
      images_.insert(else_op.results[i]);
    }
    return true;
  }

  std::vector<std::pair<Value, Value>> pairs;

 private:
  bool match(const std::vector<Value>& of_then, const std::vector<Value>& of_else,
             std::vector<Value>& both) {
    for (std::size_t i = 0; i < of_then.size(); ++i) {
      if (!match(of_then[i], of_else[i], both[i])) return false;
    }
    return true;
  }
  bool match(Value of_then, Value of_else, Value& both) {
    const auto known = same_.find(of_then);
    if (known != same_.end()) return known->second == of_else;
    if (images_.contains(of_else)) return false;
    if (of_then == of_else) return true;
    const std::string& type = trace_.type(of_then);
    if (type != trace_.type(of_else) || type.starts_with("memref")) return false;
    const std::pair pair{of_then, of_else};
    const auto at = std::find(pairs.begin(), pairs.end(), pair);
    both = -2 - static_cast<Value>(at - pairs.begin());
    if (at == pairs.end()) pairs.push_back(pair);
    return true;
  }

  const Trace& trace_;
  std::map<Value, Value> same_;
  std::set<Value> images_;
};

void put_in(std::vector<Value>& values, const std::vector<Value>& results) {
  for (Value& v : values) {
    if (v <= -2) v = results[static_cast<std::size_t>(-2 - v)];
  }
}
/// The branch's results in place of their stand-ins.
void put_in(Operation& op, const std::vector<Value>& results) {
  put_in(op.operands, results);
  for (Region& r : op.regions) {
    put_in(r.yields, results);
    for (Operation& inner : r.operations) put_in(inner, results);
  }
}

}  // namespace

void refuse(const std::string& headline) {
  Diagnostic d{.slug = "unsupported", .kind = Diagnostic::Kind::unsupported, .headline = headline};
  const std::string line = caller_excerpt();
  if (!line.empty()) d.fields.emplace_back("line", line);
  throw KernelError(std::move(d));
}

/// What a path does up to a branch.
struct Trace::Node {
  std::vector<Operation> operations;
  Value condition = kNoValue;
  int site = 0;
  std::unique_ptr<Node> arms[2];  ///< then, else
};

Trace::Trace() : root_(std::make_unique<Node>()), before_(current) {
  sites_.emplace_back();
  current = this;
}
Trace::~Trace() { current = before_; }

Trace& trace() {
  if (current == nullptr) throw std::logic_error("a body of the TPU build outside of its trace");
  return *current;
}

Value Trace::fresh(const std::string& type) {
  types_.push_back(type);
  return static_cast<Value>(types_.size()) - 1;
}

Value Trace::argument(const std::string& type) {
  arguments_.push_back(fresh(type));
  return arguments_.back();
}

Value Trace::constant(const std::string& attribute, const std::string& type) {
  const auto [it, is_new] = constants_.try_emplace({attribute, type}, kNoValue);
  if (is_new) it->second = fresh(type);
  return it->second;
}

int Trace::site() {
  std::array<void*, 32> calls{};
  const int n = backtrace(calls.data(), static_cast<int>(calls.size()));
  const std::vector<void*> stack(calls.begin(), calls.begin() + n);
  const auto [it, is_new] = known_sites_.try_emplace(stack, static_cast<int>(sites_.size()));
  if (is_new) sites_.push_back(stack);
  return it->second;
}

Operation& Trace::next(Operation op, const std::string* result) {
  auto& operations = node_->operations;
  if (recorded()) {
    if (at_ == operations.size() || operations[at_].name != op.name ||
        operations[at_].operands != op.operands || operations[at_].attributes != op.attributes)
      fail_other_run();
    return operations[at_++];
  }
  if (types_.size() > kMostOperations)
    refuse("a module of more than 2^20 operations: loops with known bounds are unrolled");
  op.site = site();
  if (result != nullptr) op.results.push_back(fresh(*result));
  ++at_;
  return operations.emplace_back(std::move(op));
}

Value Trace::record(const std::string& name, std::vector<Value> operands,
                    const std::string& attributes, const std::string& result) {
  return next({name, std::move(operands), attributes, {}, {}, 0}, &result).results.front();
}
void Trace::record(const std::string& name, std::vector<Value> operands,
                   const std::string& attributes) {
  next({name, std::move(operands), attributes, {}, {}, 0}, nullptr);
}

bool Trace::ask(Value condition) {
  if (node_->condition == kNoValue) {
    if (at_ != node_->operations.size()) fail_other_run();
    node_->condition = condition;
    node_->site = site();
    for (auto& arm : node_->arms) arm = std::make_unique<Node>();
  } else if (node_->condition != condition || at_ != node_->operations.size()) {
    fail_other_run();
  }
  if (asked_ == path_.size()) path_.push_back(true);
  if (path_.size() > kMostBranches)
    refuse("a loop whose trip count is data: its end is asked for more than " +
           std::to_string(kMostBranches) + " times");
  const bool taken = path_[asked_++];
  node_ = node_->arms[taken ? 0 : 1].get();
  at_ = 0;
  return taken;
}

void Trace::fail_other_run() const {
  refuse(nested_ > 0 ? "a loop whose body changes what it captures: what a loop carries lies in "
                       "scratch"
                     : "a body that does not do the same in every run");
}

void Trace::explore(Node& root, const std::function<void()>& body) {
  std::size_t paths = 0;
  do {
    if (++paths > kMostPaths)
      refuse("a body with more than " + std::to_string(kMostPaths) + " paths");
    node_ = &root;
    at_ = 0;
    asked_ = 0;
    body();
    while (!path_.empty() && !path_.back()) path_.pop_back();
    if (!path_.empty()) path_.back() = false;
  } while (!path_.empty());
}

void Trace::nest(Operation op, std::vector<Value> arguments, int times,
                 const std::function<void()>& body) {
  Node inner;
  Node* const outer = node_;
  const std::size_t at = at_;
  const std::size_t asked = asked_;
  std::vector<bool> path;
  path.swap(path_);
  ++nested_;
  for (int n = 0; n < times; ++n) explore(inner, body);
  --nested_;
  path.swap(path_);
  node_ = outer;
  at_ = at;
  asked_ = asked;
  op.regions.push_back({std::move(arguments), in_line(inner), {}});
  next(std::move(op), nullptr);
}

bool Trace::recorded() const {
  return at_ < node_->operations.size() || node_->condition != kNoValue;
}

void Trace::loop(Value lo, Value hi, const std::function<void(Value)>& body) {
  Operation op{"scf.for", {lo, hi, constant("1 : i32", "i32")}, "", {}, {}, 0};
  if (recorded()) {
    next(std::move(op), nullptr);
    return;
  }
  const Value index = fresh("i32");
  // Twice: another step must do the same.
  nest(std::move(op), {index}, 2, [&] { body(index); });
}

void Trace::scope(const std::function<void()>& body) {
  Operation op{"tpu.region", {}, "", {}, {}, 0};
  if (recorded())
    next(std::move(op), nullptr);
  else
    nest(std::move(op), {}, 1, body);
}

void Trace::run(const std::function<void()>& body) {
  explore(*root_, body);
  operations_ = in_line(*root_);
  std::set<Value> used(returned.begin(), returned.end());
  leave_out_unused(operations_, used);
}

std::vector<Operation> Trace::in_line(const Node& node) {
  std::vector<Operation> operations = node.operations;
  if (node.condition == kNoValue) return operations;
  for (Operation& op :
       merged(node.condition, node.site, in_line(*node.arms[0]), in_line(*node.arms[1])))
    operations.push_back(std::move(op));
  return operations;
}

std::vector<Operation> Trace::merged(Value condition, int site, std::vector<Operation> then_arm,
                                     std::vector<Operation> else_arm) {
  const std::size_t shorter = std::min(then_arm.size(), else_arm.size());
  std::size_t alike = 0;
  while (alike < shorter &&
         then_arm[then_arm.size() - 1 - alike].name == else_arm[else_arm.size() - 1 - alike].name)
    ++alike;
  // The longest common end whose operations can have the same operands.
  std::vector<Operation> both;
  std::vector<std::pair<Value, Value>> differing;
  for (;; --alike) {
    Match match(*this);
    both.assign(alike, {});
    bool same = true;
    for (std::size_t i = 0; same && i < alike; ++i)
      same = match.match(then_arm[then_arm.size() - alike + i],
                         else_arm[else_arm.size() - alike + i], both[i]);
    if (!same) continue;
    differing = std::move(match.pairs);
    break;
  }
  then_arm.resize(then_arm.size() - alike);
  else_arm.resize(else_arm.size() - alike);

  std::vector<Operation> operations;
  std::vector<Value> results;
  if (then_arm.empty() && else_arm.empty()) {
    for (const auto& [of_then, of_else] : differing) {
      Operation select{"arith.select", {condition, of_then, of_else}, "", {}, {}, site};
      select.results.push_back(fresh(std::string(type(of_then))));
      results.push_back(select.results.front());
      operations.push_back(std::move(select));
    }
  } else {
    Operation branch{"scf.if", {condition}, "", {}, {}, site};
    branch.regions.resize(2);
    branch.regions[0].operations = std::move(then_arm);
    branch.regions[1].operations = std::move(else_arm);
    for (const auto& [of_then, of_else] : differing) {
      branch.regions[0].yields.push_back(of_then);
      branch.regions[1].yields.push_back(of_else);
      results.push_back(fresh(std::string(type(of_then))));
    }
    branch.results = results;
    operations.push_back(std::move(branch));
  }
  for (Operation& op : both) {
    put_in(op, results);
    operations.push_back(std::move(op));
  }
  return operations;
}

/// Numbers values as they come, and looks the lines of sites up.
struct Trace::Printer {
  const Trace& of;
  std::map<Value, std::string> names;
  std::map<int, std::string> lines;
  std::string text;
  std::set<Value> defined{};  ///< where the printer stands

  const std::string& name(Value v) {
    auto [it, is_new] = names.try_emplace(v);
    if (is_new) it->second = "%" + std::to_string(names.size() - 1);
    return it->second;
  }
  void check_defined(const std::vector<Value>& values, int site) const {
    for (const Value v : values) {
      if (defined.contains(v)) continue;
      Diagnostic d{.slug = "unsupported",
                   .kind = Diagnostic::Kind::unsupported,
                   .headline =
                       "a value that a loop's body, or run_scoped's, makes is used after it: what "
                       "it carries lies in scratch"};
      const SourceLine line = trace_line(of.sites_[static_cast<std::size_t>(site)]);
      if (line.line > 0) d.fields.emplace_back("line", line.file + ":" + std::to_string(line.line));
      throw KernelError(std::move(d));
    }
  }
  std::string listed(const std::vector<Value>& values) {
    std::string list;
    for (const Value v : values) list += (list.empty() ? "" : ", ") + name(v);
    return list;
  }
  std::string types(const std::vector<Value>& values) const {
    std::string list;
    for (const Value v : values) list += (list.empty() ? "" : ", ") + of.type(v);
    return list;
  }
  const std::string& line_of(int site) {
    auto [it, is_new] = lines.try_emplace(site);
    if (is_new) {
      const SourceLine line = trace_line(of.sites_[static_cast<std::size_t>(site)]);
      it->second = line.line == 0
                       ? "loc(unknown)"
                       : "loc(\"" + line.file + "\":" + std::to_string(line.line) + ":1)";
    }
    return it->second;
  }
  std::string arguments(const std::vector<Value>& values) {
    std::string list;
    for (const Value v : values) list += (list.empty() ? "" : ", ") + name(v) + ": " + of.type(v);
    return list;
  }
  void operation(const std::string& op, const std::vector<Value>& operands,
                 const std::string& regions, const std::string& attributes,
                 const std::vector<Value>& results, const std::string& location) {
    if (!results.empty()) text += listed(results) + " = ";
    text += "\"stable_mosaic." + op + "\"(" + listed(operands) + ")" + regions;
    if (!attributes.empty()) text += " {" + attributes + "}";
    text += " : (" + types(operands) + ") -> ";
    text += results.size() == 1 ? types(results) : "(" + types(results) + ")";
    text += location.empty() ? "\n" : " " + location + "\n";
  }
  void operations(const std::vector<Operation>& all) {
    for (const Operation& op : all) {
      std::string regions;
      if (!op.regions.empty()) {
        std::string outer;
        std::swap(outer, text);
        for (std::size_t i = 0; i < op.regions.size(); ++i) {
          text += i == 0 ? " ({\n" : "}, {\n";
          const Region& r = op.regions[i];
          // An arm that does nothing is left out, if it is the second one.
          if (i > 0 && r.operations.empty() && r.yields.empty()) continue;
          if (!r.arguments.empty()) text += "^bb0(" + arguments(r.arguments) + "):\n";
          const std::set<Value> around = defined;
          defined.insert(r.arguments.begin(), r.arguments.end());
          this->operations(r.operations);
          check_defined(r.yields, op.site);
          operation(op.name == "tpu.region" ? "tpu.yield" : "scf.yield", r.yields, "", "", {},
                    line_of(op.site));
          defined = around;
        }
        text += "})";
        std::swap(outer, text);
        regions = std::move(outer);
      }
      check_defined(op.operands, op.site);
      operation(op.name, op.operands, regions, op.attributes, op.results, line_of(op.site));
      defined.insert(op.results.begin(), op.results.end());
    }
  }
};

std::string Trace::text(const std::string& name, const std::string& attributes) const {
  Printer p{*this, {}, {}, {}};
  const std::string arguments = p.arguments(arguments_);
  p.defined.insert(arguments_.begin(), arguments_.end());
  std::set<Value> used(returned.begin(), returned.end());
  const auto use = [&](const auto& self, const std::vector<Operation>& all) -> void {
    for (const Operation& op : all) {
      used.insert(op.operands.begin(), op.operands.end());
      for (const Region& r : op.regions) {
        used.insert(r.yields.begin(), r.yields.end());
        self(self, r.operations);
      }
    }
  };
  use(use, operations_);
  std::map<Value, const std::string*> constants;  // in the order of their values
  for (const auto& [key, v] : constants_) {
    if (used.contains(v)) constants[v] = &key.first;
  }
  p.text = "\"stable_mosaic.func.func\"() ({\n";
  if (!arguments.empty()) p.text += "^bb0(" + arguments + "):\n";
  for (const auto& [v, attribute] : constants) {
    p.operation("arith.constant", {}, "", "value = " + *attribute, {v}, "");
    p.defined.insert(v);
  }
  p.operations(operations_);
  p.operation("func.return", returned, "", "", {}, "");
  return p.text + "}) {function_type = (" + p.types(arguments_) + ") -> (" + p.types(returned) +
         "), sym_name = \"" + name + "\"" + (attributes.empty() ? "" : ", " + attributes) +
         "} : () -> ()\n";
}

}  // namespace tessera::mosaic
