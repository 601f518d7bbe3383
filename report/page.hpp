// The page that html_of() fills: report/page.html, embedded at build time.
#pragma once

#include <string_view>

namespace tessera::report {

extern const std::string_view kPage;

}  // namespace tessera::report
