#include "triton/waiting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "sim/diagnostics/slugs.hpp"
#include "sim/machine/fiber.hpp"

namespace tessera::triton {

namespace {

/// Polls on end before it is another's turn.
constexpr std::int64_t kTurn = 64;
/// Polls of a program in vain, of all together while nothing changes, before it is a deadlock.
constexpr std::int64_t kLeastPolls = 100'000;
constexpr std::int64_t kMostPolls = 1'000'000;

struct Program {
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Fiber> fiber;
  std::exception_ptr failure;
};

class Waiting {
 public:
  Waiting(const Running& of, Memory& memory, std::vector<Requested>& requested,
          const std::function<void(std::string&)>& print)
      : of_(of), memory_(memory), requested_(requested), print_(print) {}

  void run() {
    for (std::int64_t i = 0; i < of_.programs; ++i) start(i);
    std::int64_t polls = 0;  // of each, since something changed
    while (!programs_.empty()) {
      const std::int64_t changes = memory_.changes();
      const std::size_t before = programs_.size();
      for (std::size_t k = 0; k < programs_.size();) {
        if (turn(*programs_[k]))
          programs_.erase(programs_.begin() + static_cast<std::ptrdiff_t>(k));
        else
          ++k;
      }
      const bool idle = changes == memory_.changes() && before == programs_.size();
      polls = idle ? polls + kTurn : 0;
      if (idle && polls >= std::max(kLeastPolls, kMostPolls / std::ssize(programs_)))
        fail_deadlock();
    }
  }

 private:
  void start(std::int64_t number) {
    auto p = std::make_unique<Program>();
    if (idle_.empty()) {
      p->worker = std::make_unique<Worker>(of_, memory_);
    } else {
      p->worker = std::move(idle_.back());
      idle_.pop_back();
    }
    Program* const program = p.get();
    program->fiber = std::make_unique<Fiber>([program, number] {
      try {
        program->worker->run(number);
      } catch (const Fiber::Cancelled&) {
        throw;
      } catch (...) {
        program->failure = std::current_exception();
      }
    });
    Instance& x = program->worker->instance();
    x.patience = kTurn;
    x.yield = [program] {
      program->fiber->suspend();
      program->worker->take_over();
    };
    if (!turn(*program)) programs_.push_back(std::move(p));
  }

  /// True if the program has ended.
  bool turn(Program& p) {
    p.worker->take_over();
    p.fiber->resume();
    if (!p.fiber->finished()) return false;
    if (p.failure) {
      p.worker->take_over();
      std::rethrow_exception(p.failure);
    }
    print_(p.worker->printed);
    p.worker->count(requested_);
    p.worker->instance().requested.assign(requested_.size(), {});
    idle_.push_back(std::move(p.worker));
    return true;
  }

  [[noreturn]] void fail_deadlock() {
    Diagnostic d{.slug = "deadlock"};
    d.headline = fmt::format("{} of {} programs wait, and nobody is left to change what they read",
                             programs_.size(), of_.programs);
    d.fields.emplace_back("kernel", of_.plan.kernel);
    constexpr std::size_t kShown = 4;
    for (std::size_t i = 0; i < std::min(kShown, programs_.size()); ++i) {
      Worker& w = *programs_[i]->worker;
      const auto& ids = w.ids();
      d.fields.emplace_back(
          "waits", source_excerpt(w.instance().here()) +
                       fmt::format("   program (x={}, y={}, z={}), {}", ids[0], ids[1], ids[2],
                                   memory_.element_at(w.instance().waits_for)));
    }
    if (programs_.size() > kShown)
      d.fields.emplace_back("and", std::to_string(programs_.size() - kShown) + " more");
    d.fields.emplace_back("help",
                          "who is to write that must not wait for them, and must come to it");
    throw KernelError(std::move(d));
  }

  const Running& of_;
  Memory& memory_;
  std::vector<Requested>& requested_;
  const std::function<void(std::string&)>& print_;
  std::vector<std::unique_ptr<Worker>> idle_;
  std::vector<std::unique_ptr<Program>> programs_;  ///< that wait
};

}  // namespace

void run_waiting(const Running& of, Memory& memory, std::vector<Requested>& requested,
                 const std::function<void(std::string&)>& print) {
  Waiting(of, memory, requested, print).run();
}

}  // namespace tessera::triton
