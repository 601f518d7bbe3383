#include "report/run_report.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/diagnostics/slugs.hpp"

namespace tessera::report {

RunReport report_of(const RunResult& result, const RunOptions& options) {
  RunReport r;
  r.device = options.device;
  r.threads = options.threads > 0 ? options.threads : omp_get_max_threads();
  if (result.on_machine) {
    r.threads = 1;
    r.schedule = to_string(result.schedule);
    r.schedules = result.schedules;
  }
  r.mesh = options.mesh;
  r.cores = options.cores;
  r.dry = result.dry;
  r.no_work = result.no_work;
  r.profile = options.profile;
  r.grid = result.grid;
  r.steps = result.steps;
  r.undefined = result.undefined;
  r.ledger = result.ledger();
  r.allocations = result.plan.allocations;
  r.vmem_capacity = result.plan.vmem_limit > 0 ? result.plan.vmem_capacity() : r.device.vmem_bytes;
  r.vmem_in_doubt = vmem_in_doubt(result.plan);
  r.flops = result.flops;
  r.transcendentals = result.transcendentals;
  r.scopes = result.scopes;
  r.diagnostics = result.diagnostics;
  r.notes = result.notes;
  r.seconds = result.seconds;
  return r;
}

void add_timeline(RunReport& r, const RunResult& result, std::size_t most_spans,
                  std::optional<predict::CompiledKernel> compiled) {
  if (!result.ok() || result.trace.most == 0) return;
  r.timeline = predict::timeline_of(result.plan, result.trace, r.dtype,
                                    {.most_spans = most_spans,
                                     .cores = r.cores,
                                     .mesh = r.mesh,
                                     .compiled = std::move(compiled)});
  r.costs = line_costs(result, *r.timeline, r.cores);
}

Roofline roofline(const RunReport& r) {
  Roofline line;
  auto bytes = static_cast<double>(r.ledger.hbm_read_bytes() + r.ledger.hbm_write_bytes());
  auto padded =
      static_cast<double>(r.ledger.padded_hbm_read_bytes() + r.ledger.padded_hbm_write_bytes());
  // On a GPU the ledger's bytes are those between L2 and the SMs.
  if (r.timeline && r.timeline->dram_read_bytes > 0) {
    bytes = static_cast<double>(r.timeline->dram_read_bytes + r.timeline->dram_write_bytes);
    padded = bytes;
  }
  double devices = 1;
  for (const int extent : r.mesh) devices *= extent;
  const double peak = r.device.peak(r.dtype);
  if (bytes > 0) line.intensity = static_cast<double>(r.flops) / bytes;
  line.memory_seconds = padded / (devices * r.device.hbm_bytes_per_s);
  if (peak > 0) {
    line.ridge = peak / r.device.hbm_bytes_per_s;
    line.compute_seconds = static_cast<double>(r.flops) / (devices * peak);
  }
  return line;
}

namespace {
bool predicted(const RunReport& r) { return r.timeline && r.timeline->unmodelled.empty(); }
}  // namespace

double rank_seconds(const RunReport& r) {
  return predicted(r) ? r.timeline->seconds : roofline(r).memory_seconds;
}

std::string waited_for(const Ledger& ledger, const predict::Stall& stall) {
  const std::string ref =
      stall.ref < 0 ? "?" : ledger.refs()[static_cast<std::size_t>(stall.ref)].name;
  switch (stall.why) {
    case predict::Stall::Why::block:
      return "blocks of " + ref;
    case predict::Stall::Why::buffer:
      return ref + " to be written back";
    case predict::Stall::Why::copy:
      return "copies of " + ref;
    case predict::Stall::Why::remote:
      return ref + " between devices";
    case predict::Stall::Why::signal:
      return "signals";
  }
  return "";
}

std::vector<predict::Stall> by_cause(const std::vector<predict::Stall>& stalls) {
  std::vector<predict::Stall> merged;
  for (const predict::Stall& s : stalls) {
    const auto same = std::ranges::find_if(
        merged, [&](const predict::Stall& m) { return m.why == s.why && m.ref == s.ref; });
    if (same == merged.end())
      merged.push_back({s.why, s.ref, s.seconds});
    else
      same->seconds += s.seconds;
  }
  std::ranges::stable_sort(merged, std::greater{}, &predict::Stall::seconds);
  return merged;
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

namespace {

using Json = nlohmann::ordered_json;

std::string settings(const RunReport& r) {
  std::string text;
  for (const auto& [name, value] : r.sizes) {
    const auto whole = static_cast<std::int64_t>(value);
    text += static_cast<double>(whole) == value ? fmt::format(" {}={}", name, whole)
                                                : fmt::format(" {}={:g}", name, value);
  }
  text += " ";
  for (const auto& [name, value] : r.tiles) text += fmt::format(" {}={}", name, value);
  return text;
}

/// Scratch that no copy counts on: a row that says nothing.
bool unused(const RefTotals& ref) {
  return ref.transfers == 0 && std::string_view(ref.direction) == "scratch";
}

std::string traffic_table(const RunReport& r) {
  std::size_t width = 3;
  for (const auto& ref : r.ledger.refs())
    if (!unused(ref)) width = std::max(width, ref.name.size());
  const auto row = [&](const std::string& lead, const std::string& name,
                       const std::string& direction, const std::string& transfers,
                       const std::string& elided, const std::string& bytes,
                       const std::string& padded) {
    return fmt::format("{:<11} {:<{}}  {:<6} {:>11} {:>11} {:>16} {:>16}\n", lead, name, width,
                       direction, transfers, elided, bytes, padded);
  };
  std::string text = row("traffic", "ref", "", "transfers", "elided", "bytes", "padded bytes");
  for (const auto& ref : r.ledger.refs()) {
    if (unused(ref)) continue;
    text += row("", ref.name, ref.direction, with_commas(ref.transfers), with_commas(ref.elided),
                with_commas(ref.bytes), with_commas(ref.padded_bytes));
  }
  text += row("", "HBM", "read", "", "", with_commas(r.ledger.hbm_read_bytes()),
              with_commas(r.ledger.padded_hbm_read_bytes()));
  text += row("", "HBM", "write", "", "", with_commas(r.ledger.hbm_write_bytes()),
              with_commas(r.ledger.padded_hbm_write_bytes()));
  if (r.ledger.links().empty()) return text;
  std::int64_t most = 0;
  for (const auto& [link, bytes] : r.ledger.links()) most = std::max(most, bytes);
  return text + fmt::format("{:<11} {} bytes over {} links between devices, {} over the busiest\n",
                            "remote", with_commas(r.ledger.remote_bytes()), r.ledger.links().size(),
                            with_commas(most));
}

std::string lines_table(const RunReport& r) {
  if (r.lines.empty()) return "";
  const auto place = [](const LineTraffic& l) { return fmt::format("{}:{}", l.file, l.line); };
  std::size_t width = 0;
  std::size_t ref = 3;
  for (const LineTraffic& l : r.lines) {
    width = std::max(width, place(l).size());
    ref = std::max(ref, l.ref.size());
  }
  std::string text;
  for (const LineTraffic& l : r.lines) {
    std::string sectors;
    if (l.requests > 0) {
      sectors = fmt::format(", {} sectors, {:.3g} a request", with_commas(l.sectors),
                            static_cast<double>(l.sectors) / static_cast<double>(l.requests));
    }
    text += fmt::format("{:<11} {:<{}}  {:<{}} {:>11} times {:>16} bytes {}{}\n",
                        text.empty() ? "lines" : "", place(l), width, l.ref, ref,
                        with_commas(l.times), with_commas(l.read_bytes + l.write_bytes),
                        l.write_bytes == 0  ? "read"
                        : l.read_bytes == 0 ? "written"
                                            : "updated",
                        sectors);
  }
  return text + "\n";
}

/// A model's cycles where the device's clock is known; else none.
std::optional<double> clock_of(const RunReport& r) {
  const auto clock = r.device.model.find("clock");
  if (clock == r.device.model.end()) return std::nullopt;
  return clock->second.value;
}

/// What lines of bodies cost, if more is known of any than the bytes of its operands.
std::string costs_table(const RunReport& r) {
  constexpr std::size_t kMost = 12;
  if (!predicted(r)) return "";
  const bool body_lines =
      !r.timeline->lines.empty() ||
      std::ranges::any_of(r.timeline->stalls, [](const auto& s) { return s.line > 0; });
  if (!body_lines) return "";
  const std::optional<double> clock = clock_of(r);
  const auto time = [&](double seconds) {
    if (seconds <= 0) return std::string();
    return clock ? with_commas(std::llround(seconds * *clock)) : duration(seconds);
  };
  const auto place = [](const LineCost& c) {
    return c.line == 0 ? std::string("the pipeline itself") : fmt::format("{}:{}", c.file, c.line);
  };
  std::size_t width = 0;
  const std::size_t shown = std::min(kMost, r.costs.size());
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, place(r.costs[i]).size());
  const bool computes = !r.timeline->lines.empty();
  const auto row = [&](const char* lead, const std::string& at, const std::string& bytes,
                       const std::string& computing, const std::string& waiting,
                       const std::string& reasons) {
    std::string text = fmt::format("{:<11} {:<{}} {:>16}", lead, at, width, bytes);
    if (computes) text += fmt::format(" {:>12}", computing);
    text += fmt::format(" {:>12}  {}", waiting, reasons);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = row("lines", "", "bytes", clock ? "cycles" : "computing", "waiting",
                         clock ? "for, in cycles" : "for");
  for (std::size_t i = 0; i < shown; ++i) {
    const LineCost& c = r.costs[i];
    std::string reasons;
    for (const predict::Stall& s : c.stalls)
      reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", waited_for(r.ledger, s),
                             c.stalls.size() == 1 ? "" : time(s.seconds));
    const std::int64_t bytes = c.read_bytes + c.write_bytes + c.remote_bytes;
    text += row("", place(c), bytes > 0 ? with_commas(bytes) : "", time(c.compute_seconds),
                time(c.stalled_seconds()), reasons);
  }
  if (r.costs.size() > shown)
    text += fmt::format("{:<11} and {} more\n", "", r.costs.size() - shown);
  return text + "\n";
}

std::string memory_line(const RunReport& r, Space space, std::int64_t capacity) {
  const std::int64_t used = bytes_in(r.allocations, space);
  if (used == 0) return "";
  std::string parts;
  for (const auto& a : r.allocations) {
    if (a.space != space) continue;
    parts += fmt::format("{}{}", parts.empty() ? "" : ", ", a.name);
    if (a.copies > 1) parts += fmt::format(" x{}", a.copies);
  }
  // Scratch of a GPU's kernel that its peers reach.
  if (space == Space::hbm) parts += "; not in HBM read and write";
  return fmt::format("{:<11} {} of {} ({:.1f} %): {}\n", name(space), human_bytes(used),
                     human_bytes(capacity),
                     100. * static_cast<double>(used) / static_cast<double>(capacity), parts);
}

std::string limits(const RunReport& r) {
  const Roofline line = roofline(r);
  if (!r.no_work.empty()) {
    return fmt::format("{:<11} not counted: {}; HBM alone takes {} at its full rate\n", "work",
                       r.no_work, duration(line.memory_seconds));
  }
  std::string text =
      fmt::format("{:<11} {} FLOP, {} transcendental; {:.3g} FLOP per HBM byte", "work",
                  with_commas(r.flops), with_commas(r.transcendentals), line.intensity);
  if (line.ridge == 0) {
    return text + fmt::format("\n{:<11} {} has no peak rate for {}; HBM alone takes {}\n",
                              "bound by", r.device.name, name(r.dtype),
                              duration(line.memory_seconds));
  }
  text += fmt::format(", ridge of {} at {:.3g}\n", r.device.name, line.ridge);
  const std::string rates =
      fmt::format("{} for the HBM's bytes, {} for the {} FLOP", duration(line.memory_seconds),
                  duration(line.compute_seconds), name(r.dtype));
  // A timeline knows more (links, latency) and says what binds; then this is no verdict.
  if (predicted(r)) return text + fmt::format("{:<11} {}\n", "full rates", rates);
  const bool memory = line.memory_seconds >= line.compute_seconds;
  return text + fmt::format("{:<11} {}: {}, at full rates\n", "bound by",
                            memory ? "HBM bandwidth" : "compute", rates);
}

std::string timeline_lines(const RunReport& r) {
  if (!r.timeline) return "";
  const predict::Timeline& t = *r.timeline;
  if (!t.unmodelled.empty()) return fmt::format("{:<11} no: {}\n", "predicted", t.unmodelled);
  const auto percent = [&](double seconds) { return 100 * seconds / t.seconds; };
  std::string text = fmt::format(
      "{:<11} {} on {}: {:.0f} % computing, {:.0f} % waiting for data, {:.0f} % idle; bound by "
      "{}\n",
      "predicted", duration(t.seconds), r.device.name, percent(t.compute_seconds),
      percent(t.exposed_seconds), percent(t.idle_seconds), t.binds);
  std::string stalls;
  for (const predict::Stall& s : by_cause(t.stalls)) {
    if (percent(s.seconds) < 0.5) continue;
    stalls += fmt::format("{}{:.0f} % {}", stalls.empty() ? "waiting for " : ", ",
                          percent(s.seconds), waited_for(r.ledger, s));
  }
  if (!stalls.empty()) text += fmt::format("{:<11} {}\n", "", stalls);
  if (t.phases.size() > 1) {
    std::string phases;
    for (const predict::Phase& p : t.phases)
      phases += fmt::format("{}{}{:.0f} % {}", phases.empty() ? "" : ", ",
                            phases.empty() ? "first " : "then ", percent(p.end - p.begin), p.binds);
    text += fmt::format("{:<11} {}\n", "", phases);
  }
  if (t.most_seconds > 0) {
    text += fmt::format(
        "{:<11} from {} to {}, as nine in ten kernels that it was not fitted to; by the {}\n", "",
        duration(t.least_seconds), duration(t.most_seconds), t.model);
  }
  if (!t.left_out.empty()) text += fmt::format("{:<11} without {}\n", "", t.left_out);
  if (!t.why_model.empty()) text += fmt::format("{:<11} by {}: {}\n", "", t.model, t.why_model);
  if (!t.warning.empty()) text += fmt::format("{:<11} {}\n", "", t.warning);
  if (t.compiled) {
    text += fmt::format("{:<11} nvcc's code: {} registers a thread, {} bytes of local memory\n", "",
                        t.compiled->registers, with_commas(t.compiled->local_bytes));
  }
  if (r.device.kind == DeviceSpec::Kind::gpu) {
    text += fmt::format("{:<11} {} bytes from L2 to SMs; DRAM reads {}, writes {}\n", "",
                        with_commas(t.l2_to_core_bytes), with_commas(t.dram_read_bytes),
                        with_commas(t.dram_write_bytes));
    if (!t.dram_left_out.empty())
      text += fmt::format("{:<11} DRAM's without {}\n", "", t.dram_left_out);
  }
  return text;
}

/// The longest stretches of the compiler's schedule.
constexpr std::size_t kShownRegions = 6;

/// Of small operands, which the ledger and costs of units have in HBM, the schedule copies nothing.
std::string kept_in_vmem(const predict::TpuSchedule& s) {
  std::string names;
  for (const predict::ScheduleOperand& o : s.operands) {
    if (o.space != "vmem" || o.bytes.transfers > 0) continue;
    names += (names.empty() ? "" : ", ") + (o.name.empty() ? fmt::format("{}", o.index) : o.name);
  }
  if (names.empty()) return "";
  return fmt::format(
      "{:<11} XLA keeps {} in VMEM, whose blocks are not copied (larger ones it leaves in HBM, as "
      "--timing units and the bytes above have them)\n",
      "", names);
}

std::string schedule_lines(const RunReport& r) {
  if (!r.compiled) return "";
  const predict::TpuSchedule& s = *r.compiled;
  const auto percent = [&](double cycles) { return 100 * cycles / s.cycles; };
  std::string text = fmt::format(
      "{:<11} of {}: {:.0f} cycles at {:g} GHz, {} bundles; {:.0f} % wait, {:.0f} % keep the "
      "pipeline going (scalars alone)\n",
      "schedule", r.compiled_by, s.cycles, s.clock_hz * 1e-9, with_commas(s.bundles),
      percent(s.waiting), percent(s.overhead));
  std::string units;
  for (std::size_t u = 0; u < predict::kUnits; ++u) {
    if (s.used[u] <= 0) continue;
    units += fmt::format("{}{} {:.0f} %", units.empty() ? "" : ", ", predict::kUnitNames[u],
                         100 * s.used[u]);
  }
  text += fmt::format("{:<11} slots in use: {}\n", "", units);
  if (s.spill_stores + s.spill_loads > 0) {
    text += fmt::format("{:<11} registers spilled {} times, filled {} times\n", "",
                        with_commas(s.spill_stores), with_commas(s.spill_loads));
  }
  text += kept_in_vmem(s);
  for (std::size_t i = 0; i < std::min(s.regions.size(), kShownRegions); ++i) {
    const predict::ScheduleRegion& region = s.regions[i];
    text +=
        fmt::format("{:<11} bundles {:#x} to {:#x}: {} times, {:.0f} % of the time, bound by {}\n",
                    "", region.begin, region.end - 1, with_commas(region.times),
                    percent(region.cycles), region.binds);
  }
  return text;
}

Json shares_json(const predict::UnitShares& used) {
  Json json = Json::object();
  for (std::size_t u = 0; u < predict::kUnits; ++u) json[predict::kUnitNames[u]] = used[u];
  return json;
}

Json schedule_json(const RunReport& r) {
  const predict::TpuSchedule& s = *r.compiled;
  Json regions = Json::array();
  for (const predict::ScheduleRegion& region : s.regions) {
    regions.push_back({{"begin", region.begin},
                       {"end", region.end},
                       {"times", region.times},
                       {"cycles", region.cycles},
                       {"waiting_cycles", region.waiting},
                       {"binds", region.binds},
                       {"used", shares_json(region.used)}});
  }
  Json operands = Json::array();
  for (const predict::ScheduleOperand& o : s.operands) {
    operands.push_back(
        {{"index", o.index},
         {"type", o.type},
         {"shape", std::vector(o.shape.dims.begin(), o.shape.dims.begin() + o.shape.rank)},
         {"name", o.name},
         {"output", o.output},
         {"space", o.space},
         {"read_bytes", o.bytes.read},
         {"write_bytes", o.bytes.written},
         {"transfers", o.bytes.transfers}});
  }
  return {{"compiler", r.compiled_by},
          {"clock_hz", s.clock_hz},
          {"bundles", s.bundles},
          {"cycles", s.cycles},
          {"issued_cycles", s.issued},
          {"waiting_cycles", s.waiting},
          {"overhead_cycles", s.overhead},
          {"used", shares_json(s.used)},
          {"unit", s.unit},
          {"spill_stores", s.spill_stores},
          {"spill_loads", s.spill_loads},
          {"regions", regions},
          {"operands", operands}};
}

Json stalls_json(const RunReport& r, const std::vector<predict::Stall>& of) {
  const std::optional<double> clock = clock_of(r);
  Json stalls = Json::array();
  for (const predict::Stall& s : of) {
    stalls.push_back(
        {{"why", name(s.why)},
         {"ref",
          s.ref < 0 ? Json(nullptr) : Json(r.ledger.refs()[static_cast<std::size_t>(s.ref)].name)},
         {"seconds", s.seconds}});
    if (clock) stalls.back()["cycles"] = s.seconds * *clock;
  }
  return stalls;
}

Json lines_json(const RunReport& r) {
  const std::optional<double> clock = clock_of(r);
  const bool known = r.timeline && !r.timeline->lines.empty();
  Json lines = Json::array();
  for (const LineCost& c : r.costs) {
    lines.push_back({{"file", c.line > 0 ? Json(c.file) : Json(nullptr)},
                     {"line", c.line > 0 ? Json(c.line) : Json(nullptr)},
                     {"text", c.text},
                     {"read_bytes", c.read_bytes},
                     {"write_bytes", c.write_bytes},
                     {"remote_bytes", c.remote_bytes},
                     {"compute_seconds", known ? Json(c.compute_seconds) : Json(nullptr)},
                     {"stalls", stalls_json(r, c.stalls)}});
    if (known && clock) lines.back()["compute_cycles"] = c.compute_seconds * *clock;
  }
  return lines;
}

/// Of nvcc's code, what a prediction reads; null where registers are an estimate.
Json code_json(const std::optional<predict::CompiledKernel>& code) {
  if (!code) return nullptr;
  predict::CodePart all = predict::whole(*code);
  return {{"by", "nvcc"},
          {"registers", code->registers},
          {"local_bytes", code->local_bytes},
          {"local_load_bytes", all.load_bytes},
          {"local_store_bytes", all.store_bytes},
          {"bytes", code->code_bytes}};
}

Json timeline_json(const RunReport& r) {
  const predict::Timeline& t = *r.timeline;
  if (!t.unmodelled.empty()) return {{"unmodelled", t.unmodelled}};
  Json busy = Json::object();
  for (const predict::Resource& resource : t.busy) busy[resource.name] = resource.busy;
  Json phases = Json::array();
  for (const predict::Phase& p : t.phases)
    phases.push_back({{"begin", p.begin}, {"end", p.end}, {"binds", p.binds}});
  return {{"model", t.model},
          {"why_model", t.why_model},
          {"seconds", t.seconds},
          {"least_seconds", t.least_seconds},
          {"most_seconds", t.most_seconds},
          {"compute_seconds", t.compute_seconds},
          {"longest_compute_seconds", t.longest_compute_seconds},
          {"exposed_seconds", t.exposed_seconds},
          {"idle_seconds", t.idle_seconds},
          {"binds", t.binds},
          {"left_out", t.left_out},
          {"warning", t.warning},
          {"code", code_json(t.compiled)},
          {"busy", busy},
          {"phases", phases},
          {"stalls", stalls_json(r, by_cause(t.stalls))},
          {"l2_to_core_bytes", t.l2_to_core_bytes},
          {"dram_read_bytes", t.dram_read_bytes},
          {"dram_write_bytes", t.dram_write_bytes},
          {"dram_left_out", t.dram_left_out}};
}

/// "on a mesh of 2x4 devices, schedule on_wait"
std::string machine_of(const RunReport& r) {
  std::string mesh;
  int devices = 1;
  for (const int extent : r.mesh) {
    mesh += fmt::format("{}{}", mesh.empty() ? "" : "x", extent);
    devices *= extent;
  }
  std::string text = devices == 1 ? "on the asynchronous machine" : "on " + mesh + " devices";
  if (r.cores > 1) text += fmt::format(" of {} cores", r.cores);
  return text + (r.schedules > 1 ? fmt::format(", {} schedules", r.schedules)
                                 : ", schedule " + r.schedule);
}

std::string elsewhere_lines(const Elsewhere& e) {
  std::string text;
  if (!e.launch.empty()) text += fmt::format("{:<11} {}\n", "launch", e.launch);
  if (!e.seconds.empty()) {
    std::vector<double> sorted = e.seconds;
    std::sort(sorted.begin(), sorted.end());
    text +=
        fmt::format("{:<11} {} the median of {} runs, {} the fastest\n", "time",
                    duration(sorted[sorted.size() / 2]), sorted.size(), duration(sorted.front()));
  }
  if (e.closed_form) {
    text += fmt::format(
        "{:<11} HBM read {} bytes, write {}: the closed form; --backend interpret "
        "counts them\n",
        "traffic", with_commas(e.closed_form->read), with_commas(e.closed_form->write));
  }
  return text;
}

}  // namespace

std::string text_of(const RunReport& r) {
  std::string text = fmt::format("{}  {} {}", r.kernel, name(r.dtype), settings(r));
  if (!r.case_name.empty()) text += "  " + r.case_name;
  std::string grid;
  for (const int extent : r.grid) grid += fmt::format("{}{}", grid.empty() ? "" : " x ", extent);
  if (grid.empty()) grid = "of one step";
  const std::string where =
      r.schedule.empty() ? fmt::format("on {} thread{}", r.threads, r.threads == 1 ? "" : "s")
                         : machine_of(r);
  const std::string products =
      r.profile == Profile::exact ? "" : fmt::format(", products as {}", name(r.profile));
  if (r.elsewhere) {
    text += r.backend_ran == "reference"
                ? "\nits reference alone, in f64\n"
                : fmt::format("\nran as CUDA on {}\n\n", r.elsewhere->where);
  } else {
    text += fmt::format("\n{} ({}), grid {}, {} steps, ", r.device.name, r.device.title, grid,
                        with_commas(r.steps));
    text += r.dry ? fmt::format("counted in {}\n\n", duration(r.seconds))
                  : fmt::format("interpreted in {} {}{}\n\n", duration(r.seconds), where, products);
  }
  if (r.choice)
    text += fmt::format("{:<11} by the {} tier: {}\n\n", "tiles", r.choice->tier,
                        r.choice->said.back().second);
  if (r.dry) {
    text += fmt::format("{:<11} no: --dry computes nothing\n\n", "validated");
  } else if (r.validation && r.validation->passed) {
    text += fmt::format(
        "{:<11} agrees with reference::{}: off by at most {:.3g}, and by {:.0f} % of the error "
        "bound\n\n",
        "validated", r.validation->reference, r.validation->max_abs_err,
        100 * r.validation->worst_of_bound);
  } else if (!r.validated.empty()) {
    text += fmt::format("{:<11} {}\n\n", "validated", r.validated);
  } else if (!r.validation && r.diagnostics.empty() && r.backend_ran != "reference") {
    text += fmt::format("{:<11} no: --no-check\n\n", "validated");
  }
  if (r.elsewhere) return text + elsewhere_lines(*r.elsewhere);
  text += traffic_table(r) + "\n";
  text += lines_table(r);
  text += costs_table(r);
  text += memory_line(r, Space::hbm, r.device.hbm_bytes);
  text += memory_line(r, Space::vmem, r.vmem_capacity);
  text += memory_line(r, Space::smem, r.device.smem_bytes);
  text += limits(r);
  text += timeline_lines(r);
  text += schedule_lines(r);
  for (const auto& [region, totals] : r.scopes) {
    text += fmt::format("{:<11} {}: entered {} times, {} FLOP, {} transcendental\n", "scope",
                        region, with_commas(totals.entries), with_commas(totals.flops),
                        with_commas(totals.transcendentals));
  }
  for (const std::string& change : r.advice)
    text += fmt::format("{:<11} {}\n", &change == r.advice.data() ? "try" : "", change);
  for (const std::string& note : r.notes) text += fmt::format("{:<11} {}\n", "note", note);
  return text;
}

namespace {

Json kernel_json(const RunReport& r) {
  Json params = Json::object();
  for (const auto& [name, value] : r.sizes) {
    if (value == static_cast<double>(static_cast<std::int64_t>(value)))
      params[name] = static_cast<std::int64_t>(value);
    else
      params[name] = value;
  }
  for (const auto& [name, value] : r.tiles) params[name] = value;
  return {
      {"name", r.kernel}, {"params", params}, {"dtype", name(r.dtype)}, {"frontend", r.frontend}};
}

Json choice_json(const Choice& choice) {
  Json said = Json::array();
  for (const auto& [tier, what] : choice.said) said.push_back({{"tier", tier}, {"said", what}});
  return {{"tier", choice.tier}, {"tiers", said}};
}

Json backend_json(const RunReport& r) {
  Json backend{{"requested", r.backend_requested}, {"ran", r.backend_ran}, {"why", r.backend_why}};
  if (r.elsewhere) {
    backend["launch"] = r.elsewhere->launch;
    backend["run_seconds"] = r.elsewhere->seconds;
  }
  return backend;
}

Json traffic_json(const RunReport& r) {
  Json refs = Json::array();
  for (const auto& ref : r.ledger.refs()) {
    if (unused(ref)) continue;
    refs.push_back({{"name", ref.name},
                    {"direction", ref.direction},
                    {"transfers", ref.transfers},
                    {"elided", ref.elided},
                    {"bytes", ref.bytes},
                    {"padded_bytes", ref.padded_bytes}});
  }
  Json links = Json::array();
  for (const auto& [link, bytes] : r.ledger.links()) {
    links.push_back({{"from", link.first}, {"to", link.second}, {"remote_bytes", bytes}});
  }
  Json lines = Json::array();
  for (const LineTraffic& l : r.lines) {
    lines.push_back({{"file", l.file},
                     {"line", l.line},
                     {"column", l.column},
                     {"ref", l.ref},
                     {"times", l.times},
                     {"read_bytes", l.read_bytes},
                     {"write_bytes", l.write_bytes}});
    if (l.requests == 0) continue;
    lines.back()["requests"] = l.requests;
    lines.back()["sectors"] = l.sectors;
    lines.back()["l2_sectors"] = l.l2_sectors;
  }
  Bytes hbm{r.ledger.hbm_read_bytes(), r.ledger.hbm_write_bytes()};
  if (r.elsewhere && r.elsewhere->closed_form) hbm = *r.elsewhere->closed_form;
  return {{"hbm_read_bytes", hbm.read},
          {"hbm_write_bytes", hbm.write},
          {"remote_bytes", r.ledger.remote_bytes()},
          {"links", links},
          {"padded_hbm_read_bytes", r.ledger.padded_hbm_read_bytes()},
          {"padded_hbm_write_bytes", r.ledger.padded_hbm_write_bytes()},
          {"refs", refs},
          {"lines", lines}};
}

Json memory_json(const RunReport& r) {
  Json buffers = Json::array();
  for (const Allocation& a : r.allocations) {
    buffers.push_back({{"name", a.name},
                       {"space", name(a.space)},
                       {"what", describe(a.dtype, a.shape)},
                       {"copies", a.copies},
                       {"bytes", a.total_bytes()}});
  }
  return {{"vmem_peak_bytes", bytes_in(r.allocations, Space::vmem)},
          {"vmem_capacity_bytes", r.vmem_capacity},
          {"smem_peak_bytes", bytes_in(r.allocations, Space::smem)},
          {"buffers", buffers}};
}

Json roofline_json(const RunReport& r) {
  const Roofline line = roofline(r);
  double devices = 1;
  for (const int extent : r.mesh) devices *= extent;
  return {{"intensity", line.intensity},
          {"ridge", line.ridge},
          {"peak_flops", r.device.peak(r.dtype) * devices},
          {"hbm_bytes_per_s", r.device.hbm_bytes_per_s * devices}};
}

Json scopes_json(const RunReport& r) {
  Json scopes = Json::array();
  for (const auto& [region, totals] : r.scopes) {
    scopes.push_back({{"name", region},
                      {"entries", totals.entries},
                      {"flops", totals.flops},
                      {"transcendentals", totals.transcendentals}});
  }
  return scopes;
}

Json validation_json(const RunReport& r) {
  if (!r.validation) return nullptr;
  return {{"reference", r.validation->reference},
          {"passed", r.validation->passed},
          {"max_abs_err", r.validation->max_abs_err},
          {"max_rel_err", r.validation->max_rel_err},
          {"max_ulp", r.validation->max_ulp}};
}

Json diagnostics_json(const RunReport& r) {
  Json diagnostics = Json::array();
  for (const auto& d : r.diagnostics) {
    diagnostics.push_back({{"slug", d.slug}, {"kind", name(d.kind)}, {"message", d.text()}});
  }
  return diagnostics;
}

}  // namespace

std::string json_of(const RunReport& r) {
  Json json{
      {"schema", "tessera.run/1"},
      {"kernel", kernel_json(r)},
      {"device", r.device.name},
      {"backend", backend_json(r)},
      {"numerics", r.elsewhere && r.elsewhere->tensor_cores ? "tensorcore" : name(r.profile)},
      {"mesh", r.mesh},
      {"cores", r.cores},
      {"schedule", r.schedule.empty() ? Json(nullptr) : Json(r.schedule)},
      {"schedules", r.schedules},
      {"grid", r.grid},
      {"steps", r.steps},
      {"undefined", r.undefined},
      {"traffic", traffic_json(r)},
      {"memory", memory_json(r)},
      {"roofline", roofline_json(r)},
      {"dry", r.dry},
      {"ops", r.no_work.empty() ? Json{{"flops", r.flops}, {"transcendentals", r.transcendentals}}
                                : Json(nullptr)},
      {"scopes", scopes_json(r)},
      {"timeline", r.timeline ? timeline_json(r) : Json(nullptr)},
      {"lines", lines_json(r)},
      {"rank_seconds", rank_seconds(r)},
      {"validation", validation_json(r)},
      {"diagnostics", diagnostics_json(r)}};
  if (r.choice) json["choice"] = choice_json(*r.choice);
  if (r.compiled) json["compiled_schedule"] = schedule_json(r);
  if (!r.notes.empty()) json["notes"] = r.notes;
  if (!r.advice.empty()) json["advice"] = r.advice;
  if (!r.vmem_in_doubt.empty()) json["memory"]["vmem_in_doubt"] = r.vmem_in_doubt;
  json["seconds"] = r.seconds;
  return json.dump(1) + "\n";
}

}  // namespace tessera::report
