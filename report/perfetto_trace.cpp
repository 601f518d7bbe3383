#include "report/perfetto_trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <protozero/pbf_writer.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "report/occupancy.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::report {

namespace {

// Field numbers of perfetto's messages (protos/perfetto/trace, "stable ABI").
namespace trace {
constexpr protozero::pbf_tag_type kPacket = 1;
}
namespace packet {
constexpr protozero::pbf_tag_type kTimestamp = 8;
constexpr protozero::pbf_tag_type kSequence = 10;
constexpr protozero::pbf_tag_type kTrackEvent = 11;
constexpr protozero::pbf_tag_type kTrackDescriptor = 60;
}  // namespace packet
namespace descriptor {
constexpr protozero::pbf_tag_type kUuid = 1;
constexpr protozero::pbf_tag_type kName = 2;
constexpr protozero::pbf_tag_type kParent = 5;
constexpr protozero::pbf_tag_type kCounter = 8;
}  // namespace descriptor
namespace argument {
constexpr protozero::pbf_tag_type kInt = 4;
constexpr protozero::pbf_tag_type kString = 6;
constexpr protozero::pbf_tag_type kName = 10;
}  // namespace argument
namespace event {
constexpr protozero::pbf_tag_type kArgument = 4;
constexpr protozero::pbf_tag_type kType = 9;
constexpr protozero::pbf_tag_type kTrack = 11;
constexpr protozero::pbf_tag_type kCategory = 22;
constexpr protozero::pbf_tag_type kName = 23;
constexpr protozero::pbf_tag_type kDoubleValue = 44;
constexpr protozero::pbf_tag_type kFlow = 47;
constexpr protozero::pbf_tag_type kFlowEnds = 48;
constexpr int kSliceBegin = 1;
constexpr int kSliceEnd = 2;
constexpr int kCounter = 4;
}  // namespace event

constexpr unsigned kSequence = 1;

struct Slice {
  std::string name;
  const char* category = "";
  std::vector<std::pair<const char*, std::int64_t>> arguments = {};
  std::string line = {};
  std::vector<std::uint64_t> flows = {};      ///< that begin with it
  std::vector<std::uint64_t> flows_end = {};  ///< likewise end
};

class Writer {
 public:
  explicit Writer(std::string& to) : trace_(to) {}

  void track(std::uint64_t uuid, std::uint64_t parent, const std::string& name,
             bool counter = false) {
    std::string packet_bytes;
    protozero::pbf_writer packet_writer(packet_bytes);
    {
      protozero::pbf_writer d(packet_writer, packet::kTrackDescriptor);
      d.add_uint64(descriptor::kUuid, uuid);
      d.add_string(descriptor::kName, name);
      if (parent != 0) d.add_uint64(descriptor::kParent, parent);
      if (counter) d.add_message(descriptor::kCounter, std::string());
    }
    packet_writer.add_uint32(packet::kSequence, kSequence);
    trace_.add_message(trace::kPacket, packet_bytes);
  }
  void begin(std::uint64_t track, double seconds, const Slice& slice) {
    event(track, seconds, event::kSliceBegin, [&](protozero::pbf_writer& e) {
      for (const auto& [name, value] : slice.arguments) {
        protozero::pbf_writer a(e, event::kArgument);
        a.add_int64(argument::kInt, value);
        a.add_string(argument::kName, name);
      }
      if (!slice.line.empty()) {
        protozero::pbf_writer a(e, event::kArgument);
        a.add_string(argument::kString, slice.line);
        a.add_string(argument::kName, "line");
      }
      e.add_string(event::kCategory, slice.category);
      e.add_string(event::kName, slice.name);
      for (const std::uint64_t flow : slice.flows) e.add_fixed64(event::kFlow, flow);
      for (const std::uint64_t flow : slice.flows_end) e.add_fixed64(event::kFlowEnds, flow);
    });
  }
  void end(std::uint64_t track, double seconds) {
    event(track, seconds, event::kSliceEnd, [](protozero::pbf_writer&) {});
  }
  void count(std::uint64_t track, double seconds, double value) {
    event(track, seconds, event::kCounter,
          [&](protozero::pbf_writer& e) { e.add_double(event::kDoubleValue, value); });
  }

