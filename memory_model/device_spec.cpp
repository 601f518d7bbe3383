#include "memory_model/device_spec.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "memory_model/embedded_devices.hpp"
#include "memory_model/file.hpp"

namespace tessera {

namespace {

using Json = nlohmann::ordered_json;

struct Wanted {
  const char* name;
  const char* unit;
  double least;
  double most;
  std::function<void(DeviceSpec&, double)> set;
};

std::int64_t integer(double v) { return static_cast<std::int64_t>(v); }

constexpr double kMostBytes = 0x1p50;
constexpr double kMostPerSecond = 1e24;

const std::vector<Wanted>& wanted_figures() {
  using S = DeviceSpec;
  static const std::vector<Wanted> kWanted{
      {"hbm_capacity", "B", 1, kMostBytes, [](S& s, double v) { s.hbm_bytes = integer(v); }},
      {"vmem_capacity", "B", 0, kMostBytes, [](S& s, double v) { s.vmem_bytes = integer(v); }},
      {"smem_capacity", "B", 0, kMostBytes, [](S& s, double v) { s.smem_bytes = integer(v); }},
      {"cores", "1", 1, 1 << 20, [](S& s, double v) { s.cores = static_cast<int>(v); }},
      {"semaphores", "1", 0, 1 << 20, [](S& s, double v) { s.semaphores = static_cast<int>(v); }},
      {"hbm_bandwidth", "B/s", 1, 1e18, [](S& s, double v) { s.hbm_bytes_per_s = v; }},
      {"remote_bandwidth", "B/s", 0, 1e18, [](S& s, double v) { s.remote_bytes_per_s = v; }},
      {"dma_latency", "s", 0, 1, [](S& s, double v) { s.dma_latency_s = v; }},
      {"tile_sublanes", "1", 1, 1024, [](S& s, double v) { s.sublanes32 = static_cast<int>(v); }},
      {"tile_lanes", "1", 1, 1024, [](S& s, double v) { s.lanes = static_cast<int>(v); }},
  };
  return kWanted;
}
/// Those that a spec may leave out: 0, unknown.
const std::vector<Wanted>& other_figures() {
  using S = DeviceSpec;
  static const std::vector<Wanted> kOther{
      {"scoped_vmem", "B", 0, kMostBytes, [](S& s, double v) { s.scoped_vmem_bytes = integer(v); }},
      {"compute_capability", "1", 1, 99,
       [](S& s, double v) { s.compute_capability = static_cast<int>(std::lround(10 * v)); }},
      {"vmem_operands", "1", 0, 1, [](S& s, double v) { s.keeps_operands_in_vmem = v > 0; }},
      {"remote_links", "1", 0, 1024, [](S& s, double v) { s.remote_links = static_cast<int>(v); }},
      {"peak_vector_ops", "op/s", 0, kMostPerSecond,
       [](S& s, double v) { s.vector_ops_per_s = v; }},
  };
  return kOther;
}

constexpr std::size_t kLongestName = 200;
constexpr std::string_view kPeak = "peak_flops_";
constexpr std::string_view kModel = "model_";

std::string number_text(double v) {
  std::ostringstream text;
  text << v;
  return text.str();
}

void take_figure(DeviceSpec& spec, const std::string& name, const Json& entry,
                 const std::string& origin) {
  const auto complain = [&](const std::string& what) {
    throw SpecError(origin + ": figure '" + name + "' " + what);
  };
  if (!entry.is_object() || !entry.contains("value") || !entry["value"].is_number()) {
    complain("needs a number as its \"value\"");
  }
  if (!entry.contains("source") || !entry["source"].is_string() ||
      entry["source"].get<std::string>().empty()) {
    complain("needs a \"source\"");
  }
  if (!entry.contains("unit") || !entry["unit"].is_string()) complain("needs a \"unit\"");
  Figure figure{name, entry["value"].get<double>(), printable(entry["unit"].get<std::string>()),
                printable(entry["source"].get<std::string>())};
  const auto check_range = [&](double least, double most) {
    if (!(figure.value >= least)) {
      complain(least == 0 ? "must not be negative" : "must be at least " + number_text(least));
    }
    if (!(figure.value <= most)) complain("is beyond any device: more than " + number_text(most));
    if (figure.unit.ends_with("/s") && figure.value > 0 && figure.value < 1)
      complain("is 0, for unknown, or at least 1");
  };
  if (name.starts_with(kPeak)) {
    if (figure.unit != "FLOP/s") complain("must have the unit FLOP/s");
    check_range(0, kMostPerSecond);
    spec.peak_flops[name.substr(kPeak.size())] = figure.value;
  } else if (name.starts_with(kModel)) {
    check_range(0, kMostPerSecond);
    spec.model[name.substr(kModel.size())] = figure;
  } else {
    bool known = false;
    for (const auto* figures : {&wanted_figures(), &other_figures()}) {
      for (const auto& wanted : *figures) {
        if (name != wanted.name) continue;
        if (figure.unit != wanted.unit) complain(std::string("must have the unit ") + wanted.unit);
        check_range(wanted.least, wanted.most);
        wanted.set(spec, figure.value);
        known = true;
      }
    }
    if (!known) complain("is not one that tessera knows");
  }
  spec.figures.push_back(std::move(figure));
}

DeviceSpec::Jax parse_jax(const Json& entry, const std::string& origin) {
  DeviceSpec::Jax jax;
  for (const auto& [key, member] : {std::pair{"device_kind", &DeviceSpec::Jax::device_kind},
                                    {"chip", &DeviceSpec::Jax::chip},
                                    {"source", &DeviceSpec::Jax::source}}) {
    if (!entry.is_object() || !entry.contains(key) || !entry[key].is_string())
      throw SpecError(origin + ": \"jax\" needs a string \"" + key + "\"");
    jax.*member = entry[key];
  }
  return jax;
}

}  // namespace

double DeviceSpec::peak(DType d) const {
  const auto it = peak_flops.find(tessera::name(d));
  return it == peak_flops.end() ? 0 : it->second;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const auto& device : embedded_devices()) names.emplace_back(device.name);
  return names;
}

