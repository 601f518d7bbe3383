// A TPU's cores, step by step: Pallas's pipeline, and what bodies copy by themselves.
//
// While a step computes, the blocks of the next steps are on their way, as many steps ahead as
// operands have buffers, and the blocks of the steps before are written back. What the pipeline
// computes of its own is its windows', in equal parts: inputs' before the step waits for its
// blocks, outputs' behind its body, each window being asked for or sent off at the end of its part.
// So what the first step reads comes while its loop begins (schedules' bundles are in that order).
// A window that stays in its place is asked for by the first step that uses it, before others' next
// blocks; where few bundles are between them the compiler may do that after these. A body that
// copies is followed act by act (sim/machine/script.hpp): a copy is a request to the servers on its
// way, a wait lasts until its semaphore has what it takes, on whatever core that was sent. Cores go
// on in the order of their times, so what one asks of another is known before it matters.
//
// A core's transfers queue at its share of the HBM bandwidth. What goes to another device crosses
// the links of a torus, one axis of the mesh after the other, the shorter way round, all links at
// once; a link has its share of the device's bandwidth. Copies within a core's own memories take no
// time: their rate is not published.
//
// How long a body computes, the plan's CoreModel says: cycles that were counted from what its ops
// ask of the core's units, by costs fitted to the schedules of the TPU's compiler. It was wrong by
// known factors on kernels that it was not fitted to: with all computing that much faster, and that
// much slower, a run takes from the least to the most seconds.
//
// Without one (C++ bodies, other generations) products run at the matrix unit's peak rate,
// elementwise work at the vector unit's, each beside the other; what the vector unit does besides
// (loads, stores, moving lanes) is left out, and all of it where its rate is not published: the
// least that the published rates allow. Nobody has measured either on a TPU. What the TPU's
// compiler makes of a kernel is predict/tpu_schedule.hpp's.
#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <string_view>
#include <utility>

#include "predict/model_timelines.hpp"
#include "predict/server.hpp"
#include "sim/pipeline/core_cells.hpp"

namespace tessera::predict {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMostBuffers = 16;

/// Why somebody waits, and for which row of the ledger.
using Cause = std::pair<Stall::Why, int>;
/// And at which line of a body; of the pipeline none.
struct WaitsAt {
  Cause cause;
  std::string_view file;
  int line = 0;
  auto operator<=>(const WaitsAt&) const = default;
};

/// What has been sent to a semaphore and not been taken: when it comes, how much, and what it was.
class Arrivals {
 public:
  struct Sent {
    std::int64_t amount;
    Cause cause;
    std::int64_t span = -1;  ///< of the copy, where it is kept
  };
  void add(double when, const Sent& sent) { coming_.emplace(when, sent); }
  /// When there is so much.
  double when(std::int64_t amount) const {
    const auto last = last_of(amount);
    return last != coming_.end() ? last->first : kNever;
  }
  /// What came last of so much; of what came by then.
  Cause cause(std::int64_t amount) const { return last_of(amount)->second.cause; }
  /// Calls f(span) of each copy that it takes something of.
  template <class F>
  void take(std::int64_t amount, F&& f) {
    while (amount > 0) {
      const auto first = coming_.begin();
      const std::int64_t n = std::min(amount, first->second.amount);
      amount -= n;
      if (first->second.span >= 0) f(static_cast<std::size_t>(first->second.span));
      if ((first->second.amount -= n) == 0) coming_.erase(first);
    }
  }

 private:
  using Coming = std::multimap<double, Sent>;
  Coming::const_iterator last_of(std::int64_t amount) const {
    auto at = coming_.begin();
    while (at != coming_.end() && (amount -= at->second.amount) > 0) ++at;
    return at;
  }

  Coming coming_;
};

struct Core {
  int id = 0;
  int device = 0;
  int number = 0;  ///< of its device
  const StepTrace* trace = nullptr;
  std::int64_t first = 0;  ///< of its own steps, in the trace
  std::int64_t own = 0;    ///< how many; behind them come the first core's first ones
  std::int64_t step = 0;   ///< which of its steps
  std::int64_t steps = 0;
  bool in_step = false;
  std::size_t act = 0;  ///< of the step's script
  double now = 0;

  const Act* waits = nullptr;
  double since = 0;      ///< it has waited
  double wake = kNever;  ///< as far as is known

