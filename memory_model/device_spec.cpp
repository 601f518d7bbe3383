#include "memory_model/device_spec.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "memory_model/embedded_devices.hpp"

namespace tessera {

namespace {

using Json = nlohmann::ordered_json;

struct Wanted {
  const char* name;
  const char* unit;
  std::function<void(DeviceSpec&, double)> set;
};

std::int64_t integer(double v) { return static_cast<std::int64_t>(v); }

const std::vector<Wanted>& wanted_figures() {
  static const std::vector<Wanted> kWanted{
      {"hbm_capacity", "B", [](DeviceSpec& s, double v) { s.hbm_bytes = integer(v); }},
      {"vmem_capacity", "B", [](DeviceSpec& s, double v) { s.vmem_bytes = integer(v); }},
      {"smem_capacity", "B", [](DeviceSpec& s, double v) { s.smem_bytes = integer(v); }},
      {"cores", "1", [](DeviceSpec& s, double v) { s.cores = static_cast<int>(v); }},
      {"semaphores", "1", [](DeviceSpec& s, double v) { s.semaphores = static_cast<int>(v); }},
      {"hbm_bandwidth", "B/s", [](DeviceSpec& s, double v) { s.hbm_bytes_per_s = v; }},
      {"remote_bandwidth", "B/s", [](DeviceSpec& s, double v) { s.remote_bytes_per_s = v; }},
      {"dma_latency", "s", [](DeviceSpec& s, double v) { s.dma_latency_s = v; }},
      {"tile_sublanes", "1", [](DeviceSpec& s, double v) { s.sublanes32 = static_cast<int>(v); }},
      {"tile_lanes", "1", [](DeviceSpec& s, double v) { s.lanes = static_cast<int>(v); }},
  };
  return kWanted;
}
/// Those that a spec may leave out: 0, unknown.
const std::vector<Wanted>& other_figures() {
  static const std::vector<Wanted> kOther{
      {"remote_links", "1", [](DeviceSpec& s, double v) { s.remote_links = static_cast<int>(v); }},
      {"peak_vector_ops", "op/s", [](DeviceSpec& s, double v) { s.vector_ops_per_s = v; }},
  };
  return kOther;
}

constexpr std::string_view kPeak = "peak_flops_";
constexpr std::string_view kModel = "model_";

/// Of the timeline's model (report/gpu_timeline.cpp): all of them, or none.
struct ModelFigure {
  std::string_view name;
  std::string_view unit;
};
constexpr ModelFigure kModelFigures[] = {
    {"l2_capacity", "B"},
    {"l2_bandwidth", "B/s"},
    {"sm_bandwidth", "B/s"},
    {"hbm_efficiency", "1"},
    {"load_latency", "s"},
    {"dram_latency", "s"},
    {"issue_seconds", "s"},
    {"launch_seconds", "s"},
    {"step_latency", "s"},
    {"product_latency", "s"},
    {"contention", "1"},
    {"element_overhead", "1"},
    {"product_overhead", "1"},
    {"operand_bandwidth", "B/s"},
    {"seconds_per_element", "s"},
    {"seconds_per_fast_function", "s"},
    {"seconds_per_exact_function", "s"},
    {"simt_efficiency", "1"},
    {"store_latency", "s"},
    {"store_bandwidth", "B/s"},
    {"registers_used", "1"},
    {"registers_spare", "1"},
    {"spill_per_step", "s"},
    {"spill_per_instruction", "s"},
    {"cell_latency", "s"},
    {"sm_spread", "1"},
    {"page_seconds", "s"},
    {"page_reuse", "1"},
};

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
  Figure figure{name, entry["value"].get<double>(), entry.value("unit", ""),
                entry["source"].get<std::string>()};
  if (!(figure.value >= 0)) complain("must not be negative");
  if (name.starts_with(kPeak)) {
    if (figure.unit != "FLOP/s") complain("must have the unit FLOP/s");
    spec.peak_flops[name.substr(kPeak.size())] = figure.value;
  } else if (name.starts_with(kModel)) {
    const std::string constant = name.substr(kModel.size());
    const auto* const known = std::ranges::find(kModelFigures, constant, &ModelFigure::name);
    if (known == std::end(kModelFigures)) complain("is not one that tessera knows");
    if (figure.unit != known->unit) complain("must have the unit " + std::string(known->unit));
    spec.model[constant] = figure.value;
  } else {
    bool known = false;
    for (const auto* figures : {&wanted_figures(), &other_figures()}) {
      for (const auto& wanted : *figures) {
        if (name != wanted.name) continue;
        if (figure.unit != wanted.unit) complain(std::string("must have the unit ") + wanted.unit);
        wanted.set(spec, figure.value);
        known = true;
      }
    }
    if (!known) complain("is not one that tessera knows");
  }
  spec.figures.push_back(std::move(figure));
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
  for (const char* key : {"name", "title", "kind"}) {
    if (!json.contains(key) || !json[key].is_string()) {
      throw SpecError(origin + ": needs a string \"" + key + "\"");
    }
  }
  spec.name = json["name"];
  spec.title = json["title"];
  const std::string kind = json["kind"];
  if (kind != "tpu" && kind != "gpu") throw SpecError(origin + ": kind is \"tpu\" or \"gpu\"");
  spec.kind = kind == "tpu" ? DeviceSpec::Kind::tpu : DeviceSpec::Kind::gpu;
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
  for (const ModelFigure& wanted : kModelFigures) {
    if (!spec.model.empty() && !spec.model.contains(std::string(wanted.name))) {
      throw SpecError(origin + ": figure 'model_" + std::string(wanted.name) +
                      "' is missing: a model has all of them, or a device has none");
    }
  }
  return spec;
}

DeviceSpec load_device(const std::string& name) {
  if (name.ends_with(".json")) {
    std::ifstream file(name);
    if (!file) throw SpecError(name + ": cannot be read");
    std::ostringstream text;
    text << file.rdbuf();
    return parse_device(text.str(), name);
  }
  for (const auto& device : embedded_devices()) {
    if (name == device.name) return parse_device(device.json, name);
  }
  throw SpecError("no device '" + name + "'");
}

const DeviceSpec& default_device() {
  static const DeviceSpec kDefault = load_device("tpu-v5e");
  return kDefault;
}

}  // namespace tessera
