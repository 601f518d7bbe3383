#include "predict/tpu_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "predict/model_timelines.hpp"

namespace tessera::predict {

namespace {

/// Units whose use is said to bind: filling and spilling use the slots of loads and stores.
constexpr std::array kBinding = {Unit::mxu, Unit::xlu,  Unit::valu,  Unit::vpop,
                                 Unit::eup, Unit::load, Unit::store, Unit::scalar};

constexpr std::size_t at(Unit u) { return static_cast<std::size_t>(u); }

/// What one run of a block uses.
struct BlockUse {
  std::array<std::int64_t, kUnits> slots{};
  std::array<int, kUnits> first{};  ///< bundle of the block that uses the unit; -1: none
  std::array<int, kUnits> last{};
  std::int64_t overhead = 0;  ///< bundles of scalars alone, before and behind vector work
};

BlockUse use_of(const Listing& listing, const BlockOfBundles& block) {
  BlockUse use;
  use.first.fill(-1);
  int first_vector = block.end;
  int last_vector = block.end - 1;
  for (int b = block.begin; b < block.end; ++b) {
    const ListedBundle& bundle = listing.bundles[static_cast<std::size_t>(b)];
    for (std::size_t u = 0; u < kUnits; ++u) {
      if (bundle.used[u] == 0) continue;
      use.slots[u] += bundle.used[u];
      if (use.first[u] < 0) use.first[u] = b - block.begin;
      use.last[u] = b - block.begin;
    }
    if (!bundle.vector) continue;
    first_vector = std::min(first_vector, b);
    last_vector = b;
  }
  use.overhead = first_vector == block.end
                     ? block.end - block.begin
                     : first_vector - block.begin + block.end - 1 - last_vector;
  return use;
}

UnitShares shares(const Listing& listing, const std::array<double, kUnits>& slots, double cycles) {
  UnitShares used{};
  for (std::size_t u = 0; u < kUnits; ++u) {
    if (listing.capacity[u] > 0 && cycles > 0) used[u] = slots[u] / (listing.capacity[u] * cycles);
  }
  return used;
}

Unit most_used(const UnitShares& used) {
  return *std::max_element(kBinding.begin(), kBinding.end(),
                           [&](Unit a, Unit b) { return used[at(a)] < used[at(b)]; });
}

/// The unit that is used most, where that is for long; else what bundles wait for in one another.
std::string binding_unit(const UnitShares& used) {
  constexpr double kFull = 0.5;
  const Unit most = most_used(used);
  return used[at(most)] >= kFull ? kUnitNames[at(most)] : "latency";
}

class Account {
 public:
  Account(const Listing& listing, double clock_hz, std::size_t most_spans)
      : listing_(&listing), clock_hz_(clock_hz), most_spans_(most_spans) {}

  void run(const BlockOfBundles& block, const BlockRun& run) {
    const auto b = static_cast<std::size_t>(run.block);
    if (uses_.size() <= b) uses_.resize(b + 1);
    if (!uses_[b]) uses_[b] = use_of(*listing_, block);
    const BlockUse& use = *uses_[b];
    const double begin = (run.begin + run.waited) / clock_hz_;  // it waits in its first bundle
    const double end = run.end / clock_hz_;
    computing_.add(begin, end, end - begin);
    for (std::size_t u = 0; u < kUnits; ++u) {
      if (use.slots[u] == 0 || listing_->capacity[u] == 0) continue;
      const double slots = static_cast<double>(use.slots[u]) / listing_->capacity[u];
      busy_[u].add(begin, end, slots / clock_hz_);
      span(static_cast<Unit>(u), run.block, begin + use.first[u] / clock_hz_,
           begin + (use.last[u] + 1) / clock_hz_);
    }
  }

  const BlockUse& use(std::size_t block) { return *uses_[block]; }
  const Busy& computing() const { return computing_; }
  const Busy& busy(Unit u) const { return busy_[at(u)]; }
  std::vector<Span> spans() { return std::move(spans_); }

 private:
  void span(Unit unit, int block, double begin, double end) {
    if (spans_.size() >= most_spans_) return;
    const auto kind = unit == Unit::mxu      ? Span::Unit::mxu
                      : unit == Unit::xlu    ? Span::Unit::xlu
                      : unit == Unit::valu   ? Span::Unit::valu
                      : unit == Unit::eup    ? Span::Unit::eup
                      : unit == Unit::load   ? Span::Unit::load
                      : unit == Unit::store  ? Span::Unit::store
                      : unit == Unit::scalar ? Span::Unit::scalar
                                             : Span::Unit::compute;
    if (kind == Span::Unit::compute) return;
    spans_.push_back({0, kind, block, begin, end, -1, 0});
  }

