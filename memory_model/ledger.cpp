#include "memory_model/ledger.hpp"

#include <stdexcept>

namespace tessera {

int Ledger::add_ref(std::string name, const char* direction) {
  RefTotals totals;
  totals.name = std::move(name);
  totals.direction = direction;
  refs_.push_back(std::move(totals));
  return static_cast<int>(refs_.size()) - 1;
}

void Ledger::add_totals(std::size_t ref, const RefTotals& totals) {
  for (const auto member : kCounts) refs_[ref].*member += totals.*member;
}

void Ledger::add(const Ledger& other) {
  if (other.refs_.size() != refs_.size()) throw std::logic_error("ledgers over different refs");
  for (std::size_t i = 0; i < refs_.size(); ++i) add_totals(i, other.refs_[i]);
  for (const auto& [link, bytes] : other.links_) links_[link] += bytes;
  movements_.insert(movements_.end(), other.movements_.begin(), other.movements_.end());
}

std::int64_t Ledger::remote_bytes() const {
  std::int64_t total = 0;
  for (const auto& [link, bytes] : links_) total += bytes;
  return total;
}

std::int64_t Ledger::sum(std::int64_t RefTotals::*member) const {
  std::int64_t total = 0;
  for (const auto& ref : refs_) total += ref.*member;
  return total;
}

}  // namespace tessera
