#include "golden/golden.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "golden/bisect.hpp"
#include "golden/sha256.hpp"
#include "memory_model/file.hpp"
#include "memory_model/npy.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::golden {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kSelf = "\"manifest_sha256\": \"";
constexpr std::size_t kDigits = 64;
constexpr auto kReplace = Json::error_handler_t::replace;  // what is no UTF-8

[[noreturn]] void fail(const std::string& what) { throw InputError("bad-golden", what); }

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  if (!in || !fs::is_regular_file(path, error)) fail(path.string() + " is missing");
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

/// The hash of a manifest's text with its own digits as zeros; `at` gets their place.
std::string hash_of_manifest(std::string text, std::size_t& at) {
  at = text.find(kSelf);
  if (at == std::string::npos) return "";
  at += std::strlen(kSelf);
  if (at + kDigits > text.size()) return "";
  text.replace(at, kDigits, kDigits, '0');
  return sha256(text.data(), text.size());
}

Json shape_json(const Shape& shape) {
  Json j = Json::array();
  for (int d = 0; d < shape.rank; ++d) j.push_back(shape[d]);
  return j;
}
Shape shape_of(const Json& j) {
  Shape s;
  for (const auto& extent : j) {
    if (s.rank == kMaxRank) fail("manifest.json has a shape of more than 8 dimensions");
    s.push_back(extent.get<std::int64_t>());
  }
  return s;
}

/// Where a manifest says that a file is: in its own folder.
fs::path inside(const fs::path& folder, const std::string& file) {
  const fs::path path(file);
  const bool leaves =
      path.is_absolute() ||
      std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
  if (leaves) fail("manifest.json speaks of '" + file + "', which is not in its folder");
  return folder / path;
}

/// What the manifest says of any file.
Json file_json(const std::string& file, const std::string& bytes) {
  return {{"file", file}, {"bytes", bytes.size()}, {"sha256", sha256(bytes.data(), bytes.size())}};
}

/// Writes an array under the folder and says so.
Json write_array(const fs::path& folder, const std::string& file, const Array& array) {
  write_npy((folder / file).string(), array);
  Json j = file_json(file, bytes_of(folder / file));
  j["dtype"] = name(array.dtype());
  j["shape"] = shape_json(array.shape());
  return j;
}

