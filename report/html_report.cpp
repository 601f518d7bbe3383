#include "report/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "report/occupancy.hpp"
#include "report/page.hpp"
#include "report/step_traffic.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::report {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kBins = 400;      ///< along the steps
constexpr std::int64_t kHeatCells = 64;  ///< along each side of a heat map

std::string dims(const Shape& s) {
  std::string text;
  for (int d = 0; d < s.rank; ++d) text += (d > 0 ? " x " : "") + std::to_string(s[d]);
  return text;
}

/// How often each block of an array moved, as a matrix: leading dims and rows down, columns across.
struct Heat {
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::vector<std::int64_t> moved;  ///< by block

  explicit Heat(const OperandPlan& op) {
    if (op.by_element) return;  // windows that overlap are no map of blocks
    const int rank = op.blocks.rank;
    cols = rank > 0 ? op.blocks[rank - 1] : 1;
    rows = cols > 0 ? op.blocks.elems() / cols : 0;
    // A column of blocks is a picture of one pixel's width: turned, it can be seen.
    if (cols == 1 && rows > 1) std::swap(rows, cols);
    moved.assign(static_cast<std::size_t>(rows * cols), 0);
  }
  /// Binned: mean and most per cell of the picture.
  Json picture() const {
    const std::int64_t high = std::min(rows, kHeatCells);
    const std::int64_t wide = std::min(cols, kHeatCells);
    Json values = Json::array();
    std::int64_t most = 0;
    for (const std::int64_t m : moved) most = std::max(most, m);
    for (std::int64_t r = 0; r < high; ++r) {
      for (std::int64_t c = 0; c < wide; ++c) {
        std::int64_t sum = 0;
        std::int64_t blocks = 0;
        for (std::int64_t i = rows * r / high; i < rows * (r + 1) / high; ++i) {
          for (std::int64_t j = cols * c / wide; j < cols * (c + 1) / wide; ++j) {
            sum += moved[static_cast<std::size_t>(i * cols + j)];
            ++blocks;
          }
        }
        const double mean = blocks > 0 ? static_cast<double>(sum) / static_cast<double>(blocks) : 0;
        values.push_back(std::round(mean * 100) / 100);
      }
    }
    return {{"rows", high},       {"cols", wide}, {"block_rows", rows},
            {"block_cols", cols}, {"most", most}, {"values", values}};
  }
};

struct Pictures {
  Json traffic = Json::array();
  Json heat = Json::array();
  Json occupancy = Json::array();
};

Pictures pictures_of(const RunResult& result, int cores) {
  Pictures p;
  const Plan& plan = result.plan;
  const StepTrace& trace = result.trace;
  const std::int64_t steps_per_bin = (trace.steps + kBins - 1) / kBins;
  const std::int64_t bins = (trace.steps + steps_per_bin - 1) / steps_per_bin;
  std::vector<Heat> heat;
  std::vector<std::vector<std::int64_t>> moved(plan.operands.size());
  for (std::size_t i = 0; i < plan.operands.size(); ++i) {
    heat.emplace_back(plan.operands[i]);
    moved[i].assign(static_cast<std::size_t>(bins), 0);
  }
  for_each_transfer(plan, trace, cores,
                    [&](std::int64_t step, std::size_t i, std::int32_t block, Why, std::int64_t n) {
                      moved[i][static_cast<std::size_t>(step / steps_per_bin)] += n;
                      if (!heat[i].moved.empty()) ++heat[i].moved[static_cast<std::size_t>(block)];
                    });
  std::map<int, std::vector<std::int64_t>> copied;  // by row of the ledger
  for_each_copy(trace, [&](std::int64_t step, int ref, std::int64_t n) {
    auto& row = copied[ref];
    row.resize(static_cast<std::size_t>(bins));
    row[static_cast<std::size_t>(step / steps_per_bin)] += n;
  });
  for (const auto& [ref, bytes] : copied)
    p.traffic.push_back(
        {{"name", result.ledger().refs()[static_cast<std::size_t>(ref)].name + ", copied"},
         {"bytes", bytes}});
  for (std::size_t i = 0; i < plan.operands.size(); ++i) {
    const OperandPlan& op = plan.operands[i];
    if (!op.present || !op.pipelined()) continue;
    p.traffic.push_back({{"name", op.name}, {"bytes", moved[i]}});
    if (op.by_element) continue;
    Json map = heat[i].picture();
    map["name"] = op.name;
    map["direction"] = op.role == Role::in ? "fetched" : "written back";
    map["what"] =
        fmt::format("{}[{}] in blocks of {}", name(op.dtype), dims(op.array), dims(op.block));
    p.heat.push_back(map);
  }
  return p;
}

