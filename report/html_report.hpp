// A run as one page that needs nothing else: numbers, pictures, diagnostics.
//
// Traffic by ref and by grid step, how often each block of each array is fetched, the timeline, the
// roofline, what lies in VMEM when, diagnostics with their source lines, receipts. Pictures are
// binned, so a page has some hundred kilobytes whatever the run's size. Needs a trace
// (RunOptions::trace_steps) for what is drawn over steps.
#pragma once

#include <string>

#include "report/run_report.hpp"

namespace tessera::report {

/// Spans of the timeline that a page draws: keep as many (TimelineOptions::most_spans).
inline constexpr std::size_t kPageSpans = 4000;

/// What a page shows beside `run` (tessera.run/1), as JSON: the data of its pictures. `command`:
/// the line that makes this page again.
std::string page_data(const RunReport& report, const RunResult& result, const std::string& command);
std::string html_of(const RunReport& report, const RunResult& result, const std::string& command);

}  // namespace tessera::report