 private:
  template <class More>
  void event(std::uint64_t track, double seconds, int type, More&& more) {
    std::string packet_bytes;
    protozero::pbf_writer packet_writer(packet_bytes);
    packet_writer.add_uint64(packet::kTimestamp,
                             static_cast<std::uint64_t>(std::llround(seconds * 1e9)));
    {
      protozero::pbf_writer e(packet_writer, packet::kTrackEvent);
      e.add_enum(event::kType, type);
      e.add_uint64(event::kTrack, track);
      more(e);
    }
    packet_writer.add_uint32(packet::kSequence, kSequence);
    trace_.add_message(trace::kPacket, packet_bytes);
  }

  protozero::pbf_writer trace_;
};

/// "x[2, 3], step 7"; "out, 0 -> 1" on a link; "wait for x, step 7"
std::string name_of(const predict::Span& s, const Plan& plan, const Ledger& ledger) {
  std::string text = s.ref < 0 ? "" : ledger.refs()[static_cast<std::size_t>(s.ref)].name;
  if (s.unit == predict::Span::Unit::link)
    return text + ", " + std::to_string(s.core) + " -> " + std::to_string(s.step);
  if (s.block >= 0) {
    for (const OperandPlan& op : plan.operands) {
      if (op.pipelined() && op.ledger_ref == s.ref) text += to_string(unravel(op.blocks, s.block));
    }
  }
  if (s.unit == predict::Span::Unit::wait) text = "wait for " + (text.empty() ? "signals" : text);
  return text + (text.empty() ? "" : ", ") + "step " + std::to_string(s.step);
}

using Unit = predict::Span::Unit;

/// Tracks below the root, made when something is first on them.
class Tracks {
 public:
  Tracks(Writer& writer, std::uint64_t root, std::string core, bool mesh)
      : writer_(writer), root_(root), core_(std::move(core)), mesh_(mesh) {}
  std::uint64_t next() { return next_++; }
  /// One on which nothing lies at `begin`: transfers overlap and slices of a track do not.
  std::uint64_t free(const predict::Span& s, std::int64_t begin, std::int64_t end) {
    auto& of_unit = lanes_[{s.device, s.core, s.unit, s.unit == Unit::link ? s.step : 0}];
    auto lane = std::ranges::find_if(of_unit, [&](const Lane& l) { return l.free <= begin; });
    if (lane == of_unit.end()) {
      const std::size_t at = of_unit.size();
      const std::string name =
          s.unit == Unit::link ? "link " + std::to_string(s.core) + " -> " + std::to_string(s.step)
                               : predict::name(s.unit);
      of_unit.push_back({next(), 0});
      writer_.track(of_unit.back().track, s.unit == Unit::link ? device(s.device) : core(s),
                    name + (at > 0 ? " " + std::to_string(at + 1) : ""));
      lane = std::prev(of_unit.end());
    }
    lane->free = end;
    return lane->track;
  }

 private:
  struct Lane {
    std::uint64_t track;
    std::int64_t free;
  };
  std::uint64_t device(int d) {
    if (!mesh_) return root_;
    const auto [at, fresh] = devices_.try_emplace(d, next_);
    if (fresh) writer_.track(next(), root_, "device " + std::to_string(d));
    return at->second;
  }
  std::uint64_t core(const predict::Span& s) {
    const std::uint64_t parent = device(s.device);
    const auto [at, fresh] = cores_.try_emplace({s.device, s.core}, next_);
    if (fresh) writer_.track(next(), parent, core_ + " " + std::to_string(s.core));
    return at->second;
  }

