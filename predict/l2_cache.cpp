#include "predict/l2_cache.hpp"

#include <algorithm>

namespace tessera::predict {

L2Cache::L2Cache(std::int64_t capacity, const std::vector<std::int64_t>& blocks)
    : capacity_(capacity) {
  std::int64_t all = 0;
  for (const std::int64_t n : blocks) {
    first_.push_back(all);
    all += n;
  }
  blocks_.resize(static_cast<std::size_t>(all));
}

L2Cache::Block& L2Cache::used(int array, std::int64_t block) {
  const std::int64_t at = first_[static_cast<std::size_t>(array)] + block;
  Block& b = blocks_[static_cast<std::size_t>(at)];
  b.used = ++uses_;
  if (b.place == kNone) {
    b.place = static_cast<std::int32_t>(there_.size());
    there_.push_back(static_cast<std::int32_t>(at));
  }
  return b;
}

std::int64_t L2Cache::read(int array, std::int64_t block, std::int64_t bytes) {
  Block& b = used(array, block);
  const std::int64_t missing = std::max<std::int64_t>(0, bytes - b.bytes);
  b.bytes += missing;
  bytes_ += missing;
  dram_read_ += missing;
  make_room();
  return missing;
}

void L2Cache::write(int array, std::int64_t block, std::int64_t bytes) {
  Block& b = used(array, block);
  bytes_ += std::max<std::int64_t>(0, bytes - b.bytes);
  b.bytes = std::max(b.bytes, bytes);
  b.dirty = std::max(b.dirty, bytes);
  make_room();
}

std::int32_t L2Cache::victim() {
  const auto older = [&](std::int32_t a, std::int32_t b) {
    return blocks_[static_cast<std::size_t>(a)].used < blocks_[static_cast<std::size_t>(b)].used;
  };
  if (there_.size() <= kWays) return *std::min_element(there_.begin(), there_.end(), older);
  std::int32_t oldest = kNone;
  for (std::size_t way = 0; way < kWays; ++way) {
    // xorshift64 (Marsaglia, doi:10.18637/jss.v008.i14).
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    const std::int32_t one = there_[static_cast<std::size_t>((random_ >> 11) % there_.size())];
    if (oldest == kNone || older(one, oldest)) oldest = one;
  }
  return oldest;
}

void L2Cache::make_room() {
  while (bytes_ > capacity_) {
    Block& b = blocks_[static_cast<std::size_t>(victim())];
    const std::int64_t out = std::min({kPiece, b.bytes, bytes_ - capacity_});
    const std::int64_t written = std::min(out, b.dirty);
    b.bytes -= out;
    b.dirty -= written;
    bytes_ -= out;
    dram_written_ += written;
    if (b.bytes > 0) continue;
    blocks_[static_cast<std::size_t>(there_.back())].place = b.place;
    there_[static_cast<std::size_t>(b.place)] = there_.back();
    there_.pop_back();
    b.place = kNone;
  }
}

}  // namespace tessera::predict
