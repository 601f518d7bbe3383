// tessera check: what the TPU's compiler says of Mosaic modules, and what tessera refuses by
// itself.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/compiled_timing.hpp"
#include "cli/module_call.hpp"
#include "cli/module_commands.hpp"
#include "cli/tpu_build.hpp"
#include "memory_model/npy.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "tpu_compiler/call_to_check.hpp"
#include "tpu_compiler/played.hpp"

namespace tessera::cli {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using tpu_compiler::Verdict;

/// What tessera says by itself, before a step has run.
struct Own {
  std::string slug;      ///< "" if nothing is wrong
  std::string headline;  ///< of what is
  std::string line;
  std::optional<std::int64_t> vmem_bytes;
};

struct Row {
  std::string device;
  Own own;
  std::optional<Verdict> compiler;
  std::optional<predict::TpuSchedule> schedule;
};

std::vector<DeviceSpec> devices_of(const std::string& list) {
  std::vector<DeviceSpec> devices;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    devices.push_back(find_device(word));
    const DeviceSpec& d = devices.back();
    if (d.kind != DeviceSpec::Kind::tpu || d.jax.chip.empty())
      throw InputError("bad-input", "--device " + word + " is no TPU that JAX knows");
  }
  if (devices.empty()) throw InputError("bad-input", "--device names no device");
  return devices;
}

/// The modules and calls in a path: itself, or those in its folders.
std::vector<std::string> modules_in(const std::string& path) {
  if (is_module(path)) return {path};
  std::vector<std::string> found;
  if (is_folder(path)) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (entry.is_directory(error) && is_module(entry.path().string()))
        found.push_back(entry.path().string());
    }
  }
  if (found.empty())
    throw InputError("bad-input", path + " is no Mosaic module, and no folder of recorded calls",
                     "tessera.capture(f, *args, folder=...) records the calls of a JAX program");
  std::sort(found.begin(), found.end());
  return found;
}

/// What is asked about: a module or a recorded call, or a kernel's TPU build.
struct Subject {
  std::string title;  ///< of the former: its path
  const KernelHandle* kernel = nullptr;
  RunArguments arguments;  ///< of the kernel
};

/// Words with "=" are a kernel's sizes and tiles, unless they name a file.
std::vector<Subject> subjects_of(const Kernels& kernels, const CheckArguments& c) {
  std::vector<std::string> paths;
  std::vector<std::string> names;
  RunArguments arguments = c.kernel;
  std::error_code error;
  for (const std::string& word : c.subjects) {
    if (is_module(word) || fs::exists(word, error))
      paths.push_back(word);
    else if (word.find('=') != std::string::npos)
      arguments.assignments.push_back(word);
    else
      names.push_back(word);
  }
  if (names.empty() && !arguments.assignments.empty())
    throw InputError("bad-input", "a module has no parameters; its shapes are fixed");
  std::vector<Subject> subjects;
  for (const std::string& path : paths) {
    for (std::string& module : modules_in(path))
      subjects.push_back({std::move(module), nullptr, {}});
  }
  for (const std::string& name : names) {
    arguments.kernel = name;
    std::string title = name;
    for (const std::string& word : arguments.assignments) title += " " + word;
    if (arguments.dtype != RunArguments{}.dtype) title += " --dtype " + arguments.dtype;
    if (arguments.case_index > 0) title += fmt::format(" --case {}", arguments.case_index);
    subjects.push_back({title, &kernels.find(name), arguments});
  }
  return subjects;
}

