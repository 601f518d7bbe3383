#include "tpu_compiler/verdict.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "memory_model/file.hpp"

namespace tessera::tpu_compiler {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Drops `prefix` from the front, if it is there.
void drop(std::string_view& text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
}

/// "INTERNAL: ", "RESOURCE_EXHAUSTED: ": a status of Abseil's.
void drop_status(std::string_view& text) {
  const auto end = text.find(": ");
  if (end == std::string_view::npos || end == 0) return;
  const std::string_view word = text.substr(0, end);
  const bool status = std::all_of(word.begin(), word.end(),
                                  [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
  if (status) text.remove_prefix(end + 2);
}

/// "E2001: CompileTimeMosaicUnsupportedRhsType: ", wherever it stands; what was before it goes too.
std::string take_code(std::string_view& text) {
  for (std::size_t i = 0; i + 7 < text.size(); ++i) {
    if (text[i] != 'E' || (i > 0 && text[i - 1] != ' ')) continue;
    std::size_t end = i + 1;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end - i != 5 || text.substr(end, 2) != ": ") continue;
    std::string code(text.substr(i, end - i));
    text.remove_prefix(end + 2);
    drop_status(text);
    if (const auto colon = text.find(": ");
        text.starts_with("CompileTime") && colon < text.find(' '))
      text.remove_prefix(colon + 2);
    // Its name may be all of the line.
    if (const auto line = text.find(":\n");
        text.starts_with("CompileTime") && line < text.find(' '))
      text.remove_prefix(line + 2);
    return code;
  }
  return "";
}

/// Of a message that lists everything, the sentence that says by how much it does not fit.
std::string_view of_memory(std::string_view text) {
  const auto scoped = text.find("Scoped allocation with size");
  if (scoped != std::string_view::npos) text.remove_prefix(scoped);
  return text;
}

/// Up to the end of a sentence: a full stop and a blank, or a line's end.
std::string_view first_sentence(std::string_view text) {
  text = text.substr(0, std::min(text.find('\n'), text.size()));
  if (const auto list = text.find(" :: "); list != std::string_view::npos)
    text = text.substr(0, list);
  for (std::size_t i = 1; i + 2 < text.size(); ++i) {
    const bool end =
        text[i] == '.' && text[i + 1] == ' ' && text[i + 2] >= 'A' && text[i + 2] <= 'Z';
    if (end) return text.substr(0, i);
  }
  while (text.ends_with('.') || text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// The first "FILE":LINE:COLUMN of a location that is no part of JAX; else the first.
void read_location(std::string_view text, Verdict& v) {
  const auto start = text.find("at location: loc(");
  if (start == std::string_view::npos) return;
  text = text.substr(start);
  text = text.substr(0, text.find('\n'));
  for (std::size_t at = text.find('"'); at != std::string_view::npos; at = text.find('"', at + 1)) {
    const auto end = text.find('"', at + 1);
    if (end == std::string_view::npos) return;
    const std::string_view quoted = text.substr(at + 1, end - at - 1);
    at = end;
    if (text.substr(end + 1, 1) != ":" || end + 2 >= text.size() || !is_digit(text[end + 2]))
      continue;
    const bool theirs = quoted.find("/jax/_src/") != std::string_view::npos;
    if (!v.file.empty() && theirs) continue;
    v.file = printable(std::string(quoted));
    std::from_chars(text.data() + end + 2, text.data() + text.size(), v.line);
    if (!theirs) return;
  }
}

}  // namespace

const char* name(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::accepted:
      return "accepted";
    case Verdict::Kind::refused:
      return "refused";
    case Verdict::Kind::unknown:
      break;
  }
  return "unknown";
}

void read_message(const std::string& message, Verdict& v) {
  v.message = message;
  std::string_view text = message;
  drop_status(text);
  drop(text, "Mosaic failed to compile TPU kernel: ");
  drop(text, "XLA:TPU compile permanent error. ");
  v.code = take_code(text);
  text = of_memory(text);
  if (text.starts_with("Ran out of memory in memory space vmem. ")) {
    // Which space is said again in the sentence that has the numbers.
    drop(text, "Ran out of memory in memory space vmem. ");
  }
  v.sentence = printable(std::string(first_sentence(text)));
  read_location(message, v);
}

std::string json_of(const Verdict& v) {
  const auto number = [](const std::optional<std::int64_t>& n) {
    return n ? nlohmann::json(*n) : nlohmann::json();
  };
  return nlohmann::json{{"verdict", name(v.kind)},
                        {"code", v.code},
                        {"sentence", v.sentence},
                        {"file", v.file},
                        {"line", v.line},
                        {"message", v.message},
                        {"vmem_bytes", number(v.vmem_bytes)},
                        {"spilled_bytes", number(v.spilled_bytes)},
                        {"seconds", v.seconds},
                        {"cached", v.cached}}
      .dump();
}

Diagnostic does_not_compile(const Verdict& v, const std::string& kernel,
                            const std::string& device) {
  Diagnostic d{.slug = "does-not-compile",
               .headline = "the compiler of " + device + " refuses it: " + v.sentence};
  d.fields.emplace_back("kernel", kernel);
  if (!v.file.empty()) d.fields.emplace_back("line", source_excerpt({v.file.c_str(), v.line}));
  if (!v.code.empty()) d.fields.emplace_back("code", v.code + " of libtpu");
  return d;
}

std::string last_words(const std::string& standard_error) {
  std::string words;
  for (std::size_t begin = 0; begin < standard_error.size();) {
    const std::size_t end = std::min(standard_error.find('\n', begin), standard_error.size());
    const std::string_view line(standard_error.data() + begin, end - begin);
    const auto bracket = line.find("] ");
    if (line.size() > 5 && line[0] == 'F' && is_digit(line[1]) && is_digit(line[4]) &&
        bracket != std::string_view::npos)
      words = line.substr(bracket + 2);
    begin = end + 1;
  }
  return printable(words);
}

}  // namespace tessera::tpu_compiler
