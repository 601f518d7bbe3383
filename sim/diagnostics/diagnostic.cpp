#include "sim/diagnostics/diagnostic.hpp"

#include <algorithm>
#include <cctype>

#include "memory_model/file.hpp"

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
  return printable(text);
}

std::string InputError::text() const {
  std::string text = "error[" + slug + "]: " + what() + "\n";
  if (!help.empty()) text += "  help    " + help + "\n";
  return printable(text);
}

namespace {
/// Insertions, deletions, changes and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  const auto same = [&](std::size_t i, std::size_t j) {
    return std::tolower(a[i]) == std::tolower(b[j]);
  };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same(i - 1, j - 1) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1))
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}
}  // namespace

std::string did_you_mean(const std::string& wrong, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::size_t distance = 0;
  for (const auto& candidate : known) {
    const std::size_t d = edit_distance(wrong, candidate);
    const bool completes = best != nullptr && d == distance && candidate.starts_with(wrong) &&
                           !best->starts_with(wrong);
    if (best == nullptr || d < distance || completes) {
      best = &candidate;
      distance = d;
    }
  }
  const bool near = best != nullptr && distance <= std::max<std::size_t>(1, best->size() / 3);
  return near ? "; did you mean '" + *best + "'?" : "";
}

std::string suggest(const std::string& wrong, const std::vector<std::string>& known) {
  std::string nearest = did_you_mean(wrong, known);
  if (!nearest.empty() || known.empty()) return nearest;
  std::string list = "; known: ";
  for (std::size_t i = 0; i < known.size(); ++i) list += (i > 0 ? ", " : "") + known[i];
  return list;
}

}  // namespace tessera