  Writer& writer_;
  std::uint64_t root_;
  std::string core_;
  bool mesh_;
  std::uint64_t next_ = 2;
  std::map<int, std::uint64_t> devices_;
  std::map<std::pair<int, int>, std::uint64_t> cores_;
  std::map<std::tuple<int, int, Unit, std::int64_t>, std::vector<Lane>> lanes_;
};

/// Flows that begin and end with each span, by its index.
struct Flows {
  std::vector<std::vector<std::uint64_t>> begin;
  std::vector<std::vector<std::uint64_t>> end;
};

/// Those of copies, as the timeline has them; and from what a step fetches to the first of its work
/// that begins after it.
Flows flows_of(const predict::Timeline& t) {
  Flows f{std::vector<std::vector<std::uint64_t>>(t.spans.size()),
          std::vector<std::vector<std::uint64_t>>(t.spans.size())};
  std::uint64_t next = 0;
  const auto flow = [&](std::size_t from, std::size_t to) {
    f.begin[from].push_back(++next);
    f.end[to].push_back(next);
  };
  for (const auto& [copy, wait] : t.flows) flow(copy, wait);
  std::map<std::tuple<int, int, std::int64_t>, std::vector<std::size_t>> work;  // in order of time
  std::vector<std::size_t> order(t.spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return t.spans[i].begin; });
  for (const std::size_t i : order) {
    const predict::Span& s = t.spans[i];
    if (s.unit == Unit::compute) work[{s.device, s.core, s.step}].push_back(i);
  }
  for (std::size_t i = 0; i < t.spans.size(); ++i) {
    const predict::Span& s = t.spans[i];
    // What a body copies by itself has waits of its own.
    if (s.unit != Unit::fetch || (s.block < 0 && s.at.line > 0)) continue;
    for (const std::size_t w : work[{s.device, s.core, s.step}]) {
      if (t.spans[w].begin < s.end) continue;
      flow(i, w);
      break;
    }
  }
  return f;
}

}  // namespace

std::string perfetto_trace_of(const predict::Timeline& timeline, const Plan& plan,
                              const Ledger& ledger, const std::string& kernel,
                              const std::string& core) {
  std::string bytes;
  Writer writer(bytes);
  constexpr std::uint64_t kRoot = 1;
  writer.track(kRoot, 0, kernel);
  const std::vector<predict::Span>& spans = timeline.spans;
  Tracks tracks(writer, kRoot, core,
                std::ranges::any_of(spans, [](const auto& s) { return s.device > 0; }));
  for (const predict::Resource& resource : timeline.busy) {
    const std::uint64_t counter = tracks.next();
    writer.track(counter, kRoot, resource.name + " busy, %", true);
    for (std::size_t i = 0; i < resource.over.size(); ++i)
      writer.count(
          counter,
          timeline.seconds * static_cast<double>(i) / static_cast<double>(resource.over.size()),
          100 * resource.over[i]);
    writer.count(counter, timeline.seconds, 0);
  }
  if (const auto occupied = occupancy_of(timeline, plan); !occupied.empty()) {
    const std::uint64_t counter = tracks.next();
    writer.track(counter, kRoot, "VMEM in use, bytes", true);
    for (const auto& [seconds, in_use] : occupied)
      writer.count(counter, seconds, static_cast<double>(in_use));
  }
  const Flows flows = flows_of(timeline);
  std::map<std::pair<const char*, int>, std::string> lines;
  const auto nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return spans[i].begin; });
  for (const std::size_t i : order) {
    const predict::Span& s = spans[i];
    Slice slice{name_of(s, plan, ledger), name(s.unit)};
    if (s.ref >= 0 && s.unit != Unit::wait && s.unit != Unit::link)
      slice.arguments.emplace_back("step", s.step);
    if (s.bytes > 0) slice.arguments.emplace_back("bytes", s.bytes);
    if (s.at.line > 0) {
      const auto [line, fresh] = lines.try_emplace({s.at.file, s.at.line});
      if (fresh) {
        const std::string excerpt = source_excerpt(s.at);
        line->second = excerpt.substr(0, excerpt.find("  "));
      }
      slice.line = line->second;
    }
    slice.flows = flows.begin[i];
    slice.flows_end = flows.end[i];
    const std::uint64_t track = tracks.free(s, nanoseconds(s.begin), nanoseconds(s.end));
    writer.begin(track, s.begin, slice);
    writer.end(track, s.end);
  }
  return bytes;
}

}  // namespace tessera::report
