#include "sim/machine/machine.hpp"

#include <numeric>
#include <random>

#include "sim/diagnostics/findings.hpp"
#include "sim/diagnostics/machine_parts.hpp"
#include "sim/machine/shared_by_cells.hpp"

namespace tessera {

namespace {

/// What a transfer counts for on a semaphore: its bytes, or one where signals are counted.
std::int64_t amount_on(const Semaphore& s, const Transfer& t) {
  return s.kind == Semaphore::Kind::dma ? t.bytes() : 1;
}

}  // namespace

/// By the schedule's number.
struct Machine::Random {
  std::mt19937_64 next;
};

Machine::Machine(std::vector<int> mesh, int cores_per_device, Schedule schedule, bool find_races,
                 Transport* transport)
    : mesh_(std::move(mesh)),
      devices_(std::accumulate(mesh_.begin(), mesh_.end(), 1, std::multiplies<>())),
      cores_per_device_(cores_per_device),
      schedule_(schedule),
      find_races_(find_races),
      transport_(transport),
      random_(new Random{std::mt19937_64(schedule.number)}) {
  const int cores = devices_ * cores_per_device_;
  if (transport_ != nullptr) posted_.resize(static_cast<std::size_t>(transport_->ranks()));
  for (int id = 0; id < cores; ++id) {
    cores_.push_back(std::make_unique<MachineCore>(*this, id, id / cores_per_device_,
                                                   id % cores_per_device_, cores));
    cores_.back()->clock[id] = 1;  // an access at time 0 would be known to everybody
    if (transport_ != nullptr && rank_of(id) != transport_->rank()) {
      cores_.back()->state = MachineCore::State::elsewhere;
    }
  }
}

Machine::~Machine() { cancel(); }

/// Unwinds what a failure left suspended.
void Machine::cancel() {
  const OpState state = op_state;
  const StepContext* const context = step_context;
  for (auto& c : cores_) c->fiber.reset();
  op_state = state;
  step_context = context;
}

void Machine::place(Buffer& buffer) {
  const int first = buffer.core >= 0 ? buffer.core : buffer.device * cores_per_device_;
  const int last = buffer.core >= 0 ? buffer.core + 1 : first + cores_per_device_;
  for (int id = first; id < last; ++id) {
    buffer.place = static_cast<int>(core(id).buffers.size());
    core(id).buffers.push_back(&buffer);
  }
}
void Machine::unplace(Buffer& buffer) { core(buffer.core).buffers.pop_back(); }

void Machine::place(Semaphore& semaphore) {
  MachineCore& c = core(semaphore.core);
  semaphore.place = static_cast<int>(c.semaphores.size());
  c.semaphores.push_back(&semaphore);
  c.entered.resize(std::max(c.entered.size(), c.semaphores.size()));
  ++c.entered[static_cast<std::size_t>(semaphore.place)];
  const auto early = std::find_if(ahead_.begin(), ahead_.end(), [&](const auto& a) {
    return a->core == c.id && a->place == semaphore.place && a->kind == semaphore.kind;
  });
  if (early == ahead_.end()) return;
  // What was sent to it is its own: counts and signals, and what is still under way.
  Semaphore* const before = early->get();
  before->name = semaphore.name;
  before->generation = semaphore.generation;
  before->outlives = semaphore.outlives;
  for (UnderWay& u : under_way_) {
    if (u.signal.target == before) u.signal.target = &semaphore;
  }
  semaphore = std::move(*before);
  for (const auto& [number, signal] : semaphore.open()) {
    if (signal.half) signal.half->transfer->landed = &semaphore;
  }
  ahead_.erase(early);
}
void Machine::unplace(Semaphore& semaphore) { core(semaphore.core).semaphores.pop_back(); }

Buffer* Machine::on_core(const Buffer& buffer, int id) const {
  const auto& places = core(id).buffers;
  const auto place = static_cast<std::size_t>(buffer.place);
  return place < places.size() ? places[place] : nullptr;
}

Semaphore* Machine::on_core(const Semaphore& semaphore, int id) const {
  if (semaphore.kind == Semaphore::Kind::barrier) {
    return core(id).barriers.at(semaphore.place);
  }
  const auto& places = core(id).semaphores;
  const auto place = static_cast<std::size_t>(semaphore.place);
  return place < places.size() ? places[place] : nullptr;
}

Semaphore* Machine::to_reach(const Semaphore& mine, int id) {
  Semaphore* const there = on_core(mine, id);
  if (there != nullptr) return there;
  return to_reach(mine.place, entered(mine), mine.kind, mine.name, id);
}

Semaphore* Machine::to_reach(int place, std::int64_t entered, Semaphore::Kind kind,
                             const std::string& name, int id) {
  const auto& had = core(id).entered;
  const auto at = static_cast<std::size_t>(place);
  if (at < had.size() && had[at] >= entered) return nullptr;
  for (const auto& a : ahead_) {
    if (a->core == id && a->place == place && a->kind == kind) return a.get();
  }
  ahead_.push_back(std::make_unique<Semaphore>(name, kind, id));
  ahead_.back()->place = place;
  return ahead_.back().get();
}

std::int64_t Machine::entered(const Semaphore& semaphore) const {
  return core(semaphore.core).entered[static_cast<std::size_t>(semaphore.place)];
}

Semaphore& Machine::barrier(MachineCore& c, int place, const std::string& name) {
  if (!c.barriers.contains(place)) {
    for (const auto& each : cores_) {
      barriers_.push_back(std::make_unique<Semaphore>(name, Semaphore::Kind::barrier, each->id));
      barriers_.back()->place = place;
      each->barriers[place] = barriers_.back().get();
    }
  }
  return *c.barriers.at(place);
}
Semaphore& Machine::barrier(MachineCore& c, int collective_id) {
  return barrier(c, collective_id, "barrier " + std::to_string(collective_id));
}
Semaphore& Machine::subcore_barrier(MachineCore& c, int id) {
  constexpr int kFirst = 1 << 30;  // what no collective id is
  return barrier(c, kFirst + id, "the subcores' barrier " + std::to_string(id));
}

void Machine::note(std::uint64_t choice) {
  choices_ = (choices_ ^ choice) * 0x9e3779b97f4a7c15ULL;
  choices_ ^= choices_ >> 29;
}

void Machine::run_until_suspended(MachineCore& c) {
  if (c.id != last_run_) note(static_cast<std::uint64_t>(c.id) + 1);
  last_run_ = c.id;
  ++switches_;
  const OpState outer = std::exchange(op_state, c.op_state);
  const StepContext* const outer_context = std::exchange(step_context, c.context);
  c.fiber->resume();
  c.op_state = std::exchange(op_state, outer);
  c.context = std::exchange(step_context, outer_context);
  if (c.fiber->finished()) c.state = MachineCore::State::finished;
}

void Machine::run(const std::function<void(MachineCore&)>& body) {
  for (auto& c : cores_) {
    if (c->state == MachineCore::State::elsewhere) continue;
    c->context = step_context;
    c->fiber = std::make_unique<Fiber>([this, &body, &c = *c] {
      try {
        body(c);
      } catch (const KernelError& error) {
        if (!failure_) failure_ = std::make_unique<Diagnostic>(error.diagnostic);
      } catch (const Fiber::Cancelled&) {
        throw;
      } catch (...) {
        if (!exception_) exception_ = std::current_exception();
      }
    });
  }
  try {
    do {
      run_here();
    } while (transport_ != nullptr && exchange_round());
    const bool blocked = std::any_of(cores_.begin(), cores_.end(), [](const auto& c) {
      return c->state == MachineCore::State::waiting;
    });
    if (!exception_ && !failure_ && blocked) {
      failure_ = std::make_unique<Diagnostic>(deadlock(*this));
    }
    if (!exception_ && !failure_) check_left_behind();
  } catch (const KernelError& error) {
    failure_ = std::make_unique<Diagnostic>(error.diagnostic);
  }
  if (transport_ != nullptr && !exception_) agree_on_failure();
  if (exception_ || failure_) {
    cancel();
    if (exception_) std::rethrow_exception(exception_);
    throw KernelError(*failure_);
  }
}

/// Until no core of this process can go on, and nothing under way would help.
void Machine::run_here() {
  const auto failed = [&] { return failure_ || exception_; };
  while (!failed() && choose()) {
  }
  const bool finished = std::none_of(cores_.begin(), cores_.end(), [](const auto& c) {
    return c->state == MachineCore::State::waiting || c->state == MachineCore::State::runnable;
  });
  while (!failed() && finished && !under_way_.empty()) arrive_at(0);
  // Other processes may wait for what is still on its way to them.
  for (std::size_t i = 0; i < under_way_.size() && !failed();) {
    const auto& t = under_way_[i].transfer;
    if (t && t->elsewhere >= 0)
      arrive_at(i);
    else
      ++i;
  }
}

bool Machine::helps(const UnderWay& u) const {
  return std::any_of(cores_.begin(), cores_.end(), [&](const auto& c) {
    return c->state == MachineCore::State::waiting && targets(u, *c->waits_for);
  });
}

bool Machine::choose() {
  if (schedule_.kind == Schedule::Kind::random) {
    std::vector<int> runnable;
    for (const auto& c : cores_) {
      if (c->state == MachineCore::State::runnable) runnable.push_back(c->id);
    }
    const std::size_t options = runnable.size() + under_way_.size();
    if (options == 0) return false;
    if (runnable.empty() && std::none_of(cores_.begin(), cores_.end(), [](const auto& c) {
          return c->state == MachineCore::State::waiting;
        })) {
      return false;
    }
    const auto drawn = static_cast<std::size_t>(random_->next() % options);
    if (drawn < runnable.size())
      run_until_suspended(core(runnable[drawn]));
    else
      arrive_at(drawn - runnable.size());
    return true;
  }
  // The next core in turn that can run; the last one to run goes on while it can.
  const int n = cores();
  const bool backward = schedule_.kind == Schedule::Kind::adversarial;
  for (int i = 0; i < n; ++i) {
    const int from = std::max(last_run_, 0);
    const int id = backward ? (from + n - i) % n : (from + i) % n;
    if (core(id).state != MachineCore::State::runnable) continue;
    run_until_suspended(core(id));
    return true;
  }
  for (std::size_t i = 0; i < under_way_.size(); ++i) {
    const std::size_t at = backward ? under_way_.size() - 1 - i : i;
    if (!helps(under_way_[at])) continue;
    arrive_at(at);
    return true;
  }
  return false;
}

void Machine::pause(MachineCore& c) {
  stop_if_asked();
  if (schedule_.kind == Schedule::Kind::random) c.fiber->suspend();
}

void Machine::arrive_at(std::size_t i) {
  note(static_cast<std::uint64_t>(under_way_[i].id) << 20);
  if (arrive(under_way_[i])) {
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Machine::move(Transfer& t) {
  if (t.add == nullptr) {
    copy(t.from, t.to);
    return;
  }
  Staged sum = gather(t.to);
  const Staged term = gather(t.from);
  const std::array<const std::byte*, 2> terms{sum.bytes.data(), term.bytes.data()};
  t.add(sum.bytes.data(), terms.data(), t.to.extents().elems());
  if (sum.states.empty()) sum.states = term.states;
  for (std::size_t i = 0; i < term.states.size(); ++i) {
    if (term.states[i] != Shadow::init) sum.states[i] = term.states[i];
  }
  scatter(sum, t.to);
}

bool Machine::arrive(UnderWay& u) {
  if (!u.transfer) {
    land(*u.signal.target, u.signal.amount);
    return true;
  }
  Transfer& t = *u.transfer;
  if (t.elsewhere >= 0) {
    t.staged = gather(t.from);
    t.read = true;
    land(*t.sent, amount_on(*t.sent, t));
    post_copy(t);
    return true;
  }
  if (!t.remote()) {
    move(t);
    land(*t.landed, amount_on(*t.landed, t));
    return true;
  }
  if (!t.read) {
    t.staged = gather(t.from);
    t.read = true;
    land(*t.sent, amount_on(*t.sent, t));
    return false;
  }
  scatter(t.staged, t.to);
  t.staged = {};
  land(*t.landed, amount_on(*t.landed, t));
  return true;
}

void Machine::land(Semaphore& s, std::int64_t amount) {
  s.land(amount);
  idle_reads_ = 0;
  MachineCore& c = core(s.core);
  if (c.state == MachineCore::State::waiting && c.waits_for == &s && s.value() >= c.needs) {
    c.state = MachineCore::State::runnable;
  }
}

void Machine::arrive_for(const Semaphore& s, std::int64_t amount) {
  while (s.value() < amount) {
    const auto it = std::find_if(under_way_.begin(), under_way_.end(),
                                 [&](const UnderWay& u) { return targets(u, s); });
    if (it == under_way_.end()) return;
    arrive_at(static_cast<std::size_t>(it - under_way_.begin()));
  }
}

bool Machine::targets(const UnderWay& u, const Semaphore& s) {
  if (!u.transfer) return u.signal.target == &s;
  const Transfer& t = *u.transfer;
  return (t.elsewhere < 0 && t.landed == &s) || (!t.read && t.sent == &s);
}

void Machine::write_down(MachineCore& c, const Act& act) {
  constexpr std::int64_t kMostOfAStep = std::int64_t{1} << 18;  // some ten megabytes
  if (std::ssize(*c.script) >= kMostOfAStep) {
    *c.script = {};
    c.script = nullptr;
    return;
  }
  const Work work = work_since(c.scripted);
  if (!(work == Work{})) c.script->push_back(work_act(work));
  c.script->push_back(act);
  c.scripted = op_state;
}

namespace {

/// The same on all cores.
int number_of(const Semaphore& s) {
  return s.kind == Semaphore::Kind::barrier ? -1 - s.place : s.place;
}

Act act_of(const Transfer& t) {
  Act act;
  act.kind = Act::Kind::copy;
  act.from = t.from.buffer().space;
  act.to = t.to.buffer().space;
  act.core = t.landed->core;
  act.semaphore = number_of(*t.landed);
  act.remote = t.remote();
  act.sent = t.remote() ? number_of(*t.sent) : 0;
  act.amount = t.bytes();
  act.padded_bytes = t.padded_bytes;
  act.ref = t.ref;
  act.to_ref = t.to_ref;
  act.at = t.site.at;
  return act;
}

}  // namespace

void Machine::start(MachineCore& c, std::shared_ptr<Transfer> t) {
  pause(c);
  if (t->bytes() == 0) return;  // nothing moves, and nobody can wait for it
  if (c.script != nullptr && t->elsewhere < 0) write_down(c, act_of(*t));
  t->id = next_id_++;
  t->core = c.id;
  t->name_semaphores();
  if (t->remote())
    check_entered(c, t->elsewhere >= 0 ? t->elsewhere : t->landed->core, t->to.buffer().name,
                  t->site);
  t->clock = c.clock;
  if (writes_agree_ && t->add == nullptr && t->to.buffer().written && t->to.buffer().shared)
    t->writes = std::make_shared<const Staged>(gather(t->from));
  if (find_races_) {
    for (const bool write : {false, true}) {
      if (write && t->elsewhere >= 0) continue;  // checked where it arrives
      Buffer& buffer = write ? t->to.buffer() : t->from.buffer();
      if (!buffer.written) continue;
      Access a;
      a.box = write ? t->to.box() : t->from.box();
      a.write = write;
      a.half = half_of(t, write);
      a.site = t->site;
      a.kind = "DMA";
      a.atomic = write && t->add != nullptr;
      access(c, buffer, std::move(a), c.clock);
    }
  }
  if (t->remote()) t->sent->issue(amount_on(*t->sent, *t), t->clock, half_of(t, false), t->site);
  if (t->elsewhere < 0)
    t->landed->issue(amount_on(*t->landed, *t), t->clock, half_of(t, true), t->site);
  tick(c);
  if (!delays() && t->elsewhere >= 0) {
    UnderWay u;
    u.transfer = std::move(t);
    arrive(u);
  } else if (!delays()) {
    move(*t);
    t->read = true;
    if (t->remote()) land(*t->sent, amount_on(*t->sent, *t));
    land(*t->landed, amount_on(*t->landed, *t));
  } else {
    const std::int64_t id = t->id;
    under_way_.push_back({id, std::move(t), {}});
  }
}

void Machine::signal(MachineCore& c, Semaphore& target, std::int64_t amount, const Site& site) {
  pause(c);
  if (c.script != nullptr) write_down(c, signal_act(target.core, number_of(target), amount));
  send(target, amount, c.clock, site, delays_signals() && target.core != c.id);
  tick(c);
}

/// `clock`: what its sender knew.
void Machine::send(Semaphore& target, std::int64_t amount, Clock clock, const Site& site,
                   bool delayed) {
  target.issue(amount, std::move(clock), nullptr, site);
  if (delayed)
    under_way_.push_back({next_id_++, nullptr, {&target, amount}});
  else
    land(target, amount);
}

void Machine::signal_to(MachineCore& c, const Semaphore& mine, int target, std::int64_t amount,
                        const Site& site) {
  pause(c);  // the other core may enter its scope meanwhile, or leave it
  Semaphore* const there = to_reach(mine, target);
  if (there == nullptr) throw KernelError(use_after_scope(mine.name, site));
  if (mine.kind == Semaphore::Kind::barrier) c.barriers_of.try_emplace(core(target).device, site);
  if (c.script != nullptr) write_down(c, signal_act(target, number_of(mine), amount));
  send(*there, amount, c.clock, site, delays_signals() && target != c.id);
  tick(c);
}

void Machine::wait(MachineCore& c, Semaphore& s, std::int64_t amount, const Site& site) {
  pause(c);
  if (c.script != nullptr) write_down(c, wait_act(c.id, number_of(s), amount, site.at));
  if (schedule_.kind == Schedule::Kind::on_wait) arrive_for(s, amount);
  const auto blocked = [&] { return s.value() < amount; };
  // The adversary lets everybody else go first, even if there is nothing to wait for.
  const bool give_way = schedule_.kind == Schedule::Kind::adversarial && cores() > 1;
  if (blocked() || give_way) {
    c.waits_for = &s;
    c.needs = amount;
    c.wait_site = site;
    c.state = blocked() ? MachineCore::State::waiting : MachineCore::State::runnable;
    if (give_way && !blocked()) last_run_ = (c.id + cores() - 1) % cores();
    c.fiber->suspend();
    c.waits_for = nullptr;
  }
  if (s.kind == Semaphore::Kind::barrier) {
    c.met = site;
    c.met_at = c.clock[c.id];
  }
  for (const auto& half : s.take(amount, c.clock, c.now())) {
    // Alone, a core that has seen a transfer complete is everybody.
    if (cores_.size() > 1) continue;
    for (const bool write : {false, true}) {
      const Ref& end = write ? half->transfer->to : half->transfer->from;
      if (!end.buffer().prefetched) end.buffer().history.forget(*half, end.box(), write);
    }
  }
}

BarrierUse Machine::barrier_use() const {
  BarrierUse use;
  for (const auto& i : cores_) {
    for (const auto& [device, site] : i->barriers_of)
      use.signals.try_emplace({i->device, device}, site_line(site));
    for (const auto& j : cores_) {
      if (j->met && j->device != i->device && i->clock[j->id] < j->met_at)
        use.behind.emplace(i->device, j->device);
    }
  }
  return use;
}

/// That a device whose memory is reached has entered the kernel, of one that asks.
void Machine::check_entered(const MachineCore& c, int target, const std::string& reached,
                            const Site& site) {
  if (!find_races_ || !c.met || core(target).device == c.device) return;
  const int first = core(target).device * cores_per_device_;
  for (int id = first; id < first + cores_per_device_; ++id) {
    if (c.clock[id] > 0) return;
  }
  found(not_entered(c, target, reached, site));
}

void Machine::settle(MachineCore& c, Semaphore& s, const Site& site) {
  const std::int64_t held = s.outstanding();
  if (held <= 0) return;
  arrive_for(s, held);
  s.take(held, c.clock, c.now());
  s.issue(held, c.clock, nullptr, site);
  s.land(held);
}

std::int64_t Machine::read(MachineCore& c, Semaphore& s, const Site& site) {
  // A loop that reads until something arrives must let it arrive, and must end if nothing can.
  constexpr std::int64_t kIdle = 10000;
  if (++idle_reads_ > kIdle * cores()) {
    c.waits_for = &s;
    c.needs = s.value() + 1;
    c.wait_site = site;
    c.state = MachineCore::State::waiting;
    throw KernelError(deadlock(*this));
  }
  pause(c);
  if (schedule_.kind == Schedule::Kind::random) return s.value();
  arrive_for(s, s.value() + 1);
  if (cores() > 1) {
    last_run_ = (c.id + 1) % cores();
    c.fiber->suspend();
  }
  return s.value();
}

void Machine::access(MachineCore& c, Buffer& buffer, Access a) {
  a.when = c.now();
  access(c, buffer, std::move(a), c.clock);
}

namespace {

const Transfer* transfer_of(const Access& a) { return a.half ? a.half->transfer : nullptr; }

/// True of two copies, one of which writes, if their order changes no value: both write the same,
/// or the other one reads what it knows to have been written with the same values before.
bool values_agree(const AccessHistory& history, const Access& before, const Access& after) {
  const Transfer* const first = transfer_of(before);
  const Transfer* const second = transfer_of(after);
  if (first == nullptr || second == nullptr) return false;
  if (before.write && after.write) return write_the_same(*first, *second);
  const Access& writing = before.write ? before : after;
  const Clock& reader = (before.write ? second : first)->clock;
  const Access& reading = before.write ? after : before;
  return history.any([&](const Access& known) {
    const Transfer* const t = transfer_of(known);
    return known.write && t != nullptr && known.known_to(reader) &&
           (covers(known.box, reading.box) || covers(known.box, writing.box)) &&
           write_the_same(*t, *transfer_of(writing));
  });
}

}  // namespace

void Machine::access(MachineCore& c, Buffer& buffer, Access a, const Clock& clock) {
  if (buffer.watch != nullptr && buffer.watch->wants()) buffer.watch->access(a);
  if (!find_races_ || !buffer.written) return;
  if (auto* const shared = dynamic_cast<SharedByCells*>(&buffer)) shared->access(c, a);
  AccessHistory::Harmless agree;
  if (writes_agree_) {
    agree = [&](const Access& before, const Access& after) {
      if (!values_agree(buffer.history, before, after)) return false;
      if (!agreement_) agreement_ = writes_that_agree(c, buffer, before, after);
      return true;
    };
  }
  const Access* const earlier = buffer.history.check(a, clock, agree);
  if (earlier != nullptr) {
    const bool pipeline = earlier->half && earlier->half->transfer == nullptr;
    found(pipeline ? alias_hazard(c, buffer, *earlier, a) : race(c, buffer, *earlier, a));
  }
  // What only one core does, it knows.
  if (!a.half && (cores_.size() == 1 || !buffer.shared)) return;
  buffer.history.add(std::move(a));
  if (buffer.history.worth_forgetting() && !buffer.prefetched) forget_known(buffer.history);
}

void Machine::forget_known(AccessHistory& history) {
  Clock least;
  for (const auto& c : cores_) {
    if (c->state == MachineCore::State::finished) continue;
    if (least.cores() == 0) least = c->clock;
    for (int i = 0; i < least.cores(); ++i) least[i] = std::min(least[i], c->clock[i]);
  }
  if (least.cores() > 0) history.forget_known(least);
}

void Machine::end_of_scope(MachineCore& c, Buffer& buffer) {
  if (const Access* a = buffer.history.unseen()) found(dma_not_awaited(c, *a));
  buffer.history.clear();
}

void Machine::end_of_scope(MachineCore& c, Semaphore& semaphore) {
  if (semaphore.outstanding() != 0) found(semaphore_left(c, semaphore));
}

void Machine::check_left_behind() {
  for (const auto& a : ahead_) found(use_after_scope(a->name, a->last_issue()));
  for (const auto& c : cores_) {
    for (const Semaphore* s : c->semaphores) {
      if (s->outstanding() != 0 && !s->outlives) found(semaphore_left(*c, *s));
    }
    for (const auto& [id, s] : c->barriers) {
      if (s->outstanding() != 0) found(semaphore_left(*c, *s));
    }
  }
}

}  // namespace tessera
