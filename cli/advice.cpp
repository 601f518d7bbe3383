#include "cli/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/diagnostics/slugs.hpp"

namespace tessera::cli {

namespace {

constexpr double kWorthIt = 0.98;

/// "12 % less"
std::string change(double to, double from, const char* less, const char* more) {
  const double percent = 100 * (to / from - 1);
  if (std::fabs(percent) < 0.5) return "";
  return fmt::format("{:.0f} % {}", std::fabs(percent), percent < 0 ? less : more);
}

/// The least that one can take says nothing beside what another takes.
bool is_faster(const Point& p, const Point& than) {
  const bool alike = p.why_model.empty() || !than.why_model.empty();
  return alike && p.rank_seconds < kWorthIt * than.rank_seconds;
}

}  // namespace

Advice advice_on(const KernelHandle& kernel, const Request& request, const std::string& device,
                 int threads, const Timing& timing) {
  Request dry = request;
  dry.options.dry = true;
  const Setting setting = kernel.describe(dry).setting;
  Advice advice;
  Point now;
  now.device = device;
  now.assignments = request.assignments;
  const auto with = [&](const std::string& name, int extent) {
    Point p = now;
    p.assignments.emplace_back(name, std::to_string(extent));
    return p;
  };
  advice.points = {now};
  advice.changes = {""};
  for (const auto& [name, extent] : setting.tiles) {
    for (const int to : {extent * 2, extent / 2}) {
      if (to < 1) continue;
      advice.points.push_back(with(name, to));
      advice.changes.push_back(fmt::format("{}={}", name, to));
      if (to < extent) continue;
      for (const auto& [other, other_extent] : setting.tiles) {
        if (other == name || other_extent / 2 < 1) continue;
        advice.points.push_back(with(name, to));
        advice.points.back().assignments.emplace_back(other, std::to_string(other_extent / 2));
        advice.changes.push_back(fmt::format("{}={} {}={}", name, to, other, other_extent / 2));
      }
    }
  }
  count_all(kernel.info.name, count_of(kernel, dry, timing), advice.points, threads);
  for (std::size_t i = 1; i < advice.points.size(); ++i) {
    const Point& best = advice.points[advice.best];
    if (!advice.points[i].runs()) continue;
    if (!best.runs() || is_faster(advice.points[i], best)) advice.best = i;
  }
  return advice;
}

std::vector<std::string> worth_trying(const Advice& advice,
                                      const std::vector<std::pair<std::string, int>>& tiles,
                                      std::size_t most) {
  const Point& here = advice.points.front();
  std::vector<std::size_t> order;
  for (std::size_t i = 1; i < advice.points.size(); ++i) {
    const Point& p = advice.points[i];
    if (here.runs() && p.runs() && is_faster(p, here)) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return advice.points[i].rank_seconds; });
  std::vector<std::string> sentences;
  const char* const memory =
      find_device(here.device).kind == DeviceSpec::Kind::gpu ? "shared memory" : "VMEM";
  for (std::size_t n = 0; n < std::min(most, order.size()); ++n) {
    const Point& p = advice.points[order[n]];
    std::string changes;
    for (auto it = p.assignments.begin() + std::ssize(here.assignments); it != p.assignments.end();
         ++it) {
      const auto was = std::ranges::find(tiles, it->first, &std::pair<std::string, int>::first);
      changes += fmt::format("{}{} {} -> {}", changes.empty() ? "" : ", ", it->first,
                             was == tiles.end() ? 0 : was->second, it->second);
    }
    const std::string bytes = change(static_cast<double>(p.read + p.write),
                                     static_cast<double>(here.read + here.write), "fewer", "more");
    sentences.push_back(
        fmt::format("{}: {}, {}{}; fits {} ({}){}", changes, time_of(p.rank_seconds),
                    change(p.rank_seconds, here.rank_seconds, "less", "more"),
                    bytes.empty() ? "" : "; " + bytes + " HBM bytes", memory, human_bytes(p.vmem),
                    p.binds.empty() ? "" : "; " + p.binds + " binds then"));
  }
  return sentences;
}

}  // namespace tessera::cli
