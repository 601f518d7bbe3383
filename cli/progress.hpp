// A progress line on a terminal, nothing in a pipe; shown only when work takes longer than half a
// second.
#pragma once

#include <chrono>
#include <string>

namespace tessera::cli {

class Progress {
 public:
  explicit Progress(std::string label);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  /// `done` from 0 to 1; a note stands behind the bar.
  void show(double done, const std::string& note = "");
  /// Work whose end cannot be foreseen begins.
  void phase(const char* what);

 private:
  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace tessera::cli
