// A cooperative fiber: a stack of its own, entered with resume() and left with suspend().
//
// Boost.Context switches; AddressSanitizer is told of every switch. A fiber that is given up is
// resumed once more with `cancel`, which makes its suspend() throw, so that its stack unwinds.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <functional>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tessera {

class Fiber {
 public:
  /// Thrown by suspend() in a fiber that is given up. Not an error: nothing may swallow it.
  struct Cancelled {};

  explicit Fiber(std::function<void()> body) : body_(std::move(body)) {
    boost::context::protected_fixedsize_stack allocator(kStackBytes);
    const boost::context::stack_context stack = allocator.allocate();
    top_ = static_cast<std::byte*>(stack.sp);
#if defined(__SANITIZE_ADDRESS__)
    // What a stack that was unmapped here left poisoned.
    __asan_unpoison_memory_region(top_ - stack.size, stack.size);
#endif
    inside_ = boost::context::fiber(std::allocator_arg,
                                    boost::context::preallocated(stack.sp, stack.size, stack),
                                    allocator, [this](boost::context::fiber&& caller) {
                                      arrived(nullptr);
                                      outside_ = std::move(caller);
                                      try {
                                        if (!cancelled_) body_();
                                      } catch (const Cancelled&) {
                                      }
                                      finished_ = true;
                                      leaving(nullptr);
                                      return std::move(outside_);
                                    });
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
    if (finished_) return;
    cancelled_ = true;
    resume();
  }

  bool finished() const { return finished_; }

  /// Runs it until its next suspend() or its end.
  void resume() {
    void* fake = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake, top_ - kStackBytes, kStackBytes);
#endif
    inside_ = std::move(inside_).resume();
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    static_cast<void>(fake);
#endif
  }

  /// Called inside: back to whoever resumed it.
  void suspend() {
    void* fake = nullptr;
    leaving(&fake);
    outside_ = std::move(outside_).resume();
    arrived(fake);
    if (cancelled_) throw Cancelled{};
  }

  /// True if `address` lies in its stack.
  bool holds(const void* address) const {
    const auto* a = static_cast<const std::byte*>(address);
    return a < top_ && a >= top_ - kStackBytes;
  }

 private:
  static constexpr std::size_t kStackBytes = 1 << 20;

#if defined(__SANITIZE_ADDRESS__)
  void arrived(void* fake) {
    __sanitizer_finish_switch_fiber(fake, &caller_bottom_, &caller_bytes_);
  }
  void leaving(void** fake) { __sanitizer_start_switch_fiber(fake, caller_bottom_, caller_bytes_); }
  const void* caller_bottom_ = nullptr;
  std::size_t caller_bytes_ = 0;
#else
  void arrived(void*) {}
  void leaving(void**) {}
#endif

  std::function<void()> body_;
  std::byte* top_ = nullptr;
  bool finished_ = false;
  bool cancelled_ = false;
  boost::context::fiber outside_;
  boost::context::fiber inside_;
};

}  // namespace tessera
