// Counting semaphores, and what a wait on one lets its core know.
//
// A regular semaphore counts signals, a DMA semaphore bytes, a barrier semaphore is a regular one
// that all devices share by collective id. A wait takes its amount off the count, and blocks while
// the count is smaller.
//
// What a wait orders is what it had to see. After waits for `w` in all, an event happens before the
// wait only if the signals that do not follow it come to less than `w`: of two transfers of 64
// bytes each on one semaphore, a first wait for 64 bytes proves neither complete, the second both.
// Only the semaphore's own core waits on it. n signals and n waits cost n log n.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <queue>
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
  bool outlives = false;         ///< its kernel: what it holds at the end is a result

  std::int64_t value() const { return landed_ - waited_; }
  /// Signals and transfers issued, landed or not, less what waits took.
  std::int64_t outstanding() const { return issued_ - waited_; }
  std::int64_t waits() const { return waits_; }
  std::int64_t issues() const { return issues_; }
  /// Cores that have issued anything, in the order of their first.
  std::vector<int> senders() const;

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
    /// Of the landing that proves this reading complete, while both are open.
    std::int64_t implying = 0;
  };
  /// By number, in the order of their issue.
  using Signals = std::map<std::int64_t, Signal>;
  /// Issued and not known to have been waited for.
  const Signals& open() const { return open_; }
  /// Of the last signal or transfer issued.
  const Site& last_issue() const { return last_issue_; }

 private:
  /// A signal that its semaphore's core does not know yet. It is open: what a wait takes for
  /// certain is known by then.
  struct News {
    std::int64_t number = 0;
    const Clock* clock = nullptr;
    bool plain = false;       ///< no transfer's
    std::int64_t amount = 0;  ///< of it and of all its sender issued before
  };
  struct Sender {
    int core = 0;
    std::deque<News> news;    ///< by the sender's own time: each knows what those before it know
    std::int64_t before = 0;  ///< News::amount of the last one that is known
    std::int64_t later_than(Time time, int of) const;
    void add(const News& one);
  };

  Sender& sender(int of);
  void learn_moments(Clock& waiter, std::int64_t slack) const;

  std::int64_t issued_ = 0;
  std::int64_t landed_ = 0;
  std::int64_t waited_ = 0;
  std::int64_t waits_ = 0;
  std::int64_t issues_ = 0;
  Site last_issue_;
  std::int64_t settled_ = 0;  ///< amounts of signals that are no longer open
  Signals open_;
  std::vector<Sender> sending_;  ///< in the order of their first
  /// What the others cannot do without, and the number; of a signal that is no longer open, or was
  /// worth more, until its turn comes.
  std::priority_queue<std::pair<std::int64_t, std::int64_t>> weights_;
};

}  // namespace tessera
