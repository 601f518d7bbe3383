// Every interleaving of a tiny program: what can go wrong in it.
//
// States are explored one by one; nothing here knows of clocks or of the machine. A race is a state
// in which two conflicting accesses are under way or about to be made: a transfer between its start
// and its end, or the next operation of a core that can run.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/machine/tiny_program.hpp"

namespace tessera::tiny {

struct Verdict {
  bool race = false;
  bool deadlock = false;  ///< a state in which some core can never go on
  bool left = false;      ///< all cores end, and a count is not zero
  bool clean() const { return !race && !deadlock && !left; }
};

class BruteForce {
 public:
  explicit BruteForce(const Program& program) : program_(program) {
    State first;
    first.pc.assign(program.size(), 0);
    visit(first);
  }
  const Verdict& verdict() const { return verdict_; }

 private:
  enum Phase { started, read, landed };
  struct Moving {  // a transfer, or a signal (from < 0)
    int device;
    int op;
    Phase phase;
    auto operator<=>(const Moving&) const = default;
  };
  struct State {
    std::vector<int> pc;
    std::vector<Moving> moving;  // in the order of (device, op): the same set is the same state
    auto operator<=>(const State&) const = default;
  };
  struct Touch {
    int device;
    int cell;
    bool write;
  };

  const Op& op_of(const Moving& m) const {
    return program_[static_cast<std::size_t>(m.device)][static_cast<std::size_t>(m.op)];
  }
  int target(const Moving& m) const {
    const Op& op = op_of(m);
    return op.kind == Op::Kind::copy ? m.device : op.device;
  }

  /// Count of a semaphore (dma: index; signals: -1) less what was waited for so far.
  int count(const State& s, int device, int sem) const {
    int sum = 0;
    for (const Moving& m : s.moving) {
      const Op& op = op_of(m);
      if (op.kind == Op::Kind::signal) {
        sum += sem < 0 && op.device == device && m.phase == landed ? 1 : 0;
      } else if (op.kind == Op::Kind::copy) {
        sum += m.device == device && op.sem == sem && m.phase == landed ? 1 : 0;
      } else {
        sum += m.device == device && op.sem == sem && m.phase != started ? 1 : 0;
        sum += op.device == device && op.recv == sem && m.phase == landed ? 1 : 0;
      }
    }
    const auto& ops = program_[static_cast<std::size_t>(device)];
    for (int i = 0; i < s.pc[static_cast<std::size_t>(device)]; ++i) {
      const Op& op = ops[static_cast<std::size_t>(i)];
      if (op.kind == Op::Kind::wait_dma && op.sem == sem) sum -= op.amount;
      if (op.kind == Op::Kind::wait_signal && sem < 0) sum -= op.amount;
    }
    return sum;
  }

  bool done(const State& s, int device) const {
    return s.pc[static_cast<std::size_t>(device)] ==
           static_cast<int>(program_[static_cast<std::size_t>(device)].size());
  }
  bool enabled(const State& s, int device) const {
    if (done(s, device)) return false;
    const Op& op = next(s, device);
    if (op.kind == Op::Kind::wait_dma) return count(s, device, op.sem) >= op.amount;
    if (op.kind == Op::Kind::wait_signal) return count(s, device, -1) >= op.amount;
    return true;
  }
  const Op& next(const State& s, int device) const {
    return program_[static_cast<std::size_t>(device)]
                   [static_cast<std::size_t>(s.pc[static_cast<std::size_t>(device)])];
  }

  std::vector<Touch> touches(int device, const Op& op, Phase phase) const {
    std::vector<Touch> t;
    if (op.kind == Op::Kind::load) t.push_back({device, op.cell, false});
    if (op.kind == Op::Kind::store) t.push_back({device, op.cell, true});
    const bool copy = op.kind == Op::Kind::copy;
    if (copy || op.kind == Op::Kind::remote_copy) {
      if (phase == started) t.push_back({device, op.cell, false});
      if (phase != landed) t.push_back({copy ? device : op.device, op.to, true});
    }
    return t;
  }
  static bool conflict(const std::vector<Touch>& a, const std::vector<Touch>& b) {
    return std::any_of(a.begin(), a.end(), [&](const Touch& x) {
      return std::any_of(b.begin(), b.end(), [&](const Touch& y) {
        return x.device == y.device && x.cell == y.cell && (x.write || y.write);
      });
    });
  }

  void look_for_races(const State& s) {
    std::vector<std::vector<Touch>> now;
    for (const Moving& m : s.moving) now.push_back(touches(m.device, op_of(m), m.phase));
    for (int d = 0; d < static_cast<int>(program_.size()); ++d) {
      if (!enabled(s, d)) continue;
      const Op& op = next(s, d);
      now.push_back(touches(d, op, started));
      // A copy of a cell to itself.
      if (op.kind == Op::Kind::copy && op.cell == op.to) verdict_.race = true;
      if (op.kind == Op::Kind::remote_copy && op.device == d && op.cell == op.to) {
        verdict_.race = true;
      }
    }
    for (std::size_t i = 0; i < now.size(); ++i) {
      for (std::size_t j = i + 1; j < now.size(); ++j) {
        if (conflict(now[i], now[j])) verdict_.race = true;
      }
    }
  }

  void visit(const State& s) {
    if (!seen_.insert(s).second) return;
    look_for_races(s);
    bool moves = false;
    for (int d = 0; d < static_cast<int>(program_.size()); ++d) {
      if (!enabled(s, d)) continue;
      moves = true;
      State t = s;
      const Op& op = next(s, d);
      const int index = t.pc[static_cast<std::size_t>(d)]++;
      const bool under_way = op.kind == Op::Kind::copy || op.kind == Op::Kind::remote_copy ||
                             op.kind == Op::Kind::signal;
      if (under_way) {
        // A signal to oneself is there at once.
        const bool at_once = op.kind == Op::Kind::signal && op.device == d;
        t.moving.push_back({d, index, at_once ? landed : started});
        std::sort(t.moving.begin(), t.moving.end());
      }
      visit(t);
    }
    for (std::size_t i = 0; i < s.moving.size(); ++i) {
      if (s.moving[i].phase == landed) continue;
      moves = true;
      State t = s;
      const bool two_steps = op_of(s.moving[i]).kind == Op::Kind::remote_copy;
      t.moving[i].phase = two_steps && s.moving[i].phase == started ? read : landed;
      visit(t);
    }
    if (moves) return;
    for (int d = 0; d < static_cast<int>(program_.size()); ++d) {
      if (!done(s, d)) verdict_.deadlock = true;
    }
    if (verdict_.deadlock) return;
    for (int d = 0; d < static_cast<int>(program_.size()); ++d) {
      for (int sem = -1; sem < kDmaSemaphores; ++sem) {
        if (count(s, d, sem) != 0) verdict_.left = true;
      }
    }
  }

  const Program& program_;
  std::set<State> seen_;
  Verdict verdict_;
};

}  // namespace tessera::tiny
