// The machine's side of a mesh that is spread over processes.
#include "sim/machine/machine.hpp"
#include "sim/machine/messages.hpp"

namespace tessera {

void Machine::post_copy(const Transfer& t) {
  Json j{{"id", t.id},
         {"core", t.core},
         {"target", t.elsewhere},
         {"from", t.from.buffer().place},
         {"from_view", to_json(t.from.view())},
         {"to", t.to.buffer().place},
         {"to_view", to_json(t.to.view())},
         {"semaphore", t.landed->place},
         {"entered", entered(*t.landed)},
         {"clock", t.clock.times()},
         {"site", to_json(t.site)},
         {"staged", to_json(t.staged)}};
  posted_[static_cast<std::size_t>(rank_of(t.elsewhere))].push_back(Json::to_cbor(j));
}

void Machine::signal_elsewhere(MachineCore& c, const Semaphore& mine, int target,
                               std::int64_t amount, const Site& site) {
  pause(c);
  const bool is_barrier = mine.kind == Semaphore::Kind::barrier;
  Json j{{"target", target}, {"barrier", is_barrier},    {"semaphore", mine.place},
         {"amount", amount}, {"clock", c.clock.times()}, {"site", to_json(site)}};
  if (!is_barrier) j["entered"] = entered(mine);
  posted_[static_cast<std::size_t>(rank_of(target))].push_back(Json::to_cbor(j));
  tick(c);
}

bool Machine::exchange_round() {
  const bool failed = failure_ || exception_;
  const bool sent = std::any_of(posted_.begin(), posted_.end(),
                                [](const auto& messages) { return !messages.empty(); });
  std::vector<Transport::Message> batches;
  for (auto& messages : posted_) {
    Json batch{{"failed", failed}, {"sent", sent}, {"messages", Json::array()}};
    for (auto& m : messages) batch["messages"].push_back(Json::binary(std::move(m)));
    batches.push_back(Json::to_cbor(batch));
    messages.clear();
  }
  bool any_failed = false;
  bool any_sent = false;
  std::vector<Json> received;
  for (const auto& message : transport_->exchange(std::move(batches))) {
    received.push_back(Json::from_cbor(message));
    any_failed = any_failed || received.back().at("failed").get<bool>();
    any_sent = any_sent || received.back().at("sent").get<bool>();
  }
  if (any_failed || !any_sent) return false;
  // What fails here is told in the next round, so that all ranks stop after the same one.
  try {
    for (const Json& batch : received) {
      for (const Json& m : batch.at("messages")) deliver(m.get_binary());
    }
  } catch (const KernelError& error) {
    failure_ = std::make_unique<Diagnostic>(error.diagnostic);
  }
  return true;
}

void Machine::deliver(const std::vector<std::uint8_t>& message) {
  const Json j = Json::from_cbor(message);
  const int target = j.at("target");
  MachineCore& c = core(target);
  const Site site = site_from(j.at("site"));
  const auto times = j.at("clock").get<std::vector<Time>>();
  Clock clock(cores());
  for (int i = 0; i < cores(); ++i) clock[i] = times[static_cast<std::size_t>(i)];
  const auto place = j.at("semaphore").get<std::size_t>();
  const bool is_barrier = j.value("barrier", false);
  Semaphore* reached = nullptr;
  if (is_barrier)
    reached = &barrier(c, static_cast<int>(place));
  else if (place < c.semaphores.size())
    reached = c.semaphores[place];
  else
    reached = to_reach(static_cast<int>(place), j.at("entered"),
                       j.contains("staged") ? Semaphore::Kind::dma : Semaphore::Kind::regular,
                       "a semaphore of " + std::to_string(target), target);
  if (reached == nullptr)
    throw KernelError(use_after_scope("a semaphore of " + std::to_string(target), site));
  Semaphore& semaphore = *reached;
  if (!j.contains("staged")) {
    const std::int64_t amount = j.at("amount");
    send(semaphore, amount, std::move(clock), site, delays_signals());
    return;
  }
  const auto to_place = j.at("to").get<std::size_t>();
  const auto from_place = j.at("from").get<std::size_t>();
  if (to_place >= c.buffers.size()) {
    throw KernelError(use_after_scope("a buffer of " + std::to_string(target), site));
  }
  const Ref to(*c.buffers[to_place], view_from(j.at("to_view")));
  // What it is called here: the program is the same.
  const Ref from = from_place < c.buffers.size()
                       ? Ref(*c.buffers[from_place], view_from(j.at("from_view")))
                       : to;
  auto t = std::make_shared<Transfer>(from, to);
  t->id = j.at("id");
  t->core = j.at("core");
  t->landed = &semaphore;
  t->sent = &semaphore;  // its own is another process's: only that there is one matters here
  t->name_semaphores();
  t->clock = clock;
  t->site = site;
  t->staged = staged_from(j.at("staged"));
  t->read = true;
  t->source.seen = {t->core, 0};
  Access a;
  a.box = to.box();
  a.write = true;
  a.half = half_of(t, true);
  a.site = site;
  a.kind = "DMA";
  access(c, to.buffer(), std::move(a), clock);
  const std::int64_t amount = semaphore.kind == Semaphore::Kind::dma ? t->bytes() : 1;
  semaphore.issue(amount, std::move(clock), half_of(t, true), site);
  under_way_.push_back({next_id_++, std::move(t), {}});
  if (!delays()) arrive_at(under_way_.size() - 1);
}

/// All ranks end alike: with the failure of the first that has one.
void Machine::agree_on_failure() {
  const Json mine = failure_ ? to_json(*failure_) : Json(nullptr);
  std::vector<Transport::Message> all(static_cast<std::size_t>(transport_->ranks()),
                                      Json::to_cbor(mine));
  for (const auto& message : transport_->exchange(std::move(all))) {
    const Json j = Json::from_cbor(message);
    if (j.is_null()) continue;
    failure_ = std::make_unique<Diagnostic>(diagnostic_from(j));
    return;
  }
}

}  // namespace tessera