Json timeline_json(const predict::Timeline& t, const Ledger& ledger, int cores) {
  if (!t.unmodelled.empty()) return {{"unmodelled", t.unmodelled}};
  Json spans = Json::array();
  for (const predict::Span& s : t.spans) {
    spans.push_back(
        {s.device * cores + s.core, static_cast<int>(s.unit), s.step, s.begin * 1e6, s.end * 1e6});
  }
  Json busy = Json::array();
  for (const predict::Resource& resource : t.busy) {
    Json over = Json::array();
    for (const double fraction : resource.over) over.push_back(std::round(1000 * fraction) / 1000);
    busy.push_back({resource.name, resource.busy, over});
  }
  Json phases = Json::array();
  for (const predict::Phase& p : t.phases)
    phases.push_back({p.binds, (p.end - p.begin) / t.seconds});
  Json stalls = Json::array();
  for (const predict::Stall& s : by_cause(t.stalls))
    stalls.push_back({s.ref < 0 ? "" : ledger.refs()[static_cast<std::size_t>(s.ref)].name,
                      waited_for(ledger, s), s.seconds / t.seconds});
  return {{"seconds", t.seconds},
          {"compute", t.compute_seconds},
          {"exposed", t.exposed_seconds},
          {"idle", t.idle_seconds},
          {"binds", t.binds},
          {"notes",
           {t.most_seconds > 0 ? fmt::format("From {} to {}, by the {}", duration(t.least_seconds),
                                             duration(t.most_seconds), t.model)
                               : "",
            t.left_out.empty() ? "" : "Without " + t.left_out,
            t.why_model.empty() ? "" : "By " + t.model + ": " + t.why_model, t.warning}},
          {"busy", busy},
          {"phases", phases},
          {"stalls", stalls},
          {"spans", spans},
          {"l2", t.l2_to_core_bytes},
          {"dram_read", t.dram_read_bytes},
          {"dram_write", t.dram_write_bytes},
          {"dram_left_out", t.dram_left_out}};
}

Json shown_of(const RunReport& r, const RunResult& result, const std::string& command) {
  Json data{{"command", command}, {"device", r.device.title}};
  const bool traced = result.trace.complete && result.trace.steps > 0;
  if (traced) {
    const Pictures pictures = pictures_of(result, r.cores);
    data["traffic"] = pictures.traffic;
    data["heat"] = pictures.heat;
    if (r.timeline) {
      predict::Timeline drawn = *r.timeline;
      std::erase_if(drawn.spans,
                    [](const predict::Span& s) { return s.unit >= predict::Span::Unit::wait; });
      drawn.spans.resize(std::min(drawn.spans.size(), kPageSpans));
      data["timeline"] = timeline_json(drawn, result.ledger(), r.cores);
      Json occupied = Json::array();
      for (const auto& [time, bytes] : occupancy_of(drawn, result.plan))
        occupied.push_back({time, bytes});
      data["occupancy"] = occupied;
    }
  }
  return data;
}

}  // namespace

std::string page_data(const RunReport& r, const RunResult& result, const std::string& command) {
  return shown_of(r, result, command).dump();
}

std::string html_of(const RunReport& r, const RunResult& result, const std::string& command) {
  Json data = shown_of(r, result, command);
  data["run"] = Json::parse(json_of(r));
  return filled(kPage, data.dump(), r.kernel);
}

std::string filled(std::string_view page, std::string json, const std::string& title) {
  // Inside a <script> nothing may end it.
  for (std::size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3)
    json.insert(at + 1, "\\");
  std::string text{page};
  constexpr std::string_view kData = "/*DATA*/";
  text.replace(text.find(kData), kData.size(), json);
  constexpr std::string_view kTitle = "TITLE";
  text.replace(text.find(kTitle), kTitle.size(), title);
  return text;
}

}  // namespace tessera::report
