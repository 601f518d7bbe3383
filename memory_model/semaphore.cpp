#include "memory_model/semaphore.hpp"

#include <algorithm>

namespace tessera {

void Semaphore::issue(std::int64_t amount, Clock clock, std::shared_ptr<TransferHalf> half,
                      Site site) {
  issued_ += amount;
  ++issues_;
  last_issue_ = site;
  if (std::find(senders_.begin(), senders_.end(), site.core) == senders_.end()) {
    senders_.push_back(site.core);
  }
  open_.push_back({amount, std::move(clock), std::move(half), site});
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
  const std::int64_t need = waited_ - settled_;
  const std::int64_t total = issued_ - settled_;
  if (need == total) {  // all of them: the usual case
    for (const auto& s : open_) {
      waiter.join(s.clock);
      settle(s);
    }
    open_.clear();
    return complete;
  }
  if (need <= 0) return complete;
  // Per core: the latest moment that signals worth `need` cannot all have come before.
  std::vector<std::pair<Time, std::int64_t>> by_time(open_.size());
  for (int c = 0; c < waiter.cores(); ++c) {
    bool news = false;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      by_time[i] = {open_[i].clock[c], open_[i].amount};
      news = news || open_[i].clock[c] > waiter[c];
    }
    if (!news) continue;
    std::sort(by_time.begin(), by_time.end());
    std::int64_t sum = 0;
    for (const auto& [time, value] : by_time) {
      sum += value;
      if (sum < need) continue;
      waiter[c] = std::max(waiter[c], time);
      break;
    }
  }
  // A signal is taken for certain if the others do not suffice, or (without bytes to land) if the
  // waiter knows all that its sender did when it sent.
  const auto implying = [&](const Signal& s) {
    // What has landed was read before: without the reading of a transfer there is no landing.
    std::int64_t amounts = 0;
    for (const auto& o : open_) {
      if (s.half && o.half && s.half->after == o.half.get()) amounts += o.amount;
    }
    return amounts;
  };
  std::vector<bool> certain(open_.size());
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const Signal& s = open_[i];
    const bool needed = total - s.amount - implying(s) < need;
    certain[i] = needed || (!s.half && s.clock.known_to(waiter));
  }
  std::vector<Signal> still;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (certain[i])
      settle(open_[i]);
    else
      still.push_back(std::move(open_[i]));
  }
  open_ = std::move(still);
  return complete;
}

}  // namespace tessera
