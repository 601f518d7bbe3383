// How often the L2 of a GPU has to change a sector for a kernel's atomics.
//
// The 32 lanes of a warp that ask for a sector together change it in one pass if they ask for
// different places, and in as many as ask for one place if they do not. 512 bytes that follow each
// other are of one unit, which makes one pass after another; units work side by side. Measured on
// an H100 (predict/ACCURACY_TRITON.md): 2^20 lanes to one place take 772 us, to 45 places 280, to
// 1,024 places 94 to 114.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tessera::triton {

class AtomicPasses {
 public:
  static constexpr std::int64_t kSector = 32;      ///< bytes
  static constexpr std::int64_t kUnit = 512;       ///< bytes
  static constexpr std::int64_t kUnits = 1 << 12;  ///< few: every launch with atomics looks at all
  static constexpr std::size_t kWarp = 32;         ///< lanes

  /// Lanes of a tensor at those addresses, in row-major order. From any thread.
  void note(const std::vector<std::int64_t>& addresses);

  std::int64_t all() const;
  /// Of the unit that has most.
  std::int64_t most() const;

 private:
  void add(std::int64_t address, std::int64_t passes);
  /// Of lanes [first, end), sorted.
  void note_sorted(const std::int64_t* first, const std::int64_t* end);

  std::mutex mutex_;
  std::vector<std::int64_t> passes_;  ///< by unit; of those beyond kUnits, by the remainder
};

}  // namespace tessera::triton
