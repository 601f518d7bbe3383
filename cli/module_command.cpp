// tessera run and tessera show of Mosaic modules: a .mlirbc or .mlir file, or the folder of a
// recorded call.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "cli/colour.hpp"
#include "cli/command_line.hpp"
#include "cli/compiled_timing.hpp"
#include "cli/module_call.hpp"
#include "cli/progress.hpp"
#include "cli/ranks.hpp"
#include "cli/recorded_module.hpp"
#include "memory_model/npy.hpp"
#include "pallas/extract.hpp"
#include "pallas/load.hpp"
#include "pallas/plan_module.hpp"
#include "program/debugger.hpp"
#include "program/print.hpp"
#include "program/units_json.hpp"
#include "report/run_report.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::cli {

namespace {

namespace fs = std::filesystem;

struct Agreement {
  bool passed = true;
  std::string text;
};

/// Within rtol |wanted| + atol, where the recorded result means something.
Agreement compare(const RunResult& result, const std::vector<pallas::ExpectedResult>& expected) {
  Agreement a;
  for (std::size_t j = 0; j < expected.size(); ++j) {
    const auto& e = expected[j];
    const auto against = [&](const Array& wanted, double rtol, double atol, bool recorded) {
      const Array& got = result.outputs[j];
      std::int64_t bad = 0;
      std::int64_t first = -1;
      double worst = 0;
      for (std::int64_t i = 0; i < got.elems(); ++i) {
        const double w = wanted.at(i);
        const double g = got.at(i);
        if (recorded && e.undefined && e.undefined->at(i) != 0) continue;
        if (recorded && !e.undefined && std::isnan(w)) continue;
        if (w == g || (std::isnan(w) && std::isnan(g))) continue;
        worst = std::max(worst, std::fabs(w - g));
        if (std::fabs(w - g) <= atol + rtol * std::fabs(w)) continue;
        if (bad++ == 0) first = i;
      }
      const char* const what = recorded ? "interpreter" : "reference";
      if (!a.text.empty()) a.text += "; ";
      a.text +=
          fmt::format("result {}: off by at most {:.3g} from the recorded {}", j, worst, what);
      if (bad > 0) {
        a.passed = false;
        a.text += fmt::format(", {} of {} elements beyond rtol {:g}, atol {:g}, the first at {}",
                              bad, got.elems(), rtol, atol, to_string(unravel(got.shape(), first)));
      }
    };
    if (e.interpreted && e.interpreted->shape() == result.outputs[j].shape())
      against(*e.interpreted, e.interpreted_rtol, e.interpreted_atol, true);
    if (e.reference && e.reference->shape() == result.outputs[j].shape())
      against(*e.reference, e.reference_rtol, e.reference_atol, false);
  }
  return a;
}

}  // namespace

