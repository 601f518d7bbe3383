#include "memory_model/semaphore.hpp"

#include <algorithm>

namespace tessera {

/// Amounts of the signals with news of a core from after `time`.
std::int64_t Semaphore::Sender::later_than(Time time, int of) const {
  const auto first = std::partition_point(news.begin(), news.end(),
                                          [&](const News& n) { return (*n.clock)[of] <= time; });
  if (first == news.end()) return 0;
  return news.back().amount - (first == news.begin() ? before : std::prev(first)->amount);
}

/// Messages of another process may come in another order than they were sent in.
void Semaphore::Sender::add(const News& one) {
  const auto at = std::partition_point(news.begin(), news.end(), [&](const News& n) {
    return (*n.clock)[core] <= (*one.clock)[core];
  });
  const std::int64_t amount = one.amount;
  const auto added = news.insert(at, one);
  added->amount = amount + (added == news.begin() ? before : std::prev(added)->amount);
  for (auto later = std::next(added); later != news.end(); ++later) later->amount += amount;
}

Semaphore::Sender& Semaphore::sender(int of) {
  const auto at = std::ranges::find(sending_, of, &Sender::core);
  if (at != sending_.end()) return *at;
  sending_.emplace_back().core = of;
  return sending_.back();
}

std::vector<int> Semaphore::senders() const {
  std::vector<int> cores;
  for (const Sender& s : sending_) cores.push_back(s.core);
  return cores;
}

void Semaphore::issue(std::int64_t amount, Clock clock, std::shared_ptr<TransferHalf> half,
                      Site site) {
  const std::int64_t number = issues_++;
  issued_ += amount;
  last_issue_ = site;
  if (half && !open_.empty()) {
    // What has landed was read before: without the reading of a transfer there is no landing. Both
    // halves of a transfer are issued in turn.
    Signal& last = open_.rbegin()->second;
    if (last.half && last.half->after == half.get()) {
      last.implying = amount;
      weights_.emplace(last.amount + amount, open_.rbegin()->first);
    }
  }
  const bool plain = half == nullptr;
  const Signal& added = open_
                            .emplace_hint(open_.end(), number,
                                          Signal{amount, std::move(clock), std::move(half), site})
                            ->second;
  sender(site.core).add({number, &added.clock, plain, amount});
  weights_.emplace(amount, number);
}

/// Per core: the latest moment that signals worth more than `slack` come after.
void Semaphore::learn_moments(Clock& waiter, std::int64_t slack) const {
  for (int c = 0; c < waiter.cores(); ++c) {
    const auto later_than = [&](Time time) {
      std::int64_t amounts = 0;
      for (const Sender& s : sending_) amounts += s.later_than(time, c);
      return amounts;
    };
    if (later_than(waiter[c]) <= slack) continue;
    Time last = waiter[c];
    for (const Sender& s : sending_) {
      if (!s.news.empty()) last = std::max(last, (*s.news.back().clock)[c]);
    }
    Time first = waiter[c];  // too early
    while (last - first > 1) {
      const Time middle = first + (last - first) / 2;
      (later_than(middle) > slack ? first : last) = middle;
    }
    waiter[c] = last;
  }
}

std::vector<std::shared_ptr<TransferHalf>> Semaphore::take(std::int64_t amount, Clock& waiter,
                                                           Epoch now) {
  waited_ += amount;
  ++waits_;
  std::vector<std::shared_ptr<TransferHalf>> complete;
  const auto settle = [&](const Signal& s) {
    if (s.half) {
      s.half->seen = now;
      complete.push_back(s.half);
    }
    settled_ += s.amount;
  };
  const std::int64_t slack = issued_ - waited_;
  if (slack == 0) {  // all of them: the usual case
    for (const auto& [number, s] : open_) {
      waiter.join(s.clock);
      settle(s);
    }
    open_.clear();
    for (Sender& s : sending_) {
      s.news.clear();
      s.before = 0;
    }
    weights_ = {};
    return complete;
  }
  if (waited_ <= settled_) return complete;
  learn_moments(waiter, slack);
  // A signal is taken for certain if the others do not suffice, or (without bytes to land) if the
  // waiter knows all that its sender did when it sent.
  std::vector<std::int64_t> certain;
  for (Sender& s : sending_) {
    for (; !s.news.empty() && s.news.front().clock->known_to(waiter); s.news.pop_front()) {
      if (s.news.front().plain) certain.push_back(s.news.front().number);
      s.before = s.news.front().amount;
    }
  }
  for (; !weights_.empty() && weights_.top().first > slack; weights_.pop()) {
    const auto [weight, number] = weights_.top();
    const auto s = open_.find(number);
    if (s != open_.end() && s->second.amount + s->second.implying == weight)
      certain.push_back(number);
  }
  std::sort(certain.begin(), certain.end());
  certain.erase(std::unique(certain.begin(), certain.end()), certain.end());
  for (const std::int64_t number : certain) {
    const auto at = open_.find(number);
    settle(at->second);
    // The reading whose landing this was is the signal before it.
    if (const auto before = at == open_.begin() ? open_.end() : std::prev(at);
        before != open_.end() && before->second.half &&
        before->second.half->after == at->second.half.get() && at->second.half) {
      before->second.implying = 0;
      weights_.emplace(before->second.amount, before->first);
    }
    open_.erase(at);
  }
  constexpr std::size_t kFew = 64;
  if (weights_.size() > kFew + 4 * open_.size()) {
    weights_ = {};
    for (const auto& [number, s] : open_) weights_.emplace(s.amount + s.implying, number);
  }
  return complete;
}

}  // namespace tessera
