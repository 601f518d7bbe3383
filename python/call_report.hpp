// What is said of one live call: made when somebody asks, which most calls of a loop are not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "predict/tpu_schedule.hpp"
#include "sim/run.hpp"

namespace tessera::live {

/// What a kernel takes by the schedule of the TPU's compiler.
struct Compiled {
  predict::TpuSchedule schedule;
  std::string by;                 ///< the compiler's version
  std::size_t before_inputs = 0;  ///< operands of the call that are none of the kernel's windows
};

class CallReport {
 public:
  /// `dtype`: the kernel's main one. `compiled`: what its time is from; none: the model.
  CallReport(std::string kernel, DType dtype, RunResult result, const RunOptions& options,
             std::optional<Compiled> compiled = {});
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
