#include "triton/offsets.hpp"

#include <algorithm>
#include <string_view>

namespace tessera::triton {

namespace {

constexpr std::string_view kSums[] = {"arith.addi", "arith.subi", "arith.muli"};
constexpr std::string_view kMoves[] = {"arith.extsi",  "tt.splat", "tt.expand_dims",
                                       "tt.broadcast", "tt.trans", "tt.reshape"};

bool is_in(const auto& names, const std::string& name) {
  return std::ranges::find(names, name) != std::end(names);
}

/// Values that lead to addresses, and to nothing but those and comparisons.
class Parts {
 public:
  explicit Parts(const Module& module)
      : module_(module), clean_(module.values.size(), true), reaches_(module.values.size()) {}

  std::vector<bool> of(const Function& kernel) {
    do {
      changed_ = false;
      region(kernel.body, {});
    } while (changed_);
    std::vector<bool> parts(module_.values.size(), false);
    mark(kernel.body, parts);
    return parts;
  }

 private:
  void set(std::vector<bool>& of, int value, bool on) {
    const auto v = static_cast<std::size_t>(value);
    changed_ = changed_ || of[v] != on;
    of[v] = on;
  }
  /// An operand goes where `to` goes.
  void as(int operand, int to) {
    if (!clean_[static_cast<std::size_t>(to)]) set(clean_, operand, false);
    if (reaches_[static_cast<std::size_t>(to)]) set(reaches_, operand, true);
  }

  /// `yields`: where the operands of its terminator go, as many lists as it has operands.
  void region(const Region& r, const std::vector<std::vector<int>>& yields) {
    for (const Operation& op : r.operations) {
      if (&op == &r.operations.back() && yields.size() == op.operands.size() && !yields.empty()) {
        for (std::size_t i = 0; i < yields.size(); ++i) {
          for (const int to : yields[i]) as(op.operands[i], to);
        }
        continue;
      }
      operation(op);
    }
    for (const Region& other : r.others) region(other, yields);
  }

  void operation(const Operation& op) {
    const bool loop = op.name == "scf.for" && op.regions.size() == 1 &&
                      op.operands.size() == op.results.size() + 3 &&
                      op.regions[0].arguments.size() == op.results.size() + 1;
    std::vector<std::vector<int>> yields;
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      yields.push_back({op.results[i]});
      if (loop) yields.back().push_back(op.regions[0].arguments[i + 1]);
    }
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const int v = op.operands[i];
      if ((is_in(kSums, op.name) || is_in(kMoves, op.name)) && op.results.size() == 1) {
        as(v, op.results[0]);
      } else if (op.name == "tt.addptr" && i == 1) {
        set(reaches_, v, true);
      } else if (loop && i >= 3) {
        as(v, op.results[i - 3]);
        as(v, op.regions[0].arguments[i - 2]);
      } else if (op.name != "arith.cmpi" && !loop) {
        set(clean_, v, false);
      }
    }
    for (const Region& body : op.regions) region(body, yields);
  }

  void mark(const Region& r, std::vector<bool>& parts) const {
    for (const Operation& op : r.operations) {
      if (is_in(kSums, op.name) && op.results.size() == 1) {
        const auto v = static_cast<std::size_t>(op.results[0]);
        const DType d = module_.type(op.results[0]).dtype;
        parts[v] = clean_[v] && reaches_[v] && d != DType::boolean && bit_width(d) < 64;
      }
      for (const Region& body : op.regions) mark(body, parts);
    }
    for (const Region& other : r.others) mark(other, parts);
  }

  const Module& module_;
  std::vector<bool> clean_;
  std::vector<bool> reaches_;
  bool changed_ = false;
};

}  // namespace

std::vector<bool> offset_parts(const Module& module, const Function& kernel) {
  return Parts(module).of(kernel);
}

}  // namespace tessera::triton
