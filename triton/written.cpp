#include "triton/written.hpp"

#include <algorithm>
#include <set>

namespace tessera::triton {

namespace {

constexpr int kAny = -1;

class Flow {
 public:
  Flow(const Module& module, const Function& kernel)
      : module_(module),
        from_(module.values.size()),
        written_(kernel.body.arguments.size(), false) {
    for (std::size_t i = 0; i < kernel.body.arguments.size(); ++i)
      of(kernel.body.arguments[i]).insert(static_cast<int>(i));
    do {
      changed_ = false;
      region(kernel.body);
    } while (changed_);
  }
  std::vector<bool> written() { return std::move(written_); }

 private:
  using Sources = std::set<int>;
  Sources& of(int value) { return from_[static_cast<std::size_t>(value)]; }

  void add(int value, const Sources& more) {
    Sources& s = of(value);
    const std::size_t before = s.size();
    s.insert(more.begin(), more.end());
    changed_ = changed_ || s.size() != before;
  }

  void region(const Region& r) {
    for (const Operation& op : r.operations) operation(op);
    for (const Region& other : r.others) region(other);
    // A branch may go to any block.
    for (const Region& other : r.others) {
      for (const int v : other.arguments) add(v, branched_);
    }
  }

  void operation(const Operation& op) {
    Sources all;
    for (const int v : op.operands) all.insert(of(v).begin(), of(v).end());
    if (!op.successors.empty()) branched_.insert(all.begin(), all.end());
    if ((op.name == "tt.store" || op.name.starts_with("tt.atomic")) && !op.operands.empty())
      write(of(op.operands[0]));
    if (op.name == "tt.call") write(all);
    if (op.name == "tt.load" || op.name.starts_with("tt.atomic")) all.clear();
    if (op.name == "tt.int_to_ptr" && all.empty()) all.insert(kAny);
    // What a region yields may be its own arguments in the next turn.
    for (const Region& body : op.regions) {
      for (const int v : body.arguments) add(v, all);
      region(body);
      if (body.operations.empty()) continue;
      for (const int v : body.operations.back().operands) all.insert(of(v).begin(), of(v).end());
      for (const int v : body.arguments) add(v, all);
    }
    for (const int v : op.results) {
      add(v, all);
      if (op.name == "tt.load" && module_.type(v).pointer) add(v, {kAny});
    }
  }

  void write(const Sources& through) {
    for (std::size_t i = 0; i < written_.size(); ++i) {
      if (!written_[i] && (through.contains(static_cast<int>(i)) || through.contains(kAny))) {
        written_[i] = true;
        changed_ = true;
      }
    }
  }

  const Module& module_;
  std::vector<Sources> from_;
  std::vector<bool> written_;
  Sources branched_;
  bool changed_ = false;
};

}  // namespace

std::vector<bool> written_arguments(const Module& module, const Function& kernel) {
  return Flow(module, kernel).written();
}

}  // namespace tessera::triton