int run_module_command(const RunArguments& a) {
  const auto backend = parse_backend(a.backend);
  if (backend && *backend != BackendKind::interpret)
    throw InputError("no-backend", "--backend " + a.backend +
                                       ": a Mosaic module runs in the interpreter alone "
                                       "(--backend interpret, or auto)");
  const std::unique_ptr<Transport> ranks = connect_ranks();
  const bool silent = ranks && ranks->rank() > 0;
  check_destinations(a);
  if (!a.assignments.empty())
    throw InputError("bad-input", "a module has no parameters; its shapes are fixed");
  stop_in_debugger(a);
  if (a.break_at) program::watch_lines();
  const std::optional<Recording> recording = recording_of(a);
  const pallas::RecordedCall r = call_of(a);
  if (a.break_at && !r.program->subcores.empty())
    throw InputError("bad-input",
                     "--break stops in TensorCore bodies; this module is a SparseCore's",
                     "--at i,j,... prints the blocks of a step");
  RunOptions options = call_options(a, r);
  options.break_at = a.break_at;
  if (a.break_at) options.threads = 1;
  options.transport = ranks.get();
  const Watch watch(a, r.program->grid.size(), options);
  options.command = command_of("run", a);
  RunResult result;
  {
    Progress progress(r.program->name);
    if (!silent) options.progress = [&](double done) { progress.show(done); };
    result = program::run_call(r.call, options);
  }
  watch.check(result);
  if (silent) return exit_code(result.diagnostics);

  report::RunReport report = report::report_of(result, options);
  report.kernel = r.program->name;
  report.frontend = "mosaic";
  report.dtype = program::main_dtype(*r.program);
  report.backend_why = "a TPU build runs on a TPU";
  if (a.timing == "compiler" && result.ok())
    add_module_timing(a, r, result, report);
  else
    report::add_timeline(report, result, spans_of(a));
  const bool ran = result.ok();  // whatever its results are compared with
  if (ran && !a.no_check && !a.dry && !r.expected.empty()) {
    const Agreement agreement = compare(result, r.expected);
    report.validated = agreement.text.empty() ? "no: nothing to compare with" : agreement.text;
    if (!agreement.passed) {
      result.diagnostics.push_back(
          {.slug = "mismatch",
           .headline = "the results are not those that were recorded",
           .fields = {{"kernel", r.program->name}, {"results", agreement.text}}});
    }
  } else if (ran) {
    report.validated = "no: nothing to compare with";
  }
  for (std::size_t j = 0; j < result.undefined.size() && ran; ++j) {
    if (result.undefined[j] == 0) continue;
    report.validated += fmt::format("; result {}: {} elements are left undefined", j,
                                    with_commas(result.undefined[j]));
  }
  if (recording) record_module(*recording, r, options, result, report);
  report.diagnostics = result.diagnostics;
  if (ran) fmt::print(prose_of(a), "{}", coloured_report(prose_of(a), report::text_of(report)));
  std::fflush(nullptr);
  for (const auto& d : result.diagnostics) say(d);
  if (!a.output.empty() && ran) {
    for (std::size_t j = 0; j < result.outputs.size(); ++j)
      write_npy(fmt::format("{}/out{}.npy", a.output, j), result.outputs[j]);
  }
  write_reports(a, report, result);
  return exit_code(result.diagnostics);
}

int extract_command(const std::string& file, const std::string& folder) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream || is_folder(file)) throw InputError("bad-input", "cannot read " + file);
  const std::string program((std::istreambuf_iterator<char>(stream)),
                            std::istreambuf_iterator<char>());
  const auto kernels = pallas::extract_kernels(program);
  if (kernels.empty()) {
    throw InputError(
        "bad-input", file + " holds no tpu_custom_call with a Mosaic module",
        "lower for a TPU: jax.jit(f).trace(*args).lower(lowering_platforms=(\"tpu\",)), "
        "or jax.export.export(jax.jit(f), platforms=[\"tpu\"])(*args).serialize()");
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto& k = kernels[i];
    const auto program_of =
        pallas::plan_module(pallas::load_module(k.module, fmt::format("kernel {}", i)));
    std::string grid;
    for (const std::int64_t extent : program_of->grid)
      grid += (grid.empty() ? "" : " x ") +
              (extent == program::kDynamic ? "dynamic" : std::to_string(extent));
    fmt::print("{:>3}  {:<40} grid {:<16} {:>6} ops  {} call{}\n", i, program_of->name,
               grid.empty() ? "of one step" : grid, program_of->operations, k.calls,
               k.calls == 1 ? "" : "s");
    if (folder.empty()) continue;
    const std::string to = fmt::format("{}/{}_{}", folder, i, program_of->name);
    std::error_code error;
    fs::create_directories(to, error);
    if (error) throw InputError("bad-input", "--output " + to + ": " + error.message());
    write_file_atomically(to + "/kernel.mlirbc", k.module);
    write_file_atomically(to + "/config.json", k.config);
  }
  return 0;
}