  Server hbm;
  /// When the blocks of step n are there, at n % its size.
  std::vector<std::vector<std::pair<double, Cause>>> ready;
  std::vector<std::vector<double>> written;  ///< an output's buffers: when they are free
  std::vector<std::size_t> writes;
  std::map<int, Arrivals> semaphores;

  double computing = 0;
  double pipeline = 0;  ///< of it: what is not its bodies'
  Busy busy;            ///< computing
  Busy matrix;
  Busy vector;
  std::array<Busy, kCoreUnits> units;
  double waiting = 0;
  double end = 0;

  /// Where the trace has one of its steps.
  std::int64_t traced(std::int64_t n) const { return n < own ? first + n : n - own; }
  std::int64_t traced() const { return traced(step); }
  /// The core that a step which the trace has of `core` reaches where it reached that one.
  int reached(int core) const { return step >= own && core == id - number ? id : core; }
};

class TpuTimeline {
 public:
  /// `pace`: times the cycles of the plan's CoreModel.
  TpuTimeline(const Plan& plan, const StepTrace& trace, DType dtype, const TimelineOptions& options,
              double pace = 1)
      : plan_(plan), options_(options), cycle_(plan.core ? pace / plan.core.clock_hz : 0) {
    const double cores = std::max(plan.device.cores, options.cores);
    flops_per_s_ = plan.device.peak(dtype) / cores;
    ops_per_s_ = plan.device.vector_ops_per_s / cores;
    bytes_per_s_ = plan.device.hbm_bytes_per_s / cores;
    const int links = plan.device.remote_links;
    link_bytes_per_s_ = links > 0 ? plan.device.remote_bytes_per_s / links : 0;
    for (std::size_t i = 0; i < plan.operands.size(); ++i) {
      const OperandPlan& op = plan.operands[i];
      whole_.push_back(whole_bytes(op));
      const bool stays = i < plan.core.stays.size() && plan.core.stays[i];
      if (op.role == Role::in && op.present)
        inputs_.emplace_back(
            i, stays ? 0 : std::clamp<std::int64_t>(op.buffers - 1, 0, kMostBuffers - 1));
      if (op.role == Role::out && op.present) outputs_.push_back(i);
    }
    // A step asks for its own blocks before it does for others'.
    std::stable_partition(inputs_.begin(), inputs_.end(),
                          [](const auto& input) { return input.second == 0; });
    if (!outputs_.empty())
      asking_ = static_cast<double>(inputs_.size()) /
                static_cast<double>(inputs_.size() + outputs_.size());
    add_device(trace);
    for (const StepTrace& peer : trace.peers) add_device(peer);
  }

  Timeline run();

 private:
  void add_device(const StepTrace& trace);
  /// Lets a core go on until another one is behind it, it waits, or it is done.
  void go_on(Core& c);
  /// What the pipeline computes of its own.
  void pipeline(Core& c, double cycles);
  void begin_step(Core& c);
  void end_step(Core& c);
  void work(Core& c, const Work& w);
  void compute(Core& c, double seconds);
  void copy(Core& c, const Act& act);
  bool wait(Core& c, const Act& act);
  void arrive(int core, int semaphore, double when, const Arrivals::Sent& sent);
  void stall(Core& c, const Cause& cause, double seconds, const Here& at = {}) {
    c.waiting += seconds;
    if (c.device == 0 && seconds > 0) stalls_[{cause, at.file, at.line}] += seconds;
  }
  /// Of device 0's cores: what lines and the pipeline take of the time that they compute.
  void divide_computing();
  /// What a wait for a semaphore took, and when.
  void end_wait(Core& c, const Act& act, Arrivals& arrivals, const Cause& cause, double since);
  /// Until when a copy is on its way between two devices, from `asked` on.
  double cross(int from, int to, const Act& act, double asked);
  std::int64_t bytes_of(const OperandPlan& op, std::int32_t block) const;
  /// Of every block; 0 where some are less than others.
  std::int64_t whole_bytes(const OperandPlan& op) const;
  double move(Core& c, const OperandPlan& op, std::int32_t block, double asked);
  void fetch(Core& c, std::size_t i, std::int64_t step, double asked);
  /// Keeps a span, of each device as many; gives its index, or -1.
  std::int64_t span(Span s) {
    std::size_t& kept = spans_of_[s.device];
    if (kept >= options_.most_spans) return -1;
    ++kept;
    line_.spans.push_back(s);
    return std::ssize(line_.spans) - 1;
  }
  static Span span_of(const Core& c, Span::Unit unit, double begin, double end) {
    Span s;
    s.core = c.number;
    s.unit = unit;
    s.step = c.traced();
    s.begin = begin;
    s.end = end;
    s.device = c.device;
    return s;
  }
  Span span_of(const Core& c, Span::Unit unit, double begin, double end, const OperandPlan& op,
               std::int32_t block) const {
    Span s = span_of(c, unit, begin, end);
    s.ref = op.ledger_ref;
    s.bytes = bytes_of(op, block);
    s.at = op.used_at.line > 0 ? op.used_at : op.at;
    s.block = block;
    return s;
  }
  double latency() const { return plan_.device.dma_latency_s; }
  void add(const char* name, const Busy& busy) {
    line_.busy.push_back(resource_of(name, busy, line_.seconds));
  }
  /// Of device 0's cores.
  template <class Of>
  void add_busiest(const char* name, Of&& of) {
    add(name, of(*std::max_element(
                  cores_.begin(), cores_.begin() + options_.cores,
                  [&](const Core& a, const Core& b) { return of(a).total() < of(b).total(); })));
  }

