#include "cli/colour.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tessera::cli {

namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kEnd = "\x1b[0m";

std::string in(std::string_view colour, std::string_view text) {
  return text.empty() ? "" : fmt::format("{}{}{}", colour, text, kEnd);
}

template <class Line>
std::string by_lines(const std::string& text, Line&& line) {
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    all += line(std::string_view(text).substr(at, end - at));
    if (end < text.size()) all += '\n';
    at = end + 1;
  }
  return all;
}

/// "error[race]: what", then "  label   value".
std::string coloured_message(const std::string& text) {
  return by_lines(text, [](std::string_view line) {
    if (line.starts_with("error[")) {
      const std::size_t colon = line.find("]:") + 1;
      return in(kRed, line.substr(0, colon)) + in(kBold, line.substr(colon));
    }
    const std::size_t end = line.find(' ', 2);
    if (!line.starts_with("  ") || line.starts_with("   ") || end == std::string_view::npos)
      return std::string(line);
    return "  " + in(kCyan, line.substr(2, end - 2)) + std::string(line.substr(end));
  });
}

void say_text(const std::string& text) {
  std::fputs((wants_colour(stderr) ? coloured_message(text) : text).c_str(), stderr);
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

bool wants_colour(std::FILE* stream) {
  if (is_set("NO_COLOR")) return false;
  if (is_set("CLICOLOR_FORCE") && std::string_view(std::getenv("CLICOLOR_FORCE")) != "0")
    return true;
  return isatty(fileno(stream)) != 0 && is_set("TERM") &&
         std::string_view(std::getenv("TERM")) != "dumb";
}

void say(const Diagnostic& diagnostic) { say_text(diagnostic.text()); }
void say(const InputError& error) { say_text(error.text()); }

std::string coloured_report(std::FILE* stream, const std::string& text) {
  if (!wants_colour(stream)) return text;
  constexpr std::size_t kLead = 11;  // columns that say what a row is about
  bool title = true;
  return by_lines(text, [&](std::string_view line) {
    if (std::exchange(title, false)) return in(kBold, line);
    const std::string_view lead = line.substr(0, kLead);
    if (line.size() <= kLead || lead.front() == ' ' || lead.find("  ") == std::string_view::npos)
      return std::string(line);
    const std::string_view rest = line.substr(kLead);
    std::string said(rest);
    if (lead.starts_with("validated"))
      said = in(rest.starts_with(" no") ? kYellow : kGreen, rest);
    else if (lead.starts_with("predicted"))
      said = in(kBold, rest);
    return in(kCyan, lead) + said;
  });
}

}  // namespace tessera::cli
