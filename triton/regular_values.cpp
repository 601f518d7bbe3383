#include "triton/regular_values.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "program/program.hpp"

namespace tessera::triton {

namespace {

constexpr std::string_view kSources[] = {"tt.make_range", "tt.splat", "arith.constant"};
constexpr std::string_view kOps[] = {"tt.addptr",   "tt.expand_dims", "tt.broadcast", "tt.trans",
                                     "arith.addi",  "arith.subi",     "arith.muli",   "arith.divsi",
                                     "arith.remsi", "arith.cmpi",     "arith.extsi"};

class Values {
 public:
  explicit Values(const Module& module)
      : module_(module), wanted_(module.values.size()), may_(module.values.size()) {}

  std::vector<bool> of(const Function& kernel) {
    do {
      changed_ = false;
      want(kernel.body);
    } while (changed_);
    allow(kernel.body);
    do {
      changed_ = false;
      forbid(kernel.body);
    } while (changed_);
    for (std::size_t v = 0; v < may_.size(); ++v) may_[v] = may_[v] && wanted_[v];
    return std::move(may_);
  }

 private:
  const Type& type(int value) const { return module_.type(value); }
  bool tensor(int value) const { return type(value).kind == Type::Kind::vector; }
  static bool passes(const Operation& op) {
    return std::ranges::find(kOps, op.name) != std::end(kOps);
  }
  bool conjunction(const Operation& op) const {
    return op.name == "arith.andi" && op.results.size() == 1 &&
           type(op.results[0]).dtype == DType::boolean;
  }

  void set(std::vector<bool>& of, int value, bool on) {
    const auto v = static_cast<std::size_t>(value);
    changed_ = changed_ || of[v] != on;
    of[v] = on;
  }

  /// What decides where an access is.
  void want(const Region& r) {
    for (auto op = r.operations.rbegin(); op != r.operations.rend(); ++op) {
      if (op->name == "tt.load" || op->name == "tt.store") {
        for (std::size_t i = 0; i < op->operands.size(); ++i) {
          const int v = op->operands[i];
          const bool mask = i > 0 && type(v).dtype == DType::boolean;
          if (tensor(v) && (i == 0 || mask)) set(wanted_, v, true);
        }
      }
      const bool through = (passes(*op) || conjunction(*op)) && op->results.size() == 1;
      if (through && wanted_[static_cast<std::size_t>(op->results[0])]) {
        for (const int v : op->operands) set(wanted_, v, true);
      }
      if (op->name == "scf.for") {
        each_carried(*op, [&](int start, int argument, int yielded, int result) {
          const bool any = wanted_[static_cast<std::size_t>(argument)] ||
                           wanted_[static_cast<std::size_t>(result)];
          if (!any || !tensor(argument)) return;
          for (const int v : {start, argument, yielded, result}) set(wanted_, v, true);
        });
      }
      for (const Region& each : op->regions) want(each);
    }
    for (const Region& other : r.others) want(other);
  }

  /// At first all that might be.
  void allow(const Region& r) {
    for (const Operation& op : r.operations) {
      for (const int v : op.results) {
        const Type& t = type(v);
        may_[static_cast<std::size_t>(v)] =
            tensor(v) && t.known && t.shape.rank > 0 && t.shape.rank <= kRegularRank &&
            !is_float(t.dtype) && bit_width(t.dtype) >= 8 &&
            (passes(op) || conjunction(op) || op.name == "scf.for" ||
             std::ranges::find(kSources, op.name) != std::end(kSources));
      }
      if (op.name == "scf.for") {
        each_carried(op, [&](int, int argument, int, int result) {
          may_[static_cast<std::size_t>(argument)] = may_[static_cast<std::size_t>(result)];
        });
      }
      for (const Region& each : op.regions) allow(each);
    }
    for (const Region& other : r.others) allow(other);
  }

  /// Then not what is made of something else.
  void forbid(const Region& r) {
    for (const Operation& op : r.operations) {
      for (const Region& each : op.regions) forbid(each);
      if (op.name == "scf.for") {
        each_carried(op, [&](int start, int argument, int yielded, int result) {
          const bool ok = may(start) && may(argument) && may(yielded);
          if (ok) return;
          set(may_, argument, false);
          set(may_, result, false);
        });
        continue;
      }
      if ((!passes(op) && !conjunction(op)) || op.results.size() != 1) continue;
      const bool ok = std::ranges::all_of(op.operands, [&](int v) { return may(v); });
      if (!ok) set(may_, op.results[0], false);
    }
    for (const Region& other : r.others) forbid(other);
  }
  bool may(int value) const { return may_[static_cast<std::size_t>(value)]; }

  /// f(start, argument, yielded, result) of each value that a loop carries.
  template <class F>
  static void each_carried(const Operation& op, F&& f) {
    if (op.regions.size() != 1 || op.regions[0].operations.empty()) return;
    const Region& body = op.regions[0];
    const std::vector<int>& yielded = body.operations.back().operands;
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (i + 3 < op.operands.size() && i + 1 < body.arguments.size() && i < yielded.size())
        f(op.operands[i + 3], body.arguments[i + 1], yielded[i], op.results[i]);
    }
  }

  const Module& module_;
  std::vector<bool> wanted_;
  std::vector<bool> may_;
  bool changed_ = false;
};

}  // namespace

std::vector<bool> regular_values(const Module& module, const Function& kernel) {
  return Values(module).of(kernel);
}

}  // namespace tessera::triton