  struct Event {
    double time;
    int core;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : core > o.core; }
  };

  const Plan& plan_;
  const TimelineOptions& options_;
  double cycle_ = 0;  ///< seconds, by the plan's CoreModel; 0: it has none
  double flops_per_s_ = 1;
  double ops_per_s_ = 0;
  double bytes_per_s_ = 1;
  double link_bytes_per_s_ = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> inputs_;  ///< and how many steps ahead
  std::vector<std::size_t> outputs_;
  double asking_ = 1;  ///< what of the pipeline's cycles is before a wait: the part of inputs
  std::vector<std::int64_t> whole_;  ///< by operand: whole_bytes
  std::vector<Core> cores_;
  std::map<std::array<int, 3>, Server> links_;  ///< by device, axis, direction
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<WaitsAt, double> stalls_;     ///< of device 0's cores
  std::map<int, std::size_t> spans_of_;  ///< kept, of each device
  bool unmoved_ = false;                 ///< something was copied within a core
  Timeline line_;
};

void TpuTimeline::add_device(const StepTrace& trace) {
  const std::int64_t cells = trace.cells();
  for (int n = 0; n < options_.cores; ++n) {
    Core c;
    c.id = static_cast<int>(cores_.size());
    c.device = c.id / options_.cores;
    c.number = n;
    c.trace = &trace;
    const auto [begin, end] = places_of(cells, n, options_.cores);
    c.first = trace.cell_begin[static_cast<std::size_t>(begin)];
    c.own = trace.cell_begin[static_cast<std::size_t>(end)] - c.first;
    c.steps = c.own;
    if (n + 1 == options_.cores)
      c.steps += trace.cell_begin[static_cast<std::size_t>(repeats(cells, options_.cores))];
    c.ready.assign(kMostBuffers + 1, {});
    c.writes.assign(plan_.operands.size(), 0);
    for (const OperandPlan& op : plan_.operands)
      c.written.emplace_back(static_cast<std::size_t>(std::max(1, op.buffers)), 0.);
    cores_.push_back(std::move(c));
  }
}

std::int64_t TpuTimeline::bytes_of(const OperandPlan& op, std::int32_t block) const {
  if (const std::int64_t whole = whole_[static_cast<std::size_t>(&op - plan_.operands.data())])
    return whole;
  const Shape index = unravel(op.blocks, block);
  const Shape inside = op.in_bounds(index.dims.data());
  return op.moved(inside, plan_.device).padded_bytes;
}

std::int64_t TpuTimeline::whole_bytes(const OperandPlan& op) const {
  if ((op.role != Role::in && op.role != Role::out) || op.by_element) return 0;
  for (int d = 0; d < op.block.rank; ++d) {
    if (op.block[d] <= 0 || op.array[d] % op.block[d] != 0) return 0;
  }
  return op.moved(op.block, plan_.device).padded_bytes;
}

