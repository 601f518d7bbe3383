#include "triton/lent.hpp"

#include <algorithm>
#include <string_view>

#include "program/uses.hpp"

namespace tessera::triton {

namespace {

/// Whose operands are multiplied as they lie: no others are made of them first.
bool multiplies_as_they_are(const Module& module, const Operation& op) {
  if (op.name != "tt.dot" || op.operands.size() != 3) return false;
  const Type& a = module.type(op.operands[0]);
  const Type& b = module.type(op.operands[1]);
  if (a.shape.rank != 2 || a.dtype != b.dtype) return false;
  if (a.dtype == DType::bf16 || a.dtype == DType::f16) return true;
  constexpr std::int64_t kIeee = 2;  // of inputPrecision
  const Attribute* const precision = op.find("inputPrecision");
  return a.dtype == DType::f32 && (precision == nullptr || precision->integer == kIeee);
}

class Tiles {
 public:
  explicit Tiles(const Module& module)
      : module_(module), uses_(module.values.size()), lent_(module.values.size()) {}

  std::vector<bool> of(const Function& kernel) {
    count_uses(kernel.body, uses_);
    find(kernel.body);
    return std::move(lent_);
  }

 private:
  void find(const Region& r) {
    std::vector<int> loaded;  // since something was written
    for (const Operation& op : r.operations) {
      for (const Region& each : op.regions) find(each);
      if (!op.regions.empty() || !leaves_memory(op)) {
        loaded.clear();
        continue;
      }
      if (op.name == "tt.load") loaded.insert(loaded.end(), op.results.begin(), op.results.end());
      if (!multiplies_as_they_are(module_, op)) continue;
      for (std::size_t i = 0; i < 2; ++i) {
        const int v = op.operands[i];
        if (uses_[static_cast<std::size_t>(v)] == 1 && std::ranges::find(loaded, v) != loaded.end())
          lent_[static_cast<std::size_t>(v)] = true;
      }
    }
    for (const Region& other : r.others) find(other);
  }

  const Module& module_;
  std::vector<int> uses_;
  std::vector<bool> lent_;
};

}  // namespace

bool leaves_memory(const Operation& op) {
  constexpr std::string_view kNames[] = {"tt.load",        "tt.dot",   "tt.addptr",
                                         "tt.make_range",  "tt.splat", "tt.broadcast",
                                         "tt.expand_dims", "tt.trans"};
  return op.name.starts_with("arith.") || op.name.starts_with("math.") ||
         std::ranges::find(kNames, op.name) != std::end(kNames);
}

std::vector<bool> lent_tiles(const Module& module, const Function& kernel) {
  return Tiles(module).of(kernel);
}

}  // namespace tessera::triton