DType dtype_named(const std::string& text) {
  for (int i = 0; i < kDTypes; ++i) {
    if (text == name(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  fail("manifest.json speaks of a type '" + text + "', which this tessera does not know");
}

/// The bytes of a file, which are those that the manifest speaks of.
std::string read_checked(const fs::path& folder, const Json& j) {
  const auto file = j.at("file").get<std::string>();
  std::string bytes = bytes_of(inside(folder, file));
  const auto wanted = j.at("bytes").get<std::size_t>();
  if (bytes.size() < wanted)
    fail(fmt::format("{} is truncated: {} of {} bytes", file, bytes.size(), wanted));
  if (sha256(bytes.data(), bytes.size()) != j.at("sha256").get<std::string>())
    fail(file + " was changed since the golden was made: its SHA-256 is not the manifest's");
  return bytes;
}

Array read_array(const fs::path& folder, const Json& j) {
  const auto file = j.at("file").get<std::string>();
  read_checked(folder, j);
  Array array = read_npy((folder / file).string(), dtype_named(j.at("dtype").get<std::string>()));
  if (!(array.shape() == shape_of(j.at("shape"))))
    fail(file + " has another shape than manifest.json says");
  return array;
}

Json model_json(const ErrorModel& m) {
  Json ulp = Json::object();
  for (const auto& [op, value] : m.function_ulp) ulp[op] = value;
  return {{"accumulate", format_of(m.accumulate)},
          {"operands", m.operands > 0 ? format_of(m.operands) : "as given"},
          {"fused", m.fused},
          {"other_blocks", m.other_blocks},
          {"function_ulp", ulp}};
}
ErrorModel model_of(const Json& j) {
  ErrorModel m;
  m.accumulate = unit_roundoff(j.at("accumulate").get<std::string>());
  const auto operands = j.at("operands").get<std::string>();
  m.operands = operands == "as given" ? 0 : unit_roundoff(operands);
  m.fused = j.at("fused").get<bool>();
  m.other_blocks = j.at("other_blocks").get<bool>();
  m.function_ulp.clear();
  for (const auto& [op, ulp] : j.at("function_ulp").items())
    m.function_ulp.emplace_back(op, ulp.get<double>());
  return m;
}

struct BoundSummary {
  std::int64_t none = 0;
  std::int64_t unbounded = 0;
};
BoundSummary summary(const Array& bounds) {
  BoundSummary s;
  for (std::int64_t i = 0; i < bounds.elems(); ++i) {
    const float e = bounds.data<float>()[i];
    s.none += e == 0 ? 1 : 0;
    s.unbounded += std::isinf(e) ? 1 : 0;
  }
  return s;
}

Json manifest_of(const fs::path& folder, const Golden& g) {
  Json params = Json::object();
  for (const auto& [size, value] : g.sizes) {
    if (value == std::floor(value))
      params[size] = static_cast<std::int64_t>(value);
    else
      params[size] = value;
  }
  Json tiles = Json::object();
  for (const auto& [tile, extent] : g.tiles) tiles[tile] = extent;
  Json j = {{"schema", kSchema},
            {"kernel",
             {{"name", g.kernel},
              {"frontend", g.frontend},
              {"params", params},
              {"tiles", tiles},
              {"dtype", g.dtype}}},
            {"device", g.device},
            {"devices", g.devices},
            {"seed", g.seed},
            {"inputs_kind", g.inputs_kind},
            {"profile", g.profile},
            {"error_model", model_json(g.error_model)},
            {"toolchain", {{"tessera", TESSERA_VERSION}, {"compiler", TESSERA_COMPILER}}},
            {"command", g.command},
            {"inputs", Json::array()},
            {"files", Json::array()},
            {"outputs", Json::array()}};
  for (const auto& [name, array] : g.inputs) {
    Json entry = {{"name", name}};
    entry.update(write_array(folder, "inputs/" + name + ".npy", array));
    j["inputs"].push_back(entry);
  }
  for (const File& file : g.files) {
    write_file_atomically((folder / file.path).string(), file.bytes);
    j["files"].push_back(file_json(file.path, file.bytes));
  }
  for (const Output& o : g.outputs) {
    Json entry = {{"name", o.name}};
    entry.update(write_array(folder, "outputs/" + o.name + ".npy", o.values));
    entry["block"] = shape_json(o.block);
    entry["bound"] = write_array(folder, "bounds/" + o.name + ".npy", o.bounds);
    const BoundSummary s = summary(o.bounds);
    entry["bound"]["zero"] = s.none;
    entry["bound"]["unbounded"] = s.unbounded;
    j["outputs"].push_back(entry);
  }
  j["steps"] = write_array(folder, "steps.npy", g.steps.rows);
  j["steps"]["dims"] = g.steps.dims;
  j["steps"]["parallel"] = g.steps.parallel;
  j["steps"]["refs"] = g.steps.refs;
  j["manifest_sha256"] = std::string(kDigits, '0');
  return j;
}

/// True if what lies at `folder` may be replaced.
void check_destination(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    const fs::path parent = fs::absolute(folder).parent_path();
    if (!fs::is_directory(parent, error))
      throw InputError("bad-input", "--out " + folder.string() + ": no folder " + parent.string());
    return;
  }
  if (!fs::is_directory(folder, error))
    throw InputError("bad-input", "--out " + folder.string() + " is a file");
  if (!fs::is_empty(folder, error) && !fs::exists(folder / "manifest.json", error)) {
    throw InputError("bad-input",
                     "--out " + folder.string() + " holds something else: no manifest.json");
  }
}

}  // namespace

void take_result(Golden& g, RunResult result, const std::vector<std::string>& output_names) {
  const Plan& plan = result.plan;
  std::size_t next = 0;
  for (const OperandPlan& op : plan.operands) {
    if (!op.is_output() || !op.present) continue;
    const bool blocks = op.role == Role::out && !op.by_element;
    g.outputs.push_back({output_names[next], std::move(result.outputs[next]),
                         std::move(result.bounds[next]), blocks ? op.block : Shape{}});
    ++next;
  }
  for (int d = 0; d < plan.grid_rank; ++d) {
    const char* label = plan.labels[static_cast<std::size_t>(d)];
    const bool named = label != nullptr && *label != 0;
    g.steps.dims.push_back(named ? label : "d" + std::to_string(d));
  }
  g.steps.parallel = plan.parallel_rank;
  for (const OperandPlan& op : plan.operands) g.steps.refs.push_back(op.name);
  g.steps.rows = rows_of(g.steps, result.checksums);
}

void write(const fs::path& folder, const Golden& golden) {
  check_destination(folder);
  fs::path made = folder;
  if (!made.has_filename()) made = made.parent_path();
  constexpr const char* kMark = ".making-";
  sweep(made.string(), kMark);
  made += kMark + std::to_string(getpid());
  struct Remove {
    fs::path path;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } const remove{made};
  try {
    for (const char* part : {"inputs", "outputs", "bounds"}) fs::create_directories(made / part);
    std::string text = manifest_of(made, golden).dump(1) + "\n";
    std::size_t at = 0;
    const std::string hash = hash_of_manifest(text, at);
    text.replace(at, kDigits, hash);
    write_file_atomically((made / "manifest.json").string(), text);
    // The old one goes when the new one is in its place.
    const Remove old{fs::path(made.string() + ".old")};
    if (fs::exists(folder)) fs::rename(folder, old.path);
    fs::rename(made, folder);
  } catch (const fs::filesystem_error& error) {
    throw InputError("bad-input", std::string("cannot write the golden: ") + error.what());
  }
}

Golden read(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail("no golden at " + folder.string());
  if (!fs::exists(folder / "manifest.json", error))
    fail(folder.string() + " is no golden: it has no manifest.json");
  const std::string text = bytes_of(folder / "manifest.json");
  const Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) fail("manifest.json is truncated, or no JSON");
  if (!j.is_object() || !j.contains("schema"))
    fail("manifest.json is not tessera's: it names no schema");
  if (j["schema"] != kSchema)
    fail("the golden's schema is " + j["schema"].dump(-1, ' ', false, kReplace) +
         "; this tessera reads " + kSchema);
  std::size_t at = 0;
  const std::string hash = hash_of_manifest(text, at);
  if (hash.empty() || text.compare(at, kDigits, hash) != 0)
    fail("manifest.json was changed since the golden was made: its own SHA-256 disagrees");
  Golden g;
  try {
    const Json& kernel = j.at("kernel");
    g.kernel = kernel.at("name");
    g.frontend = kernel.at("frontend");
    for (const auto& [name, value] : kernel.at("params").items())
      g.sizes.emplace_back(name, value.get<double>());
    for (const auto& [name, value] : kernel.at("tiles").items())
      g.tiles.emplace_back(name, value.get<int>());
    g.dtype = kernel.at("dtype");
    g.device = j.at("device");
    g.devices = j.at("devices");
    constexpr int kMostDevices = 4096;
    if (g.devices < 0 || g.devices > kMostDevices)
      fail("manifest.json: \"devices\" is 0 to 4096, not " + std::to_string(g.devices));
    g.seed = j.at("seed");
    g.inputs_kind = j.at("inputs_kind");
    g.profile = j.at("profile");
    g.command = j.at("command");
    g.error_model = model_of(j.at("error_model"));
    for (const Json& in : j.at("inputs"))
      g.inputs.push_back({in.at("name"), read_array(folder, in)});
    for (const Json& file : j.value("files", Json::array()))
      g.files.push_back({file.at("file"), read_checked(folder, file)});
    for (const Json& out : j.at("outputs")) {
      g.outputs.push_back({out.at("name"), read_array(folder, out),
                           read_array(folder, out.at("bound")), shape_of(out.at("block"))});
    }
    const Json& steps = j.at("steps");
    g.steps.dims = steps.at("dims").get<std::vector<std::string>>();
    g.steps.parallel = steps.at("parallel");
    g.steps.refs = steps.at("refs").get<std::vector<std::string>>();
    g.steps.rows = read_array(folder, steps);
  } catch (const Json::exception& wrong) {
    fail(std::string("manifest.json: ") + wrong.what());
  }
  return g;
}

std::string describe(const Golden& g) {
  std::string text = g.kernel;
  for (const auto& [name, value] : g.sizes) text += fmt::format(" {}={}", name, value);
  for (const auto& [name, extent] : g.tiles) text += fmt::format(" {}={}", name, extent);
  return text + fmt::format(" {}, profile {}", g.dtype, g.profile);
}

}  // namespace tessera::golden