/// Asks for a block at the HBM; gives when it begins to move.
double TpuTimeline::move(Core& c, const OperandPlan& op, std::int32_t block, double asked) {
  const double begin = std::max(c.hbm.free, asked);
  c.hbm.serve(asked, static_cast<double>(bytes_of(op, block)) / bytes_per_s_);
  return begin;
}

void TpuTimeline::fetch(Core& c, std::size_t i, std::int64_t step, double asked) {
  const auto s = static_cast<std::size_t>(c.traced(step));
  const auto& blocks = c.trace->blocks[i];
  if (step > 0 && blocks[static_cast<std::size_t>(c.traced(step - 1))] == blocks[s]) return;
  const OperandPlan& op = plan_.operands[i];
  const double begin = move(c, op, blocks[s], asked);
  const double landed = c.hbm.free + latency();
  c.ready[static_cast<std::size_t>(step) % c.ready.size()].emplace_back(
      landed, Cause{Stall::Why::block, op.ledger_ref});
  Span fetched = span_of(c, Span::Unit::fetch, begin, landed, op, blocks[s]);
  fetched.step = c.traced(step);
  span(fetched);
}

void TpuTimeline::begin_step(Core& c) {
  const CoreModel& core = plan_.core;
  const double launch = asking_ * static_cast<double>(core.launch_cycles);
  const double step_cycles = asking_ * static_cast<double>(core.step_cycles);
  // The cycles are the inputs' in turn, each of which is asked for at the end of its own.
  const auto asked = [&](std::size_t input, double cycles) {
    return c.now +
           cycle_ * cycles * static_cast<double>(input + 1) / static_cast<double>(inputs_.size());
  };
  if (c.step == 0) {
    for (std::int64_t step = 0; step < std::min(c.steps, kMostBuffers); ++step) {
      for (std::size_t n = 0; n < inputs_.size(); ++n)
        if (step < inputs_[n].second) fetch(c, inputs_[n].first, step, asked(n, launch));
    }
    pipeline(c, launch);
  }
  for (std::size_t n = 0; n < inputs_.size(); ++n) {
    const auto [i, ahead] = inputs_[n];
    if (c.step + ahead < c.steps) fetch(c, i, c.step + ahead, asked(n, step_cycles));
  }
  pipeline(c, step_cycles);
  auto& until = c.ready[static_cast<std::size_t>(c.step) % c.ready.size()];
  for (const std::size_t i : outputs_) {
    // The buffer that this step writes to has to be empty.
    const double free = c.written[i][c.writes[i] % c.written[i].size()];
    until.emplace_back(free, Cause{Stall::Why::buffer, plan_.operands[i].ledger_ref});
  }
  // It waits for each until that one has come, the next from then on.
  std::sort(until.begin(), until.end());
  double start = c.now;
  for (const auto& [when, cause] : until) {
    if (when <= start) continue;
    stall(c, cause, when - start);
    start = when;
  }
  until.clear();
  c.now = start;
  c.in_step = true;
  c.act = 0;
}

void TpuTimeline::end_step(Core& c) {
  const auto s = static_cast<std::size_t>(c.traced());
  const auto next = static_cast<std::size_t>(c.step + 1 < c.steps ? c.traced(c.step + 1) : 0);
  const CoreModel& core = plan_.core;
  const double behind = 1 - asking_;
  const double launch =
      c.step + 1 == c.steps ? behind * static_cast<double>(core.launch_cycles) : 0;
  // One step alone is no loop's: its outputs are sent off in what there is.
  const double sending = c.steps == 1 ? launch : behind * static_cast<double>(core.step_cycles);
  for (std::size_t n = 0; n < outputs_.size(); ++n) {
    const std::size_t i = outputs_[n];
    const OperandPlan& op = plan_.operands[i];
    const auto& blocks = c.trace->blocks[i];
    if (c.step + 1 < c.steps && blocks[next] == blocks[s]) continue;
    const double asked = c.now + cycle_ * sending * static_cast<double>(n + 1) /
                                     static_cast<double>(outputs_.size());
    const double begin = move(c, op, blocks[s], asked);
    const double done = c.hbm.free + latency();
    c.written[i][c.writes[i]++ % c.written[i].size()] = done;
    c.end = std::max(c.end, done);
    span(span_of(c, Span::Unit::write, begin, done, op, blocks[s]));
  }
  pipeline(c, behind * static_cast<double>(core.step_cycles) + launch);
  c.in_step = false;
  ++c.step;
}

