// The ledger: every movement of bytes between spaces, and nothing else.
//
// A Movement is the one record type. Totals per ref are sums of movements; `elided` counts the grid
// steps at which a resident block made a transfer unnecessary. Records themselves are kept only if
// asked for: a run of 10^7 steps must not grow. Sums of integers: adding ledgers in any order gives
// the same ledger.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/space.hpp"

namespace tessera {

enum class Why : std::uint8_t { fetch, writeback, dma, remote_dma, load, store };

constexpr const char* name(Why w) {
  constexpr const char* kNames[] = {"fetch", "writeback", "dma", "remote_dma", "load", "store"};
  return kNames[static_cast<int>(w)];
}

struct Movement {
  int ref = 0;      ///< index into Ledger::refs()
  int to_ref = -1;  ///< of a copy between two refs that both count it: the destination
  Space from = Space::hbm;
  Space to = Space::vmem;
  Why why = Why::fetch;
  int device = 0;
  int to_device = -1;  ///< of remote_dma
  int core = 0;
  std::int64_t step = 0;  ///< grid step, in the order of the grid
  std::int64_t transfers = 1;
  std::int64_t bytes = 0;         ///< elements in bounds x element size
  std::int64_t padded_bytes = 0;  ///< what the tiled layout moves
};

struct RefTotals {
  std::string name;
  const char* direction = "in";  ///< "in", "out", "scalar" or "scratch"
  std::int64_t transfers = 0;
  std::int64_t elided = 0;
  std::int64_t bytes = 0;
  std::int64_t padded_bytes = 0;
  std::int64_t read_bytes = 0;  ///< of `bytes`: out of HBM
  std::int64_t write_bytes = 0;
  std::int64_t padded_read_bytes = 0;
  std::int64_t padded_write_bytes = 0;
};

class Ledger {
 public:
  int add_ref(std::string name, const char* direction);

  void record(const Movement& m) {
    const bool twice = m.to_ref >= 0 && m.to_ref != m.ref;
    charge(m.ref, m, m.from == Space::hbm, m.to == Space::hbm && !twice);
    if (twice) charge(m.to_ref, m, false, m.to == Space::hbm);
    if (m.to_device >= 0) links_[{m.device, m.to_device}] += m.bytes;
    if (keep_) movements_.push_back(m);
  }
  /// Of `steps` grid steps, those at which the ref's block stayed where it was.
  void set_elided(int ref, std::int64_t steps) {
    RefTotals& t = refs_[static_cast<std::size_t>(ref)];
    t.elided = steps - t.transfers;
  }

  /// Keep every movement from now on: memory grows with the run.
  void keep_movements(bool keep) { keep_ = keep; }
  const std::vector<Movement>& movements() const { return movements_; }
  const std::vector<RefTotals>& refs() const { return refs_; }

  /// Bytes from device to device.
  const std::map<std::pair<int, int>, std::int64_t>& links() const { return links_; }
  std::int64_t remote_bytes() const;

  /// Adds what another process counted.
  void add_totals(std::size_t ref, const RefTotals& totals);
  void add_link(int from, int to, std::int64_t bytes) { links_[{from, to}] += bytes; }
  /// The counts of a RefTotals, in the order of their declaration.
  static constexpr std::array kCounts{&RefTotals::transfers,
                                      &RefTotals::elided,
                                      &RefTotals::bytes,
                                      &RefTotals::padded_bytes,
                                      &RefTotals::read_bytes,
                                      &RefTotals::write_bytes,
                                      &RefTotals::padded_read_bytes,
                                      &RefTotals::padded_write_bytes};

  /// Adds another ledger over the same refs.
  void add(const Ledger& other);

  std::int64_t hbm_read_bytes() const { return sum(&RefTotals::read_bytes); }
  std::int64_t hbm_write_bytes() const { return sum(&RefTotals::write_bytes); }
  std::int64_t padded_hbm_read_bytes() const { return sum(&RefTotals::padded_read_bytes); }
  std::int64_t padded_hbm_write_bytes() const { return sum(&RefTotals::padded_write_bytes); }

 private:
  void charge(int ref, const Movement& m, bool reads, bool writes) {
    RefTotals& t = refs_[static_cast<std::size_t>(ref)];
    t.transfers += m.transfers;
    t.bytes += m.bytes;
    t.padded_bytes += m.padded_bytes;
    if (reads) {
      t.read_bytes += m.bytes;
      t.padded_read_bytes += m.padded_bytes;
    }
    if (writes) {
      t.write_bytes += m.bytes;
      t.padded_write_bytes += m.padded_bytes;
    }
  }
  std::int64_t sum(std::int64_t RefTotals::*member) const;

  std::vector<RefTotals> refs_;
  std::map<std::pair<int, int>, std::int64_t> links_;
  std::vector<Movement> movements_;
  bool keep_ = false;
};

}  // namespace tessera
