#include "memory_model/history.hpp"

namespace tessera {

const Access* AccessHistory::check(const Access& a, const Clock& clock, const Harmless& harmless) {
  const Progression& outer = a.box.dims[0];
  for (auto it = accesses_.lower_bound({outer.start - longest_, 0});
       it != accesses_.end() && it->first.first < outer.end();) {
    const Access& kept = it->second;
    if (kept.known_to(clock)) {
      const bool dominated = (a.write || !kept.write) && covers(a.box, kept.box);
      it = dominated ? accesses_.erase(it) : std::next(it);
      continue;
    }
    if ((a.write || kept.write) && !(a.atomic && kept.atomic) && overlap(a.box, kept.box) &&
        !(harmless && harmless(kept, a)))
      return &kept;
    ++it;
  }
  return nullptr;
}

void AccessHistory::add(Access a) {
  const Progression outer = a.box.dims[0];
  longest_ = std::max(longest_, outer.end() - outer.start);
  ++last_;
  if (a.half) a.half->kept[a.write ? 1 : 0] = last_;
  accesses_.emplace(std::pair{outer.start, last_}, std::move(a));
}

bool AccessHistory::any(const std::function<bool(const Access&)>& f) const {
  for (const auto& [place, a] : accesses_) {
    if (f(a)) return true;
  }
  return false;
}

const Access* AccessHistory::unseen() const {
  for (const auto& [place, a] : accesses_) {
    if (a.half && a.half->seen.core < 0) return &a;
  }
  return nullptr;
}

void AccessHistory::forget(const TransferHalf& half, const Box& box, bool write) {
  const auto at = accesses_.find({box.dims[0].start, half.kept[write ? 1 : 0]});
  if (at != accesses_.end() && at->second.half.get() == &half) accesses_.erase(at);
}

void AccessHistory::forget_known(const Clock& everybody) {
  std::erase_if(accesses_, [&](const auto& entry) { return entry.second.known_to(everybody); });
  next_cleanup_ = std::max<std::size_t>(64, 2 * accesses_.size());
}

}  // namespace tessera