void TpuTimeline::pipeline(Core& c, double cycles) {
  if (cycle_ <= 0 || cycles <= 0) return;
  c.pipeline += cycle_ * cycles;
  compute(c, cycle_ * cycles);
}

void TpuTimeline::compute(Core& c, double seconds) {
  const double end = c.now + seconds;
  if (seconds > 0) c.busy.add(c.now, end, seconds);
  c.computing += seconds;
  span(span_of(c, Span::Unit::compute, c.now, end));
  c.now = end;
}

void TpuTimeline::work(Core& c, const Work& w) {
  if (cycle_ > 0) {
    const double seconds = cycle_ * static_cast<double>(w.core.cycles);
    for (std::size_t u = 0; u < kCoreUnits; ++u) {
      const double slots = static_cast<double>(w.core.slots[u]) / plan_.core.capacity[u];
      if (slots > 0) c.units[u].add(c.now, c.now + seconds, std::min(seconds, cycle_ * slots));
    }
    return compute(c, seconds);
  }
  const double matrix = static_cast<double>(w.matrix_flops) / flops_per_s_;
  const double vector = ops_per_s_ > 0 ? static_cast<double>(w.elements) / ops_per_s_ : 0;
  const double seconds = std::max(matrix, vector);
  if (vector > 0) c.vector.add(c.now, c.now + seconds, vector);
  if (matrix > 0) c.matrix.add(c.now, c.now + seconds, matrix);
  compute(c, seconds);
}

double TpuTimeline::cross(int from, int to, const Act& act, double asked) {
  // Row-major in the mesh: the last axis is the fastest.
  const double seconds = static_cast<double>(act.padded_bytes) / link_bytes_per_s_;
  double done = asked;
  int stride = 1;
  int at = from;
  for (int axis = static_cast<int>(options_.mesh.size()) - 1; axis >= 0; --axis) {
    const int extent = options_.mesh[static_cast<std::size_t>(axis)];
    const auto place = [&](int device) { return device / stride % extent; };
    const int up = (place(to) - place(at) + extent) % extent;
    const int direction = up <= extent - up ? 1 : -1;
    while (place(at) != place(to)) {
      const double served = links_[{at, axis, direction}].serve(asked, seconds);
      done = std::max(done, served);
      const int next = at + ((place(at) + direction + extent) % extent - place(at)) * stride;
      Span link;
      link.core = link.device = at;
      link.unit = Span::Unit::link;
      link.step = next;
      link.begin = served - seconds;
      link.end = served;
      link.ref = act.ref;
      link.bytes = act.padded_bytes;
      link.at = act.at;
      span(link);
      at = next;
    }
    stride *= extent;
  }
  return done;
}

void TpuTimeline::copy(Core& c, const Act& act) {
  Core& target = cores_[static_cast<std::size_t>(c.reached(act.core))];
  const auto bytes = static_cast<double>(act.padded_bytes);
  const bool reads = act.from == Space::hbm;
  const bool writes = act.to == Space::hbm;
  const double begin = reads ? std::max(c.hbm.free, c.now) : c.now;
  double sent = c.now;
  if (reads) sent = c.hbm.serve(c.now, bytes / bytes_per_s_);
  if (target.device != c.device) sent = std::max(sent, cross(c.device, target.device, act, c.now));
  double landed = sent;
  if (writes) landed = std::max(landed, target.hbm.serve(c.now, bytes / bytes_per_s_));
  unmoved_ = unmoved_ || (!reads && !writes && target.device == c.device);
  const Span::Unit unit = target.device != c.device ? Span::Unit::remote
                          : writes                  ? Span::Unit::write
                                                    : Span::Unit::fetch;
  Span copied = span_of(c, unit, begin, landed + latency());
  copied.ref = act.ref;
  copied.bytes = act.padded_bytes;
  copied.at = act.at;
  const std::int64_t kept = span(copied);
  const Cause cause{target.device != c.device ? Stall::Why::remote : Stall::Why::copy, act.ref};
  if (act.remote) arrive(c.id, act.sent, sent + latency(), {act.amount, cause, kept});
  arrive(target.id, act.semaphore, landed + latency(), {act.amount, cause, kept});
}