DeviceSpec parse_device(std::string_view text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) throw SpecError(origin + ": not a JSON object");
  DeviceSpec spec;
  spec.origin = origin;
  spec.json = text;
  for (const char* key : {"name", "title", "kind"}) {
    if (!json.contains(key) || !json[key].is_string()) {
      throw SpecError(origin + ": needs a string \"" + key + "\"");
    }
    const std::string said = json[key];
    if (said.size() > kLongestName) throw SpecError(origin + ": its \"" + key + "\" is too long");
    if (printable(said) != said || said.find('\n') != std::string::npos)
      throw SpecError(origin + ": its \"" + key + "\" has control characters");
  }
  spec.name = json["name"];
  spec.title = json["title"];
  const std::string kind = json["kind"];
  if (kind != "tpu" && kind != "gpu") throw SpecError(origin + ": kind is \"tpu\" or \"gpu\"");
  spec.kind = kind == "tpu" ? DeviceSpec::Kind::tpu : DeviceSpec::Kind::gpu;
  if (json.contains("jax")) spec.jax = parse_jax(json["jax"], origin);
  if (!json.contains("figures") || !json["figures"].is_object()) {
    throw SpecError(origin + ": needs an object \"figures\"");
  }
  for (const auto& [name, entry] : json["figures"].items()) {
    take_figure(spec, name, entry, origin);
  }
  for (const auto& wanted : wanted_figures()) {
    bool found = false;
    for (const auto& figure : spec.figures) found = found || figure.name == wanted.name;
    if (!found) throw SpecError(origin + ": figure '" + wanted.name + "' is missing");
  }
  return spec;
}

DeviceSpec load_device(const std::string& name) {
  if (name.ends_with(".json")) {
    constexpr std::size_t kMostBytesOfFile = std::size_t{1} << 20;
    try {
      return parse_device(read_file(name, kMostBytesOfFile), name);
    } catch (const FileError& e) {
      throw SpecError(e.what());
    }
  }
  for (const auto& device : embedded_devices()) {
    if (name == device.name) return parse_device(device.json, name);
  }
  throw SpecError("no device '" + name + "'");
}

std::optional<DeviceSpec> device_of_chip(std::string_view chip) {
  // JAX writes "7x" where everybody else writes "v7x".
  const auto bare = [](std::string_view name) {
    return name.substr(name.starts_with('v') ? 1 : 0);
  };
  std::optional<DeviceSpec> found;
  for (const auto& device : embedded_devices()) {
    DeviceSpec spec = parse_device(device.json, std::string(device.name));
    const std::string& known = spec.jax.chip;
    if (known.empty() || !bare(chip).starts_with(bare(known))) continue;
    if (!found || known.size() > found->jax.chip.size()) found = std::move(spec);
  }
  return found;
}

const DeviceSpec& default_device() {
  static const DeviceSpec kDefault = load_device("tpu-v5e");
  return kDefault;
}

}  // namespace tessera
