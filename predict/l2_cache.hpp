// A last-level cache between HBM and the cores: which of the bytes that cores ask for DRAM gives.
//
// Of two partitions, each near half of the cores (NVIDIA's whitepapers of the A100 and the H100).
// Half of the lines of everything have their home in either; a core asks the partition that it is
// near to, which gets lines of the other home from there and keeps copies of its own. So what
// cores of both halves read takes room twice; DRAM gives what its home has not. What a core writes
// goes the same way: lines of the other home leave a copy.
//
// In blocks of arrays, the unit in which kernels read and write. GPUs spread addresses over sets by
// a hash, so what a line makes room for is the longest unused of a few lines that could be any:
// here, of kWays blocks drawn at random (always the same ones) the longest unused gives up a piece.
// Blocks can be partly there. Unlike under strict recency, some of what is read in turn stays when
// all of it does not fit. Written bytes stay until they are pushed out, and are written to DRAM
// then.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::predict {

class L2Partition {
 public:
  /// `blocks`: of each array.
  L2Partition(std::int64_t capacity, const std::vector<std::int64_t>& blocks);

  /// Reads `wanted` of a block's `bytes` of this partition, and keeps them; returns those that it
  /// did not have.
  std::int64_t read(int array, std::int64_t block, std::int64_t bytes, std::int64_t wanted);
  std::int64_t read(int array, std::int64_t block, std::int64_t bytes) {
    return read(array, block, bytes, bytes);
  }
  /// Writes bytes of a block that are not read before.
  void write(int array, std::int64_t block, std::int64_t bytes);

  std::int64_t dram_written() const { return dram_written_; }

 private:
  static constexpr std::int32_t kNone = -1;
  /// By what is read again and again and just does not fit (predict/ACCURACY.md).
  static constexpr std::size_t kWays = 8;
  static constexpr std::int64_t kPiece = 4096;

  struct Block {
    std::int64_t bytes = 0;  ///< that are there
    std::int64_t dirty = 0;  ///< of them
    std::int64_t used = 0;   ///< when, in uses of the cache
    std::int32_t place = kNone;
  };
  Block& used(int array, std::int64_t block);
  void make_room();
  std::int32_t victim();

  std::int64_t capacity_;
  std::int64_t bytes_ = 0;
  std::int64_t dram_written_ = 0;
  std::int64_t uses_ = 0;
  std::uint64_t random_ = 0x9e3779b97f4a7c15;
  std::vector<std::int64_t> first_;  ///< number of each array's first block
  std::vector<Block> blocks_;
  std::vector<std::int32_t> there_;  ///< blocks of which some bytes are there
};

class L2Cache {
 public:
  /// `capacity`: of both partitions; `blocks`: of each array.
  L2Cache(std::int64_t capacity, const std::vector<std::int64_t>& blocks);

  /// A core near partition `side`, 0 or 1, reads `bytes` of a block, all that cores ever read of
  /// it; returns those that DRAM gives.
  std::int64_t read(int array, std::int64_t block, std::int64_t bytes, int side);
  /// Writes bytes of a block that are not read before, at home alone.
  void write(int array, std::int64_t block, std::int64_t bytes);
  /// A core near partition `side` does: the copies that it leaves there have room too.
  void write(int array, std::int64_t block, std::int64_t bytes, int side);

  std::int64_t dram_read() const { return dram_read_; }
  std::int64_t dram_written() const {
    return partitions_[0].dram_written() + partitions_[1].dram_written();
  }

 private:
  int arrays_;  ///< copies of array n are array arrays_ + n of a partition
  L2Partition partitions_[2];
  std::int64_t dram_read_ = 0;
};

}  // namespace tessera::predict
