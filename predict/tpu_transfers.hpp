// The memories of a TPU core as a schedule sees them: where operands lie, words of SMEM, sync
// flags, and copies, with when they land. A v4's CMEM is a memory of the chip like VMEM.
//
// Addresses are the schedule's own: VMEM in units of 512 bytes, HBM and copies in a chip's own
// (ListedChip), SMEM in words. Operands and allocations get made-up ones; only differences
// matter. A copy takes the HBM at the core's share of its bandwidth, one after the other, and lands
// `dma_latency` later; copies within a core take no time (their rate is not published). Left out:
// banks, what two cores' copies do to each other.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>

#include "memory_model/array.hpp"
#include "memory_model/device_spec.hpp"
#include "predict/server.hpp"
#include "predict/tpu_listing.hpp"

namespace tessera::predict {

/// A scalar of the schedule; nothing if it depends on what is not followed (data of vectors).
using Word = std::optional<std::uint32_t>;

/// Bytes of one operand that copies moved.
struct OperandBytes {
  std::int64_t read = 0;
  std::int64_t written = 0;
  std::int64_t transfers = 0;
  OperandBytes& operator+=(const OperandBytes& o) {
    read += o.read;
    written += o.written;
    transfers += o.transfers;
    return *this;
  }
};

/// A copy to or from HBM: how long it holds the HBM, in cycles.
struct Copied {
  int operand = 0;  ///< of the listing
  bool writes = false;
  double begin = 0;
  double end = 0;
};

class TpuMemories {
 public:
  /// `values`: of the call's operands by index, null where they are not known; those that decide
  /// what the schedule does are in SMEM. Throws ListingError if they do not fit.
  TpuMemories(const Listing& listing, const std::vector<const Array*>& values,
              const DeviceSpec& device, double clock_hz, std::size_t most_copies);

  /// What the value that stands for operand `i` of the listing is: its address, or itself.
  Word operand(std::size_t i) const { return values_[i]; }
  /// The made-up address of "#allocation4_spill".
  std::uint32_t allocation(const std::string& name);

  Word load(std::uint32_t address) const;
  void store(std::uint32_t address, Word value) { smem_[address] = value; }

  struct Copy {
    std::string_view op;  ///< "dma.hbm_to_vmem"
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t granules = 0;  ///< ListedChip::copy_unit_bytes each
    std::uint32_t flag = 0;
  };
  /// Throws ListingError for one that is not modelled.
  void start(const Copy& copy, double now);
  void set_flag(std::uint32_t flag, std::int64_t value, double now);
  void add_to_flag(std::uint32_t flag, std::int64_t amount, double now);
  /// From when on the flag is at least `value`; nothing if that never comes.
  std::optional<double> when(std::uint32_t flag, std::int64_t value) const;
  std::int64_t flag(std::uint32_t flag, double now) const;

  const std::vector<OperandBytes>& bytes() const { return bytes_; }  ///< by operand of the listing
  double last_landing() const { return last_; }                      ///< cycles
  const std::vector<Copied>& copies() const { return copies_; }      ///< the first
  const Server& hbm() const { return hbm_; }                         ///< in seconds

 private:
  struct Flag {
    std::int64_t value = 0;
    std::deque<std::pair<double, std::int64_t>> coming;  ///< in the order of their times
  };
  /// What the call's operand holds; null if that is not known.
  const Array* array(std::size_t operand) const;
  /// The operand that an address lies in; -1 for none.
  int operand_at(std::string_view space, std::uint64_t granule) const;
  void copy_words(int operand, const Copy& copy);

  const Listing& listing_;
  const std::vector<const Array*>& arrays_;
  ListedChip chip_;
  double clock_hz_;
  double bytes_per_s_;
  double latency_cycles_;
  std::vector<Word> values_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places_;  ///< units of 512 bytes, [from, to)
  std::unordered_map<std::string, std::uint32_t> allocations_;
  std::unordered_map<std::uint32_t, Word> smem_;
  std::unordered_map<std::uint32_t, Flag> flags_;
  std::vector<OperandBytes> bytes_;
  std::size_t most_copies_;
  std::vector<Copied> copies_;
  Server hbm_;
  double last_ = 0;
};

}  // namespace tessera::predict