void TpuTimeline::arrive(int core, int semaphore, double when, const Arrivals::Sent& sent) {
  Core& c = cores_[static_cast<std::size_t>(core)];
  Arrivals& arrivals = c.semaphores[semaphore];
  arrivals.add(when, sent);
  if (c.waits == nullptr || c.waits->semaphore != semaphore) return;
  const double wake = std::max(c.since, arrivals.when(c.waits->amount));
  if (wake >= c.wake) return;
  c.wake = wake;
  events_.push({wake, core});
}

void TpuTimeline::end_wait(Core& c, const Act& act, Arrivals& arrivals, const Cause& cause,
                           double since) {
  Span waited = span_of(c, Span::Unit::wait, since, c.now);
  waited.ref = cause.second;
  waited.at = act.at;
  const std::int64_t kept = span(waited);
  arrivals.take(act.amount, [&](std::size_t copy) {
    if (kept >= 0) line_.flows.emplace_back(copy, static_cast<std::size_t>(kept));
  });
}

/// True if the core need not wait.
bool TpuTimeline::wait(Core& c, const Act& act) {
  Arrivals& arrivals = c.semaphores[act.semaphore];
  const double when = arrivals.when(act.amount);
  if (when <= c.now) {
    end_wait(c, act, arrivals, arrivals.cause(act.amount), c.now);
    return true;
  }
  c.waits = &act;
  c.since = c.now;
  c.wake = when;
  if (when < kNever) events_.push({when, c.id});
  return false;
}

void TpuTimeline::go_on(Core& c) {
  while (c.in_step || c.step < c.steps) {
    if (!events_.empty() && events_.top().time < c.now) {
      events_.push({c.now, c.id});
      return;
    }
    if (!c.in_step) {
      begin_step(c);
      continue;
    }
    const auto w = static_cast<std::size_t>(c.trace->work[static_cast<std::size_t>(c.traced())]);
    const Script& script = c.trace->scripts[w];
    if (script.empty()) work(c, c.trace->works[w]);
    if (c.act >= script.size()) {
      end_step(c);
      continue;
    }
    const Act& act = script[c.act];
    switch (act.kind) {
      case Act::Kind::work:
        work(c, act.work);
        break;
      case Act::Kind::copy:
        copy(c, act);
        break;
      case Act::Kind::signal:
        arrive(c.reached(act.core), act.semaphore, c.now + latency(),
               {act.amount, {Stall::Why::signal, -1}});
        break;
      case Act::Kind::wait:
        if (!wait(c, act)) return;
        break;
    }
    ++c.act;
  }
  c.end = std::max(c.end, c.now);
}

void TpuTimeline::divide_computing() {
  std::map<std::pair<std::string_view, int>, double> lines;
  const std::vector<std::int64_t>& ran = cores_.front().trace->ran;
  for (const CoreLine& l : plan_.core.lines) {
    if (l.step >= ran.size() || ran[l.step] == 0) continue;
    lines[{l.at.file, l.at.line}] += cycle_ * l.cycles * static_cast<double>(ran[l.step]);
  }
  for (const auto& [at, seconds] : lines)
    line_.lines.push_back({std::string(at.first), at.second, seconds / options_.cores});
  for (const Core& c : cores_)
    if (c.device == 0) line_.pipeline_seconds += c.pipeline / options_.cores;
}

