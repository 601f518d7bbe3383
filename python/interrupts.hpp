// Ctrl-C while kernels run under Python: a signal handler in front of Python's, which would be
// heard too late.
//
// One per extension module. `interrupt` is called from the handler; `resume` when nothing that
// heeds it runs any more.
#pragma once

#include <csignal>
#include <mutex>

namespace tessera::live {

class Interrupts {
 public:
  using Call = void (*)() noexcept;
  Interrupts(Call interrupt, Call resume) : resume_(resume) { interrupt_ = interrupt; }

  void heed() {
    const std::lock_guard lock(mutex_);
    if (heeding_++ > 0) return;
    sigaction(SIGINT, nullptr, &before_);
    const bool handled = (before_.sa_flags & SA_SIGINFO) != 0 ||
                         (before_.sa_handler != SIG_IGN && before_.sa_handler != SIG_DFL);
    if (!handled) return;
    struct sigaction ours {};
    ours.sa_sigaction = on_interrupt;
    ours.sa_flags = SA_SIGINFO | (before_.sa_flags & (SA_ONSTACK | SA_RESTART));
    sigaction(SIGINT, &ours, nullptr);
  }
  void ignore() {
    const std::lock_guard lock(mutex_);
    if (--heeding_ > 0) return;
    resume_();
    struct sigaction now {};
    sigaction(SIGINT, nullptr, &now);
    const bool ours = (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_interrupt;
    if (ours) sigaction(SIGINT, &before_, nullptr);
  }

 private:
  static void on_interrupt(int signal, siginfo_t* info, void* context) {
    interrupt_();
    if ((before_.sa_flags & SA_SIGINFO) != 0)
      before_.sa_sigaction(signal, info, context);
    else
      before_.sa_handler(signal);
  }

  static inline struct sigaction before_ {};  // whose handler hears of it too: Python's
  static inline Call interrupt_ = nullptr;
  Call resume_;
  std::mutex mutex_;
  int heeding_ = 0;
};

}  // namespace tessera::live
