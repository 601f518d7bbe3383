// What is said of one live call: made when somebody asks, which most calls of a loop are not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sim/run.hpp"

namespace tessera::live {

class CallReport {
 public:
  /// `dtype`: the kernel's main one.
  CallReport(std::string kernel, DType dtype, RunResult result, const RunOptions& options);
  ~CallReport();

  /// tessera.run/1.
  const std::string& json() { return made().json; }
  /// The same for people.
  const std::string& text() { return made().text; }
  /// What a page shows beside (report/html_report.hpp), as JSON.
  const std::string& page() { return made().page; }

  /// Of memory, until it is asked.
  std::int64_t bytes() const;

 private:
  struct Made {
    std::string json, text, page;
  };
  struct Kept;
  const Made& made();

  std::unique_ptr<Kept> kept_;
  std::optional<Made> made_;
};

}  // namespace tessera::live
