#include "record/record.hpp"

#include <fmt/chrono.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "golden/sha256.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::record {

namespace {

using Json = nlohmann::ordered_json;

std::string now() {
  const auto at = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto whole = std::chrono::floor<std::chrono::seconds>(at);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                     (at - whole).count());
}

DType dtype_named(const std::string& text) {
  for (int i = 0; i < kDTypes; ++i) {
    if (text == name(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  throw InputError("bad-record", "no type '" + text + "'");
}

Json json_of(const std::vector<Noted>& arrays) {
  Json list = Json::array();
  for (const Noted& a : arrays) {
    Json shape = Json::array();
    for (int d = 0; d < a.shape.rank; ++d) shape.push_back(a.shape[d]);
    list.push_back({{"name", a.name},
                    {"dtype", name(a.dtype)},
                    {"shape", shape},
                    {"sha256", a.sha256.empty() ? Json(nullptr) : Json(a.sha256)}});
    if (!a.file.empty()) list.back()["file"] = a.file;
  }
  return list;
}

std::vector<Noted> arrays_of(const Json& list) {
  std::vector<Noted> arrays;
  for (const Json& j : list) {
    Noted& a = arrays.emplace_back();
    a.name = j.at("name");
    a.dtype = dtype_named(j.at("dtype"));
    for (const Json& extent : j.at("shape")) {
      if (a.shape.rank == kMaxRank) throw InputError("bad-record", a.name + " has too many dims");
      a.shape.push_back(extent.get<std::int64_t>());
    }
    if (j.at("sha256").is_string()) a.sha256 = j["sha256"];
    a.file = j.value("file", std::string());
  }
  return arrays;
}

Json json_of(const tuning::Key& k) {
  return {{"operation", k.operation},
          {"device", k.device},
          {"fingerprint", k.fingerprint},
          {"sizes", k.sizes},
          {"shapes", k.shapes},
          {"dtype", k.dtype},
          {"mesh", k.mesh}};
}

tuning::Key key_of(const Json& j) {
  return {.operation = j.at("operation"),
          .device = j.at("device"),
          .fingerprint = j.at("fingerprint"),
          .sizes = j.at("sizes"),
          .shapes = j.at("shapes"),
          .dtype = j.at("dtype"),
          .mesh = j.at("mesh")};
}

Json choice_json(const Record& r) {
  if (r.tier.empty()) return nullptr;
  Json tiers = Json::array();
  for (const auto& [tier, what] : r.said) tiers.push_back({{"tier", tier}, {"said", what}});
  return {{"tier", r.tier}, {"tiers", tiers}};
}

void take_choice(const Json& choice, Record& r) {
  if (choice.is_null()) return;
  r.tier = choice.at("tier");
  for (const Json& said : choice.at("tiers")) r.said.emplace_back(said.at("tier"), said.at("said"));
}

void take_backend(const Json& backend, Record& r) {
  r.requested = backend.at("requested");
  r.ran = backend.at("ran");
  r.why = backend.at("why");
}

}  // namespace

Record record_of(const std::string& run_json) {
  const Json run = Json::parse(run_json);
  Record r;
  r.operation = run.at("kernel").at("name");
  r.frontend = run.at("kernel").at("frontend");
  take_choice(run.value("choice", Json(nullptr)), r);
  take_backend(run.at("backend"), r);
  r.device = run.at("device");
  r.numerics = run.at("numerics");
  r.mesh = run.at("mesh").get<std::vector<int>>();
  r.cores = run.at("cores");
  if (run.at("schedule").is_string()) r.schedule = run.at("schedule");
  r.dry = run.at("dry");
  const Json& traffic = run.at("traffic");
  r.hbm_read_bytes = traffic.at("hbm_read_bytes");
  r.hbm_write_bytes = traffic.at("hbm_write_bytes");
  r.remote_bytes = traffic.at("remote_bytes");
  const Json& timeline = run.at("timeline");
  if (timeline.is_object() && timeline.contains("seconds") && timeline["seconds"].is_number())
    r.predicted_seconds = timeline["seconds"];
  for (const Json& d : run.at("diagnostics")) r.diagnostics.push_back(d.at("slug"));
  if (run.at("seconds").is_number()) r.seconds = run.at("seconds");
  return r;
}

tuning::Key key_of(const std::string& operation, const DeviceSpec& device,
                   const std::string& source, const std::vector<Noted>& inputs,
                   const std::vector<int>& mesh, int cores) {
  tuning::Sizes sizes;
  std::string dtypes;
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    for (int d = 0; d < inputs[n].shape.rank; ++d)
      sizes.emplace_back(fmt::format("{}.{}", n, d), static_cast<double>(inputs[n].shape[d]));
    dtypes += (n > 0 ? "," : "") + std::string(name(inputs[n].dtype));
  }
  tuning::Key key = tuning::key_of(operation, device.name,
                                   tuning::fingerprint(device.json, TESSERA_VERSION, source), sizes,
                                   dtypes, mesh);
  if (cores > 1) key.mesh += fmt::format(" of {} cores", cores);
  return key;
}

std::string line_of(const Record& r) {
  Json configuration = Json::object();
  for (const auto& [name, value] : r.configuration) configuration[name] = value;
  const Json json{
      {"schema", kSchema},
      {"time", r.time.empty() ? now() : r.time},
      {"process", r.process != 0 ? r.process : std::int64_t{getpid()}},
      {"tessera", r.tessera.empty() ? TESSERA_VERSION : r.tessera},
      {"operation", r.operation},
      {"frontend", r.frontend},
      {"key", json_of(r.key)},
      {"configuration", configuration},
      {"choice", choice_json(r)},
      {"backend", {{"requested", r.requested}, {"ran", r.ran}, {"why", r.why}}},
      {"device", r.device},
      {"numerics", r.numerics},
      {"mesh", r.mesh},
      {"cores", r.cores},
      {"schedule", r.schedule.empty() ? Json(nullptr) : Json(r.schedule)},
      {"dry", r.dry},
      {"inputs", json_of(r.inputs)},
      {"outputs", json_of(r.outputs)},
      {"bytes",
       {{"hbm_read", r.hbm_read_bytes},
        {"hbm_write", r.hbm_write_bytes},
        {"remote", r.remote_bytes}}},
      {"predicted_seconds", r.predicted_seconds > 0 ? Json(r.predicted_seconds) : Json(nullptr)},
      {"diagnostics", r.diagnostics},
      {"arguments", r.arguments},
      {"within", r.within.empty() ? Json(nullptr) : Json(r.within)},
      {"seconds", r.seconds}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Record parse(const std::string& line, const std::string& origin) {
  try {
    const Json j = Json::parse(line);
    if (j.at("schema") != kSchema) {
      throw InputError("bad-record",
                       "its schema is " + j["schema"].dump() + "; this tessera reads " + kSchema);
    }
    const auto text = [&](const char* name) {
      return j.at(name).is_null() ? std::string() : j.at(name).get<std::string>();
    };
    Record r;
    r.time = text("time");
    r.process = j.at("process");
    r.tessera = text("tessera");
    r.operation = text("operation");
    r.frontend = text("frontend");
    r.key = key_of(j.at("key"));
    for (const auto& [name, value] : j.at("configuration").items())
      r.configuration.emplace_back(name, value.get<std::string>());
    take_choice(j.at("choice"), r);
    take_backend(j.at("backend"), r);
    r.device = text("device");
    r.numerics = text("numerics");
    r.mesh = j.at("mesh").get<std::vector<int>>();
    r.cores = j.at("cores");
    r.schedule = text("schedule");
    r.dry = j.at("dry");
    r.inputs = arrays_of(j.at("inputs"));
    r.outputs = arrays_of(j.at("outputs"));
    const Json& bytes = j.at("bytes");
    r.hbm_read_bytes = bytes.at("hbm_read");
    r.hbm_write_bytes = bytes.at("hbm_write");
    r.remote_bytes = bytes.at("remote");
    if (j.at("predicted_seconds").is_number()) r.predicted_seconds = j["predicted_seconds"];
    r.diagnostics = j.at("diagnostics").get<std::vector<std::string>>();
    r.arguments = j.at("arguments").get<std::vector<std::string>>();
    r.within = text("within");
    r.seconds = j.at("seconds");
    return r;
  } catch (const Json::exception& error) {
    throw InputError("bad-record", origin + ": " + error.what());
  } catch (const InputError& error) {
    throw InputError("bad-record", origin + ": " + error.what());
  }
}

bool is_json(const std::string& line) { return Json::accept(line); }

std::string hash_of(const Array& array) {
  return golden::sha256(array.bytes(), static_cast<std::size_t>(array.size_bytes()));
}

}  // namespace tessera::record
