// The seconds that a command may take, if there is a limit.
#pragma once

#include <chrono>

namespace tessera::cli {

class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds) {}
  double spent() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  /// Whether so much of the budget is spent.
  bool past(double part) const { return seconds_ > 0 && spent() > part * seconds_; }
  double seconds() const { return seconds_; }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tessera::cli
