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
    if (by_position(op)) return;
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

  /// Loops with a bound and branches give and get values in their order: false of other ops.
  bool by_position(const Operation& op) {
    constexpr std::size_t kLoop = 3;  // operands before what it carries: begin, end, step
    const bool loop = op.name == "scf.for";
    if (!loop && op.name != "scf.if") return false;
    const auto fits = [&](const Region& body) {
      return body.blocks == 1 && !body.operations.empty() &&
             body.operations.back().operands.size() == op.results.size() &&
             (!loop || (body.arguments.size() == op.results.size() + 1 &&
                        op.operands.size() == op.results.size() + kLoop));
    };
    std::vector<const Region*> bodies;  // a branch without another side has an empty region
    for (const Region& body : op.regions) {
      if (!body.operations.empty()) bodies.push_back(&body);
    }
    if (!std::ranges::all_of(bodies, [&](const Region* body) { return fits(*body); })) return false;
    for (const Region* const body : bodies) {
      if (loop) add(body->arguments[0], of(op.operands[0]));
      region(*body);
      for (std::size_t i = 0; i < op.results.size(); ++i) {
        Sources one = of(body->operations.back().operands[i]);
        if (loop) {
          const Sources& first = of(op.operands[kLoop + i]);
          one.insert(first.begin(), first.end());
          add(body->arguments[1 + i], one);
        }
        add(op.results[i], one);
      }
    }
    return true;
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
