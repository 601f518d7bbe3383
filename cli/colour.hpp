// Messages and reports for people: with colour on a terminal that has it, unless NO_COLOR is set;
// CLICOLOR_FORCE asks for it anywhere (https://no-color.org, https://bixense.com/clicolors).
// Without the escapes the text is the same.
#pragma once

#include <cstdio>
#include <string>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

bool wants_colour(std::FILE* stream);

/// On standard error.
void say(const Diagnostic& diagnostic);
void say(const InputError& error);

/// A report (report/run_report.hpp: text_of) as this stream gets it: what a row is about stands
/// out, and whether it agrees.
std::string coloured_report(std::FILE* stream, const std::string& text);

}  // namespace tessera::cli