/// Throws InputError.
tpu_compiler::CallToCheck call_of(const Subject& subject, const DeviceSpec& device) {
  if (subject.kernel == nullptr) {
    return is_folder(subject.title) ? tpu_compiler::read_folder(subject.title)
                                    : tpu_compiler::read_module(subject.title);
  }
  Request request = request_of(*subject.kernel, subject.arguments);
  request.device = device;
  try {
    TpuCall built = tpu_call_of(*subject.kernel, request);
    tpu_compiler::CallToCheck c = tpu_compiler::call_to_check(subject.title, built.call);
    c.call.names = std::move(built.names);
    try {  // what is wrong with the spec is said in its own words
      Plan plan = subject.kernel->describe(request).plan;
      finish_plan(plan);
    } catch (const KernelError& e) {
      c.failure = e.diagnostic;
    }
    return c;
  } catch (const KernelError& e) {
    tpu_compiler::CallToCheck none;  // nothing that the compiler could be asked
    none.question.kernel = subject.title;
    none.failure = e.diagnostic;
    return none;
  }
}

Own own_verdict(const tpu_compiler::CallToCheck& call, const DeviceSpec& device) {
  Own own;
  try {
    if (call.failure) throw KernelError(*call.failure);
    RunOptions options;
    options.device = device;
    options.mesh = {call.devices};
    own.vmem_bytes = program::planned_vmem_bytes(call.call, options);
  } catch (const KernelError& e) {
    own.slug = e.diagnostic.slug;
    own.headline = e.diagnostic.headline;
    for (const auto& [what, text] : e.diagnostic.fields) {
      if (what == "line") own.line = text;
    }
  }
  return own;
}

std::string bytes_or(const std::optional<std::int64_t>& bytes) {
  return bytes ? human_bytes(*bytes) : "";
}

std::string where(const Verdict& v) {
  return v.file.empty() ? "" : source_excerpt({v.file.c_str(), v.line});
}

void print(const std::string& title, const std::vector<Row>& rows) {
  fmt::print("{}\n  {:<10} {:<9} {:>12} {:>12} {:>10} {:>10}\n", title, "device", "compiler",
             "VMEM", "tessera's", "spilled", "seconds");
  for (const Row& r : rows) {
    const std::string mine = r.own.slug.empty() ? bytes_or(r.own.vmem_bytes) : "refused";
    if (r.compiler) {
      const Verdict& v = *r.compiler;
      fmt::print("  {:<10} {:<9} {:>12} {:>12} {:>10} {:>10}\n", r.device, name(v.kind),
                 bytes_or(v.vmem_bytes), mine, bytes_or(v.spilled_bytes),
                 v.cached ? "cached" : fmt::format("{:.2f}", v.seconds));
      if (r.schedule && r.schedule->unmodelled.empty()) {
        const predict::TpuSchedule& s = *r.schedule;
        fmt::print(
            "    schedule {:.0f} cycles, {:.2f} us: bound by {}; {} is used most ({:.0f} %)\n",
            s.cycles, s.timeline.seconds * 1e6, s.timeline.binds, s.unit,
            100 * *std::max_element(s.used.begin(), s.used.end()));
      } else if (r.schedule) {
        fmt::print("    schedule no: {}\n", r.schedule->unmodelled);
      }
      if (!v.sentence.empty())
        fmt::print("    {}{}{}\n", v.code, v.code.empty() ? "" : ": ", v.sentence);
      if (const std::string at = where(v); !at.empty()) fmt::print("    line    {}\n", at);
    } else {
      fmt::print("  {:<10} {:<9} {:>12} {:>12}\n", r.device, "not asked", "", mine);
    }
    if (!r.own.slug.empty()) {
      fmt::print("    tessera: error[{}]: {}\n", r.own.slug, r.own.headline);
      if (!r.own.line.empty()) fmt::print("    line    {}\n", r.own.line);
    }
  }
}

Json json_of(const predict::TpuSchedule& s) {
  return {{"cycles", s.cycles},
          {"issued_cycles", s.issued},
          {"waiting_cycles", s.waiting},
          {"overhead_cycles", s.overhead},
          {"seconds", s.timeline.seconds},
          {"hbm_busy", s.timeline.busy[1].busy},
          {"binds", s.timeline.binds},
          {"unit", s.unit}};
}

