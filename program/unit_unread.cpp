#include "program/unit_unread.hpp"

#include <algorithm>

namespace tessera::program {

void UnitUnread::begin() {
  noted_.clear();
  read_.clear();
  computes_.clear();
}

void UnitUnread::note(const Operation& written, std::size_t unit) {
  if (noted_.insert(&written).second)  // once, however often its function is called
    for (const int v : written.operands) ++read_[v];
  const std::string& n = written.name;
  const bool computes = n.starts_with("arith.") || n.starts_with("math.") || n == "tpu.iota" ||
                        n == "vector.broadcast" || n == "vector.shape_cast";
  if (computes && written.results.size() == 1 && written.regions.empty()) computes_.insert(unit);
}

void UnitUnread::leave_out(std::vector<UnitOp>& ops, const std::vector<int>& uses,
                           const std::function<int(int)>& name_of) const {
  std::set<int> needed;
  for (std::size_t i = 0; i < uses.size(); ++i) {  // by a terminator, an op with regions
    const int v = static_cast<int>(i);
    const auto it = read_.find(v);
    if (uses[i] > (it == read_.end() ? 0 : it->second)) needed.insert(name_of(v));
  }
  for (std::size_t i = ops.size(); i-- > 0;) {
    UnitOp& op = ops[i];
    const auto is_needed = [&](int v) { return needed.contains(v) || needed.contains(name_of(v)); };
    if (computes_.contains(i) && std::ranges::none_of(op.makes, is_needed)) {
      op.rows.clear();
      op.reads.clear();
      continue;
    }
    needed.insert(op.reads.begin(), op.reads.end());
  }
}

}  // namespace tessera::program
