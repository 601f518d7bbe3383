// Block shapes of a kernel, counted without data: what sweep, advise and tune compare.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/timing.hpp"

namespace tessera::cli {

/// One combination and what came of it.
struct Point {
  std::string device;
  std::vector<std::pair<std::string, std::string>> assignments;
  std::string reason;  ///< why it cannot run; empty: it can
  std::int64_t read = 0;
  std::int64_t write = 0;
  std::int64_t vmem = 0;
  std::int64_t capacity = 0;
  std::int64_t flops = 0;
  double seconds = 0;       ///< predicted; 0: not modelled
  double rank_seconds = 0;  ///< what combinations are ranked by (report::rank_seconds)
  std::string binds;
  std::string note;
  std::string model;       ///< what says how long computing takes (predict::Timeline)
  std::string why_model;   ///< why published rates do, the least that it can take; "": a better one
  bool bad_input = false;  ///< why it cannot run: what was asked for makes no sense

  bool runs() const { return reason.empty(); }
};

/// "64,128" at its commas.
std::vector<std::string> split(const std::string& text);

/// A point per combination of the values in `assignments`; what has several goes to `varied`.
std::vector<Point> combinations(const std::vector<std::pair<std::string, std::string>>& assignments,
                                std::vector<std::string>& varied);

/// Why it would not compile, or may not; "" if it does.
std::string over_limit(const Plan& plan);

/// What a dry run says. `add_timeline`: to its report; without, what the plan has.
void fill(Point& p, const RunResult& result, DType dtype, const RunOptions& options,
          const std::function<void(report::RunReport&)>& add_timeline = {});

/// Counts one combination.
using Count = std::function<void(Point&)>;
/// Of a kernel; both must outlive it.
Count count_of(const KernelHandle& kernel, const Request& base, const Timing& timing);
/// What a combination cannot is its reason.
void count_point(const Count& count, Point& p);
void count_all(const std::string& name, const Count& count, std::vector<Point>& points,
               int threads);

/// The fastest first, then those of which published rates alone say the least that they can take,
/// then what cannot run.
void sort_points(std::vector<Point>& points);

/// "5.59 ms", "-" if nobody knows.
std::string time_of(double seconds);
/// The host threads that --threads asks for.
int threads_of(const RunArguments& a);

}  // namespace tessera::cli
