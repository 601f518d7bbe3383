#include "sim/pipeline/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

namespace tessera {

namespace {

/// Keeps the calling thread off a processor while it lives, if it has others. A thread that is
/// woken where all processors are busy stays on its waker's, and the two share that one.
class Elsewhere {
 public:
  explicit Elsewhere(int processor) {
    if (sched_getcpu() != processor || sched_getaffinity(0, sizeof allowed_, &allowed_) != 0)
      return;
    cpu_set_t others = allowed_;
    CPU_CLR(static_cast<std::size_t>(processor), &others);
    moved_ = CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0;
  }
  ~Elsewhere() {
    if (moved_) sched_setaffinity(0, sizeof allowed_, &allowed_);
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

 private:
  cpu_set_t allowed_ = {};
  bool moved_ = false;
};

struct Loop {
  std::int64_t n;
  int wanted;  ///< threads besides the caller that may still join
  const std::function<void(std::int64_t)>& body;
  std::atomic<std::int64_t> next = 0;
  int inside = 0;                  ///< threads besides the caller that have joined and not left
  int processor = sched_getcpu();  ///< the caller's
  std::condition_variable left = {};

  void take_part() {
    for (std::int64_t i = next++; i < n; i = next++) body(i);
  }

  /// The same for a while; true if there is more to do. What else wants the processor is to get it
  /// between bodies: the caller waits for a thread that loses it in the middle of one.
  bool help() {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::microseconds kSlice{1500};
    const Clock::time_point end = Clock::now() + kSlice;
    for (std::int64_t i = next++; i < n; i = next++) {
      body(i);
      if (Clock::now() > end) return true;
    }
    return false;
  }
};

/// Lives as long as the process: its threads may be asleep when that ends.
class Pool {
 public:
  void run(Loop& loop) {
    std::unique_lock lock(mutex_);
    try {
      for (; threads_ < busy_ + loop.wanted; ++threads_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
      // The system gives no more: those there are, and the caller, do the work.
    }
    busy_ += loop.wanted;
    const int wanted = loop.wanted;
    const auto place = loops_.insert(loops_.end(), &loop);
    lock.unlock();
    if (wanted == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    loop.take_part();
    lock.lock();
    loops_.erase(place);
    loop.left.wait(lock, [&] { return loop.inside == 0; });
    busy_ -= wanted;
  }

 private:
  [[noreturn]] void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto joinable = std::ranges::find_if(loops_, [](const Loop* l) {
        return l->wanted > 0 && l->next.load(std::memory_order_relaxed) < l->n;
      });
      if (joinable == loops_.end()) {
        wake_.wait(lock);
        continue;
      }
      Loop& loop = **joinable;
      --loop.wanted;
      ++loop.inside;
      lock.unlock();
      bool more = false;
      {
        const Elsewhere elsewhere(loop.processor);
        more = loop.help();
      }
      lock.lock();
      if (more) ++loop.wanted;
      if (--loop.inside == 0) loop.left.notify_one();
      if (!more) continue;
      lock.unlock();
      sched_yield();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Loop*> loops_;
  int threads_ = 0;  ///< that there are
  int busy_ = 0;     ///< that the loops under way want
};

}  // namespace

void each_on_threads(std::int64_t n, int threads, const std::function<void(std::int64_t)>& body) {
  static Pool& pool = *new Pool;
  Loop loop{n, static_cast<int>(std::min<std::int64_t>(threads, n)) - 1, body};
  if (loop.wanted <= 0)
    loop.take_part();
  else
    pool.run(loop);
}

}  // namespace tessera