Json json_of(const Row& r) {
  const auto number = [](const std::optional<std::int64_t>& n) { return n ? Json(*n) : Json(); };
  Json j{{"device", r.device},
         {"tessera",
          {{"refused", !r.own.slug.empty()},
           {"slug", r.own.slug},
           {"message", r.own.headline},
           {"line", r.own.line},
           {"vmem_bytes", number(r.own.vmem_bytes)}}}};
  if (r.schedule && !r.schedule->unmodelled.empty())
    j["schedule"] = {{"unmodelled", r.schedule->unmodelled}};
  else if (r.schedule)
    j["schedule"] = json_of(*r.schedule);
  if (r.compiler) j["compiler"] = Json::parse(tpu_compiler::json_of(*r.compiler));
  return j;
}

/// One that says no is worse than one that does not know.
int worse(int a, int b) { return a == 1 || b == 1 ? 1 : std::max(a, b); }

int code_of(const Row& r) {
  if (!r.own.slug.empty()) return 1;
  if (!r.compiler || r.compiler->kind == Verdict::Kind::accepted) return 0;
  return r.compiler->kind == Verdict::Kind::refused ? 1 : 3;
}

}  // namespace

int check_command(const Kernels& kernels, const CheckArguments& c) {
  const std::vector<DeviceSpec> devices = devices_of(c.devices);
  const std::vector<Subject> subjects = subjects_of(kernels, c);
  std::optional<tpu_compiler::TpuCompiler> compiler;
  if (!c.own) {
    tpu_compiler::Settings settings;
    settings.python = c.python;
    settings.time_limit = c.time_limit;
    if (c.brief) settings.listings = tpu_compiler::Settings::Listings::none;
    if (c.schedule) settings.listings = tpu_compiler::Settings::Listings::schedule;
    settings.note = [](const std::string& text) { fmt::print(stderr, "tessera: {}\n", text); };
    compiler.emplace(std::move(settings));
  }
  Json all = Json::array();
  int code = 0;
  for (const Subject& subject : subjects) {
    std::optional<tpu_compiler::CallToCheck> read;
    std::vector<Row> rows;
    Json list = Json::array();
    for (const DeviceSpec& device : devices) {
      // A module is the same for every device; a kernel is built for each.
      if (!read || subject.kernel != nullptr) read.emplace(call_of(subject, device));
      const tpu_compiler::CallToCheck& call = *read;
      Row r{
          .device = device.name, .own = own_verdict(call, device), .compiler = {}, .schedule = {}};
      if (compiler && !call.question.module.empty()) {
        tpu_compiler::Question q = call.question;
        q.chip = device.jax.chip;
        r.compiler = compiler->ask(q);
        if (c.schedule && r.compiler->kind == Verdict::Kind::accepted) {
          if (call.devices > 1) {
            r.schedule.emplace().unmodelled = tpu_compiler::kOneDevice;
          } else {
            const bool known = subject.kernel != nullptr;  // its prefetched arrays hold something
            r.schedule = tpu_compiler::played_schedule(compiler->libtpu(), *r.compiler, call.call,
                                                       known, device);
          }
        }
      }
      code = worse(code, code_of(r));
      list.push_back(json_of(r));
      rows.push_back(std::move(r));
    }
    if (c.json != "-") print(subject.title, rows);
    std::fflush(stdout);
    all.push_back({{"module", subject.title},
                   {"kernel", read->program ? read->program->name : read->question.kernel},
                   {"devices", list}});
  }
  if (compiler && c.json != "-") fmt::print("{}\n", compiler->version());
  if (!c.json.empty()) {
    const std::string text = Json{{"schema", "tessera.check/1"},
                                  {"compiler", compiler ? compiler->version() : ""},
                                  {"modules", all}}
                                 .dump(1) +
                             "\n";
    if (c.json == "-")
      fmt::print("{}", text);
    else
      write_file_atomically(c.json, text);
  }
  return code;
}

}  // namespace tessera::cli
