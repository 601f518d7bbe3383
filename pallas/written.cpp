#include "pallas/written.hpp"

#include <algorithm>

namespace tessera::pallas {

using namespace program;

namespace {

class Walk {
 public:
  Walk(const Module& module, const Planner& planner, bool sparse_core)
      : module_(module), planner_(planner), sparse_core_(sparse_core) {}

  Written take(const Region& r) {
    // A loop's values, and what it copies, may depend on those of its last turn.
    for (std::size_t known = SIZE_MAX; known != data_.size() + written_.by_data.size();) {
      known = data_.size() + written_.by_data.size();
      region(r, false);
    }
    return std::move(written_);
  }

 private:
  bool is_memref(int v) const { return module_.type(v).kind == Type::Kind::memref; }
  bool is_data(int v) const { return data_.contains(v); }

  void region(const Region& r, bool decided) {
    for (const Operation& op : r.operations) {
      const bool memory = std::ranges::any_of(op.operands, [&](int v) { return is_memref(v); });
      const bool depends = std::ranges::any_of(op.operands, [&](int v) { return is_data(v); });
      writes(op, decided);
      for (const Region& each : op.regions) region(each, decided || depends);
      bool made = depends ||
                  (memory && std::ranges::none_of(op.results, [&](int v) { return is_memref(v); }));
      for (const Region& each : op.regions) {
        const Operation* const last = each.operations.empty() ? nullptr : &each.operations.back();
        made = made || (last != nullptr &&
                        std::ranges::any_of(last->operands, [&](int v) { return is_data(v); }));
      }
      if (!made) continue;
      data_.insert(op.results.begin(), op.results.end());
      for (const Region& each : op.regions)
        data_.insert(each.arguments.begin(), each.arguments.end());
    }
  }

  void writes(const Operation& op, bool decided) {
    const bool store = op.name.find("store") != std::string::npos;
    const bool scatters = op.name == "tpu.enqueue_indirect_dma";
    const bool copy = op.name == "tpu.enqueue_dma" || scatters;
    if (!store && !copy) return;
    const auto value = std::ranges::find_if(op.operands, [&](int v) { return !is_memref(v); });
    bool by_data = decided || scatters;
    for (auto v = op.operands.begin(); store && v != op.operands.end(); ++v)
      by_data = by_data || (v != value && is_data(*v));
    if (copy && sparse_core_ && is_memref(op.operands.front())) {
      const int from = planner_.root(op.operands.front());
      by_data = by_data || from < 0 || written_.by_data.contains(from);  // < 0: memory of a scope
    }
    for (std::size_t i = copy ? 1 : 0; i < op.operands.size(); ++i) {
      const int v = op.operands[i];
      const int root = is_memref(v) ? planner_.root(v) : -1;
      if (root < 0) continue;
      written_.arguments.try_emplace(root, op.location);
      if (by_data || is_data(v)) written_.by_data.insert(root);
    }
  }

  const Module& module_;
  const Planner& planner_;
  bool sparse_core_;
  std::set<int> data_;
  Written written_;
};

}  // namespace

Written written_by(const Module& module, const Function& f, const Planner& planner,
                   bool sparse_core) {
  return Walk(module, planner, sparse_core).take(f.body);
}

}  // namespace tessera::pallas
