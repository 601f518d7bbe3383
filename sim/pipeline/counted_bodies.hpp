// The bodies of the steps of a core, each that looks different run once: two steps look alike to a
// body that sees the same program ids, or the same ends of the same dims, if it asked for no more.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "sim/pipeline/body.hpp"
#include "sim/pipeline/counted_core.hpp"

namespace tessera {

/// What one body did.
struct BodyCount {
  Work work;
  std::vector<Movement> copies;
  std::size_t script = 0;  ///< among those of all bodies; the first is empty
  std::vector<std::int64_t> ran;
};

class CountedBodies {
 public:
  CountedBodies(CountedCore& core, Body& body) : core_(core), body_(body) {}

  /// Steps first, first + 1, ... of dim `last` at the ids of the core; calls f(index of the count,
  /// steps that it is of) in order.
  template <class F>
  void for_steps(int last, int first, std::int64_t steps, F&& f) {
    int& id = core_.ids[static_cast<std::size_t>(last)];
    for (std::int64_t t = 0; t < steps;) {
      id = first + static_cast<int>(t);
      const std::size_t count = body();
      const std::int64_t alike = std::min(steps - t, alike_along(last));
      f(count, alike);
      t += alike;
    }
  }
  const BodyCount& count(std::size_t index) const { return counts_[index]; }
  const std::vector<BodyCount>& counts() const { return counts_; }
  const Script& script(std::size_t index) const { return scripts_[index]; }
  std::int64_t acts() const { return acts_; }
  std::int64_t asked() const { return asked_; }

 private:
  /// What the body could know of the step: two words per dim.
  using Key = std::array<std::int64_t, 2 * kMaxGridRank>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  Key key() const;
  std::size_t body();
  /// The number of what the body that ran did.
  std::size_t number_of_script();
  /// Steps from this one on along a dim that look the same.
  std::int64_t alike_along(int dim) const;

  CountedCore& core_;
  Body& body_;
  IdUse use_;  ///< of all bodies so far
  std::vector<BodyCount> counts_;
  std::vector<Script> scripts_{{}};  ///< distinct ones
  std::unordered_multimap<std::uint64_t, std::size_t> known_scripts_;
  std::int64_t acts_ = 0;  ///< in scripts_
  std::unordered_map<Key, std::size_t, Hash> known_;
  std::int64_t asked_ = 0;
};

}  // namespace tessera
