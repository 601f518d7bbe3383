#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tessera::cli {

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) != 0),
      next_(std::chrono::steady_clock::now() + std::chrono::milliseconds(500)) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(double done, const std::string& note) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  drawn_ = true;
  constexpr int kWidth = 30;
  const int filled = std::clamp(static_cast<int>(done * kWidth), 0, kWidth);
  const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                          std::string(static_cast<std::size_t>(kWidth - filled), '.');
  std::fprintf(stderr, "\r\x1b[K%s [%s] %3.0f %%%s%s", label_.c_str(), bar.c_str(), 100 * done,
               note.empty() ? "" : "  ", note.c_str());
  std::fflush(stderr);
}

void Progress::phase(const char* what) {
  if (!drawn_) return;  // the work so far was short
  std::fprintf(stderr, "\r\x1b[K%s: %s", label_.c_str(), what);
  std::fflush(stderr);
}

}  // namespace tessera::cli
