// The accesses of a buffer that another access could still race with.
//
// Two accesses race if their bytes overlap, one of them writes, and neither happens before the
// other. A history keeps an access until a later one dominates it (covers its bytes, is ordered
// after it, and writes if it wrote) or until every core knows of it: a long run keeps no more than
// its last accesses to distinct parts of a buffer. Cost per access: the accesses kept whose spans
// overlap it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "memory_model/box.hpp"
#include "memory_model/clock.hpp"
#include "memory_model/here.hpp"

namespace tessera {

/// Where an access was made, kept for a message that is rarely printed.
struct Site {
  static constexpr int kFrames = 8;
  static constexpr int kIds = 8;
  Here at;                                   ///< if the call carried its caller's line
  std::array<const void*, kFrames> trace{};  ///< else return addresses, innermost first
  int core = 0;                              ///< global: device * cores per device + core
  std::array<int, kIds> ids{};               ///< program ids of the grid step
};

struct Transfer;

/// A half of a transfer: its reads of the source or its writes of the destination.
struct TransferHalf {
  Transfer* transfer = nullptr;
  Epoch seen;  ///< the wait that had to see it complete; none yet if its core is -1
  const TransferHalf* after = nullptr;  ///< a half that completes later: what has landed was read
  std::array<std::int64_t, 2> kept{};   ///< numbers of its read and its write in their histories
  bool known_to(const Clock& c) const {
    return seen.known_to(c) || (after != nullptr && after->seen.known_to(c));
  }
};

struct Access {
  Box box;
  bool write = false;
  Epoch when;                          ///< a core's own access; else `half` has it
  std::shared_ptr<TransferHalf> half;  ///< of a transfer, or null
  Site site;
  const char* kind = "";  ///< "read", "write", "fetch", "write-back"
  bool atomic = false;    ///< a sum into memory: in any order with others of its kind
  bool known_to(const Clock& c) const { return half ? half->known_to(c) : when.known_to(c); }
};

class AccessHistory {
 public:
  bool empty() const { return accesses_.empty(); }

  /// True of two accesses that may come in any order, although one of them writes.
  using Harmless = std::function<bool(const Access& earlier, const Access& later)>;

  /// The kept access that races with `a`, made by one who knows `clock`; null if there is none.
  /// Forgets what `a` dominates.
  const Access* check(const Access& a, const Clock& clock, const Harmless& harmless = {});
  void add(Access a);
  /// True if f is of some access that is kept.
  bool any(const std::function<bool(const Access&)>& f) const;
  /// An access of a transfer that no wait has had to see complete; null if there is none.
  const Access* unseen() const;
  /// Forgets an access of a transfer that everybody knows to be complete: what it did to `box`.
  void forget(const TransferHalf& half, const Box& box, bool write);
  /// Forgets what every core knows of. `everybody`: the least of their clocks.
  void forget_known(const Clock& everybody);
  void clear() { accesses_.clear(); }
  /// True when it has doubled since the last forget_known().
  bool worth_forgetting() const { return accesses_.size() >= next_cleanup_; }

 private:
  /// By first bit of the outermost dim, and a number; a span is what the outermost dim of the box
  /// spans.
  std::map<std::pair<std::int64_t, std::int64_t>, Access> accesses_;
  std::int64_t last_ = 0;  ///< number
  std::int64_t longest_ = 0;
  std::size_t next_cleanup_ = 64;
};

}  // namespace tessera
