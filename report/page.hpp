// Pages that are filled with JSON: report/page.html and report/sweep_page.html, embedded at build
// time.
#pragma once

#include <string>
#include <string_view>

namespace tessera::report {

extern const std::string_view kPage;       ///< of a run
extern const std::string_view kSweepPage;  ///< of a sweep

/// The page with its data, and the kernel's name as its title.
std::string filled(std::string_view page, std::string json, const std::string& title);

}  // namespace tessera::report
