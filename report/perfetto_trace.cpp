#include "report/perfetto_trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <utility>
#include <vector>

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

}  // namespace

std::string perfetto_trace_of(const predict::Timeline& timeline, const Ledger& ledger,
                              const std::string& kernel, const std::string& core) {
  std::string bytes;
  Writer writer(bytes);
  std::uint64_t next = 1;
  const std::uint64_t root = next++;
  writer.track(root, 0, kernel);
  // Transfers overlap and slices of a track do not: each goes to the first lane that is free.
  struct Lane {
    std::uint64_t track;
    std::int64_t free;
  };
  std::map<int, std::uint64_t> cores;
  std::map<std::pair<int, predict::Span::Unit>, std::vector<Lane>> lanes;
  std::vector<predict::Span> spans = timeline.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const predict::Span& a, const predict::Span& b) {
    return a.begin < b.begin;
  });
  const auto nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
  // What a step fetches leads to the first of its work that begins after it; both are of one core.
  std::map<std::pair<int, std::int64_t>, std::map<std::uint64_t, double>> flows;  // ends of fetches
  std::uint64_t flow = 0;
  std::map<std::pair<int, std::int64_t>, double> last_work;
  for (const predict::Span& s : spans)
    if (s.unit == predict::Span::Unit::compute) last_work[{s.core, s.step}] = s.begin;
  for (const predict::Resource& resource : timeline.busy) {
    const std::uint64_t counter = next++;
    writer.track(counter, root, resource.name + " busy, %", true);
    for (std::size_t i = 0; i < resource.over.size(); ++i)
      writer.count(
          counter,
          timeline.seconds * static_cast<double>(i) / static_cast<double>(resource.over.size()),
          100 * resource.over[i]);
    writer.count(counter, timeline.seconds, 0);
  }
  for (const predict::Span& s : spans) {
    if (!cores.contains(s.core)) {
      cores[s.core] = next++;
      writer.track(cores[s.core], root, core + " " + std::to_string(s.core));
    }
    auto& of_unit = lanes[{s.core, s.unit}];
    const auto free = std::find_if(of_unit.begin(), of_unit.end(), [&](const Lane& lane) {
      return lane.free <= nanoseconds(s.begin);
    });
    const std::size_t at = static_cast<std::size_t>(free - of_unit.begin());
    if (free == of_unit.end()) {
      of_unit.push_back({next++, 0});
      writer.track(of_unit.back().track, cores[s.core],
                   std::string(name(s.unit)) + (at > 0 ? " " + std::to_string(at + 1) : ""));
    }
    of_unit[at].free = nanoseconds(s.end);
    Slice slice{"step " + std::to_string(s.step), name(s.unit)};
    if (s.ref >= 0) {
      slice.name = ledger.refs()[static_cast<std::size_t>(s.ref)].name + ", " + slice.name;
      slice.arguments = {{"step", s.step}, {"bytes", s.bytes}};
    }
    const auto work = last_work.find({s.core, s.step});
    if (s.unit == predict::Span::Unit::fetch && work != last_work.end() && s.end <= work->second) {
      slice.flows = {++flow};
      flows[{s.core, s.step}][flow] = s.end;
    } else if (s.unit == predict::Span::Unit::compute) {
      auto& open = flows[{s.core, s.step}];
      for (const auto& [id, end] : open)
        if (end <= s.begin) slice.flows_end.push_back(id);
      for (const std::uint64_t id : slice.flows_end) open.erase(id);
    }
    writer.begin(of_unit[at].track, s.begin, slice);
    writer.end(of_unit[at].track, s.end);
  }
  return bytes;
}

}  // namespace tessera::report
