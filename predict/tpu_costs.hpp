// What a grid step costs a TPU core in cycles, without its compiler: a sum over what the step does.
//
// The cycles of each kind of work are figures of the device's spec (`model_cycles_...`), fitted by
// predict/tpu_costs.py to the schedules that the TPU's compiler made of a few hundred kernels; how
// far they are off on kernels that the fit has not seen is a figure too, and is said with every
// prediction. Left out: which bits of work the compiler overlaps in this kernel, layouts, spills.
#pragma once

#include <array>
#include <optional>

#include "memory_model/device_spec.hpp"
#include "sim/machine/script.hpp"
#include "sim/pipeline/plan.hpp"

namespace tessera::predict {

/// Kinds of work, in units of a vector register (1,024 elements) or a pass of 8 rows of 128 through
/// a matrix of 128 x 128.
enum class Cost : std::uint8_t {
  launch,          ///< once a core
  step,            ///< the grid
  window,          ///< an operand that the pipeline moves, each step
  tile,            ///< 4 KiB of a step's blocks: loaded or stored
  element,         ///< elementwise work and reductions
  transcendental,  ///< exp, log, ...
  pass,            ///< through the matrix unit
  product,         ///< a dot
};
inline constexpr std::size_t kCosts = 8;
inline constexpr std::array<const char*, kCosts> kCostNames = {
    "launch", "step", "window", "tile", "element", "transcendental", "pass", "product"};

using CostAmounts = std::array<double, kCosts>;

/// What a step asks of a core whatever its body does.
CostAmounts amounts_of_step(const Plan& plan);
CostAmounts amounts_of(const Work& work);

class TpuCosts {
 public:
  /// Nothing if the device has no such figures, or no clock. Throws SpecError for half of them.
  static std::optional<TpuCosts> of(const DeviceSpec& device);

  double launch_seconds() const { return seconds(Cost::launch, 1); }
  double seconds_of(const CostAmounts& amounts) const;
  /// Of them: what the matrix unit has to do.
  double matrix_seconds_of(const CostAmounts& amounts) const;
  /// Half of what was predicted lies within this fraction of the compiler's schedule.
  double median_error() const { return median_error_; }

 private:
  double seconds(Cost c, double amount) const {
    return cycles_[static_cast<std::size_t>(c)] * amount / clock_hz_;
  }
  CostAmounts cycles_{};
  double clock_hz_ = 1;
  double median_error_ = 0;
};

}  // namespace tessera::predict
