// Another build's outputs against a golden: bit-exact, within the bound, or wrong; and where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "golden/golden.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::golden {

struct Verdict {
  std::string output;
  std::int64_t elems = 0;
  std::int64_t exact = 0;      ///< same bits, or NaN on both sides
  std::int64_t within = 0;     ///< other bits, within the bound
  std::int64_t unbounded = 0;  ///< of these: of an infinite bound, about which nothing is said
  std::int64_t wrong = 0;
  double worst_of_bound = 0;           ///< largest |error| / bound of those within
  std::optional<Diagnostic> mismatch;  ///< if any is wrong
};

/// Compares output `index` of the golden. NaN must be where the golden has it; infinities likewise.
Verdict judge(const Golden& golden, std::size_t index, const Array& theirs);

/// NAME.npy of every output, from a folder of another build. Throws InputError where one is missing
/// or of another type or shape.
std::vector<Array> read_outputs(const Golden& golden, const std::filesystem::path& folder);

/// Verdicts as text; the last line sums up.
std::string text_of(const Golden& golden, const std::vector<Verdict>& verdicts);

/// The grid step at which an output's block was written back, "(i=0, j=1, k=3)"; "" if unknown.
std::string step_that_wrote(const Golden& golden, const std::string& output, const Shape& block,
                            const Shape& blocks);

}  // namespace tessera::golden
