#include "triton/running_sums.hpp"

#include <algorithm>

#include "program/uses.hpp"
#include "triton/lent.hpp"

namespace tessera::triton {

namespace {

class Sums {
 public:
  Sums(const Module& module, const std::vector<bool>& lent)
      : module_(module), lent_(lent), uses_(module.values.size()) {
    found_.of.assign(module.values.size(), -1);
  }

  RunningSums of(Function& kernel) {
    count_uses(kernel.body, uses_);
    find(kernel.body);
    return std::move(found_);
  }

 private:
  bool once(int value) const { return uses_[static_cast<std::size_t>(value)] == 1; }
  bool may_be_lent(int value) const { return lent_[static_cast<std::size_t>(value)]; }
  int& of(int value) { return found_.of[static_cast<std::size_t>(value)]; }

  void find(Region& r) {
    std::vector<Operation> all;
    for (Operation& op : r.operations) {
      for (Region& each : op.regions) find(each);
      std::vector<int> sums;
      if (op.name == "scf.for") sums = of_loop(op);
      const int location = op.location;
      all.push_back(std::move(op));
      for (const int v : sums) {
        Operation settle;
        settle.name = "tt.settle";
        settle.operands = {v};
        settle.location = location;
        all.push_back(std::move(settle));
      }
    }
    r.operations = std::move(all);
    for (Region& other : r.others) find(other);
  }

  /// Results of the loop that are such sums.
  std::vector<int> of_loop(const Operation& loop) {
    std::vector<int> sums;
    if (loop.regions.size() != 1 || !loop.regions[0].others.empty()) return sums;
    const Region& body = loop.regions[0];
    if (body.operations.empty() || body.operations.back().operands.size() != loop.results.size() ||
        body.arguments.size() != loop.results.size() + 1)
      return sums;
    const std::vector<int>& carried = body.operations.back().operands;
    const auto plain = [&](const Operation& op) {
      return &op == &body.operations.back() || (op.regions.empty() && leaves_memory(op));
    };
    if (!std::ranges::all_of(body.operations, plain)) return sums;
    for (const Operation& op : body.operations) {
      if (op.name != "tt.dot" || !may_be_lent(op.operands[0]) || !may_be_lent(op.operands[1]))
        continue;
      const int made = op.results[0];
      const auto at = std::ranges::find(carried, made) - carried.begin();
      if (at == std::ssize(carried) || !once(made) || !once(op.operands[2]) ||
          body.arguments[static_cast<std::size_t>(at) + 1] != op.operands[2] ||
          module_.type(made).dtype != DType::f32)
        continue;
      const int result = loop.results[static_cast<std::size_t>(at)];
      of(made) = of(result) = found_.count++;
      sums.push_back(result);
    }
    return sums;
  }

  const Module& module_;
  const std::vector<bool>& lent_;
  std::vector<int> uses_;
  RunningSums found_;
};

}  // namespace

RunningSums running_sums(Module& module, Function& kernel, const std::vector<bool>& lent) {
  return Sums(module, lent).of(kernel);
}

}  // namespace tessera::triton
