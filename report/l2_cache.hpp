// A last-level cache between HBM and the cores: which of the bytes that cores ask for DRAM gives.
//
// Least recently used, by blocks of arrays: the unit in which kernels read and write. The block
// that is longest unused gives up bytes as room is needed, so one may be partly there. Written
// bytes stay until they are pushed out, and are written to DRAM then. Sets are not modelled: GPUs
// hash addresses, which spreads blocks evenly over them.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::report {

class L2Cache {
 public:
  /// `blocks`: of each array.
  L2Cache(std::int64_t capacity, const std::vector<std::int64_t>& blocks);

  /// Reads `bytes` of a block, all that it ever reads of it; returns those that DRAM gives.
  std::int64_t read(int array, std::int64_t block, std::int64_t bytes);
  /// Writes bytes of a block that are not read before.
  void write(int array, std::int64_t block, std::int64_t bytes);

  std::int64_t dram_read() const { return dram_read_; }
  std::int64_t dram_written() const { return dram_written_; }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Entry {
    std::int64_t bytes = 0;  ///< that are there
    std::int64_t dirty = 0;  ///< of them
    std::int32_t newer = kNone;
    std::int32_t older = kNone;
    bool listed = false;
  };
  void to_front(std::int32_t entry);
  void unlink(std::int32_t entry);
  void make_room();

  std::int64_t capacity_;
  std::int64_t used_ = 0;
  std::int64_t dram_read_ = 0;
  std::int64_t dram_written_ = 0;
  std::vector<std::int64_t> first_;  ///< entry of each array's first block
  std::vector<Entry> entries_;
  std::int32_t newest_ = kNone;
  std::int32_t oldest_ = kNone;
};

}  // namespace tessera::report
