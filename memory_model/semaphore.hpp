// Counting semaphores, and what a wait on one lets its core know.
//
// A regular semaphore counts signals, a DMA semaphore bytes, a barrier semaphore is a regular one
// that all devices share by collective id. A wait takes its amount off the count, and blocks while
// the count is smaller.
//
// What a wait orders is what it had to see. After waits for `w` in all, an event happens before the
// wait only if the signals that do not follow it come to less than `w`: of two transfers of 64
// bytes each on one semaphore, a first wait for 64 bytes proves neither complete, the second both.
// Only the semaphore's own core waits on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory_model/clock.hpp"
#include "memory_model/history.hpp"

namespace tessera {

class Semaphore {
 public:
  enum class Kind : std::uint8_t { regular, dma, barrier };

  Semaphore(std::string name_, Kind kind_, int core_)
      : name(std::move(name_)), kind(kind_), core(core_) {}

  std::string name;
  Kind kind;
  int core;                      ///< global
  int place = -1;                ///< as Buffer::place
  std::uint32_t generation = 0;  ///< counts the scopes that have used this object

  std::int64_t value() const { return landed_ - waited_; }
  /// Signals and transfers issued, landed or not, less what waits took.
  std::int64_t outstanding() const { return issued_ - waited_; }
  std::int64_t waits() const { return waits_; }
  std::int64_t issues() const { return issues_; }
  /// Cores that have issued anything, in the order of their first.
  const std::vector<int>& senders() const { return senders_; }

  /// A signal or a transfer is under way; `half` of a transfer, or null.
  void issue(std::int64_t amount, Clock clock, std::shared_ptr<TransferHalf> half, Site site);
  /// It has arrived.
  void land(std::int64_t amount) { landed_ += amount; }
  /// Takes `amount`, which value() holds, and lets `waiter` know what that proves. `now`: the
  /// waiter's epoch. Gives the halves of transfers now known to be complete.
  std::vector<std::shared_ptr<TransferHalf>> take(std::int64_t amount, Clock& waiter, Epoch now);

  struct Signal {
    std::int64_t amount = 0;
    Clock clock;
    std::shared_ptr<TransferHalf> half;
    Site site;
  };
  /// Issued and not known to have been waited for.
  const std::vector<Signal>& open() const { return open_; }
  /// Of the last signal or transfer issued.
  const Site& last_issue() const { return last_issue_; }

 private:
  std::int64_t issued_ = 0;
  std::int64_t landed_ = 0;
  std::int64_t waited_ = 0;
  std::int64_t waits_ = 0;
  std::int64_t issues_ = 0;
  std::vector<int> senders_;
  Site last_issue_;
  std::int64_t settled_ = 0;  ///< amounts of signals that are no longer open
  std::vector<Signal> open_;
};

}  // namespace tessera
