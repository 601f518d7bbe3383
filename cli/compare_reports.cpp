// `tessera compare A.json B.json`: what changed from one run's report to another's.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "cli/commands.hpp"
#include "memory_model/file.hpp"

namespace tessera::cli {

namespace {

using Json = nlohmann::ordered_json;

/// A part of a report that every run has.
struct Part {
  const char* path;
  bool (Json::*is)() const noexcept;
  const char* what;
};
constexpr Part kParts[] = {{"/kernel", &Json::is_object, "an object"},
                           {"/kernel/name", &Json::is_string, "a string"},
                           {"/kernel/params", &Json::is_object, "an object"},
                           {"/steps", &Json::is_number, "a number"},
                           {"/traffic", &Json::is_object, "an object"},
                           {"/traffic/refs", &Json::is_array, "a list"},
                           {"/diagnostics", &Json::is_array, "a list"}};
constexpr Part kPartsOfRef[] = {{"/name", &Json::is_string, "a string"},
                                {"/transfers", &Json::is_number, "a number"},
                                {"/elided", &Json::is_number, "a number"},
                                {"/bytes", &Json::is_number, "a number"},
                                {"/padded_bytes", &Json::is_number, "a number"}};
constexpr Part kPartsOfDiagnostic[] = {{"/slug", &Json::is_string, "a string"}};

void check(const std::string& file, const std::string& where, const Json& json,
           std::span<const Part> parts) {
  for (const Part& part : parts) {
    const Json::json_pointer pointer(part.path);
    if (!json.contains(pointer) || !(json[pointer].*part.is)())
      throw InputError("bad-input", file + " is no report of a run: its " + where + part.path +
                                        " is not " + part.what);
  }
}

Json read(const std::string& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 26;
  Json json = Json::parse(read_file(file, kMostBytes), nullptr, false);
  if (json.is_discarded() || !json.is_object() || json.value("schema", Json()) != "tessera.run/1") {
    throw InputError("bad-input", file + " is no report of a run",
                     "tessera run KERNEL --json " + file);
  }
  check(file, "", json, kParts);
  for (const Json& ref : json["traffic"]["refs"]) check(file, "/traffic/refs", ref, kPartsOfRef);
  for (const Json& d : json["diagnostics"]) check(file, "/diagnostics", d, kPartsOfDiagnostic);
  return json;
}

std::string text_of(const Json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_number_integer()) return with_commas(value.get<std::int64_t>());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Changes {
 public:
  void value(const std::string& what, const Json& a, const Json& b) {
    if (a == b) return;
    ++count_;
    std::string how;
    if (a.is_number() && b.is_number() && a.get<double>() != 0)
      how = fmt::format("  ({:+.1f} %)", 100 * (b.get<double>() / a.get<double>() - 1));
    fmt::print("{:<28} {:>20} -> {}{}\n", printable(what), text_of(a), text_of(b), how);
  }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

Json at(const Json& json, const char* path) {
  const Json::json_pointer pointer(path);
  return json.contains(pointer) ? json[pointer] : Json(nullptr);
}

Json ref_named(const Json& run, const std::string& name) {
  for (const auto& ref : run["traffic"]["refs"])
    if (ref["name"] == name) return ref;
  return nullptr;
}

}  // namespace

int compare_reports(const std::string& first, const std::string& second) {
  const Json a = read(first);
  const Json b = read(second);
  Changes changes;
  for (const char* path : {"/kernel/name", "/kernel/dtype", "/device", "/backend/ran", "/numerics"})
    changes.value(path + 1, at(a, path), at(b, path));
  std::set<std::string> params;
  for (const Json* run : {&a, &b}) {
    const Json given = at(*run, "/kernel/params");
    for (const auto& [name, value] : given.items()) params.insert(name);
  }
  for (const auto& name : params)
    changes.value(name, a["kernel"]["params"].value(name, Json()),
                  b["kernel"]["params"].value(name, Json()));
  changes.value("steps", a["steps"], b["steps"]);
  std::vector<std::string> refs;
  for (const Json* run : {&a, &b}) {
    for (const auto& ref : (*run)["traffic"]["refs"]) {
      const std::string name = ref["name"];
      if (std::find(refs.begin(), refs.end(), name) == refs.end()) refs.push_back(name);
    }
  }
  for (const auto& name : refs) {
    const Json x = ref_named(a, name);
    const Json y = ref_named(b, name);
    for (const char* count : {"transfers", "elided", "bytes", "padded_bytes"}) {
      changes.value(name + " " + count, x.is_null() ? x : x[count], y.is_null() ? y : y[count]);
    }
  }
  for (const char* path :
       {"/traffic/hbm_read_bytes", "/traffic/hbm_write_bytes", "/traffic/remote_bytes",
        "/memory/vmem_peak_bytes", "/memory/smem_peak_bytes", "/ops/flops", "/ops/transcendentals",
        "/timeline/seconds", "/timeline/binds", "/timeline/dram_read_bytes",
        "/timeline/dram_write_bytes", "/validation/passed", "/validation/max_ulp"})
    changes.value(path + 1, at(a, path), at(b, path));
  const auto slugs = [](const Json& run) {
    std::set<std::string> all;
    for (const auto& d : run["diagnostics"]) all.insert(d["slug"]);
    return Json(all);
  };
  changes.value("diagnostics", slugs(a), slugs(b));
  if (changes.count() == 0) fmt::print("the same but for the time that they took\n");
  return 0;
}

}  // namespace tessera::cli
