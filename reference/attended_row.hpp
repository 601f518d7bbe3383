// One row of attention from its scores: softmax, weighted sum of values, log of the sum, and how
// far a computation in f32 by blocks of keys may be from them.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera::reference {

/// What a row sees.
struct SeenKey {
  double s;                             ///< score
  double error;                         ///< of s, absolute
  const double* value;                  ///< a row of v
  const double* value_error = nullptr;  ///< of each column; none: exact
};
struct AttendedRow {
  double lse = 0;
  double lse_error = 0;
};
struct AttendOptions {
  double steps = 0;  ///< blocks that an online softmax takes the keys in
  bool probabilities_in_bf16 = false;
};

/// softmax(s) . v in `o`, `d` columns, and its bound; zeros, and an lse of -inf, if nothing is
/// seen.
AttendedRow attended_row(const std::vector<SeenKey>& keys, std::size_t d,
                         const AttendOptions& options, double* o, double* error);

}  // namespace tessera::reference
