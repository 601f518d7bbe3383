#include "sim/pipeline/threads.hpp"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace tessera {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// A thread that helps another one, the caller.
class Helper {
 public:
  Helper() {
    knows_allowed_ = sched_getaffinity(0, sizeof allowed_, &allowed_) == 0;
    has_clock_ = pthread_getcpuclockid(pthread_self(), &clock_) == 0;
    ran_before_ = ran();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// Leaves a processor for the others, if there are any: a thread that is woken where all
  /// processors are busy stays on its waker's, and the two share that one.
  void leave(int processor) {
    if (!knows_allowed_ || sched_getcpu() != processor) return;
    cpu_set_t others = allowed_;
    CPU_CLR(static_cast<std::size_t>(processor), &others);
    left_ = CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0;
  }
  void may_go_anywhere() {
    if (left_) sched_setaffinity(0, sizeof allowed_, &allowed_);
  }

  // Of the caller.

  /// True if something else runs on its processor too, as far as is known.
  bool shares_its_processor() const {
    constexpr std::chrono::microseconds kLong{300};
    constexpr double kAlone = 0.8;  // of the time
    const SteadyClock::duration here = SteadyClock::now() - since_;
    return !moved_ && knows_allowed_ && has_clock_ && here > kLong &&
           static_cast<double>((ran() - ran_before_).count()) <
               kAlone * static_cast<double>(here.count());
  }
  /// It goes on there, and is free to leave. Left to itself a scheduler takes milliseconds.
  void move_to(int processor) {
    moved_ = true;
    cpu_set_t there;
    CPU_ZERO(&there);
    CPU_SET(static_cast<std::size_t>(processor), &there);
    if (CPU_ISSET(static_cast<std::size_t>(processor), &allowed_) &&
        sched_setaffinity(thread_, sizeof there, &there) == 0)
      sched_setaffinity(thread_, sizeof allowed_, &allowed_);
  }

 private:
  SteadyClock::duration ran() const {
    timespec t{};
    if (has_clock_) clock_gettime(clock_, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  }

  pid_t thread_ = gettid();
  cpu_set_t allowed_ = {};
  bool knows_allowed_ = false;
  bool left_ = false;
  bool moved_ = false;
  clockid_t clock_ = {};
  bool has_clock_ = false;
  SteadyClock::time_point since_ = SteadyClock::now();
  SteadyClock::duration ran_before_ = {};
};

struct Loop {
  std::int64_t n;
  int wanted;  ///< threads besides the caller that may still join
  const std::function<void(std::int64_t)>& body;
  std::atomic<std::int64_t> next = 0;
  std::list<Helper*> inside = {};        ///< that have joined and not left
  std::atomic<std::size_t> helpers = 0;  ///< how many they are, read without the lock
  int processor = sched_getcpu();        ///< the caller's
  std::condition_variable left = {};

  void take_part() {
    for (std::int64_t i = next++; i < n; i = next++) body(i);
  }

  /// The same for a while; true if there is more to do. What else wants the processor is to get it
  /// between bodies: the caller waits for a thread that loses it in the middle of one.
  bool help() {
    constexpr std::chrono::microseconds kSlice{1500};
    const SteadyClock::time_point end = SteadyClock::now() + kSlice;
    for (std::int64_t i = next++; i < n; i = next++) {
      body(i);
      if (SteadyClock::now() > end) return true;
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
    ++begun_;
    lock.unlock();
    if (wanted == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    loop.take_part();
    lock.lock();
    loops_.erase(place);
    if (loop.helpers > 0) stay_awake(lock, kSoon, [&] { return loop.helpers == 0; });
    // The caller's processor is free: who waits for its own gets that one.
    constexpr std::chrono::microseconds kLook{500};
    while (!loop.left.wait_for(lock, kLook, [&] { return loop.inside.empty(); })) {
      const auto waits = std::ranges::find_if(
          loop.inside, [](const Helper* h) { return h->shares_its_processor(); });
      if (waits != loop.inside.end()) (*waits)->move_to(sched_getcpu());
    }
    busy_ -= wanted;
  }

 private:
  static constexpr std::chrono::microseconds kSoon{80};  ///< that a thread ends
  /// That the next loop begins: what a launch from Python takes around its loop, and some.
  static constexpr std::chrono::microseconds kFollows{240};

  [[noreturn]] void serve() {
    std::unique_lock lock(mutex_);
    bool served = false;
    while (true) {
      const auto joinable = std::ranges::find_if(loops_, [](const Loop* l) {
        return l->wanted > 0 && l->next.load(std::memory_order_relaxed) < l->n;
      });
      if (joinable == loops_.end()) {
        if (std::exchange(served, false))
          stay_awake(lock, kFollows, [&, seen = begun_.load()] { return begun_ != seen; });
        else
          wake_.wait(lock);
        continue;
      }
      served = true;
      Loop& loop = **joinable;
      --loop.wanted;
      Helper self;
      const auto place = loop.inside.insert(loop.inside.end(), &self);
      ++loop.helpers;
      lock.unlock();
      self.leave(loop.processor);
      const bool more = loop.help();
      lock.lock();
      self.may_go_anywhere();
      loop.inside.erase(place);
      --loop.helpers;
      if (more) ++loop.wanted;
      if (loop.inside.empty()) loop.left.notify_one();
      if (!more) continue;
      lock.unlock();
      sched_yield();
      lock.lock();
    }
  }

  /// Until then, or for so long that it is not soon: to fall asleep and be woken takes as long as a
  /// short loop.
  template <class Then>
  static void stay_awake(std::unique_lock<std::mutex>& lock, std::chrono::microseconds at_most,
                         Then then) {
    lock.unlock();
    const SteadyClock::time_point end = SteadyClock::now() + at_most;
    while (!then() && SteadyClock::now() < end) sched_yield();
    lock.lock();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Loop*> loops_;
  std::atomic<std::int64_t> begun_ = 0;  ///< loops
  int threads_ = 0;                      ///< that there are
  int busy_ = 0;                         ///< that the loops under way want
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
