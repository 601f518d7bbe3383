#include "cli/signals.hpp"

#include <execinfo.h>
#include <fmt/format.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <string_view>

#include "sim/diagnostics/slugs.hpp"

namespace tessera::cli {

namespace {

StopFlag the_flag = Stop::none;

/// A sanitizer takes faults for itself, and has no memory to give to a handler that looks a line
/// up.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// What a run that does not look at its flag has.
constexpr double kGrace = 0.2;  // seconds

void set_timer(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

/// Text in memory that exists already: what a signal handler can make.
class Words {
 public:
  template <class... A>
  void add(fmt::format_string<A...> format, A&&... a) {
    const auto end = fmt::format_to_n(text_.data() + size_, text_.size() - size_, format,
                                      static_cast<A&&>(a)...);
    size_ = static_cast<std::size_t>(end.out - text_.data());
  }
  void write() {
    for (std::size_t i = 0; i < size_; ++i) {
      if (static_cast<unsigned char>(text_[i]) < 0x20 && text_[i] != '\n') text_[i] = '?';
    }
    static_cast<void>(!::write(STDERR_FILENO, text_.data(), size_));
    size_ = 0;
  }

 private:
  std::array<char, 2048> text_;
  std::size_t size_ = 0;
};

/// The line of the kernel that a signal interrupted.
std::string line_of(const void* context) {
  if (step_context != nullptr && step_context->line != nullptr)
    return source_excerpt(*step_context->line);
  const auto* const where = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  const auto pc = static_cast<std::uintptr_t>(where->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  const auto pc = static_cast<std::uintptr_t>(where->uc_mcontext.pc);
#else
  const std::uintptr_t pc = 0;
  static_cast<void>(where);
#endif
  constexpr int kFrames = 64;
  std::array<void*, kFrames> frames{};
  const auto last = frames.begin() + backtrace(frames.data(), kFrames);
  auto* const interrupted = reinterpret_cast<void*>(pc);  // NOLINT(performance-no-int-to-ptr)
  const auto first = std::find(frames.begin(), last, interrupted);
  if (first == last) return "";
  // The others are return addresses, one past their call.
  *first = static_cast<std::byte*>(interrupted) + 1;
  return trace_excerpt({first, last});
}

int last_code = 0;
void exit_now(int) { _exit(last_code); }

/// Says what happened and where, and exits. In a signal handler, on the thread that it interrupted.
[[noreturn]] void last_words(const char* slug, std::string_view headline, int code,
                             const void* context) {
  Words words;
  words.add("error[{}]: {}\n", slug, headline);
  const StepContext* const c = step_context;
  if (c != nullptr) {
    words.add("  kernel  {}", c->who);
    if (c->device >= 0) words.add(", device {}", c->device);
    if (c->core >= 0) words.add(", core {}", c->core);
    for (int d = 0; c->ids != nullptr && d < c->plan->grid_rank; ++d) {
      const char* const label = c->plan->labels[static_cast<std::size_t>(d)];
      words.add("{}{}{}{}", d == 0 ? ", grid (" : ", ", label, *label != '\0' ? "=" : "",
                c->ids[d]);
    }
    words.add("{}\n", c->ids != nullptr && c->plan->grid_rank > 0 ? ")" : "");
  }
  words.write();
  // The line takes memory and files, which what was interrupted may hold: a second for it.
  last_code = code;
  struct sigaction exit {};
  exit.sa_handler = exit_now;
  for (const int signal : {SIGALRM, SIGINT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &exit, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  set_timer(1);
  if (!kSanitized && (c == nullptr || c->ids != nullptr)) {
    const std::string line = line_of(context);
    if (!line.empty()) words.add("  line    {}\n", line);
    if (!line.empty() && c == nullptr)
      words.add(
          "  help    a line of your own (an oracle's, prepare()'s) is where to look; tessera's is "
          "a bug of ours\n");
    words.write();
  }
  _exit(code);
}

void on_stop(int signal, siginfo_t*, void* context) {
  const Stop asked = the_flag.load();
  if (asked != Stop::none) {
    last_words(slug(asked), headline(asked), asked == Stop::time_limit ? 1 : kInterrupted, context);
  }
  the_flag = signal == SIGALRM ? Stop::time_limit : Stop::interrupted;
  set_timer(kGrace);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const bool body = step_context != nullptr && step_context->ids != nullptr;
  std::array<char, 128> headline{};
  const char* const who = body ? "the kernel's body" : "tessera";
  if (signal == SIGFPE)
    fmt::format_to_n(headline.data(), headline.size() - 1, "{} divides an integer by zero", who);
  else if (signal == SIGILL)
    fmt::format_to_n(headline.data(), headline.size() - 1, "{} has no way to go on", who);
  else
    fmt::format_to_n(headline.data(), headline.size() - 1,
                     "{} reads or writes memory that is not its own, at {:#x}", who,
                     reinterpret_cast<std::uintptr_t>(info->si_addr));
  last_words(body ? "crash" : "internal", headline.data(), body ? 1 : 70, context);
}

}  // namespace

const StopFlag& stop_flag() { return the_flag; }

void limit_time(double seconds) {
  constexpr double kLongest = 1e8;  // a timer's seconds
  set_timer(std::clamp(seconds, 1e-3, kLongest));
}
void unlimit_time() { set_timer(0); }

void handle_signals() {
  struct sigaction stop {};
  stop.sa_sigaction = on_stop;
  stop.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigaction(SIGALRM, &stop, nullptr);
  // A shell starts what runs in the background without Ctrl-C.
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGINT, &stop, nullptr);
  if (kSanitized) return;
  // A stack that has overflowed cannot hold a handler.
  static std::array<std::byte, std::size_t{1} << 18> spare;
  const stack_t stack{.ss_sp = spare.data(), .ss_flags = 0, .ss_size = spare.size()};
  sigaltstack(&stack, nullptr);
  struct sigaction fault {};
  fault.sa_sigaction = on_fault;
  fault.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(signal, &fault, nullptr);
}

}  // namespace tessera::cli
