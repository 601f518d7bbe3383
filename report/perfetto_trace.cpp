#include "report/perfetto_trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <protozero/pbf_writer.hpp>

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
}  // namespace descriptor
namespace event {
constexpr protozero::pbf_tag_type kType = 9;
constexpr protozero::pbf_tag_type kTrack = 11;
constexpr protozero::pbf_tag_type kCategory = 22;
constexpr protozero::pbf_tag_type kName = 23;
constexpr int kSliceBegin = 1;
constexpr int kSliceEnd = 2;
}  // namespace event

constexpr unsigned kSequence = 1;

class Writer {
 public:
  explicit Writer(std::string& to) : trace_(to) {}

  void track(std::uint64_t uuid, std::uint64_t parent, const std::string& name) {
    std::string packet_bytes;
    protozero::pbf_writer packet_writer(packet_bytes);
    {
      protozero::pbf_writer d(packet_writer, packet::kTrackDescriptor);
      d.add_uint64(descriptor::kUuid, uuid);
      d.add_string(descriptor::kName, name);
      if (parent != 0) d.add_uint64(descriptor::kParent, parent);
    }
    packet_writer.add_uint32(packet::kSequence, kSequence);
    trace_.add_message(trace::kPacket, packet_bytes);
  }
  /// `name` empty: the end of the track's slice.
  void slice(std::uint64_t track, double seconds, const std::string& name, const char* category) {
    std::string packet_bytes;
    protozero::pbf_writer packet_writer(packet_bytes);
    packet_writer.add_uint64(packet::kTimestamp,
                             static_cast<std::uint64_t>(std::llround(seconds * 1e9)));
    {
      protozero::pbf_writer e(packet_writer, packet::kTrackEvent);
      e.add_enum(event::kType, name.empty() ? event::kSliceEnd : event::kSliceBegin);
      e.add_uint64(event::kTrack, track);
      if (!name.empty()) {
        e.add_string(event::kCategory, category);
        e.add_string(event::kName, name);
      }
    }
    packet_writer.add_uint32(packet::kSequence, kSequence);
    trace_.add_message(trace::kPacket, packet_bytes);
  }

 private:
  protozero::pbf_writer trace_;
};

}  // namespace

std::string perfetto_trace_of(const predict::Timeline& timeline, const std::string& kernel,
                              const std::string& core) {
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
    writer.slice(of_unit[at].track, s.begin, "step " + std::to_string(s.step), name(s.unit));
    writer.slice(of_unit[at].track, s.end, "", name(s.unit));
  }
  return bytes;
}

}  // namespace tessera::report
