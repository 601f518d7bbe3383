// `tessera sweep K bm=64,128 --device A,B`: bytes, VMEM and predicted time of every combination,
// counted without data. `tessera advise K`: what binds, and which block shape near by moves it. The
// shapes of a Mosaic module are fixed: it is swept over devices, and advice on it is what it moves
// how often.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/advice.hpp"
#include "cli/module_commands.hpp"
#include "cli/points.hpp"
#include "cli/ranks.hpp"
#include "memory_model/npy.hpp"
#include "report/page.hpp"
#include "report/run_report.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::cli {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Point, device, assignments, reason, read, write, vmem, capacity,
                                   flops, seconds, rank_seconds, binds, note, model, why_model,
                                   bad_input)

namespace {

using Json = nlohmann::ordered_json;

/// What it does not do there: a compiler refuses what does not fit.
const char* lacks(const Point& p) {
  const bool fits =
      !p.reason.starts_with("vmem-capacity") && !p.reason.starts_with("smem-capacity");
  return fits ? "run on" : "compile for";
}

RunResult count_module(RunArguments a, const LoadedModule& module, Point& p) {
  a.dry = true;
  if (!p.device.empty()) a.device = p.device;
  RunOptions options = module.options(a);
  p.device = options.device.name;
  options.trace_steps = StepTrace::kMostSteps;
  RunResult result = module.run(options);
  p.capacity = result.plan.vmem_capacity();
  fill(p, result, module.dtype(), options);
  return result;
}
Count count_of(const RunArguments& arguments, const LoadedModule& module) {
  return [&arguments, &module](Point& p) { count_module(arguments, module, p); };
}

/// Every rank counts its share of the points; rank 0 then has all of them.
void count_shared(const std::string& name, const Count& count, std::vector<Point>& points,
                  int threads, Transport& ranks) {
  const auto mine = static_cast<std::size_t>(ranks.rank());
  const auto all = static_cast<std::size_t>(ranks.ranks());
  std::vector<Point> share;
  for (std::size_t i = mine; i < points.size(); i += all) share.push_back(points[i]);
  count_all(name, count, share, threads);
  std::vector<Transport::Message> outgoing(all);
  outgoing[0] = nlohmann::json::to_cbor(nlohmann::json(share));
  const std::vector<Transport::Message> arrived = ranks.exchange(std::move(outgoing));
  if (mine != 0) return;
  for (std::size_t r = 0; r < all; ++r) {
    const auto part = nlohmann::json::from_cbor(arrived[r]).get<std::vector<Point>>();
    for (std::size_t n = 0; n < part.size(); ++n) points[r + n * all] = part[n];
  }
}

std::string shape_of(const Point& p, const std::vector<std::string>& varied) {
  std::string text;
  for (const auto& name : varied) {
    for (const auto& [n, value] : p.assignments) {
      if (n == name) text += (text.empty() ? "" : " ") + name + "=" + value;
    }
  }
  return text;
}

/// What the times are from, where there is more than one way: a line of each model.
std::string models_of(const std::vector<Point>& points) {
  std::vector<std::string> lines;
  for (const Point& p : points) {
    if (!p.runs() || p.model.empty()) continue;
    std::string line =
        fmt::format("{}: by {}{}{}\n", p.device, p.model,
                    p.why_model.empty() ? "" : ", the least that it can take: ", p.why_model);
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

std::string table(const std::vector<Point>& points, const std::vector<std::string>& varied) {
  std::size_t wide = 5;
  for (const Point& p : points) wide = std::max(wide, shape_of(p, varied).size());
  double best = 0;  // points are sorted
  std::string text =
      fmt::format("{:<8} {:<{}} {:>16} {:>14} {:>10} {:>11}  {:<10} {}\n", "device", "shape", wide,
                  "HBM read", "write", "VMEM", "predicted", "speed", "bound by");
  for (const Point& p : points) {
    if (!p.runs()) {
      text += fmt::format("{:<8} {:<{}} no: {}\n", p.device, shape_of(p, varied), wide, p.reason);
      continue;
    }
    if (best == 0) best = p.rank_seconds;
    const auto length =
        static_cast<std::size_t>(p.rank_seconds > 0 ? 10 * best / p.rank_seconds : 0);
    text += fmt::format("{:<8} {:<{}} {:>16} {:>14} {:>10} {:>11}  {:<10} {}{}\n", p.device,
                        shape_of(p, varied), wide, with_commas(p.read), with_commas(p.write),
                        human_bytes(p.vmem), time_of(p.seconds), std::string(length, '#'), p.binds,
                        p.note.empty() ? "" : (p.binds.empty() ? "" : "; ") + p.note);
  }
  return text;
}

Json json_of(const std::vector<Point>& points) {
  Json rows = Json::array();
  for (const Point& p : points) {
    Json shape = Json::object();
    for (const auto& [name, value] : p.assignments) shape[name] = value;
    Json row{{"device", p.device}, {"shape", shape}};
    if (!p.runs()) {
      row["reason"] = p.reason;
    } else {
      row["hbm_read_bytes"] = p.read;
      row["hbm_write_bytes"] = p.write;
      row["vmem_bytes"] = p.vmem;
      row["vmem_capacity_bytes"] = p.capacity;
      row["flops"] = p.flops;
      row["predicted_seconds"] = p.seconds > 0 ? Json(p.seconds) : Json(nullptr);
      row["rank_seconds"] = p.rank_seconds;
      row["binds"] = p.binds;
      row["note"] = p.note;
      row["model"] = p.model;
      row["why_model"] = p.why_model;
    }
    rows.push_back(row);
  }
  return rows;
}

std::string csv_of(const std::vector<Point>& points, const std::vector<std::string>& varied) {
  std::string text = "device";
  for (const auto& name : varied) text += "," + name;
  text += ",hbm_read_bytes,hbm_write_bytes,vmem_bytes,predicted_seconds,binds,reason\n";
  for (const Point& p : points) {
    text += p.device;
    for (const auto& name : varied) {
      std::string value;
      for (const auto& [n, v] : p.assignments)
        if (n == name) value = v;
      text += "," + value;
    }
    std::string reason = p.reason;
    std::replace(reason.begin(), reason.end(), '"', '\'');
    text += p.runs() ? fmt::format(",{},{},{},{},{},\n", p.read, p.write, p.vmem,
                                   p.seconds > 0 ? fmt::format("{:.9g}", p.seconds) : "", p.binds)
                     : fmt::format(",,,,,,\"{}\"\n", reason);
  }
  return text;
}

[[noreturn]] void fail_fixed_shapes() {
  throw InputError(
      "bad-input", "a module has no parameters; its shapes are fixed",
      "tessera.sweep(function, *operands, bm=[64, 128]) in Python, where they are made");
}

void print_now(const std::string& what, const Point& p) {
  fmt::print("{} on {}: {} bytes of HBM traffic, {} of {} VMEM, {}; bound by {}\n", what, p.device,
             with_commas(p.read + p.write), human_bytes(p.vmem), human_bytes(p.capacity),
             p.seconds > 0 ? time_of(p.seconds) + " predicted"
                           : time_of(p.rank_seconds) + " for the bytes alone",
             p.binds.empty() ? "HBM, if nothing else does" : p.binds);
}

/// What binds a module, and which arrays it moves more than once.
int advise_module(const RunArguments& a) {
  if (!a.assignments.empty()) fail_fixed_shapes();
  const auto module = module_commands().counted(a);
  Point here;
  const RunResult result = count_module(a, *module, here);
  if (!here.runs()) {
    fmt::print("{} does not {} {}: {}\n", module->name(), lacks(here), here.device, here.reason);
    return 1;
  }
  print_now(module->name(), here);
  if (!here.note.empty()) fmt::print("  {}\n", here.note);
  const double all = static_cast<double>(std::max<std::int64_t>(1, here.read + here.write));
  for (const OperandPlan& op : result.plan.operands) {
    if (!op.present || op.ledger_ref < 0) continue;
    const RefTotals& ref = result.ledger().refs()[static_cast<std::size_t>(op.ledger_ref)];
    const auto array = static_cast<double>(packed_bytes(op.dtype, op.array.elems()));
    if (ref.bytes == 0 || array == 0 || op.role == Role::vmem) continue;
    fmt::print("  {:<12} {:>16} bytes {:>5.1f} %  {} of {} in blocks of {}: {:.3g} times over\n",
               op.name, with_commas(ref.bytes), 100 * static_cast<double>(ref.bytes) / all,
               ref.direction, to_string(op.array), op.pipelined() ? to_string(op.block) : "its own",
               static_cast<double>(ref.bytes) / array);
  }
  fmt::print(
      "its block shapes are fixed here; tessera.sweep(function, ...) in Python tries others\n");
  return 0;
}

}  // namespace

int sweep_command(const Kernels& kernels, const RunArguments& a, const std::string& csv) {
  if (a.json == "-" && csv == "-")
    throw InputError("bad-usage", "--json - and --csv - both want standard output");
  const std::unique_ptr<Transport> ranks = connect_ranks();
  RunArguments first = a;
  first.device = split(a.device).front();
  first.dry = true;
  const bool is_of_module = is_module(a.kernel);
  if (is_of_module && !a.assignments.empty()) fail_fixed_shapes();
  const auto module = is_of_module ? module_commands().counted(first) : nullptr;
  const Request request = module ? Request{} : request_of(kernels.find(a.kernel), first);
  const Count count =
      module ? count_of(a, *module) : count_of(kernels.find(a.kernel), request, {.by = a.timing});
  std::vector<std::string> varied;
  std::vector<Point> points = combinations(request.assignments, varied);
  std::vector<Point> on_devices;
  for (const auto& device : split(a.device)) {
    static_cast<void>(find_device(device));
    for (Point& p : points) {
      on_devices.push_back(p);
      on_devices.back().device = device;
    }
  }
  points = std::move(on_devices);
  if (points.size() < 2 && module)
    throw InputError("bad-usage", "nothing to sweep: give --device several devices",
                     "tessera sweep " + a.kernel + " --device tpu-v5e,tpu-v6e");
  if (points.size() < 2)
    throw InputError("bad-usage", "nothing to sweep: give a parameter several values",
                     "tessera sweep " + a.kernel + " bm=64,128,256");
  const int threads = module ? 1 : threads_of(a);  // a module's cells are shared among them
  if (ranks)
    count_shared(a.kernel, count, points, threads, *ranks);
  else
    count_all(a.kernel, count, points, threads);
  if (ranks && ranks->rank() > 0) return 0;
  sort_points(points);
  if (a.json != "-" && csv != "-") fmt::print("{}{}", table(points, varied), models_of(points));
  const auto put = [](const std::string& file, const std::string& text) {
    if (file == "-")
      fmt::print("{}", text);
    else if (!file.empty())
      write_file_atomically(file, text);
  };
  const Json all{{"schema", "tessera.sweep/1"}, {"kernel", a.kernel}, {"rows", json_of(points)}};
  put(a.json, all.dump(1) + "\n");
  if (!a.report.empty())
    write_file_atomically(a.report, report::filled(report::kSweepPage, all.dump(), a.kernel));
  put(csv, csv_of(points, varied));
  if (points.front().runs()) return 0;
  return std::ranges::all_of(points, &Point::bad_input) ? 2 : 1;
}

int advise_command(const Kernels& kernels, const RunArguments& a) {
  if (is_module(a.kernel)) return advise_module(a);
  const KernelHandle& kernel = kernels.find(a.kernel);
  RunArguments dry = a;
  dry.dry = true;
  const Request request = request_of(kernel, dry);
  const Setting setting = kernel.describe(request).setting;
  const Advice advice = advice_on(kernel, request, a.device, threads_of(a), {.by = a.timing});
  const std::vector<Point>& points = advice.points;
  const std::vector<std::string>& changes = advice.changes;
  const Point& here = points.front();
  std::string shape;
  for (const auto& [name, extent] : setting.tiles)
    shape += fmt::format("{}{}={}", shape.empty() ? "" : " ", name, extent);
  if (!here.runs()) {
    fmt::print("{} with {} does not {} {}: {}\n", a.kernel, shape, lacks(here), a.device,
               here.reason);
  } else {
    print_now(a.kernel + " with " + shape, here);
  }
  const std::size_t best = advice.best;
  if (best == 0 && here.runs()) {
    fmt::print("no block shape next to it is predicted to be faster\n");
  } else if (points[best].runs()) {
    const Point& p = points[best];
    fmt::print("try {}: {} bytes ({:+.0f} %), {} of VMEM, {}{}; bound by {}\n", changes[best],
               with_commas(p.read + p.write),
               here.runs() ? 100. * (static_cast<double>(p.read + p.write) /
                                         static_cast<double>(here.read + here.write) -
                                     1)
                           : 0.,
               human_bytes(p.vmem), time_of(p.rank_seconds),
               here.runs()
                   ? fmt::format(" ({:+.0f} %)", 100 * (p.rank_seconds / here.rank_seconds - 1))
                   : "",
               p.binds);
  } else {
    fmt::print("nor does any block shape next to it\n");
  }
  fmt::print("{}", models_of(points));
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Point& p = points[i];
    fmt::print("  {:<20} {}\n", changes[i],
               p.runs() ? fmt::format("{:>11}  {:>16} bytes  {}", time_of(p.rank_seconds),
                                      with_commas(p.read + p.write), p.binds)
                        : "no: " + p.reason);
  }
  return here.runs() ? 0 : 1;
}

}  // namespace tessera::cli