int show_module_command(const RunArguments& a) {
  const std::string file = !is_folder(a.kernel)                      ? a.kernel
                           : fs::exists(a.kernel + "/kernel.mlirbc") ? a.kernel + "/kernel.mlirbc"
                                                                     : a.kernel + "/kernel.mlir";
  const program::Module module = pallas::load_module_file(file);
  const auto program = pallas::plan_module(module);
  const program::Program& p = *program;
  if (a.steps) {
    fmt::print("{}", program::print(p));
    return 0;
  }
  if (a.units) {
    fmt::print("{}", program::units_json(p));
    return 0;
  }
  fmt::print("{}  (stable_mosaic version {})\n\n", p.name, module.version);
  std::string grid;
  std::size_t number = 0;
  for (std::size_t d = 0; d < p.grid.size(); ++d) {
    grid += fmt::format("{}{}{}", d > 0 ? ", " : "",
                        p.grid[d] == program::kDynamic ? "dynamic" : std::to_string(p.grid[d]),
                        p.parallel[d] ? " parallel" : "");
    number += p.grid[d] == program::kDynamic ? 1 : 0;
  }
  fmt::print("grid        {}\n", grid.empty() ? "one step" : grid);
  if (number > 0)
    fmt::print("\n  operands 0 to {}: the dynamic extents of the grid, i32\n", number - 1);
  fmt::print("\n  {:<8} {:<11} {:<6} {:<24} {}\n", "operand", "role", "space", "block", "buffers");
  const auto line = [&](const std::string& which, const char* role, const program::Window& w) {
    fmt::print("  {:<8} {:<11} {:<6} {:<24} {}\n", which, role, w.type.space,
               w.semaphores ? w.type.semaphore + to_string(w.type.shape)
                            : describe(w.type.dtype, w.type.shape),
               w.whole ? "" : std::to_string(w.slots));
  };
  for (const auto& w : p.prefetched) line(std::to_string(number++), "prefetched", w);
  const std::size_t inputs = inputs_of(p);
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    const bool input = i < inputs;
    line(input ? std::to_string(number++) : fmt::format("out{}", i - inputs), input ? "in" : "out",
         p.operands[i]);
  }
  std::int64_t vmem = 0;
  const DeviceSpec device =
      is_folder(a.kernel) ? device_of(a, pallas::device_of_call(a.kernel)) : find_device(a.device);
  for (const auto& list : {p.operands, p.scratch}) {
    for (const auto& w : list) {
      if (!w.any && !w.smem && !w.semaphores)
        vmem += w.slots * device.compact_bytes(w.type.dtype, w.type.shape);
    }
  }
  for (std::size_t i = 0; i < p.scratch.size(); ++i)
    line(fmt::format("scratch{}", i), "scratch", p.scratch[i]);
  fmt::print("\nVMEM        {} of {} on {}\n", human_bytes(vmem), human_bytes(device.vmem_bytes),
             device.name);
  std::map<std::string, int> counts;
  std::map<std::string, std::pair<int, int>> lines;
  const auto count = [&](const auto& self, const program::Region& r) -> void {
    for (const auto& op : r.operations) {
      ++counts[op.name];
      const auto& at = module.locations[static_cast<std::size_t>(op.location)];
      auto& range = lines.try_emplace(at.file, at.line, at.line).first->second;
      range = {std::min(range.first, at.line), std::max(range.second, at.line)};
      for (const auto& each : op.regions) self(self, each);
    }
  };
  for (const auto& f : module.functions) count(count, f.body);
  fmt::print("\nops\n");
  for (const auto& [name, n] : counts) fmt::print("  {:<30} {:>6}\n", name, n);
  fmt::print("\nlines\n");
  for (const auto& [name, range] : lines) {
    if (!name.empty()) fmt::print("  {}:{}-{}\n", name, range.first, range.second);
  }
  return 0;
}

}  // namespace tessera::cli