  const Listing* listing_;
  double clock_hz_;
  std::size_t most_spans_;
  std::vector<std::optional<BlockUse>> uses_;
  Busy computing_;
  std::array<Busy, kUnits> busy_;
  std::vector<Span> spans_;
};

void add_regions(const Listing& listing, const Played& played, Account& account, TpuSchedule& s) {
  std::array<double, kUnits> all{};
  for (std::size_t b = 0; b < played.blocks.size(); ++b) {
    const BlockOfBundles& block = played.blocks[b];
    ScheduleRegion r;
    r.begin = block.begin;
    r.end = block.end;
    r.times = played.executed[static_cast<std::size_t>(block.begin)];
    if (r.times == 0) continue;
    const auto times = static_cast<double>(r.times);
    const double issued = times * (block.end - block.begin);
    for (int i = block.begin; i < block.end; ++i)
      r.waiting += played.waited[static_cast<std::size_t>(i)];
    r.cycles = issued + r.waiting;
    const BlockUse& use = account.use(b);
    std::array<double, kUnits> slots{};
    for (std::size_t u = 0; u < kUnits; ++u) {
      slots[u] = times * static_cast<double>(use.slots[u]);
      all[u] += slots[u];
    }
    r.used = shares(listing, slots, issued);
    r.binds = 2 * r.waiting > r.cycles ? "HBM" : binding_unit(r.used);
    s.issued += issued;
    s.overhead += times * static_cast<double>(use.overhead);
    s.spill_stores += r.times * use.slots[at(Unit::spill)];
    s.spill_loads += r.times * use.slots[at(Unit::fill)];
    s.regions.push_back(r);
  }
  std::stable_sort(s.regions.begin(), s.regions.end(),
                   [](const auto& a, const auto& b) { return a.cycles > b.cycles; });
  s.used = shares(listing, all, s.issued);
  s.unit = kUnitNames[at(most_used(s.used))];
}

Timeline timeline_of(const Played& played, const std::vector<Copied>& copies, Account& account,
                     const TpuSchedule& s, std::size_t most_spans) {
  Timeline line;
  line.model = "the compiler's schedule";
  line.seconds = s.cycles / s.clock_hz;
  line.compute_seconds = s.issued / s.clock_hz;
  line.exposed_seconds = s.waiting / s.clock_hz;
  line.idle_seconds = std::max(0., line.seconds - line.compute_seconds - line.exposed_seconds);
  line.spans = account.spans();
  for (const Copied& c : copies) {
    if (line.spans.size() >= most_spans) break;
    line.spans.push_back({0, c.writes ? Span::Unit::write : Span::Unit::fetch, c.operand,
                          c.begin / s.clock_hz, c.end / s.clock_hz, -1, 0});
  }
  std::stable_sort(line.spans.begin(), line.spans.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  line.busy.push_back(resource_of("compute", account.computing(), line.seconds));
  line.busy.push_back(resource_of("HBM", played.hbm, line.seconds));
  for (const Unit u : kBinding)
    line.busy.push_back(resource_of(kUnitNames[at(u)], account.busy(u), line.seconds));
  say_what_binds(line);
  return line;
}

}  // namespace

TpuSchedule schedule_of(const Listing& listing, const std::vector<const Array*>& values,
                        const DeviceSpec& device, std::size_t most_spans) {
  TpuSchedule s;
  const auto clock = device.model.find("clock");
  if (clock == device.model.end() || clock->second.value <= 0) {
    s.unmodelled = device.name + " has no model_clock: give --device a spec that has";
    return s;
  }
  s.clock_hz = clock->second.value;
  s.bundles = std::ssize(listing.bundles);
  const int cores = listing.asks_core ? device.cores : 1;
  Account account(listing, s.clock_hz, most_spans);
  Played played;
  std::vector<OperandBytes> bytes(listing.operands.size());
  try {
    for (int core = 0; core < cores; ++core) {
      Account own(listing, s.clock_hz, most_spans);
      PlayOptions options;
      options.core = core;
      options.most_copies = most_spans;
      options.on_run = [&](const BlockOfBundles& block, const BlockRun& run) {
        own.run(block, run);
      };
      Played one = play(listing, values, device, s.clock_hz, options);
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += one.bytes[i];
      if (one.cycles <= played.cycles) continue;
      played = std::move(one);
      account = std::move(own);
    }
  } catch (const ListingError& e) {
    s.unmodelled = e.what();
    return s;
  }
  s.cycles = played.cycles;
  s.waiting = played.waiting;
  add_regions(listing, played, account, s);
  for (std::size_t i = 0; i < listing.operands.size(); ++i) {
    const ListedOperand& o = listing.operands[i];
    s.operands.push_back({o.index, "", o.output, o.space, o.type, o.shape, bytes[i]});
  }
  s.timeline = timeline_of(played, played.copies, account, s, most_spans);
  return s;
}

}  // namespace tessera::predict