Timeline TpuTimeline::run() {
  for (const Core& c : cores_) events_.push({0, c.id});
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    Core& c = cores_[static_cast<std::size_t>(event.core)];
    if (c.waits != nullptr) {
      if (event.time != c.wake) continue;  // what it waits for came sooner
      Arrivals& arrivals = c.semaphores[c.waits->semaphore];
      const Cause cause = arrivals.cause(c.waits->amount);
      stall(c, cause, event.time - c.since, c.waits->at);
      c.now = event.time;
      end_wait(c, *c.waits, arrivals, cause, c.since);
      c.waits = nullptr;
      ++c.act;
    }
    go_on(c);
  }
  bool elementwise = false;
  for (const Core& c : cores_) {
    if (c.waits != nullptr) {
      line_.unmodelled = "a core waits for what no core sends in the run's trace";
      return line_;
    }
    line_.seconds = std::max(line_.seconds, c.end);
    for (const Work& w : c.trace->works) elementwise = elementwise || w.elements > 0;
    if (c.device != 0) continue;
    line_.compute_seconds += c.computing / options_.cores;
    line_.longest_compute_seconds = std::max(line_.longest_compute_seconds, c.computing);
    line_.exposed_seconds += c.waiting / options_.cores;
  }
  for (const auto& [waits, seconds] : stalls_)
    line_.stalls.push_back({waits.cause.first, waits.cause.second, seconds / options_.cores,
                            std::string(waits.file), waits.line});
  divide_computing();
  std::stable_sort(line_.stalls.begin(), line_.stalls.end(),
                   [](const Stall& a, const Stall& b) { return a.seconds > b.seconds; });
  line_.idle_seconds = std::max(0., line_.seconds - line_.compute_seconds - line_.exposed_seconds);
  line_.model = cycle_ > 0 ? plan_.core.name : "published rates";
  if (cycle_ > 0)
    line_.left_out = plan_.core.unmeasured;
  else if (elementwise)
    line_.left_out = ops_per_s_ > 0 ? "what the vector unit does beside arithmetic"
                                    : "elementwise work: the vector unit's rate is not published";
  if (unmoved_) {
    line_.left_out += line_.left_out.empty() ? "" : "; ";
    line_.left_out += "copies within a core";
  }
  if (line_.seconds <= 0) return line_;
  if (cycle_ > 0) add_busiest("compute", [](const Core& c) -> const Busy& { return c.busy; });
  if (cycle_ <= 0)
    add_busiest("matrix unit", [](const Core& c) -> const Busy& { return c.matrix; });
  if (cycle_ <= 0 && ops_per_s_ > 0)
    add_busiest("vector unit", [](const Core& c) -> const Busy& { return c.vector; });
  add_busiest("HBM", [](const Core& c) -> const Busy& { return c.hbm.busy; });
  if (cycle_ > 0) {
    for (std::size_t u = 0; u < kCoreUnits; ++u)
      add_busiest(kCoreUnitNames[u], [u](const Core& c) -> const Busy& { return c.units[u]; });
  }
  const auto link = std::max_element(
      links_.begin(), links_.end(),
      [](const auto& a, const auto& b) { return a.second.busy.total() < b.second.busy.total(); });
  if (link != links_.end()) add("busiest link", link->second.busy);
  return line_;
}

/// Why a run that goes to other devices has no timeline; empty: it has, or it goes nowhere.
std::string far_unmodelled(const Plan& plan, const StepTrace& trace,
                           const TimelineOptions& options) {
  int devices = 1;
  int axes = 0;
  for (const int extent : options.mesh) {
    devices *= extent;
    axes += extent > 1 ? 1 : 0;
  }
  if (!trace.scripted() || (devices == 1 && trace.peers.empty())) return "";
  if (std::ssize(trace.peers) + 1 != devices)
    return "the trace has " + std::to_string(trace.peers.size() + 1) + " of " +
           std::to_string(devices) + " devices";
  for (const StepTrace& peer : trace.peers) {
    if (!peer.complete || peer.cell_begin.empty() || peer.work.empty() != (peer.steps == 0))
      return "a device's trace is not whole";
  }
  if (plan.device.remote_bytes_per_s <= 0 || plan.device.remote_links <= 0)
    return plan.device.name +
           " has no remote_bandwidth and remote_links: give --device a spec that has";
  if (2 * axes > plan.device.remote_links)
    return "a mesh of " + std::to_string(axes) + " axes on devices of " +
           std::to_string(plan.device.remote_links) + " links";
  return "";
}

}  // namespace

Timeline tpu_timeline(const Plan& plan, const StepTrace& trace, DType dtype,
                      const TimelineOptions& options) {
  Timeline none;
  none.unmodelled = far_unmodelled(plan, trace, options);
  if (!none.unmodelled.empty()) return none;
  Timeline line = TpuTimeline(plan, trace, dtype, options).run();
  if (!plan.core || !line.unmodelled.empty()) return line;
  TimelineOptions brief = options;
  brief.most_spans = 0;
  const auto seconds = [&](double computing) {
    return TpuTimeline(plan, trace, dtype, brief, computing).run().seconds;
  };
  line.least_seconds = plan.core.least_whole * seconds(plan.core.least);
  line.most_seconds = plan.core.most_whole * seconds(plan.core.most);
  return line;
}

}  // namespace tessera::predict
