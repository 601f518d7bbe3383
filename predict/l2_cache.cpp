#include "predict/l2_cache.hpp"

#include <algorithm>

namespace tessera::predict {

L2Partition::L2Partition(std::int64_t capacity, const std::vector<std::int64_t>& blocks)
    : capacity_(capacity) {
  std::int64_t all = 0;
  for (const std::int64_t n : blocks) {
    first_.push_back(all);
    all += n;
  }
  blocks_.resize(static_cast<std::size_t>(all));
}

L2Partition::Block& L2Partition::used(int array, std::int64_t block) {
  const std::int64_t at = first_[static_cast<std::size_t>(array)] + block;
  Block& b = blocks_[static_cast<std::size_t>(at)];
  b.used = ++uses_;
  if (b.place == kNone) {
    b.place = static_cast<std::int32_t>(there_.size());
    there_.push_back(static_cast<std::int32_t>(at));
  }
  return b;
}

std::int64_t L2Partition::read(int array, std::int64_t block, std::int64_t bytes,
                               std::int64_t wanted) {
  Block& b = used(array, block);
  const std::int64_t all = std::max<std::int64_t>(0, bytes - b.bytes);
  const std::int64_t missing = wanted == bytes ? all : all * wanted / bytes;
  b.bytes += missing;
  bytes_ += missing;
  make_room();
  return missing;
}

void L2Partition::write(int array, std::int64_t block, std::int64_t bytes) {
  Block& b = used(array, block);
  bytes_ += std::max<std::int64_t>(0, bytes - b.bytes);
  b.bytes = std::max(b.bytes, bytes);
  b.dirty = std::max(b.dirty, bytes);
  make_room();
}

std::int32_t L2Partition::victim() {
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

void L2Partition::make_room() {
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

namespace {

std::vector<std::int64_t> with_copies(std::vector<std::int64_t> blocks) {
  const std::size_t arrays = blocks.size();
  for (std::size_t i = 0; i < arrays; ++i) blocks.push_back(blocks[i]);
  return blocks;
}

/// Of so many bytes, those whose home a partition is.
std::int64_t at_home(std::int64_t bytes, int side) {
  return side == 0 ? bytes / 2 : bytes - bytes / 2;
}

}  // namespace

L2Cache::L2Cache(std::int64_t capacity, const std::vector<std::int64_t>& blocks)
    : arrays_(static_cast<int>(blocks.size())),
      partitions_{{capacity / 2, with_copies(blocks)}, {capacity / 2, with_copies(blocks)}} {}

std::int64_t L2Cache::read(int array, std::int64_t block, std::int64_t bytes, int side) {
  L2Partition& near = partitions_[side];
  L2Partition& far = partitions_[1 - side];
  std::int64_t missing = near.read(array, block, at_home(bytes, side));
  const std::int64_t others = at_home(bytes, 1 - side);
  const std::int64_t lacking = near.read(arrays_ + array, block, others);
  if (lacking > 0) missing += far.read(array, block, others, lacking);
  dram_read_ += missing;
  return missing;
}

void L2Cache::write(int array, std::int64_t block, std::int64_t bytes) {
  for (int side = 0; side < 2; ++side) partitions_[side].write(array, block, at_home(bytes, side));
}

void L2Cache::write(int array, std::int64_t block, std::int64_t bytes, int side) {
  write(array, block, bytes);
  partitions_[side].read(arrays_ + array, block, at_home(bytes, 1 - side));
}

}  // namespace tessera::predict
