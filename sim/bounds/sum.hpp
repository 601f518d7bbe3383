// Error bounds of sums whose order is free: dots, reductions, accumulation over grid steps.
//
// n terms t with exact sum s = P - N, P and N the sums of the positive and of the negative ones.
// Every partial sum of any order lies in [-N, P], and max(P, N) <= M = (sum |t| + |s|) / 2; so
// n - 1 additions of unit roundoff u miss s by at most (n - 1) u M / (1 - (n - 1) u). (Higham,
// Accuracy and Stability, section 4.2, bounds each partial sum by sum |t|.) Where every term is an
// integer and sum |t| < 1 / u, no addition rounds. Our own sum's error is known better, since its
// order is: of a chain it is at most u times the sum of the |partial sums|, which is sampled every
// kChunk terms.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/bounds/elementwise.hpp"
#include "sim/numerics/dot.hpp"

namespace tessera::bounds {

struct SumBound {
  double propagated = 0;  ///< what the terms' own bounds come to
  double magnitude = 0;   ///< sum of |terms|
  double terms = 0;
  double own = 0;      ///< |ours - exact|
  bool whole = false;  ///< every term is an integer

  /// |theirs - ours| for our sum `value`, given the unit roundoffs of both sides.
  double at(double value, double theirs, double ours) const {
    const double roundoff = theirs > ours ? theirs : ours;
    if (whole && propagated == 0 && magnitude * roundoff < 1) return 0;
    const double steps = terms > 1 ? (terms - 1) * theirs : 0;
    const double partial = (magnitude + (value < 0 ? -value : value) + 2 * propagated + own) / 2;
    return steps < 0.5 ? propagated + own + steps * partial / (1 - steps)
                       : std::numeric_limits<double>::infinity();
  }
};

/// The state of a block that sums accumulate in, per element: `bound` takes what is propagated and
/// our own error; magnitude and terms are 0 where no sum has begun.
struct SumView {
  float* bound = nullptr;
  float* magnitude = nullptr;
  float* terms = nullptr;
  std::int64_t stride = 0;  ///< of all three, in elements
  bool* whole = nullptr;    ///< every term so far is an integer
};

/// The state itself, all zero: of rows x cols elements.
class SumState {
 public:
  SumState() = default;
  SumState(int rows, int cols)
      : cols_(cols),
        elems_(static_cast<std::size_t>(std::int64_t{rows} * cols)),
        values_(3 * elems_, 0.f) {}
  SumView view(std::int64_t at = 0) {
    float* v = values_.data() + at;
    return {v, v + elems_, v + 2 * elems_, cols_, &whole_};
  }
  bool empty() const { return values_.empty(); }

 private:
  std::int64_t cols_ = 0;
  std::size_t elems_ = 0;
  std::vector<float> values_;
  bool whole_ = true;
};

/// As tessera::dot_accumulate, and keeps `sum`. Bounds of operands are addressed as operands are;
/// null data: exact.
template <class T, class C>
void dot_accumulate(C* c, std::int64_t ldc, Operand2d<T> a, Operand2d<float> a_bound,
                    Operand2d<T> b, Operand2d<float> b_bound, int m, int n, int k,
                    const ErrorModel& model, const SumView& sum);

/// A term was added to each element: `before` + term rounded to what the block holds now.
void add_term(const TileView& before, const TileView& term, const SumView& sum);

/// Bounds of what the block holds (`value`), rows x cols, contiguous.
StorageHandle write_bounds(const TileView& value, const SumView& sum, const ErrorModel& model);

}  // namespace tessera::bounds
