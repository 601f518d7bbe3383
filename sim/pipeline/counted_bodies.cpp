#include "sim/pipeline/counted_bodies.hpp"

namespace tessera {

std::size_t CountedBodies::Hash::operator()(const Key& key) const {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, by words
  for (const std::int64_t word : key)
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3;
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

CountedBodies::Key CountedBodies::key() const {
  Key key{};
  for (std::size_t d = 0; d < kMaxGridRank; ++d) {
    const unsigned bit = 1u << d;
    const int id = core_.ids[d];
    if ((use_.exact & bit) != 0) key[2 * d] = 4 + std::int64_t{id};
    if ((use_.ends & bit) != 0)
      key[2 * d + 1] = (id == core_.lo[d] ? 1 : 0) + (id == core_.hi[d] - 1 ? 2 : 0);
    if ((use_.extents & bit) != 0) key[2 * d + 1] += 4 * (std::int64_t{core_.hi[d]} - core_.lo[d]);
  }
  return key;
}

std::size_t CountedBodies::body() {
  if (++asked_ % 1024 == 0) stop_if_asked();
  const auto found = known_.find(key());
  if (found != known_.end()) return found->second;
  core_.use = {};
  core_.copies.clear();
  core_.script.clear();
  core_.work = {};
  core_.ran.clear();
  counted_work = {};
  body_.count(core_);
  if (!core_.script.empty()) core_.end_work();
  const std::size_t script = number_of_script();
  const IdUse grown = use_ | core_.use;
  if (!(grown == use_)) known_.clear();
  use_ = grown;
  counts_.push_back({core_.work.add(counted_work, 1), core_.copies, script, core_.ran});
  known_.emplace(key(), counts_.size() - 1);
  return counts_.size() - 1;
}

std::size_t CountedBodies::number_of_script() {
  if (core_.script.empty()) return 0;
  const std::uint64_t hash = hash_of(core_.script);
  const auto [first, last] = known_scripts_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (scripts_[at->second] == core_.script) return at->second;
  }
  known_scripts_.emplace(hash, scripts_.size());
  acts_ += std::ssize(core_.script);
  scripts_.push_back(core_.script);
  return scripts_.size() - 1;
}

std::int64_t CountedBodies::alike_along(int dim) const {
  const auto d = static_cast<std::size_t>(dim);
  const unsigned bit = 1u << d;
  if ((use_.exact & bit) != 0) return 1;
  const std::int64_t left = core_.hi[d] - std::int64_t{core_.ids[d]};
  if ((use_.ends & bit) == 0) return left;
  if (core_.ids[d] == core_.lo[d]) return 1;
  return std::max<std::int64_t>(1, left - 1);
}

}  // namespace tessera
