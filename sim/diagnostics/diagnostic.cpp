#include "sim/diagnostics/diagnostic.hpp"

#include <algorithm>
#include <cctype>

namespace tessera {

const char* name(Diagnostic::Kind kind) {
  constexpr const char* kNames[] = {"kernel", "unmodelled", "unsupported", "internal"};
  return kNames[static_cast<int>(kind)];
}

std::string Diagnostic::text() const {
  std::string text = "error[" + slug + "]: " + headline + "\n";
  for (const auto& [label, value] : fields) {
    if (value.empty()) continue;
    text += "  " + label + std::string(label.size() < 8 ? 8 - label.size() : 1, ' ') + value + "\n";
  }
  return text;
}

std::string InputError::text() const {
  std::string text = "error[" + slug + "]: " + what() + "\n";
  if (!help.empty()) text += "  help    " + help + "\n";
  return text;
}

namespace {
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      const std::size_t change = diagonal + (std::tolower(a[i - 1]) == std::tolower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({above + 1, row[j - 1] + 1, change});
      diagonal = above;
    }
  }
  return row[b.size()];
}
}  // namespace

std::string suggest(const std::string& wrong, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::size_t distance = 0;
  for (const auto& candidate : known) {
    const std::size_t d = edit_distance(wrong, candidate);
    if (best == nullptr || d < distance) {
      best = &candidate;
      distance = d;
    }
  }
  if (best == nullptr) return "";
  if (distance <= std::max<std::size_t>(1, best->size() / 3)) return "; did you mean '" + *best + "'?";
  std::string list = "; known: ";
  for (std::size_t i = 0; i < known.size(); ++i) list += (i > 0 ? ", " : "") + known[i];
  return list;
}

}  // namespace tessera
