// The first grid step and ref at which two builds part, by the checksums both recorded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "golden/golden.hpp"

namespace tessera::golden {

/// "(i=0, j=1, k=3)", "device 2, (i=0)" of a row of steps.npy.
std::string step_text(const Steps& steps, const std::int64_t* row);

struct Parting {
  std::int64_t compared = 0;  ///< rows that both sides have
  std::int64_t missing = 0;   ///< rows of the golden that the other side lacks
  std::int64_t differ = 0;
  std::string step;  ///< of the first that differs; "" if none does
  std::string ref;
  std::int64_t block = -1;  ///< of an output
};

/// Compares in the golden's order; rows are matched by device, step, ref and block. Throws
/// InputError where `theirs` is no table of the golden's columns.
Parting bisect(const Steps& golden, const Array& theirs);

/// steps.npy of a folder, or the file itself; no rows if a folder has none.
Array read_steps(const Steps& golden, const std::filesystem::path& path);

/// The most steps that a parallel cell of the grid takes.
int steps_per_cell(const Steps& golden);

/// Rows like the golden's of checksums: i64[n, dims + 4].
Array rows_of(const Steps& golden, const StepChecksums& checksums);

/// Besides `theirs`, the rows that the other side's outputs themselves give: its blocks as they
/// were written back. `outputs` in the golden's order.
Array with_outputs(const Golden& golden, const Array& theirs, const std::vector<Array>& outputs);

}  // namespace tessera::golden
