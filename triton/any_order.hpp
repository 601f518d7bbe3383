// Sums of floats that another build adds in another order, each sum rounded to their type.
#pragma once

#include <cmath>
#include <limits>

#include "sim/bounds/sum.hpp"

namespace tessera::bounds {

class AnyOrder {
 public:
  void add(double term, double bound) {
    exact_ += term;
    of_.propagated += bound;
    of_.magnitude += std::fabs(term);
    of_.terms += 1;
    of_.whole = of_.whole && std::trunc(term) == term;
  }
  /// How far from `ours` such a sum may be; `unit`: unit roundoff of its additions.
  float bound(double ours, double unit) const {
    SumBound b = of_;
    constexpr double kOfExact = 0x1p-50;  // of a sum in f64
    b.own = of_.whole && ours == exact_ ? 0 : std::fabs(ours - exact_) + kOfExact * of_.magnitude;
    const double most = b.at(ours, unit, unit);
    constexpr float kUnbounded = std::numeric_limits<float>::infinity();
    if (!(most >= 0)) return kUnbounded;
    return most == 0 ? 0.f : std::nextafter(static_cast<float>(most), kUnbounded);
  }

 private:
  double exact_ = 0;
  SumBound of_{.whole = true};
};

/// Unit roundoff of the additions of floats of a type.
inline double addition_unit(const ErrorModel& model, DType dtype) {
  return dtype == DType::f32 ? model.accumulate : std::max(model.accumulate, unit_of(dtype));
}

}  // namespace tessera::bounds
