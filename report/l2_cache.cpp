#include "report/l2_cache.hpp"

#include <algorithm>

namespace tessera::report {

L2Cache::L2Cache(std::int64_t capacity, const std::vector<std::int64_t>& blocks)
    : capacity_(capacity) {
  std::int64_t entries = 0;
  for (const std::int64_t n : blocks) {
    first_.push_back(entries);
    entries += n;
  }
  entries_.resize(static_cast<std::size_t>(entries));
}

std::int64_t L2Cache::read(int array, std::int64_t block, std::int64_t bytes) {
  const auto at = static_cast<std::int32_t>(first_[static_cast<std::size_t>(array)] + block);
  Entry& e = entries_[static_cast<std::size_t>(at)];
  const std::int64_t missing = std::max<std::int64_t>(0, bytes - e.bytes);
  e.bytes += missing;
  used_ += missing;
  dram_read_ += missing;
  to_front(at);
  make_room();
  return missing;
}

void L2Cache::write(int array, std::int64_t block, std::int64_t bytes) {
  const auto at = static_cast<std::int32_t>(first_[static_cast<std::size_t>(array)] + block);
  Entry& e = entries_[static_cast<std::size_t>(at)];
  used_ += std::max<std::int64_t>(0, bytes - e.bytes);
  e.bytes = std::max(e.bytes, bytes);
  e.dirty = std::max(e.dirty, bytes);
  to_front(at);
  make_room();
}

void L2Cache::make_room() {
  while (used_ > capacity_ && oldest_ != kNone) {
    const std::int32_t at = oldest_;
    Entry& e = entries_[static_cast<std::size_t>(at)];
    const std::int64_t out = std::min(used_ - capacity_, e.bytes);
    const std::int64_t written = std::min(out, e.dirty);
    e.bytes -= out;
    e.dirty -= written;
    used_ -= out;
    dram_written_ += written;
    if (e.bytes == 0) unlink(at);
  }
}

void L2Cache::unlink(std::int32_t at) {
  Entry& e = entries_[static_cast<std::size_t>(at)];
  if (!e.listed) return;
  (e.newer == kNone ? newest_ : entries_[static_cast<std::size_t>(e.newer)].older) = e.older;
  (e.older == kNone ? oldest_ : entries_[static_cast<std::size_t>(e.older)].newer) = e.newer;
  e.listed = false;
}

void L2Cache::to_front(std::int32_t at) {
  unlink(at);
  Entry& e = entries_[static_cast<std::size_t>(at)];
  e.newer = kNone;
  e.older = newest_;
  if (newest_ != kNone) entries_[static_cast<std::size_t>(newest_)].newer = at;
  newest_ = at;
  if (oldest_ == kNone) oldest_ = at;
  e.listed = true;
}

}  // namespace tessera::report
